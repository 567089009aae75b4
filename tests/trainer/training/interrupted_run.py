"""`trainer/run.py` that stops after its fourth step: in every process, with exit code 3, or one that is killed.

python interrupted_run.py [--killed RANK] ARGUMENT …
"""

import os
import signal
import sys

from trainer import run
from trainer.training.loop import TrainingLoop


def main() -> None:
    step = TrainingLoop.step
    killed = sys.argv[2] if sys.argv[1] == "--killed" else None
    if killed is not None:
        del sys.argv[1:3]

    def stop_after_four(self: TrainingLoop, index: int) -> None:
        if index == 4 and killed is None:
            sys.exit(3)
        if index == 4 and killed == os.environ["RANK"]:
            os.kill(os.getpid(), signal.SIGKILL)
        step(self, index)

    TrainingLoop.step = stop_after_four  # type: ignore[method-assign]
    sys.exit(run.main())


if __name__ == "__main__":
    main()
