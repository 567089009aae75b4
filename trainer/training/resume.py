"""Checks that a resumed run continues as it was begun: with the same data and precision."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from trainer.training.context import Progress
from trainer.training.fingerprints import find_changes

logger = logging.getLogger(__name__)


def check_unchanged(folder: Path, recorded: Mapping[str, Any], now: Progress) -> None:
    """Compare the progress that a checkpoint recorded with what the resumed run starts with.

    Another device or another number of processes is logged: both may be necessary, but change the results.

    Raises:
        InputError: the data, the tokenizer or the precision differ.
    """
    if changed := find_changes(recorded["fingerprints"], now.fingerprints):
        raise InputError(
            f"resume: {', '.join(changed)} changed since {folder} was started: restore the data, or start again with "
            "--overwrite true or another --output_dir"
        )
    if recorded["mixed_precision"] != now.mixed_precision:
        raise InputError(
            f"resume: the run computed in mixed_precision {recorded['mixed_precision']}, not {now.mixed_precision}: "
            f"use --mixed_precision {recorded['mixed_precision']}"
        )
    for name in ("device", "processes"):
        before, value = recorded[name], getattr(now, name)
        if before != value:
            logger.warning(
                "the run had %s %s and now has %s: its results will differ from those of an uninterrupted run",
                name, before, value,
            )  # fmt: skip
