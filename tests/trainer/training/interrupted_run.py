"""`trainer/run.py` that stops after its fourth step, in every process, with exit code 3."""

import sys

from trainer import run
from trainer.training.loop import TrainingLoop


def main() -> None:
    step = TrainingLoop.step

    def stop_after_four(self: TrainingLoop, index: int) -> None:
        if index == 4:
            sys.exit(3)
        step(self, index)

    TrainingLoop.step = stop_after_four  # type: ignore[method-assign]
    run.main()


if __name__ == "__main__":
    main()
