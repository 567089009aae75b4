"""Encoders that average word vectors, in NumPy: deep averaging networks and Siamese CBOW in use, without PyTorch.

`AveragingModel` computes what `ConvSimDanForMultitask` and `ConvSimCbowForMultitask` compute in evaluation mode, to
rounding. These train it, and share its functions.
"""

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors import deserialize

LABELS = {"convsim_dan": "DAN", "convsim_cbow": "averages"}  # of the model types that this module computes, for tables
LONG = 64  # ids
CHUNK = 256  # texts whose rows are summed together: they stay in the processor's cache
PREFIX = "encoder."  # of the encoder's weights in a model with heads
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
# Options that are off in the config.json of a model that was saved before there were such options.
OPTIONAL = "dynamic_tanh input_network learned_token_weights lexical_share lexical_size".split()
OPTIONAL += "normalize_response residual response_residual single_sum".split()


def hash_bigrams(first: Any, second: Any, buckets: int) -> Any:
    """Hashes bigrams of int64 token ids, arrays or tensors, to bucket ids in [0, buckets); the order matters."""
    return (first * 1_000_003 + second) % 2_147_483_647 % buckets


@functools.lru_cache(maxsize=2)
def token_codes(vocab_size: int, size: int) -> np.ndarray:
    """The code of every token, (vocab_size, size), float32: signs / sqrt(size), which are the same on every machine.

    Two codes are nearly orthogonal: their dot product has mean 0 and standard deviation 1 / sqrt(size). The signs are
    the bits of 32-bit hashes of token and position (the finalizer of MurmurHash3, by Austin Appleby).
    """
    words = -(-size // 32)
    hashes: np.ndarray = np.arange(vocab_size * words, dtype=np.uint32)
    for multiplier, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13), (1, 16)):
        hashes = (hashes ^ (hashes >> shift)) * np.uint32(multiplier)
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, 8)
    signs = np.where(bits, np.float32(size**-0.5), -np.float32(size**-0.5))  # of each byte
    codes = np.take(signs, hashes.astype("<u4").view(np.uint8), axis=0)  # (4 * words * vocab_size, 8)
    return codes.reshape(vocab_size, 32 * words)[:, :size]


def normalize(vectors: np.ndarray) -> np.ndarray:
    """L2-normalizes vectors (batch, dimensions); a zero vector stays zero."""
    norms = np.sqrt(np.einsum("...i,...i->...", vectors, vectors))[..., None]
    return vectors / np.where(norms > 0, norms, 1)


