"""Train word2vec, the baseline of the papers, with gensim on the texts of training datasets.

The settings are those of Siamese CBOW (Kenter et al., 2016, section 3.2) with gensim's epochs and learning rate.
FOLDER has the layout of a run: config.yaml, results.json and model/, an encoder that averages the vectors of the known
words of a text. Rows that contain a sentence of an evaluation dataset are removed, as in every run. The tokenizer
truncates the texts.

Example: python -m trainer.report.word2vec skip_gram --documents data/books --tokenizer runs/siamese_cbow/model \\
             --stsb data/stsb --output_dir runs/skip_gram
"""

import sys
import time
from argparse import Namespace, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask
from modeling_convsim.files.command_line import ArgumentParser, disk_path, run_stoppable, whole_number
from modeling_convsim.files.extras import import_extra
from modeling_convsim.files.folders import new_folder
from trainer.data.datasets import load_run_data, training_text_columns
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.word_vectors import fit
from trainer.evaluation.results import write_results
from trainer.settings import FIELDS, Settings
from trainer.training.model import load_pretrained

METHODS = {"skip_gram": 1, "cbow": 0}  # gensim's option sg
SETTINGS = {"window": 5, "hs": 0, "negative": 5, "sample": 1e-5, "workers": 1}  # one thread: a seed gives one result
MAX_WORDS = 10_000  # of a text, gensim's limit


def build_parser() -> ArgumentParser:
    """The command line; its options have the same names as the trainer's."""
    parser = ArgumentParser(
        prog="python -m trainer.report.word2vec", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--output_dir", type=disk_path, required=True, metavar="FOLDER", help="folder for the new run")
    parser.add_argument("--documents", nargs="+", required=True, metavar="SOURCE", help="folders or Hub ids of texts")
    parser.add_argument("--tokenizer", required=True, metavar="FOLDER", help="folder of a model, or its Hub id")
    for name in ("stsb", "cqa", "sts"):
        parser.add_argument(f"--{name}", metavar="SOURCE", help="evaluation dataset (default: none)")
    for option, low, default, explanation in (
        ("--min_count", 1, 5, "minimum count of a word to get a vector"),
        ("--size", 1, 300, "embedding dimension"),
        ("--epochs", 1, 5, "training epochs"),
        ("--seed", 0, 0, "random seed"),
    ):
        kind, text = whole_number(low, 2**32 - 1), f"{explanation} (default: %(default)s)"
        parser.add_argument(option, type=kind, default=default, metavar="N", help=text)
    parser.add_argument("--cache_dir", type=Path, default=Path("runs/cache"), metavar="FOLDER",
                        help="cache of token ids, shared between runs (default: %(default)s)")  # fmt: skip
    return parser


def settings_of(args: Namespace) -> dict[str, Any]:
    """The options that config.yaml records."""
    return {name: value for name, value in vars(args).items() if name not in ("output_dir", "cache_dir")}


def train(args: Namespace) -> int:
    """Train word vectors with the options of the command line, and save them as a run; returns the exit code.

    Raises:
        InputError: a dataset or the tokenizer cannot be read, the folder exists, or no word occurs often enough.
    """
    started = time.monotonic()
    with new_folder(args.output_dir, overwrite=False, kind="run") as (folder, _):
        data = load_run_data(Settings(**{name: value for name, value in vars(args).items() if name in FIELDS}))
        tokenizer: PreTrainedTokenizerFast = load_pretrained(AutoTokenizer, args.tokenizer, "--tokenizer")
        limit = min(tokenizer.model_max_length, MAX_WORDS)
        texts = [
            column
            for name, columns in training_text_columns(data).items()
            for column in token_columns(data.training[name], columns, tokenizer, args.cache_dir, limit).values()
        ]
        began = time.monotonic()
        sizes = {"vector_size": args.size, "min_count": args.min_count, "epochs": args.epochs, "seed": args.seed}
        gensim = import_extra("gensim.models", "report", "word2vec")
        model = gensim.Word2Vec(sg=METHODS[args.method], **sizes, **SETTINGS)
        known = [_without(column, tokenizer.unk_token_id) for column in texts]
        fit(model, known, tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
        seconds = round(time.monotonic() - began, 1)
        save_averages(model, tokenizer, folder / "model")
        config = yaml.safe_dump(settings_of(args), sort_keys=False, allow_unicode=True)
        (folder / "config.yaml").write_text(config, encoding="utf-8")
        run = {name: getattr(args, name) for name in ("method", "size", "epochs", "seed")}
        run |= {"seconds": seconds, "total_seconds": round(time.monotonic() - started, 1)}
        run |= {"sentences": sum(map(len, texts)), "tokens": sum(len(column.ids) for column in texts)}
        run["vocabulary"] = len(model.wv.index_to_key)
        write_results(folder / "results.json", {"run": run, "leakage": data.leakage})
    return 0


def _without(column: TokenColumn, token: int) -> TokenColumn:
    """The texts of a column without one token."""
    is_other = column.ids != token  # (tokens,)
    others_before = np.zeros(len(is_other) + 1, dtype=np.int64)
    np.cumsum(is_other, out=others_before[1:])
    return TokenColumn(column.ids[is_other], others_before[column.offsets], column.keys)


def save_averages(word2vec: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save gensim's word vectors as a CBOW encoder: the L2-normalized mean of a text's known words.

    Special tokens and words without a vector have zeros. The response network is the identity, so a response has the
    vector that it has as an input. The inference classifier is not trained.
    """
    matrix = np.zeros((len(tokenizer), word2vec.vector_size), dtype=np.float32)  # by token id
    for word, row in tokenizer.get_vocab().items():
        if row not in (tokenizer.pad_token_id, tokenizer.unk_token_id) and word in word2vec.wv:
            matrix[row] = word2vec.wv.get_vector(word)
    torch.manual_seed(0)  # for the inference classifier
    config = ConvSimCbowConfig(
        vocab_size=len(matrix),
        embedding_size=matrix.shape[1],
        pad_token_id=tokenizer.pad_token_id,
        unk_token_id=tokenizer.unk_token_id,
        response_residual=True,
        response_hidden_sizes=[1],
        nli_hidden_size=1,
    )
    model = ConvSimCbowForMultitask(config)
    with torch.no_grad():
        model.get_parameter("encoder.embed_tokens.weight").copy_(torch.from_numpy(matrix))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: train(build_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
