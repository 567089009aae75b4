"""How much a preset's results move with the seed: runs that differ in it alone, summed up in the first one's folder.

python -m trainer.seeds RUN RUN2 RUN3 writes each test score of all runs into RUN/results.json, under `seeds`, and RUN's
card anew.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from data_scripts.errors import InputError
from trainer.evaluation.results import read_results, write_results
from trainer.publish.scores import read_scores
from trainer.publish.upload import write_run_card
from trainer.training.run_folder import MAY_CHANGE

# One metric of each task.
SUMMED_UP = ("pearson", "p_at_1", "map", "accuracy")


def sum_up(runs: list[Path]) -> dict[str, list[float]]:
    """The test scores that all runs have: "part.split.subset.metric", as they stand in results.json -> a value a run.

    Raises:
        InputError: a run is not finished, or they differ in more than the seed, or not in it.
    """
    settings = [_settings(run) for run in runs]
    for run, other in zip(runs[1:], settings[1:], strict=True):
        first = settings[0]
        changed = [key for key in first | other if first.get(key) != other.get(key)]
        if differing := [key for key in changed if key not in (*MAY_CHANGE, "seed", "output_dir")]:
            raise InputError(f"{run}: differs from {runs[0]} in {', '.join(differing)}; expected another seed only")
    if len({each["seed"] for each in settings}) < len(runs):
        raise InputError("two of the runs have the same seed")
    values = [_test_scores(run, each) for run, each in zip(runs, settings, strict=True)]
    return {name: [value[name] for value in values] for name in values[0] if all(name in value for value in values)}


def _settings(run: Path) -> dict[str, Any]:
    if not (run / "config.yaml").is_file() or not (run / "results.json").is_file():
        raise InputError(f"{run} is not the folder of a finished run: it has no config.yaml and results.json")
    return yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))


def _test_scores(run: Path, settings: dict[str, Any]) -> dict[str, float]:
    results = read_results(run / "results.json")
    found = {}
    for score in read_scores(results, settings):
        if score.split.startswith("test") and score.metric in SUMMED_UP:
            # A part of one split has its scores directly under its name.
            where = [] if "split" in results[score.part] else [score.split]
            subset = score.subset or ("all" if score.part.startswith("stsb") else "")
            found[".".join([score.part, *where, *([subset] if subset else []), score.metric])] = score.value
    return found


def main(argv: list[str]) -> int:
    """Do what the command line asks; 0, or 2 for a mistake of the user's."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.seeds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs, the first kept")
    runs = parser.parse_args(argv).runs
    try:
        found = sum_up(runs)
        results = read_results(runs[0] / "results.json") | {"seeds": found}
        write_results(runs[0] / "results.json", results)
        write_run_card(runs[0])
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, values in found.items():
        print(f"{name:<40} {' '.join(f'{value:.4f}' for value in values)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
