"""The training run of the command, with the preset `adapt`, and the splits that it used."""

from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset

from trainer.arguments import Arguments
from trainer.command_line import parse_arguments
from trainer.data.datasets import load_run_data
from trainer.preset_files import PRESETS
from trainer.training.adaptation import silent, split_pairs
from trainer.training.model import load_initial_config
from trainer.training.train import train


@dataclass(frozen=True)
class Splits:
    """The pairs of a run; `dev` is None if they were cross-validated, `test` if no conversation was held out."""

    train: Dataset
    dev: Dataset | None
    test: Dataset | None


def check_base(base: str) -> None:
    """Check that a base can be adapted.

    Raises:
        InputError: it cannot be loaded, or is no multitask model.
    """
    load_initial_config(base, "--base")


def train_model(base: str, folder: Path, license: str | None) -> Arguments:
    """Train in a folder that has the pairs; returns the settings of the run."""
    words = ["--initialize_from", base, "--pairs", str(folder / "pairs"), "--output_dir", str(folder)]
    words += ["--license", license] if license else []
    arguments = parse_arguments([str(PRESETS / "adapt.yaml"), *words, "--overwrite", "true"])
    train(arguments)
    return arguments


def load_splits(arguments: Arguments) -> Splits:
    """The splits of a run."""
    with silent("trainer.data"):  # the run has said the same
        data = load_run_data(arguments)
        split_pairs(data)
    held_out = data.evaluation["pairs"]
    return Splits(data.training["pairs"], held_out.get("validation"), held_out.get("test"))
