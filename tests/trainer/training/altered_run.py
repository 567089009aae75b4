"""`trainer/run.py` whose fifth step does not end well, with the number of gloo's threads during and after training.

python altered_run.py HOW ARGUMENT … with HOW: ends (as it should), raises, exits, or a rank, whose process is killed
"""

import os
import signal
import sys
from pathlib import Path

from modeling_convsim.files.errors import InputError
from trainer import run
from trainer.training.loop import TrainingLoop


def count_threads() -> int:
    """Return the number of threads of this process that are named after gloo."""
    return sum("gloo" in file.read_text() for file in Path("/proc/self/task").glob("*/comm"))


def main() -> None:
    how, step, during = sys.argv.pop(1), TrainingLoop.step, list[int]()

    def altered_step(self: TrainingLoop, index: int) -> None:
        if index == 4 and how == "raises":
            raise InputError("this step fails")
        if index == 4 and how == "exits":
            sys.exit(3)
        if index == 4 and how == os.environ["RANK"]:
            os.kill(os.getpid(), signal.SIGKILL)
        step(self, index)
        during.append(count_threads())

    TrainingLoop.step = altered_step  # type: ignore[method-assign]
    code = run.main()
    print(f"exit code {code}, threads: {max(during)} during training, {count_threads()} after it")
    sys.exit(code)


if __name__ == "__main__":
    main()
