"""Train the papers' baselines of word vectors, by gensim, on texts that our commands wrote.

skip_gram, cbow and fasttext represent a sentence by the mean of its words' vectors, with the settings of Siamese CBOW
(Kenter et al., 2016, section 3.2) and gensim's epochs and learning rate; --sif weights the words and removes a common
direction (Arora et al., 2017). pv_dbow trains vectors of texts together with those of words (Le and Mikolov, 2014) as
Lau and Baldwin (2016) do, with their window of 15; it holds a vector of every text in memory, and infers vectors of new
texts.

FOLDER gets the form of a run: model/, which `python -m trainer.evaluation FOLDER/model` and, except for pv_dbow,
`modeling_convsim.encoding` can load; config.yaml; results.json. The texts are those of the train splits, truncated by
the tokenizer; words that the tokenizer does not know are left out.

Examples: python -m trainer.embeddings skip_gram data/books -o runs/skip_gram --against stsb=data/stsb
          python -m trainer.embeddings skip_gram data/books -o runs/sif --against stsb=data/stsb --sif \\
              --from runs/skip_gram
"""

import argparse
import logging
import sys
from pathlib import Path

from transformers.utils.logging import disable_progress_bar

from data_scripts.errors import InputError
from trainer.report.word2vec import METHODS
from trainer.report.word2vec_run import BaselineOptions, train_baseline


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.embeddings", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="folders that our commands wrote, or Hub ids: their train splits"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the run is written")
    parser.add_argument(
        "--against", action="append", default=[], metavar="NAME=SOURCE",
        help="an evaluation dataset whose sentences are removed from training, as for `data_scripts leakage`; may be "
        "given several times",
    )  # fmt: skip
    parser.add_argument(
        "--sentences", type=_positive, metavar="N", help="read N texts at most, evenly spaced (default: all)"
    )
    parser.add_argument(
        "--tokenizer", metavar="FOLDER", help="folder or Hub id (default: whole words, trained on the same texts)"
    )
    parser.add_argument(
        "--vocab-size", type=_positive, default=500_000, help="largest vocabulary of that tokenizer (default: 500000)"
    )
    parser.add_argument(
        "--min-count", type=_positive, default=5, help="leave out words with fewer occurrences (default: 5)"
    )
    parser.add_argument("--size", type=_positive, default=300, help="dimensions of a vector (default: 300)")
    parser.add_argument("--epochs", type=_positive, default=5, help="passes over the texts (default: 5)")
    parser.add_argument(
        "--sif", action="store_true", help="weight words by rarity and remove the first principal component"
    )
    parser.add_argument(
        "--from", dest="trained", type=Path, metavar="RUN",
        help="with --sif: use the word vectors and the tokenizer of this folder, which was trained without --sif",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: 0)")
    parser.add_argument(
        "--workers", type=_positive, default=1, help="threads; with one, a seed gives the same bytes (default: 1)"
    )
    parser.add_argument(
        "--cache-dir", type=Path, default=Path("runs/cache"), metavar="FOLDER",
        help="where token ids are cached between runs (default: runs/cache)",
    )  # fmt: skip
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got '{text}'")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, or 2 after a user's mistake, whose message goes to stderr."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for library in ("datasets", "gensim", "httpx"):
        logging.getLogger(library).setLevel(logging.WARNING)
    disable_progress_bar()  # transformers shows one for every file it loads
    options = BaselineOptions(**vars(build_parser().parse_args(arguments)))
    try:
        results = train_baseline(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    run, removed = results["run"], sum(counts["removed"] for counts in results["leakage"].values())
    print(
        f"{run['sentences']:,} sentences, {run['tokens']:,} tokens; {removed:,} rows with evaluation sentences removed"
    )
    print(
        f"{run['vocabulary']:,} word vectors with {run['size']} dimensions, trained in {run['seconds']} s: "
        f"{options.output}"
    )
    return 0
