"""The context of a run: settings, processes and folder."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from accelerate import Accelerator

from trainer.settings import Settings


@dataclass(frozen=True)
class RunContext:
    """The constant context of a run."""

    settings: Settings
    accelerator: Accelerator
    folder: Path
    started: float = field(default_factory=time.monotonic)
    """`time.monotonic()` at the start of this process's part of the run."""