def sum_rows(table: np.ndarray, ids: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Sums the rows of each bag of ids: (bags, dimensions), float32.

    The first rows of many bags are added at once, then their second rows, and so on; a bag of more than `LONG` ids is
    summed in parts, which is faster and rounds less.

    Args:
        table: (rows, dimensions).
        ids: (ids,), those of all bags, one bag after the other.
        offsets: (bags + 1,): where each bag starts, and where the last one ends.
        weights: (ids,); None for ones.
    """
    counts = np.maximum(-(-np.diff(offsets) // LONG), 1)  # of parts of each bag
    if counts.max(initial=1) > 1:
        ends = np.concatenate([[0], counts.cumsum()])
        starts = np.repeat(offsets[:-1], counts) + LONG * (np.arange(ends[-1]) - np.repeat(ends[:-1], counts))
        parts = sum_rows(table, ids, np.append(starts, offsets[-1]), weights)
        return sum_rows(parts, np.arange(len(parts)), ends)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    sums, rows = np.zeros((len(order), table.shape[1]), np.float32), np.empty((CHUNK, table.shape[1]), np.float32)
    for first in range(0, len(order), CHUNK):
        bags = order[first : first + CHUNK]  # from the longest to the shortest
        at, part = offsets[bags], np.zeros((len(bags), table.shape[1]), np.float32)
        for count in np.searchsorted(-lengths[bags], -np.arange(lengths[bags[0]])).tolist():  # that are long enough
            found = table.take(ids[at[:count]], axis=0, out=rows[:count], mode="clip")
            part[:count] += found if weights is None else found * weights[at[:count], None]
            at += 1
        sums[bags] = part
    return sums


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """The weights of a saved model, by their names, as float32 or float16; they may be in several files.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is damaged, or a weight is not a floating-point number.
    """
    index = folder / "model.safetensors.index.json"
    names = {"model.safetensors"}
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    weights = {}
    for name in sorted(names):
        try:
            entries = deserialize((folder / name).read_bytes())
        except Exception as error:  # safetensors has an exception of its own, which is none of Python's
            raise ValueError(f"{name} is damaged ({error})") from error
        for key, entry in entries:
            if entry["dtype"] not in DTYPES:
                raise ValueError(f"{name}: {key} is of type {entry['dtype']}, expected {', '.join(DTYPES)}")
            values = np.frombuffer(entry["data"], DTYPES[entry["dtype"]])
            if entry["dtype"] == "BF16":  # the upper half of a float32
                values = (values.astype("<u4") << 16).view("<f4")
            precision = np.float16 if entry["dtype"] == "F16" else np.float32
            weights[key] = values.astype(precision, copy=False).reshape(entry["shape"])
    return weights


def hash_weights(weights: Mapping[str, np.ndarray], lexical_share: float = 0.0) -> str:
    """SHA-256 of weights, rounded to bfloat16 so that it does not depend on the precision that they are saved in.

    Args:
        weights: The weights, float32 or float16.
        lexical_share: The share of a lexical channel in a score, which is in the config; it changes vectors, too.
    """
    digest = hashlib.sha256()
    if lexical_share:
        digest.update(f"lexical_share {lexical_share:g}".encode())
    for name, values in sorted(weights.items()):
        digest.update(f"{name} {tuple(values.shape)}".encode())
        flat = np.ascontiguousarray(values).ravel()
        for start in range(0, len(flat), 2**20):  # a part at a time takes little memory
            part = flat[start : start + 2**20].astype("<f4", copy=False).view("<u4")
            digest.update(((part + 0x7FFF + ((part >> 16) & 1)) >> 16).astype("<u2").data)  # to nearest, ties to even
    return digest.hexdigest()


class AveragingModel:
    """A deep averaging network or Siamese CBOW, with its heads if it has them: token ids to vectors.

    Attributes:
        config: Its options, as attributes: a `ConvSimDanConfig`, a `ConvSimCbowConfig`, or what config.json holds.
        weights: Its weights by their names in model.safetensors, float32 or float16, as they are saved.
    """

    batch_size, sorted_batches = 1024, 1  # texts; one batch at a time keeps ids and sums in the processor's cache

    def __init__(self, config: Any, weights: Mapping[str, np.ndarray]) -> None:
        """Takes the options and weights of a model; see the attributes.

        Raises:
            ValueError: A weight is missing, or has a wrong shape.
        """
        self.config, self.weights = config, dict(weights)
        self.has_heads = "response_head.layers.0.weight" in weights
        self._prefix = PREFIX if any(name.startswith(PREFIX) for name in weights) else ""
        self._is_cbow = config.model_type == "convsim_cbow"
        size = config.embedding_size if self._is_cbow else config.word_embedding_size
        self._table = self._saved(f"{self._prefix}embed_tokens.weight", config.vocab_size, size)
        self._bigrams, self._layers = None, list[tuple[np.ndarray, np.ndarray]]()
        if self._is_cbow:
            self._table = np.array(self._table, np.float32)
            self._table[config.unk_token_id] = 0  # unknown words are ignored
            return
        if config.learned_token_weights:
            scale = self.encoder_weight("token_weights", config.vocab_size, 1)
            self._table = np.multiply(self._table, scale, dtype=np.float32)
        self._table = self._table.astype(np.float32, copy=False)
        if config.bigram_buckets:
            self._bigrams = self.encoder_weight("embed_bigrams", config.bigram_buckets, size)
        if config.hidden_sizes or not config.residual:
            self._layers = self._dense(f"{self._prefix}layers", [size, *config.hidden_sizes, config.embedding_size])
            if config.activation not in ("tanh", "relu"):
                raise ValueError(f"activation is {config.activation!r}, expected 'tanh' or 'relu'")

    @classmethod
    def from_folder(cls, folder: Path) -> "AveragingModel":
        """Opens a saved model.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file is damaged, or the weights do not fit the config.
        """
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = SimpleNamespace(**{**dict.fromkeys(OPTIONAL, 0), "context_weights": [], **values})
        weights = read_weights(folder)
        if damaged := [name for name, each in weights.items() if not np.isfinite(each).all()]:
            raise ValueError(f"its weights {', '.join(damaged)} are not finite: damaged, or training diverged")
        if not any(name.endswith("ForMultitask") for name in values.get("architectures") or ()):  # the encoder alone
            inside = {name.removeprefix(PREFIX): each for name, each in weights.items() if name.startswith(PREFIX)}
            weights = inside or weights
        try:
            return cls(config, weights)
        except AttributeError as error:
            raise ValueError(f"its config.json lacks {error.name}") from error

    def encoder_weight(self, name: str, *shape: int) -> np.ndarray:
        """A table of the encoder, float32; ValueError unless it is there, and of a shape, if one is given."""
        return self._weight(f"{self._prefix}{name}.weight", *shape)

    def _weight(self, name: str, *shape: int) -> np.ndarray:
        return self._saved(name, *shape).astype(np.float32, copy=False)

    def _saved(self, name: str, *shape: int) -> np.ndarray:
        if name not in self.weights:
            raise ValueError(f"its weights lack {name}")
        if shape and self.weights[name].shape != shape:
            raise ValueError(f"its weights {name} have the shape {self.weights[name].shape}, expected {shape}")
        return self.weights[name]

    def _dense(self, prefix: str, sizes: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The weights, (in, out), and biases, (out,), of dense layers."""
        return [
            (self._weight(f"{prefix}.{n}.weight", after, before).T, self._weight(f"{prefix}.{n}.bias", after))
            for n, (before, after) in enumerate(pairwise(sizes))
        ]

    @property
    def description(self) -> str:
        """The kind of model and its number of parameters, for people."""
        sizes = {name: each.size for name, each in self.weights.items() if not name.startswith("lexical_channel.")}
        return f"{LABELS[self.config.model_type]}, {sum(sizes.values()):,} parameters"

    def digest(self) -> str:
        """See `hash_weights`."""
        return hash_weights(self.weights, self.config.lexical_share)

    def prompt(self, side: str) -> str:
        """What is prepended to texts: nothing."""
        return ""

    @property
    def threads(self) -> int:
        """How many threads encode, each of its own texts."""
        return allowed_threads()

    @np.errstate(over="ignore", invalid="ignore")  # whoever reads the vectors sees that they are not finite
    def vectors(self, token_ids: Sequence[Sequence[int]], side: str = "input") -> np.ndarray:
        """Maps the token ids of texts to vectors, float32.

        Args:
            token_ids: (texts,), of any lengths; of an empty text, it is the network's output for zeros, or zeros.
            side: "input" for L2-normalized sentence embeddings (texts, embedding_size); "response" and "query" for the
                vectors whose dot products are the scores, which a model without heads does not have.
        """
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        offsets = np.concatenate([[0], lengths.cumsum()])
        ids = np.fromiter(chain.from_iterable(token_ids), np.int64, offsets[-1])
        vectors = self._embed(ids, offsets)
        if side == "input":
            return vectors
        if side == "response" or self.config.input_network:
            vectors = self._apply_head("response_head" if side == "response" else "input_head", vectors)
        return self._append_lexical(vectors, ids, offsets)

    def nli_logits(self, premises: np.ndarray, hypotheses: np.ndarray) -> np.ndarray:
        """Maps sentence embeddings, (pairs, embedding_size) both, to the NLI classifier's logits (pairs, classes)."""
        features = [premises, hypotheses, np.abs(premises - hypotheses), premises * hypotheses]
        hidden = np.concatenate(features, axis=1) @ self._weight("nli_head.hidden.weight").T
        hidden = np.maximum(hidden + self._weight("nli_head.hidden.bias"), 0)
        return hidden @ self._weight("nli_head.output.weight").T + self._weight("nli_head.output.bias")

    def _embed(self, ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Sentence embeddings (texts, embedding_size) of packed ids."""
        config, lengths = self.config, np.diff(offsets)
        sums = sum_rows(self._table, ids, offsets)
        if self._is_cbow:
            return normalize(sums)  # a mean has the direction of its sum
        if self._bigrams is None:
            sums = _divide_by_sqrt(sums, lengths)
        else:
            is_second = np.ones(len(ids) + 1, bool)  # of a bigram; the extra one is for empty texts at the end
            is_second[offsets] = False
            pairs = hash_bigrams(ids[:-1], ids[1:], config.bigram_buckets)[is_second[1:-1]]
            counts = np.maximum(lengths - 1, 0)
            bigrams = sum_rows(self._bigrams, pairs, np.concatenate([[0], counts.cumsum()]))
            if config.single_sum:
                sums = _divide_by_sqrt(sums + bigrams, lengths)
            else:
                sums = _divide_by_sqrt(sums, lengths) + _divide_by_sqrt(bigrams, counts)
        if config.dynamic_tanh:
            scale, gain, bias = (
                self._weight(f"{self._prefix}dynamic_tanh.{each}") for each in ("scale", "gain", "bias")
            )
            # tanh(x) = 1 - 2 / (exp(2 x) + 1), which NumPy computes faster; in place, for the processor's cache.
            np.exp(np.multiply(sums, 2 * scale, out=sums), out=sums)
            np.divide(-2, np.add(sums, 1, out=sums), out=sums)
            sums += 1
            return normalize(np.add(np.multiply(sums, gain, out=sums), bias, out=sums))
        if not self._layers:
            return normalize(sums)
        activation = np.tanh if config.activation == "tanh" else _relu
        output = _feed_forward(self._layers, sums, activation)
        return normalize(sums + output if config.residual else activation(output))

    def _apply_head(self, name: str, vectors: np.ndarray) -> np.ndarray:
        config = self.config
        layers = self._dense(
            f"{name}.layers", [config.embedding_size, *config.response_hidden_sizes, config.embedding_size]
        )
        output = _feed_forward(layers, vectors, _relu if config.response_residual else np.tanh)
        output = vectors + output if config.response_residual else output
        return normalize(output) if config.normalize_response else output

    def _append_lexical(self, vectors: np.ndarray, ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Appends the vectors of the lexical channel, if it has a share: see `modeling_lexical.LexicalChannel`."""
        if not (share := self.config.lexical_share):
            return vectors
        vocab_size, texts = self.config.vocab_size, np.arange(len(offsets) - 1)
        keys = np.unique(np.repeat(texts, np.diff(offsets)) * vocab_size + ids)  # sorted by text, then by token
        distinct, starts = keys % vocab_size, np.searchsorted(keys, np.arange(len(offsets)) * vocab_size)
        codes, weights = token_codes(vocab_size, self.config.lexical_size), self._weight("lexical_channel.weights")
        lexical = normalize(sum_rows(codes, distinct, starts, weights[distinct]))
        return np.hstack([(1 - share) ** 0.5 * vectors, share**0.5 * lexical])


def allowed_threads() -> int:
    """OMP_NUM_THREADS if that is set, else the number of cores of this process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return (int(given) if given.isdecimal() else 0) or cores  # it may be a list


def _divide_by_sqrt(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Divides sums (texts, dimensions), in place, by the square root of counts (texts,), at least 1."""
    return np.divide(sums, np.sqrt(np.maximum(counts, 1)).astype(np.float32)[:, None], out=sums)


def _relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0)


def _feed_forward(
    layers: Sequence[tuple[np.ndarray, np.ndarray]], values: np.ndarray, activation: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Applies dense layers, with an activation after each but the last: (texts, size)."""
    *hidden_layers, (weight, bias) = layers
    for each, hidden_bias in hidden_layers:
        values = activation(values @ each + hidden_bias)
    return values @ weight + bias
