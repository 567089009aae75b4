"""Word vectors by gensim, the papers' baselines: word2vec, fastText, PV-DBOW, and SIF weighting; saved as runs."""

import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
import yaml
from datasets import Dataset, concatenate_datasets
from scipy.sparse import csr_array
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.clean.leakage import remove_leaked, text_columns
from data_scripts.commands.tokenizer import train_tokenizer
from data_scripts.files.datasets import load_columns
from data_scripts.files.errors import InputError
from data_scripts.files.extras import import_extra
from data_scripts.files.folders import new_folder
from data_scripts.public import load_evaluation_texts
from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask
from modeling_convsim.encoding import Encoder
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.token_weights import sif_weights
from trainer.data.word_vectors import fit
from trainer.encoders.pv_dbow import PvDbowEncoder
from trainer.evaluation.results import read_run_results, read_settings, write_results

# Name -> class in `gensim.models`, and its settings.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "skip_gram": ("Word2Vec", {"sg": 1, "window": 5}),
    "cbow": ("Word2Vec", {"sg": 0, "window": 5}),
    "fasttext": ("FastText", {"sg": 1, "window": 5}),
    "pv_dbow": ("Doc2Vec", {"dm": 0, "dbow_words": 1, "window": 15}),
}
SETTINGS = {"hs": 0, "negative": 5, "sample": 1e-5}
SIF_SENTENCES = 50_000  # from which the common direction is computed
MAX_VOCABULARY = 500_000  # of a tokenizer that is trained here
MAX_WORDS = 10_000  # of a text, gensim's limit
# Options that --from takes from the earlier run, and options that are not in config.yaml.
TRAINING_OPTIONS = ("tokenizer", "min_count", "size", "epochs", "seed")
NOT_SETTINGS = ("output", "cache_dir", "trained")


class _Vectors(NamedTuple):
    """Word vectors (tokens, size), the seconds of their training, and the gensim model if it was trained here."""

    matrix: np.ndarray
    seconds: float
    model: Any = None


def train_baseline(options: Namespace) -> dict[str, Any]:
    """Train a baseline and save it as a run; returns the contents of results.json.

    Args:
        options: those of `python -m trainer.embeddings`.

    Raises:
        InputError: a source, evaluation dataset or folder cannot be read, or no word occurs often enough.
    """
    started = time.monotonic()
    with new_folder(options.output, overwrite=False, kind="baseline") as (folder, _):
        vectors = _load_earlier(options) if options.trained else None
        texts, leakage = read_texts(options.sources, options.against, options.sentences)
        tokenizer = _prepare_tokenizer(options, texts)
        max_length = min(tokenizer.model_max_length, MAX_WORDS)
        column = token_columns(texts, ["text"], tokenizer, options.cache_dir, max_length)["text"]
        known = _drop_token(column, tokenizer.unk_token_id)
        vectors = vectors or _train_vectors(options, known, tokenizer)
        (folder / "model").mkdir()
        if options.method == "pv_dbow":
            PvDbowEncoder(vectors.model, tokenizer).save_pretrained(folder / "model")
        else:
            matrix = sif_matrix(vectors.matrix, column, known) if options.sif else vectors.matrix
            save_averages(matrix, tokenizer, folder / "model")
        settings = {key: value for key, value in vars(options).items() if key not in NOT_SETTINGS}
        settings["from"] = str(options.trained) if options.trained else None
        config = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        (folder / "config.yaml").write_text(config, encoding="utf-8")
        run = {key: settings[key] for key in ("method", "sif", "size", "epochs", "seed")}
        run |= {"seconds": vectors.seconds, "total_seconds": round(time.monotonic() - started, 1)}
        run |= {"sentences": len(column), "tokens": len(column.ids)}
        run["vocabulary"] = int(vectors.matrix.any(axis=1).sum())
        results = {"run": run, "leakage": leakage}
        write_results(folder / "results.json", results)
    return results


def _load_earlier(options: Namespace) -> _Vectors:
    """The word vectors of the run in --from; its training settings replace those in `options`."""
    run = options.trained
    try:
        settings = read_settings(run / "config.yaml")
        if (settings["method"], settings["sif"]) != (options.method, False):
            raise InputError(f"it is not one of {options.method} without --sif")
        for name in TRAINING_OPTIONS:
            setattr(options, name, settings[name])
        encoder = Encoder.from_pretrained(run / "model", device="cpu")
        matrix = encoder.model.get_parameter("encoder.embed_tokens.weight").detach().numpy()
        return _Vectors(matrix, read_run_results(run / "results.json")["run"]["seconds"])
    except (InputError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"--from {run}: expected a folder that this command wrote ({error})") from error


