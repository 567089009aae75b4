"""Reply suggestion: the search of `modeling_convsim.suggestion` against exact search and an HNSW graph.

The vectors come from a DAN that the preset reddit_dan trains on the same pairs, because a model's reply vectors are
distributed differently from random vectors and from the query vectors.
"""

from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import torch
from sentence_transformers.util import dot_score, semantic_search
from usearch.index import Index

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion.search import build_faiss, exact_search, faiss_search
from tests.benchmarks.material import Material
from tests.benchmarks.measuring import Benchmark, Contender, Values, peak_megabytes, time_steps
from trainer.settings import PRESETS, parse_settings
from trainer.training.train import train

K = 10
BLOCK = 256  # queries per search, as in `ReplyIndex.suggest_many`
Search = Callable[[np.ndarray], np.ndarray]  # queries (n, dimensions) to rows (n, K)


def prepare(material: Material) -> Values:
    """Build the files once: vectors of replies and queries, what our search reads, and exact scores."""
    folder = _folder(material)
    if (folder / "scores.npy").is_file():
        return {}
    folder.mkdir(exist_ok=True)
    words = ["--pairs", str(material.pairs), "--output_dir", str(folder / "run"), "--trackers", "none"]
    if not material.real:
        words += ["--max_steps", "20", "--eval_every", "20", "--vocab_size", str(material.words), "--batch_size", "64"]
    train(parse_settings([str(PRESETS / "reddit_dan.yaml"), "--overwrite", "true", *words]))
    encoder = Encoder.from_pretrained(folder / "run" / "model", "cpu")
    texts = _texts(material, material.replies + material.queries)
    queries = encoder.encode(texts[material.replies :], side="query")
    vectors = encoder.encode(texts[: material.replies], side="response").astype(np.float16)
    np.save(folder / "queries.npy", queries)
    np.save(folder / "vectors.npy", vectors)
    faiss.write_index(build_faiss(vectors), str(folder / "replies.faiss"))
    np.save(folder / "scores.npy", _in_blocks(lambda block: exact_search(vectors, block, K)[0], queries))
    return {}


def _texts(material: Material, count: int) -> list[str]:
    """Return distinct comments, shuffled with seed 0; if too few, add texts joined from halves of two comments."""
    pairs = material.train_pairs()
    distinct = np.array(sorted({*pairs["input"], *pairs["response"]}), dtype=object)
    generator = np.random.default_rng(0)
    generator.shuffle(distinct)
    texts = dict.fromkeys(distinct.tolist())
    while len(texts) < count:
        first, second = (distinct[row].split() for row in generator.integers(len(distinct), size=2))
        texts[" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]])] = None
    chosen = np.array(list(texts)[:count], dtype=object)
    generator.shuffle(chosen)
    return chosen.tolist()


def build(material: Material) -> Values:
    """Build what our search reads from float16 vectors."""
    vectors = np.load(_folder(material) / "vectors.npy")
    return _time_build(lambda: build_faiss(vectors), len(vectors))


def build_graph(material: Material) -> Values:
    """Build usearch's graph, with twice its default connections and candidates, from the same vectors."""
    vectors = np.load(_folder(material) / "vectors.npy")

    def add_all() -> None:
        graph = Index(ndim=vectors.shape[1], metric="ip", dtype="i8", connectivity=32, expansion_add=256)
        scale = np.float32(127 / np.abs(vectors).max())  # usearch expects one for all dimensions
        for start in range(0, len(vectors), 4096):
            part = np.rint(vectors[start : start + 4096] * scale).astype(np.int8)
            graph.add(np.arange(start, start + len(part)), part)

    return _time_build(add_all, len(vectors))


def search(material: Material) -> Values:
    """Our search, with files that are mapped into memory, as `ReplyIndex.load` opens them."""
    folder = _folder(material)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    index = faiss.read_index(str(folder / "replies.faiss"))
    return _time_queries(material, lambda queries: faiss_search(index, vectors, queries, K)[1])


def sentence_transformers(material: Material) -> Values:
    """sentence_transformers.util.semantic_search in float32, with its default chunks."""
    vectors = torch.from_numpy(np.load(_folder(material) / "vectors.npy")).float()

    def search(queries: np.ndarray) -> np.ndarray:
        results = semantic_search(torch.from_numpy(queries), vectors, top_k=K, score_function=dot_score)
        return np.array([[hit["corpus_id"] for hit in hits] for hits in results])

    return _time_queries(material, search)


def _folder(material: Material) -> Path:
    return material.folder / "suggest"


def _in_blocks(search: Search, queries: np.ndarray) -> np.ndarray:
    return np.concatenate([search(queries[start : start + BLOCK]) for start in range(0, len(queries), BLOCK)])


def _time_build(build: Callable[[], object], count: int) -> Values:
    steps, elapsed = time_steps(lambda _: build(), 0, 0)
    return {"replies/s": steps * count / elapsed}


def _time_queries(material: Material, search: Search) -> Values:
    """Queries per second in blocks, milliseconds per single query, peak memory, and recall."""
    folder = _folder(material)
    queries = np.load(folder / "queries.npy")
    results = _in_blocks(search, queries)
    passes, elapsed = time_steps(lambda _: _in_blocks(search, queries), 0, material.seconds)
    singles, waited = time_steps(lambda step: search(queries[step % len(queries)][None]), 3, material.seconds)
    megabytes = peak_megabytes()
    # Recall compares scores, because replies with equal scores are equally good.
    vectors, tenth = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "scores.npy")[:, -1:]
    scores = np.stack([vectors[rows].astype(np.float32) @ query for rows, query in zip(results, queries, strict=True)])
    return {
        "queries/s": passes * len(queries) / elapsed, "ms/query": 1e3 * waited / singles, "MB": megabytes,
        f"recall@{K}": float((scores >= tenth - 1e-5 * np.abs(tenth)).mean()),
    }  # fmt: skip


PREPARE = Contender("replies", prepare)
OURS = Contender("ours", search)
PEER = Contender("sentence_transformers.util.semantic_search, exact, float32", sentence_transformers)
WHAT = "1,000,000 comments as replies, 500 dimensions, from a DAN trained on them"
BENCHMARKS = {
    "suggest_build": Benchmark(
        f"{WHAT}: building what is searched from float16 vectors", "replies/s", 1, Contender("ours", build),
        Contender("usearch's HNSW graph, int8, connectivity 32, 256 candidates", build_graph), prepare=PREPARE,
    ),
    "suggest_queries": Benchmark(
        f"{WHAT}: top 10 of 256 queries at a time", "queries/s", 10, OURS, PEER, prepare=PREPARE
    ),
    "suggest_latency": Benchmark(
        f"{WHAT}: top 10 of one query", "ms/query", 0.5, OURS, PEER, "lower", prepare=PREPARE
    ),
    "suggest_recall": Benchmark(f"{WHAT}: recall of the top 10", "recall@10", 0.95, OURS, PEER, prepare=PREPARE),
    "suggest_memory": Benchmark(
        f"{WHAT}: peak resident memory of suggest_queries, pages of mapped files included", "MB", 1, OURS, PEER,
        "lower", prepare=PREPARE,
    ),
}  # fmt: skip
