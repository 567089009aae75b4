"""`trainer/run.py` that stops after its fourth step, in every process, with exit code 3."""

import sys

from trainer import run
from trainer.training.loop import _Run


def main() -> None:
    step = _Run._step

    def stop_after_four(self: _Run, number: int) -> None:
        if number == 4:
            sys.exit(3)
        step(self, number)

    _Run._step = stop_after_four  # type: ignore[method-assign]
    run.main()


if __name__ == "__main__":
    main()
