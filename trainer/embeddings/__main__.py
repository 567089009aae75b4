"""Train the papers' word-vector baselines with gensim, on texts that `data_scripts` wrote.

skip_gram, cbow and fasttext represent a sentence by the mean of its words' vectors, with the settings of Siamese CBOW
(Kenter et al., 2016, section 3.2) and gensim's epochs and learning rate; --sif weights the words and removes a common
direction (Arora et al., 2017). pv_dbow trains vectors of texts together with those of words (Le and Mikolov, 2014) as
Lau and Baldwin (2016) do, with their window of 15; it keeps a vector of every text in memory, and infers vectors of new
texts.

FOLDER has the layout of a run: model/, which `python -m trainer.evaluation FOLDER/model` and, except for pv_dbow,
`modeling_convsim.encoding` can load; config.yaml; results.json. The texts are those of the train splits, truncated by
the tokenizer; unknown words are ignored.

Examples: python -m trainer.embeddings skip_gram data/books -o runs/skip_gram --against stsb=data/stsb
          python -m trainer.embeddings skip_gram data/books -o runs/sif --against stsb=data/stsb --sif \\
              --from runs/skip_gram
"""

import logging
import sys
from argparse import ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data_scripts.files.command_line import ArgumentParser, disk_path, run_stoppable
from data_scripts.files.errors import InputError
from data_scripts.files.extras import import_extra

METHODS = ("skip_gram", "cbow", "fasttext", "pv_dbow")


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(
        prog="python -m trainer.embeddings", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="folder that `data_scripts` wrote, or Hub id; its train split"
    )
    parser.add_argument("-o", "--output", type=disk_path, required=True, metavar="FOLDER", help="the new run's folder")
    data = parser.add_argument_group("data")
    data.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="NAME=SOURCE",
        help="evaluation dataset whose sentences are removed from training, as for `data_scripts leakage`; may be "
        "given several times (default: none)",
    )
    data.add_argument(
        "--sentences", type=_number(1), metavar="N", help="maximum number of texts, evenly spaced (default: all)"
    )
    data.add_argument(
        "--tokenizer", metavar="FOLDER", help="folder or Hub id (default: whole words, trained on the same texts)"
    )
    data.add_argument("--cache_dir", type=Path, default=Path("runs/cache"), metavar="FOLDER",
                      help="folder where runs share token ids (default: %(default)s)")  # fmt: skip
    training = parser.add_argument_group("training")
    for option, low, default, explanation in (
        ("--min_count", 1, 5, "fewest occurrences of a word that has a vector"),
        ("--size", 1, 300, "dimensions of a vector"),
        ("--epochs", 1, 5, "passes over the texts"),
        ("--seed", 0, 0, "seed of the random numbers"),
    ):
        training.add_argument(option, type=_number(low), default=default, help=f"{explanation} (default: %(default)s)")
    training.add_argument(
        "--sif", action="store_true", help="weight words by rarity and remove the first principal component"
    )
    training.add_argument(
        "--from",
        dest="trained",
        type=Path,
        metavar="RUN",
        help="with --sif: use the word vectors of this run, which was trained without --sif, and its settings",
    )
    return parser


def _number(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdigit() or not low <= int(text) < 2**32:
            raise ArgumentTypeError(f"expected a whole number of {low} or more, got '{text}'")
        return int(text)

    return parse


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(arguments)))


def run(args: Namespace) -> int:
    """Train the baseline of the command line, save it as a run and print its size; returns the exit code.

    Raises:
        InputError: a source, evaluation dataset or folder cannot be read, or options do not fit.
    """
    results = _train(args)
    run, removed = results["run"], sum(counts["removed"] for counts in results["leakage"].values())
    print(
        f"{run['sentences']:,} sentences, {run['tokens']:,} tokens; {removed:,} rows with evaluation sentences removed"
    )
    print(
        f"{run['vocabulary']:,} word vectors with {run['size']} dimensions, trained in {run['seconds']} s: "
        f"{args.output}"
    )
    return 0


def _train(args: Namespace) -> dict[str, Any]:
    if args.method == "pv_dbow" and (args.sif or args.trained):
        raise InputError("--sif, --from: pv_dbow is not an average of word vectors; expected another METHOD")
    if args.output.exists():
        raise InputError(f"--output {args.output} already exists; name another folder, or delete this one")
    if args.trained and not args.sif:
        raise InputError("--from: needs --sif, which it applies to the vectors of an earlier run")
    # Imported here because they take seconds, which `--help` and a mistake on the command line should not.
    from transformers.utils.logging import disable_progress_bar

    from trainer.embeddings.word2vec import train_baseline

    import_extra("gensim", "report", "this command")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for library in ("datasets", "gensim", "httpx"):
        logging.getLogger(library).setLevel(logging.WARNING)
    disable_progress_bar()  # transformers shows one for every file it loads
    return train_baseline(args)


if __name__ == "__main__":
    sys.exit(main())
