"""Verifies a model folder: every way to load it must give the same vectors."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer, PreTrainedTokenizerBase

from data_scripts.files.errors import InputError
from data_scripts.files.folders import check_files
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.evaluation.sts_tuning import ROUTE, read_matrix

# A short text, a long one, one with unknown words, and an empty one.
CHECK_TEXTS = (
    "How are you?",
    "Is there a train to the city tomorrow morning, or do I have to take the bus again?",
    "Qwxzv, 42!",
    "",
)
TOLERANCE = 1e-6  # for L2-normalized vectors


class Vectors(NamedTuple):
    """Vectors of the same texts on every side, float32 (texts, embedding_size); see `Encoder.encode`."""

    inputs: np.ndarray
    queries: np.ndarray
    responses: np.ndarray


class Comparison(NamedTuple):
    """Vectors that a reader of the folder gives, and those that it should give, up to a share of a vector's norm."""

    reader: str
    vectors: np.ndarray
    expected: np.ndarray
    tolerance: float = TOLERANCE


def embed_all_sides(
    model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str] = CHECK_TEXTS
) -> Vectors:
    """The vectors of some texts on every side, in one padded batch."""
    batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        tokens = {name: batch[name] for name in ("input_ids", "attention_mask")}
        inputs = model.encoder(**tokens).pooler_output
        queries, responses = model.query_vectors(inputs, **tokens), model.response_vectors(inputs, **tokens)
        return Vectors(inputs.numpy(), queries.numpy(), responses.numpy())


def verify_folder(
    folder: Path,
    texts: Sequence[str] = CHECK_TEXTS,
    expected: Vectors | None = None,
    sts_matrix: np.ndarray | None = None,
) -> None:
    """Load a model folder in each way that its card shows, and compare the vectors of some texts.

    Args:
        folder: a model folder.
        texts: the texts to encode.
        expected: the vectors of the model in memory; by default those of the folder's multitask model.
        sts_matrix: the tuned matrix in memory; by default that of the folder, if it has one.

    Raises:
        InputError: a file is damaged, the folder does not load, or a vector differs by more than 1e-6 of its norm (a
            tuned one by as much more as the matrix amplifies differences).
    """
    check_files(folder)
    for reader, vectors, correct, tolerance in _read_in_every_way(folder, texts, expected, sts_matrix):
        difference = float(np.abs(vectors - correct).max()) if vectors.shape == correct.shape else float("inf")
        # The comparison is negated so that NaN is refused too.
        if not difference <= tolerance * max(1.0, float(np.linalg.norm(correct, axis=1).max())):
            raise InputError(
                f"{folder} was not published: the vectors of {reader} differ from those of the trained model by up to "
                f"{difference:.3g}; expected at most {tolerance:.3g} of a vector's norm"
            )


def _read_in_every_way(
    folder: Path, texts: Sequence[str], expected: Vectors | None, sts_matrix: np.ndarray | None
) -> Iterator[Comparison]:
    sts_matrix = read_matrix(folder) if sts_matrix is None else sts_matrix
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        multitask = AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=False).eval()
        encoder = AutoModel.from_pretrained(folder, trust_remote_code=False).eval()
        # The code of the lexical channel's module is the folder's, whose checksum was verified.
        trust = multitask.config.lexical_share > 0
        sentence_transformer = SentenceTransformer(str(folder), device="cpu", trust_remote_code=trust)
        own = Encoder.from_pretrained(folder, device="cpu")
    except Exception as error:
        raise InputError(f"{folder} cannot be published because it does not load: {error}") from error
    loaded = embed_all_sides(multitask, tokenizer, texts)
    expected = expected or loaded
    for side in Vectors._fields:
        yield Comparison(f"AutoModelForPreTraining, {side}", getattr(loaded, side), getattr(expected, side))

    batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        pooled = encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).pooler_output
    yield Comparison("AutoModel", pooled.numpy(), expected.inputs)

    for method, correct in (
        ("encode", expected.inputs),
        ("encode_query", expected.queries),
        ("encode_document", expected.responses),
    ):
        vectors = getattr(sentence_transformer, method)(list(texts), show_progress_bar=False)
        yield Comparison(f"SentenceTransformer.{method}", vectors, correct)

    if sts_matrix is not None:
        tuned = sentence_transformer.encode(list(texts), task=ROUTE, show_progress_bar=False)
        products = expected.inputs @ sts_matrix.T
        tolerance = TOLERANCE * _amplification(sts_matrix, expected.inputs, products)
        yield Comparison(f"SentenceTransformer.encode, task={ROUTE}", tuned, _normalize(products), tolerance)

    yield Comparison("Encoder, inputs", own.encode(texts), expected.inputs)
    yield Comparison("Encoder, queries", own.encode(texts, side="query"), expected.queries)
    yield Comparison("Encoder, responses", own.encode(texts, side="response"), expected.responses)


def _amplification(matrix: np.ndarray, vectors: np.ndarray, products: np.ndarray) -> float:
    """The largest factor by which a matrix can enlarge the relative error of a vector: |W| |u| / |W u|."""
    norms, norms_of_products = (np.linalg.norm(each, axis=1) for each in (vectors, products))
    is_set = norms_of_products > 0
    ratios = np.linalg.norm(matrix, 2) * norms[is_set] / norms_of_products[is_set]
    return float(ratios.max(initial=1.0))


def _normalize(vectors: np.ndarray) -> np.ndarray:
    """The vectors (texts, dimensions) divided by their L2 norms; a zero vector stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), TOLERANCE)
