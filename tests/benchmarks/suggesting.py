"""Reply suggestion: the search of `modeling_convsim.suggestion` against exact search and an HNSW graph.

The vectors come from a DAN that the preset reddit_dan trains on the same pairs, because a model's reply vectors are
distributed differently from random vectors and from the query vectors.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers.util import dot_score, semantic_search
from usearch.index import Index

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion.search import Int8Vectors, Quantized, exact_search, quantize
from tests.benchmarks.material import ROOT, Material
from tests.benchmarks.measuring import peak_megabytes, time_steps
from trainer import run

K = 10
# Twice usearch's default connections and candidates.
GRAPH = {"metric": "ip", "dtype": "i8", "connectivity": 32, "expansion_add": 256, "expansion_search": 256}
GRAPH_FILE = "graph.usearch"  # the last file that `prepare` writes
BLOCK = 256  # queries per search, as in `ReplyIndex.suggest_many`
Search = Callable[[np.ndarray], np.ndarray]  # queries (n, size) to rows (n, K)


def prepare(material: Material) -> dict[str, float]:
    """Build the files once: vectors of replies and queries, their exact scores, and the graph."""
    folder = _folder(material)
    if (folder / GRAPH_FILE).is_file():
        return {}
    folder.mkdir(exist_ok=True)
    encoder = Encoder.from_pretrained(_train(material, folder / "run"), "cpu")
    texts = _texts(material, material.replies + material.queries)
    np.save(folder / "queries.npy", encoder.encode(texts[material.replies :], side="query"))
    np.save(folder / "vectors.npy", encoder.encode(texts[: material.replies], side="response").astype(np.float16))
    vectors, queries = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    np.save(folder / "scores.npy", _in_blocks(lambda block: exact_search(vectors, block, K)[0], queries))
    for name, array in quantize(vectors)._asdict().items():
        np.save(folder / f"{name}.npy", array)
    _build_graph(vectors).save(str(folder / GRAPH_FILE))
    return {}


def build(material: Material) -> dict[str, float]:
    """Measure building the vectors of our search from float16 vectors."""
    vectors = np.load(_folder(material) / "vectors.npy")
    return _time_build(lambda: Int8Vectors(quantize(vectors)), len(vectors))


def build_graph(material: Material) -> dict[str, float]:
    """Measure building usearch's graph from the same vectors."""
    vectors = np.load(_folder(material) / "vectors.npy")
    return _time_build(lambda: _build_graph(vectors), len(vectors))


def ours(material: Material) -> dict[str, float]:
    """Measure our search, with files opened as `ReplyIndex.load` opens them."""
    folder = _folder(material)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    quantized = Quantized(np.load(folder / "components.npy", mmap_mode="r"), np.load(folder / "projection.npy"))
    index = Int8Vectors(quantized)
    return _time_queries(material, lambda queries: index.search(vectors, queries, K)[1])


def graph(material: Material) -> dict[str, float]:
    """Measure usearch's graph, with a memory-mapped file."""
    opened = Index.restore(str(_folder(material) / GRAPH_FILE), view=True)
    opened.expansion_search = GRAPH["expansion_search"]  # not saved with the graph

    def search(queries: np.ndarray) -> np.ndarray:
        # usearch handles a single query differently, so it is repeated.
        batch = np.repeat(queries, 2, axis=0) if len(queries) == 1 else queries
        return opened.search(_to_int8(batch), K).keys[: len(queries)].astype(np.int64)

    return _time_queries(material, search)


def ours_exact(material: Material) -> dict[str, float]:
    """Measure our exact search: float16 vectors, converted to float32 in blocks."""
    vectors = np.load(_folder(material) / "vectors.npy", mmap_mode="r")
    return _time_queries(material, lambda queries: exact_search(vectors, queries, K)[1])


def sentence_transformers(material: Material) -> dict[str, float]:
    """Measure sentence_transformers.util.semantic_search in float32, with its default chunks."""
    vectors = torch.from_numpy(np.load(_folder(material) / "vectors.npy")).float()

    def search(queries: np.ndarray) -> np.ndarray:
        results = semantic_search(torch.from_numpy(queries), vectors, top_k=K, score_function=dot_score)
        return np.array([[hit["corpus_id"] for hit in hits] for hits in results])

    return _time_queries(material, search)


def _train(material: Material, output: Path) -> Path:
    """Train a model; return its folder."""
    options = {"pairs": material.pairs, "output_dir": output, "overwrite": "true", "trackers": "none"}
    if not material.real:
        options |= {"max_steps": 20, "eval_every": 20, "vocab_size": material.words}
        options |= {"batch_size": material.largest_batch}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    sys.argv = ["trainer/run.py", str(ROOT / "trainer/presets/reddit_dan.yaml"), *words]
    run.main()
    return output / "model"


def _folder(material: Material) -> Path:
    return material.folder / "suggest"


def _build_graph(vectors: np.ndarray) -> Index:
    graph, quantized = Index(ndim=vectors.shape[1], **GRAPH), _to_int8(vectors)
    for start in range(0, len(quantized), 4096):
        part = quantized[start : start + 4096]
        graph.add(np.arange(start, start + len(part)), part)
    return graph


def _to_int8(vectors: np.ndarray) -> np.ndarray:
    """Quantize all dimensions with one scale, as usearch expects them."""
    largest = float(np.abs(vectors).max())
    return np.rint(vectors * np.float32(127 / largest)).astype(np.int8)


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


def _in_blocks(search: Search, queries: np.ndarray) -> np.ndarray:
    return np.concatenate([search(queries[start : start + BLOCK]) for start in range(0, len(queries), BLOCK)])


def _time_build(build: Callable[[], object], count: int) -> dict[str, float]:
    steps, elapsed = time_steps(lambda _: build(), 0, 0.001)
    return {"replies/s": steps * count / elapsed, "MB": peak_megabytes()}


def _time_queries(material: Material, search: Search) -> dict[str, float]:
    """Return queries per second in blocks, milliseconds per single query, peak memory, and recall."""
    folder = _folder(material)
    queries = np.load(folder / "queries.npy")
    results = _in_blocks(search, queries)
    passes, elapsed = time_steps(lambda _: _in_blocks(search, queries), 0, material.seconds)
    singles, waited = time_steps(lambda step: search(queries[step % len(queries)][None]), 3, material.seconds)
    values = {
        "queries/s": passes * len(queries) / elapsed, "ms/query": 1e3 * waited / singles, "MB": peak_megabytes(),
    }  # fmt: skip
    # Recall compares scores, because replies with equal scores are equally good.
    vectors, tenth = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "scores.npy")[:, -1:]
    scores = np.stack([vectors[rows].astype(np.float32) @ query for rows, query in zip(results, queries, strict=True)])
    return values | {f"recall@{K}": float((scores >= tenth - 1e-5 * np.abs(tenth)).mean())}
