"""The context of a run (settings, processes, folder), and its progress."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from trainer.arguments import Arguments
from trainer.hardware import available_threads
from trainer.training.interruption import Interruption


@dataclass(frozen=True)
class RunContext:
    """The constant context of a run."""

    arguments: Arguments
    accelerator: Accelerator
    folder: Path
    started: float = field(default_factory=time.monotonic)
    """`time.monotonic()` at the start of this process's part of the run."""
    threads: int = field(default_factory=available_threads)
    """Number of threads of torch."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the datasets and the tokenizer, on the first process of each machine only."""
    interruption: Interruption = field(default_factory=Interruption)


@dataclass
class Progress:
    """The progress of a run; each checkpoint stores it as `progress.json`."""

    step: int = 0
    """Number of steps taken."""
    pairs: int = 0
    """Number of pairs trained on, over all processes."""
    seconds: float = 0.0
    """Seconds spent in the training loop, including dev evaluations."""
    best: float | None = None
    """Highest dev score so far, and the step that reached it; both on the main process only."""
    best_step: int | None = None
    best_factor: float | None = None
    """Factor of the interpolated weights with that score; with `adapt`."""
    base_ranking: dict[str, Any] | None = None
    """Response prediction on dev before the first step; with `adapt`."""
    best_ranking: dict[str, Any] | None = None
    """Response prediction on dev of the best interpolated weights; with `adapt`."""
    threads: int | None = None
    """Number of threads that training uses; None on a GPU."""
    mixed_precision: str | None = None
    """Precision of the computations; never `auto`."""
    device: str | None = None
    """Type of the device."""
    processes: int = 1
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the datasets and the tokenizer, on the first process of each machine only."""

    def update(self, values: dict[str, Any]) -> None:
        """Set the values that `as_dict` returned in an earlier process."""
        for name, value in values.items():
            setattr(self, name, value)

    @classmethod
    def at_start(cls, context: RunContext) -> "Progress":
        """Return the progress of a run that has not taken a step."""
        accelerator = context.accelerator
        return cls(
            mixed_precision=accelerator.mixed_precision,
            device=accelerator.device.type,
            threads=context.threads if accelerator.device.type == "cpu" else None,
            processes=accelerator.num_processes,
            fingerprints=dict(context.fingerprints),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all values, for JSON."""
        return asdict(self)
