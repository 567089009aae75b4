"""The pairs, vocabularies and saved model that all contenders read, built once and reused."""

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, load_dataset
from transformers import PreTrainedTokenizerFast

from data_scripts.__main__ import main as data_scripts
from modeling_convsim import ConvSimTransformerConfig, ConvSimTransformerForMultitask
from modeling_convsim.encoding.torch_model import has_fast_bfloat16
from tests.benchmarks.synthetic_dumps import by_zipf, word
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.tokenizer import train_tokenizer
from trainer.publish.folder import build_folder

ROOT = Path(__file__).resolve().parents[2]
MAX_TOKENS = 64
REAL_DATA = Path(os.environ.get("CONVSIM_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True)
class Material:
    """The files that contenders read, and the sizes of the measurements."""

    folder: Path
    real: bool = True  # read the real data if there are any, and measure in separate processes
    synthetic_pairs: int = 550_000  # used without the Reddit pairs
    words: int = 200_000
    transformer_words: int = 50_000  # as trainer/presets/paper_transformer.yaml
    bigram_buckets: int = 2**18
    width: int = 300
    transformer_config: dict[str, Any] = field(default_factory=dict)  # the paper's sizes
    seconds: float = 15.0  # minimum time of a measurement of training or search, after a warm-up
    encode_seconds: float = 5.0  # minimum time of a measurement of encoding
    texts: int = 100_000
    slow_texts: int = 2_000  # for models that take milliseconds per text
    largest_batch: int = 2_048  # pairs in a training step; larger batches are reduced to it
    replies: int = 1_000_000  # to suggest from
    queries: int = 1_000
    comments: int = 2_000_000  # in synthetic dumps
    many_comments: int = 20_000_000
    adapt_pairs: int = 10_000  # the most that a model is adapted to
    adapt_queries: int = 2_000
    adapt_steps: int | None = None  # by default, they follow from the number of pairs

    @property
    def pairs(self) -> Path:
        return self.folder / "pairs"

    @property
    def tenth_of_pairs(self) -> Path:
        return self.folder / "tenth_of_pairs"

    @property
    def transformer(self) -> Path:
        return self.folder / "transformer"

    def tokenizer_folder(self, words: int) -> Path:
        return self.folder / f"tokenizer-{words}"

    def tokenizer(self, words: int) -> PreTrainedTokenizerFast:
        return PreTrainedTokenizerFast.from_pretrained(self.tokenizer_folder(words))

    def train_pairs(self, folder: Path | None = None) -> Dataset:
        files = str((folder or self.pairs) / "train*.parquet")
        return load_dataset("parquet", data_files=files, split="train")

    def token_columns(self, words: int, folder: Path | None = None) -> dict[str, TokenColumn]:
        """Return the token ids of the training pairs, from the cache that our trainer reads."""
        pairs, cache = self.train_pairs(folder), self.folder / "cache"
        return token_columns(pairs, ["input", "response"], self.tokenizer(words), cache, MAX_TOKENS, False)

    def sentences(self, count: int) -> list[str]:
        """Return distinct inputs of the training pairs, shuffled with seed 0."""
        distinct = sorted(set(self.train_pairs()["input"]))
        chosen = np.random.default_rng(0).permutation(len(distinct))[:count]
        return [distinct[index] for index in chosen]


FULL = Material(ROOT / "runs" / "benchmarks" / "full")


def smallest(folder: Path) -> Material:
    """Sizes that only show that everything runs."""
    return Material(
        folder, real=False, synthetic_pairs=2_500, words=2_000, transformer_words=1_000, bigram_buckets=1_024, width=16,
        transformer_config={"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64},
        seconds=0.01, encode_seconds=0.01, texts=100, slow_texts=10, largest_batch=16, replies=500, queries=20,
        comments=2_000, many_comments=4_000, adapt_pairs=120, adapt_queries=20, adapt_steps=2,
    )  # fmt: skip


def prepare(material: Material) -> dict[str, Any]:
    """Build the files that are missing; return what the results say of the machine, and what hardware it has."""
    material.folder.mkdir(parents=True, exist_ok=True)
    if not material.pairs.is_dir():
        files = sorted((REAL_DATA / "conversations" / "pairs").glob("reddit_*.tsv.xz")) if material.real else []
        if not files:
            files = [material.folder / "synthetic.tsv"]
            _write_synthetic_pairs(files[0], material.synthetic_pairs)
        # The command has printed its error.
        if data_scripts(["conversations", *map(str, files), "--output", str(material.pairs)]):
            raise SystemExit(2)
    pairs = material.train_pairs()
    if not material.tenth_of_pairs.is_dir():
        tenth = pairs.shuffle(seed=0).select(range(len(pairs) // 10))
        tenth.to_parquet(material.tenth_of_pairs / "train-00000-of-00001.parquet")
    texts: list[str] = []
    for words in (material.words, material.words // 10, material.transformer_words):
        if not material.tokenizer_folder(words).is_dir():
            texts = texts or [*pairs["input"], *pairs["response"]]
            _build_tokenizer(texts, words).save_pretrained(material.tokenizer_folder(words))
        material.token_columns(words)
    material.token_columns(material.words, material.tenth_of_pairs)
    if not material.transformer.is_dir():
        config = ConvSimTransformerConfig(vocab_size=material.transformer_words, **material.transformer_config)
        torch.manual_seed(0)
        tokenizer = material.tokenizer(material.transformer_words)
        build_folder(ConvSimTransformerForMultitask(config), tokenizer, material.transformer, results={}, settings={})
    threads = torch.get_num_threads()
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, torch {torch.__version__}, {threads} threads",
        "GPU": torch.cuda.is_available(),
        "bf16": has_fast_bfloat16(torch.device("cpu")),
    }


def _write_synthetic_pairs(file: Path, count: int) -> None:
    """Write pairs of synthetic words; frequencies follow Zipf's law, and lengths resemble those of Reddit comments."""
    generator = np.random.default_rng(0)
    with file.open("w", encoding="utf-8") as stream:
        stream.write("input\tresponse\tsource\n")
        for _ in range(count):
            texts = []
            for length in np.clip(generator.lognormal(2.6, 0.7, size=2), 2, 40).astype(int):
                texts.append(" ".join(map(word, by_zipf(300_000, generator, length).tolist())))
            stream.write("\t".join([*texts, "synthetic"]) + "\n")


def _build_tokenizer(texts: list[str], words: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer of the most frequent words; synthetic words fill the vocabulary if the texts have too few."""
    tokenizer = train_tokenizer(texts, "word", words, min_count=1)
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = backend["model"]["vocab"]
    for index in range(len(vocabulary), words):
        vocabulary[f"filler{index}"] = index
    return PreTrainedTokenizerFast(
        tokenizer_object=type(tokenizer.backend_tokenizer).from_str(json.dumps(backend)),
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_max_length=MAX_TOKENS,
        split_special_tokens=True,  # as `trainer.data.tokenizer` sets it
    )


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
