"""Train the systems that the papers compare with, by gensim, on texts of our commands.

skip_gram, cbow and fasttext give a sentence the mean of its words' vectors, with the settings of Siamese CBOW (Kenter
et al., 2016, section 3.2) and gensim's passes and learning rate; --sif weights the words and takes a common direction
out (Arora et al., 2017). pv_dbow trains vectors of texts beside those of words (Le and Mikolov, 2014) as Lau and
Baldwin (2016) do, with their window of 15; memory holds a vector of every text, and new ones are inferred.

FOLDER gets the form of a run: model/, which `python -m trainer.evaluation FOLDER/model` and, but for pv_dbow,
`modeling_convsim.encoding` open; config.yaml; results.json. The texts are those of the train splits, as the tokenizer
cuts them; words that it does not know are left out.

Examples: python -m trainer.embeddings skip_gram data/books -o runs/skip_gram --against stsb=data/stsb
          python -m trainer.embeddings skip_gram data/books -o runs/sif --against stsb=data/stsb --sif \\
              --from runs/skip_gram
"""

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
import yaml
from datasets import Dataset, concatenate_datasets
from gensim.models import Doc2Vec, FastText, Word2Vec
from scipy.sparse import csr_array
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from data_scripts.errors import InputError
from data_scripts.read.hub_datasets import load_columns
from data_scripts.tools.leakage import load_evaluation_texts, remove_leaked, text_columns
from data_scripts.tools.tokenizer import train_tokenizer
from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask
from modeling_convsim.encoding import Encoder
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.word_vectors import fit, sif_weights
from trainer.evaluation.encoders import PvDbowEncoder
from trainer.evaluation.results import read_results, write_results

