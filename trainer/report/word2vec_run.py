"""Trains a baseline of word vectors and saves it in the form of a run."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from datasets import Dataset
from gensim.models import Word2Vec
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from data_scripts.write.folders import new_folder
from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask
from modeling_convsim.encoding import Encoder
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.encoders.pv_dbow import PvDbowEncoder
from trainer.evaluation.results import write_results
from trainer.evaluation.run_files import read_run_results, read_settings
from trainer.report.word2vec import embedding_matrix, sif_matrix, train_gensim
from trainer.report.word2vec_texts import drop_token, load_tokenizer, read_texts, train_word_tokenizer

MAX_VOCABULARY = 500_000  # of a tokenizer that is trained here
MAX_WORDS = 10_000  # of a text, gensim's limit
# Settings that --from takes from the earlier run.
TRAINING_SETTINGS = ("tokenizer", "min_count", "size", "epochs", "seed")


@dataclass(frozen=True)
class BaselineOptions:
    """The options of `python -m trainer.embeddings`, where they are described."""

    method: str
    sources: list[str]
    output: Path
    against: list[str]
    sentences: int | None
    tokenizer: str | None
    min_count: int
    size: int
    epochs: int
    sif: bool
    trained: Path | None
    seed: int
    cache_dir: Path

    def check(self) -> None:
        """Check the options that depend on one another.

        Raises:
            InputError: they do not fit, the output exists, or a folder cannot be written.
        """
        if self.output.exists() and not (self.output.is_dir() and not any(self.output.iterdir())):
            raise InputError(f"--output {self.output} already exists; name another folder, or delete this one")
        if self.method == "pv_dbow" and (self.sif or self.trained):
            raise InputError("--sif, --from: pv_dbow is not an average of word vectors; expected another METHOD")
        if self.trained and not self.sif:
            raise InputError("--from: needs --sif, which it applies to the vectors of an earlier run")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed {self.seed}: expected a number from 0 to 2**32 - 1")
        for option, folder in (("--output", self.output.parent), ("--cache_dir", self.cache_dir)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):  # finds out, before the training, whether it can be written
                    pass
            except OSError as error:
                raise InputError(f"{option}: the folder {folder} cannot be written ({error})") from error

    def settings(self) -> dict[str, Any]:
        """The options that determine the model, by their names in config.yaml."""
        settings = {key: value for key, value in asdict(self).items() if key not in ("output", "cache_dir", "trained")}
        return settings | {"from": str(self.trained) if self.trained else None}


class _Vectors(NamedTuple):
    """Word vectors (tokens, size), the seconds of their training, and the gensim model if it was trained here."""

    matrix: np.ndarray
    seconds: float
    model: Word2Vec | None = None


def train_baseline(options: BaselineOptions) -> dict[str, Any]:
    """Train a baseline and save it as a run; returns the contents of results.json.

    Raises:
        InputError: a source, evaluation dataset or folder cannot be read, or options do not fit.
    """
    started = time.monotonic()
    options.check()
    earlier = None
    if options.trained:
        options, earlier = _load_earlier(options, options.trained)
    texts, leakage = read_texts(options.sources, options.against, options.sentences)
    tokenizer = _prepare_tokenizer(options, texts)
    max_length = min(tokenizer.model_max_length, MAX_WORDS)
    column = token_columns(texts, ["text"], tokenizer, options.cache_dir, max_length)["text"]
    known = drop_token(column, tokenizer.unk_token_id)
    vectors = earlier or _train_vectors(options, known, tokenizer)
    run = {key: getattr(options, key) for key in ("method", "sif", "size", "epochs", "seed")}
    run |= {"seconds": vectors.seconds, "total_seconds": None, "sentences": len(column), "tokens": len(column.ids)}
    run["vocabulary"] = int(vectors.matrix.any(axis=1).sum())
    results = {"run": run, "leakage": leakage}
    with _new_run(options) as folder:
        if options.method == "pv_dbow":
            PvDbowEncoder(vectors.model, tokenizer).save_pretrained(folder / "model")
        else:
            matrix = sif_matrix(vectors.matrix, column, known) if options.sif else vectors.matrix
            save_averages(matrix, tokenizer, folder / "model")
        run["total_seconds"] = round(time.monotonic() - started, 1)
        write_results(folder / "results.json", results)
    return results


def _load_earlier(options: BaselineOptions, run: Path) -> tuple[BaselineOptions, _Vectors]:
    """The options with the training settings of the earlier run in --from, and its word vectors."""
    try:
        settings = read_settings(run / "config.yaml")
        fits = settings["method"] == options.method and settings["sif"] is False
    except (InputError, KeyError) as error:
        raise InputError(f"--from {run}: expected a folder that this command wrote ({error})") from error
    if not fits:
        raise InputError(f"--from {run}: expected a folder of {options.method} without --sif")
    try:
        encoder = Encoder.from_pretrained(run / "model", device="cpu")
        matrix = encoder.model.get_parameter("encoder.embed_tokens.weight").detach().numpy()
        seconds = read_run_results(run / "results.json")["run"]["seconds"]
        return replace(options, **{key: settings[key] for key in TRAINING_SETTINGS}), _Vectors(matrix, seconds)
    except (InputError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = " ".join(str(error).split())
        raise InputError(f"--from {run}: expected a folder that this command wrote ({message})") from error


def _prepare_tokenizer(options: BaselineOptions, texts: Dataset) -> PreTrainedTokenizerFast:
    if options.trained:
        return load_tokenizer(options.trained / "model")
    if options.tokenizer:
        return load_tokenizer(options.tokenizer)
    return train_word_tokenizer(texts, MAX_VOCABULARY, options.min_count)


def _train_vectors(options: BaselineOptions, texts: TokenColumn, tokenizer: PreTrainedTokenizerFast) -> _Vectors:
    started = time.monotonic()
    model = train_gensim(
        options.method, texts, tokenizer, size=options.size, min_count=options.min_count, epochs=options.epochs,
        seed=options.seed,
    )  # fmt: skip
    seconds = round(time.monotonic() - started, 1)
    return _Vectors(embedding_matrix(model, tokenizer), seconds, model)


@contextmanager
def _new_run(options: BaselineOptions) -> Iterator[Path]:
    """A temporary folder with config.yaml and an empty model/, which becomes the output when all is written."""
    with new_folder(options.output, overwrite=False, kind="baseline") as (folder, _):
        (folder / "model").mkdir()
        settings = yaml.safe_dump(options.settings(), sort_keys=False, allow_unicode=True)
        (folder / "config.yaml").write_text(settings, encoding="utf-8")
        yield folder


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
