"""`trainer/run.py`, which prints the number of gloo's threads during and after training.

python counted_threads.py [--fail] ARGUMENT … (--fail: the fourth step raises an error)
"""

import sys
from pathlib import Path

from data_scripts.errors import InputError
from trainer import run
from trainer.training.loop import TrainingLoop


def count_threads() -> int:
    """Return the number of threads of this process that are named after gloo."""
    return sum("gloo" in file.read_text() for file in Path("/proc/self/task").glob("*/comm"))


def main() -> None:
    is_failing, step, during = "--fail" in sys.argv, TrainingLoop.step, list[int]()
    if is_failing:
        sys.argv.remove("--fail")

    def counted_step(self: TrainingLoop, index: int) -> None:
        step(self, index)
        during.append(count_threads())
        if is_failing and index == 3:
            raise InputError("this step fails")

    TrainingLoop.step = counted_step  # type: ignore[method-assign]
    code = run.main()
    print(f"exit code {code}, threads: {max(during)} during training, {count_threads()} after it")
    sys.exit(code)


if __name__ == "__main__":
    main()