def read_texts(
    sources: list[str], against: list[str], sentences: int | None
) -> tuple[Dataset, dict[str, dict[str, int]]]:
    """Read the train splits' texts without evaluation sentences, as one column `text`.

    Args:
        sources: folders or Hub ids.
        against: NAME=SOURCE of evaluation datasets, as for `data_scripts leakage`.
        sentences: the largest number of texts, which are evenly spaced; None for all.

    Returns:
        The texts, and the rows that were removed, as in results.json: "texts/NAME" of a source -> evaluation dataset ->
        rows with one of its sentences, and `removed` in all.
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
        # Earlier turns are messages of other pairs, which would be counted again.
        columns = text_columns((name for name in splits["train"].column_names if name != "context"), source)
        rows, leakage[name] = remove_leaked(splits["train"], columns, evaluation)
        parts += _texts_of_columns(rows, columns)
    texts = concatenate_datasets(parts)
    if sentences is not None and sentences < len(texts):
        texts = texts.select(np.arange(sentences) * len(texts) // sentences)
    return texts, leakage


def _texts_of_columns(rows: Dataset, columns: list[str]) -> Iterator[Dataset]:
    """The texts of each column, or of the lists in it, as a column `text`."""
    table = rows.select_columns(columns).with_format("arrow")[:]
    for name in columns:
        column = table[name]
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            column = pc.list_flatten(column)
        yield Dataset(pa.table({"text": column.drop_null().cast(pa.string())}))


def _prepare_tokenizer(options: Namespace, texts: Dataset) -> PreTrainedTokenizerFast:
    """The tokenizer of the options, or one of whole words that is trained on the texts."""
    source = options.trained / "model" if options.trained else options.tokenizer
    if source:
        try:
            return cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(source, trust_remote_code=False))
        except (OSError, ValueError) as error:
            raise InputError(f"{source}: no tokenizer can be loaded: {str(error).splitlines()[0]}") from None
    flat = (text for batch in texts.iter(batch_size=1000) for text in batch["text"])
    progress = tqdm(flat, total=len(texts), delay=1, unit=" texts", unit_scale=True, desc="tokenizer")
    return train_tokenizer(progress, "word", MAX_VOCABULARY, options.min_count)


def _drop_token(column: TokenColumn, token: int) -> TokenColumn:
    """The texts of a column without one token."""
    is_other = column.ids != token  # (tokens,)
    others_before = np.zeros(len(is_other) + 1, dtype=np.int64)
    np.cumsum(is_other, out=others_before[1:])
    return TokenColumn(column.ids[is_other], others_before[column.offsets], column.keys)


def _train_vectors(options: Namespace, texts: TokenColumn, tokenizer: PreTrainedTokenizerFast) -> _Vectors:
    started = time.monotonic()
    settings = {name: getattr(options, name) for name in ("size", "min_count", "epochs", "seed")}
    model = train_gensim(options.method, texts, tokenizer, **settings)
    return _Vectors(embedding_matrix(model, tokenizer), round(time.monotonic() - started, 1), model)


def save_averages(matrix: np.ndarray, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save word vectors (tokens, size) as a CBOW encoder: the L2-normalized mean of a text's known words.

    The response network is the identity, so a response has the vector that it has as an input. The inference classifier
    is not trained.
    """
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


# -- vectors ----------------------------------------------------------------------------------------------------------


def train_gensim(
    method: str, texts: TokenColumn, tokenizer: PreTrainedTokenizerFast, *, size: int, min_count: int, epochs: int,
    seed: int,
) -> Any:  # fmt: skip
    """Train a gensim model.

    Args:
        method: one of `METHODS`.
        texts: the texts without unknown words.
        tokenizer: names the tokens.
        size: dimensions of a vector.
        min_count: a word with fewer occurrences has no vector.
        epochs: passes over the texts.
        seed: of the random numbers; gensim runs one thread, so that a seed always gives the same vectors.

    Raises:
        InputError: no word occurs often enough.
    """
    gensim = import_extra("gensim.models", "report", "training word vectors")
    class_name, settings = METHODS[method]
    model = getattr(gensim, class_name)(
        vector_size=size, min_count=min_count, epochs=epochs, seed=seed, workers=1, **SETTINGS, **settings
    )
    try:
        fit(model, [texts], tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    except RuntimeError as error:  # gensim has no word to train
        raise InputError(f"no word occurs {min_count} times in the texts: lower --min_count") from error
    return model


def embedding_matrix(model: Any, tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """gensim's vectors by token id, (tokens, size) float32; zeros for special tokens and words without a vector.

    fastText gives rare and unseen words a vector, from their character n-grams.
    """
    matrix = np.zeros((len(tokenizer), model.vector_size), dtype=np.float32)
    for word, row in tokenizer.get_vocab().items():
        if row not in (tokenizer.pad_token_id, tokenizer.unk_token_id) and word in model.wv:
            matrix[row] = model.wv.get_vector(word)
    return matrix


def sif_matrix(matrix: np.ndarray, texts: TokenColumn, known: TokenColumn) -> np.ndarray:
    """The embedding matrix whose averages are Arora et al.'s (2017, algorithm 1) sentence vectors.

    Both steps are linear in the words' vectors, so they can be applied to the matrix: each word's vector is weighted by
    a / (a + p(w)), and its projection on the first principal component (not centered) of the training sentences'
    averages is subtracted. Arora et al. compute that component on the sentences they evaluate; here it is fixed, and a
    sentence's vector depends on that sentence alone.

    Args:
        matrix: (tokens, size).
        texts: the training texts, for p(w).
        known: the same without unknown words; `SIF_SENTENCES` of them, evenly spaced, give the component.

    Returns:
        (tokens, size), with the type of `matrix`.
    """
    weighted = sif_weights([texts], len(matrix))[:, None] * matrix.astype(np.float64)
    rows = np.flatnonzero(np.diff(known.offsets))  # the texts with a known word
    if len(rows) > SIF_SENTENCES:
        rows = rows[np.arange(SIF_SENTENCES) * len(rows) // SIF_SENTENCES]
    ids, offsets = known.gather(rows)
    lengths = np.diff(offsets)
    shares = csr_array((np.repeat(1 / lengths, lengths), ids, offsets), shape=(len(rows), len(matrix)))
    averages = shares @ weighted  # (texts, size)
    component = np.linalg.eigh(averages.T @ averages).eigenvectors[:, -1]  # (size,)
    return (weighted - np.outer(weighted @ component, component)).astype(matrix.dtype)
