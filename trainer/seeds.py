"""Summarize runs that differ only in the seed: how much the test scores of a preset vary.

python -m trainer.seeds RUN RUN2 RUN3 collects each test score of all runs in RUN/results.json, under `seeds`, and
rewrites RUN's model card.
"""

import sys
from argparse import RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from data_scripts.files.command_line import ArgumentParser, run_stoppable
from data_scripts.files.errors import InputError
from trainer.arguments import Arguments
from trainer.evaluation.results import read_run_results, read_settings, update_results

# One metric of each evaluation.
METRICS = ("pearson", "p_at_1", "map", "accuracy")
# A run may take the tokenizer that another one trained on the same texts.
_OF_TOKENIZER = ("tokenizer", "tokenizer_kind", "vocab_size")


def collect_test_scores(runs: list[Path]) -> dict[str, list[float]]:
    """The test scores that all runs have: "part.split.subset.metric", as in results.json -> one value for each run.

    Raises:
        InputError: a run is not finished, two have the same seed, or they differ in another setting.
    """
    settings = [_read_settings(run) for run in runs]
    _check_only_seeds_differ(runs, settings)
    values = [_test_scores(run, each) for run, each in zip(runs, settings, strict=True)]
    shared = [name for name in values[0] if all(name in each for each in values)]
    return {name: [each[name] for each in values] for name in shared}


def _read_settings(run: Path) -> dict[str, Any]:
    if not (run / "config.yaml").is_file() or not (run / "results.json").is_file():
        raise InputError(f"{run} is not the folder of a finished run: it has no config.yaml and results.json")
    return read_settings(run / "config.yaml")


def _check_only_seeds_differ(runs: list[Path], settings: list[dict[str, Any]]) -> None:
    from trainer.training.run_folder import MAY_CHANGE

    first = settings[0]
    for run, other in zip(runs[1:], settings[1:], strict=True):
        changed = [key for key in first | other if first.get(key) != other.get(key)]
        same = (*MAY_CHANGE, "seed", "output_dir", *(_OF_TOKENIZER if _have_same_tokenizer(run, runs[0]) else ()))
        if differing := [key for key in changed if key not in same]:
            raise InputError(f"{run}: differs from {runs[0]} in {', '.join(differing)}; expected another seed only")
    if len({each.get("seed", Arguments().seed) for each in settings}) < len(runs):
        raise InputError("two of the runs have the same seed")


def _have_same_tokenizer(*runs: Path) -> bool:
    files = [run / "model" / "tokenizer.json" for run in runs]
    return all(file.is_file() for file in files) and len({file.read_bytes() for file in files}) == 1


def _test_scores(run: Path, settings: dict[str, Any]) -> dict[str, float]:
    from trainer.publish.model_card import read_scores  # takes seconds, which `--help` should not

    results = read_run_results(run / "results.json")
    values = {}
    for score in read_scores(results, settings):
        if score.split.startswith("test") and score.metric in METRICS:
            # A part with one split has its scores directly under its name.
            split = "" if "split" in results[score.part] else score.split
            subset = score.subset or ("all" if score.part.startswith("stsb") else "")
            values[".".join(filter(None, [score.part, split, subset, score.metric]))] = score.value
    return values


def main(argv: list[str]) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    parser = ArgumentParser(
        prog="python -m trainer.seeds", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs; the first gets the scores of all"
    )
    return run_stoppable(lambda: summarize(parser.parse_args(argv).runs))


def summarize(runs: list[Path]) -> int:
    """Add the scores of all runs to the results and the card of the first, and print them; returns the exit code."""
    from trainer.publish.upload import write_run_card  # takes seconds, which `--help` should not

    test_scores = collect_test_scores(runs)
    update_results(runs[0] / "results.json", {"seeds": test_scores})
    write_run_card(runs[0])
    for name, values in test_scores.items():
        print(f"{name:<40} {' '.join(f'{value:.4f}' for value in values)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