METHODS: dict[str, tuple[type[Word2Vec], dict[str, Any]]] = {
    "skip_gram": (Word2Vec, {"sg": 1, "window": 5}),
    "cbow": (Word2Vec, {"sg": 0, "window": 5}),
    "fasttext": (FastText, {"sg": 1, "window": 5}),
    "pv_dbow": (Doc2Vec, {"dm": 0, "dbow_words": 1, "window": 15}),
}
SETTINGS = {"hs": 0, "negative": 5, "sample": 1e-5}
SIF_SENTENCES = 50_000  # whose common direction is taken out
MAX_WORDS = 10_000  # of a text, gensim's limit
TRAINED_WITH = ("tokenizer", "vocab_size", "min_count", "size", "epochs", "seed", "workers")


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Train and save as the command line says; returns the contents of results.json.

    Raises:
        InputError: for sources, evaluation sets or folders that cannot be read, or an output that is there already.
    """
    started = time.monotonic()
    if options.output.exists() and not (options.output.is_dir() and not any(options.output.iterdir())):
        raise InputError(f"--output {options.output}: there already; name another folder, or delete this one")
    if options.method == "pv_dbow" and (options.sif or options.trained):
        raise InputError("--sif, --from: pv_dbow is no average of word vectors; expected another METHOD")
    if options.trained and not options.sif:
        raise InputError("--from: goes with --sif, which it derives from a folder that is trained")
    if options.trained:
        table, seconds = _trained(options)
    texts, leakage = read_texts(options.sources, options.against, options.sentences)
    tokenizer = _tokenizer(options, texts)
    most = min(tokenizer.model_max_length, MAX_WORDS)
    column = token_columns(texts, ["text"], tokenizer, options.cache_dir, most)["text"]
    known = _without(column, tokenizer.unk_token_id)
    if not options.trained:
        before = time.monotonic()
        model = _fit(options, known, tokenizer)
        seconds = round(time.monotonic() - before, 1)
        table = word_table(model, tokenizer)
    vocabulary = int(table.any(axis=1).sum())
    if options.sif:
        table = sif_table(table, column, known)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.output.parent, prefix=f".{options.output.name}-") as temporary:
        folder = Path(temporary, "run")
        (folder / "model").mkdir(parents=True)
        if options.method == "pv_dbow":
            PvDbowEncoder(model, tokenizer).save_pretrained(folder / "model")
        else:
            save_averages(table, tokenizer, folder / "model")
        config = _settings(options)
        (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), "utf-8")
        results = {
            "run": {
                **{key: config[key] for key in ("method", "sif", "size", "epochs", "seed", "workers")},
                "seconds": seconds,
                "total_seconds": round(time.monotonic() - started, 1),
                "sentences": len(column),
                "tokens": len(column.ids),
                "vocabulary": vocabulary,
            },
            "leakage": leakage,
        }
        write_results(folder / "results.json", results)
        os.replace(folder, options.output)
    return results


def read_texts(
    sources: list[str], against: list[str], sentences: int | None
) -> tuple[Dataset, dict[str, dict[str, int]]]:
    """The train splits' texts without evaluation sentences, as one column `text`, and what was removed.

    Args:
        sources: folders or Hub ids.
        against: NAME=SOURCE of evaluation sets, as `data_scripts leakage` takes them.
        sentences: how many at most, evenly spread; None for all.

    Returns:
        The texts, and "texts/NAME" of a source -> evaluation set -> rows that held one of its sentences, and `removed`
        in all, as results.json has it.
    """
    evaluation = load_evaluation_texts(against)
    parts: list[Dataset] = []
    leakage = {}
    for source in sources:
        name = f"texts/{source.rstrip('/').rpartition('/')[2]}"
        if name in leakage:
            raise InputError(f"two sources have the name {name.partition('/')[2]}: rename one of the folders")
        splits = load_columns(source, ())
        if "train" not in splits:
            raise InputError(f"{source}: has no train split; it has {', '.join(splits)}")
        columns = text_columns(splits["train"].column_names, source)
        rows, leakage[name] = remove_leaked(splits["train"], columns, evaluation)
        parts += _texts(rows, columns)
    texts = concatenate_datasets(parts)
    if sentences is not None and sentences < len(texts):
        texts = texts.select(np.arange(sentences) * len(texts) // sentences)
    return texts, leakage


def _texts(rows: Dataset, columns: list[str]) -> Iterator[Dataset]:
    """The texts of each column, or of each of its lists, as a column `text`."""
    table = rows.select_columns(columns).with_format("arrow")[:]
    for name in columns:
        column = table[name]
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            column = pc.list_flatten(column)
        yield Dataset(pa.table({"text": column.drop_null().cast(pa.string())}))


def _tokenizer(options: argparse.Namespace, texts: Dataset) -> PreTrainedTokenizerFast:
    source = options.trained / "model" if options.trained else options.tokenizer
    if source:
        try:
            return cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(source))
        except (OSError, ValueError) as error:
            raise InputError(f"{source}: no tokenizer can be loaded: {str(error).splitlines()[0]}") from None
    read = (text for batch in texts.iter(batch_size=1000) for text in batch["text"])
    shown = tqdm(read, total=len(texts), delay=1, unit=" texts", unit_scale=True, desc="tokenizer")
    return train_tokenizer(shown, "word", options.vocab_size, options.min_count)


def _without(column: TokenColumn, token: int) -> TokenColumn:
    """The texts of a column without one token."""
    kept = column.ids != token
    before = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=before[1:])
    return TokenColumn(column.ids[kept], before[column.offsets], column.keys)


def _fit(options: argparse.Namespace, known: TokenColumn, tokenizer: PreTrainedTokenizerFast) -> Word2Vec:
    """The gensim model, trained."""
    model_class, settings = METHODS[options.method]
    model = model_class(
        vector_size=options.size, min_count=options.min_count, epochs=options.epochs, seed=options.seed,
        workers=options.workers, **SETTINGS, **settings,
    )  # fmt: skip
    try:
        fit(model, [known], tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    except RuntimeError as error:  # gensim has no word to train
        raise InputError(f"no word occurs {options.min_count} times in the texts: lower --min-count") from error
    return model


def word_table(model: Word2Vec, tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """gensim's vectors by token id, (len(tokenizer), size) float32; zeros for what it has not and special tokens.

    fastText has a vector for a word that was too rare, or not there, from its character n-grams.
    """
    table = np.zeros((len(tokenizer), model.vector_size), dtype=np.float32)
    for word, row in tokenizer.get_vocab().items():
        if row not in (tokenizer.pad_token_id, tokenizer.unk_token_id) and word in model.wv:
            table[row] = model.wv.get_vector(word)
    return table


def _trained(options: argparse.Namespace) -> tuple[np.ndarray, float]:
    """The word table of the earlier folder in --from, and its training's seconds; `options` take its settings."""
    run = options.trained
    try:
        config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        if config.get("method") != options.method or config.get("sif") is not False:
            raise InputError(f"--from {run}: expected a folder of {options.method} without --sif")
        encoder = Encoder.from_pretrained(run / "model", device="cpu")
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"--from {run}: expected a folder that this command wrote ({error})") from error
    for key in TRAINED_WITH:
        setattr(options, key, config[key])
    table = encoder.model.get_parameter("encoder.embed_tokens.weight").detach().numpy()
    return table, read_results(run / "results.json")["run"]["seconds"]


def sif_table(table: np.ndarray, column: TokenColumn, known: TokenColumn) -> np.ndarray:
    """The word table whose averages are Arora et al.'s (2017, algorithm 1) sentence vectors; shape and type stay.

    Both steps are linear in the words' vectors, so the table takes them: each word's vector times a / (a + p(w)), less
    its part along the first principal component (not centred) of the training sentences' averages. Arora et al. find
    that component on the sentences that are judged; here it is fixed, and a sentence's vector depends on it alone.

    Args:
        table: (tokens, size).
        column: the training texts, for p(w).
        known: the same without unknown words, of which `SIF_SENTENCES`, evenly spread, give the component.
    """
    weighted = sif_weights([column], len(table))[:, None] * table.astype(np.float64)
    texts = np.flatnonzero(np.diff(known.offsets))  # those with a known word
    if len(texts) > SIF_SENTENCES:
        texts = texts[np.arange(SIF_SENTENCES) * len(texts) // SIF_SENTENCES]
    ids, offsets = known.gather(texts)
    lengths = np.diff(offsets)
    shares = csr_array((np.repeat(1 / lengths, lengths), ids, offsets), shape=(len(texts), len(table)))
    averages = shares @ weighted  # (texts, size)
    component = np.linalg.eigh(averages.T @ averages).eigenvectors[:, -1]
    return (weighted - np.outer(weighted @ component, component)).astype(table.dtype)


def save_averages(table: np.ndarray, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save a word table as a CBOW encoder: the mean of a text's known words, of length one.

    A reply's vector is its embedding: the response network is the identity. The inference classifier is not trained.
    """
    torch.manual_seed(0)  # of that classifier
    config = ConvSimCbowConfig(
        vocab_size=len(table),
        embedding_size=table.shape[1],
        pad_token_id=tokenizer.pad_token_id,
        unk_token_id=tokenizer.unk_token_id,
        response_residual=True,
        response_hidden_sizes=[1],
        nli_hidden_size=1,
    )
    model = ConvSimCbowForMultitask(config)
    with torch.no_grad():
        model.get_parameter("encoder.embed_tokens.weight").copy_(torch.from_numpy(table))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options that say how the model came about, by their names on the command line."""
    settings = {key: value for key, value in vars(options).items() if key not in ("output", "cache_dir", "trained")}
    return settings | {"from": str(options.trained) if options.trained else None}


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got '{text}'")
    return int(text)


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
        help="an evaluation set whose sentences are kept out of training, as for `data_scripts leakage`; may be given "
        "several times",
    )  # fmt: skip
    parser.add_argument("--sentences", type=_positive, metavar="N", help="read N at most, evenly spread (default: all)")
    parser.add_argument(
        "--tokenizer", metavar="FOLDER", help="folder or Hub id (default: whole words, trained on the same texts)"
    )
    parser.add_argument(
        "--vocab-size", type=_positive, default=500_000, help="largest vocabulary of that tokenizer (default: 500000)"
    )
    parser.add_argument(
        "--min-count", type=_positive, default=5, help="a word seen less often is left out (default: 5)"
    )
    parser.add_argument("--size", type=_positive, default=300, help="numbers in a vector (default: 300)")
    parser.add_argument("--epochs", type=_positive, default=5, help="passes over the texts (default: 5)")
    parser.add_argument(
        "--sif", action="store_true", help="weight words by rarity and take the first principal component out"
    )
    parser.add_argument(
        "--from", dest="trained", type=Path, metavar="RUN",
        help="with --sif: take the word vectors and the tokenizer of this folder, trained before without it",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument(
        "--workers", type=_positive, default=1, help="threads; with one the same seed gives the same bytes (default: 1)"
    )
    parser.add_argument(
        "--cache-dir", type=Path, default=Path("runs/cache"), metavar="FOLDER",
        help="where token ids are kept between runs (default: runs/cache)",
    )  # fmt: skip
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, or 2 after a user's mistake, whose message goes to stderr."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for library in ("datasets", "gensim", "httpx"):
        logging.getLogger(library).setLevel(logging.WARNING)
    disable_progress_bar()  # transformers draws one for every file it loads
    options = build_parser().parse_args(arguments)
    try:
        results = train(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    run, removed = results["run"], sum(counts["removed"] for counts in results["leakage"].values())
    print(
        f"{run['sentences']:,} sentences, {run['tokens']:,} tokens; {removed:,} rows with evaluation sentences left out"
    )
    print(f"{run['vocabulary']:,} words of {run['size']} numbers, trained in {run['seconds']} s: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
