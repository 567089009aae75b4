"""Suggestion: the search of `modeling_convsim.searching` against exact search and a graph, over the same vectors.

They are those of a DAN that the preset reddit_dan trains on the same pairs first: the replies of a model lie otherwise
than random vectors, and apart from the queries that are to find them.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers.util import dot_score, semantic_search
from usearch.index import Index

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion.search import Int8Vectors, exact_search, quantize
from tests.benchmarks.material import ROOT, Material
from tests.benchmarks.measuring import peak_megabytes, run, time_steps

K = 10
# Twice the connections and candidates that usearch has by default, for the graph that others would search.
GRAPH = {"metric": "ip", "dtype": "i8", "connectivity": 32, "expansion_add": 256, "expansion_search": 256}
BLOCK = 256  # queries at a time, as `ReplyIndex.suggest_many` takes them
Search = Callable[[np.ndarray], np.ndarray]  # queries (n, size) to rows (n, K)


def prepare(material: Material) -> dict[str, float]:
    """Makes what is read, once: vectors of replies and of queries, their true scores, and the graph."""
    folder = _folder(material)
    folder.mkdir(exist_ok=True)
    encoder = Encoder.from_pretrained(_train(material, folder / "run"), "cpu")
    count, queries = (1_000_000, 1_000) if material.real else (3_000, 50)
    texts = _texts(material, count + queries)
    np.save(folder / "queries.npy", encoder.encode(texts[count:], side="query"))
    np.save(folder / "vectors.npy", encoder.encode(texts[:count], side="response").astype(np.float16))
    vectors, found = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    np.save(folder / "scores.npy", _in_blocks(lambda block: exact_search(vectors, block, K)[0], found))
    np.save(folder / "int8.npy", quantize(vectors))
    _build_graph(vectors).save(str(folder / "graph.usearch"))
    return {}


def build(material: Material) -> dict[str, float]:
    """What our search needs, from float16 vectors."""
    vectors = np.load(_made(material) / "vectors.npy")
    return _time_build(lambda: Int8Vectors(quantize(vectors)), len(vectors))


def build_graph(material: Material) -> dict[str, float]:
    """usearch's graph, from the same vectors."""
    vectors = np.load(_made(material) / "vectors.npy")
    return _time_build(lambda: _build_graph(vectors), len(vectors))


def ours(material: Material) -> dict[str, float]:
    """An index opened as `ReplyIndex.load` opens it."""
    folder = _made(material)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    rounded = Int8Vectors(np.load(folder / "int8.npy", mmap_mode="r"))
    return _time_queries(material, lambda queries: rounded.search(vectors, queries, K)[1])


def graph(material: Material) -> dict[str, float]:
    """usearch's graph, its file mapped."""
    opened = Index.restore(str(_made(material) / "graph.usearch"), view=True)
    opened.expansion_search = GRAPH["expansion_search"]  # which is not saved

    def search(queries: np.ndarray) -> np.ndarray:
        several = np.repeat(queries, 2, axis=0) if len(queries) == 1 else queries  # one alone is answered otherwise
        return opened.search(quantize(several), K).keys[: len(queries)].astype(np.int64)

    return _time_queries(material, search)


def ours_exact(material: Material) -> dict[str, float]:
    """What an index of fewer replies does, here with parts of the float16 vectors made float32."""
    vectors = np.load(_made(material) / "vectors.npy", mmap_mode="r")
    return _time_queries(material, lambda queries: exact_search(vectors, queries, K)[1])


def sentence_transformers(material: Material) -> dict[str, float]:
    """sentence_transformers.util.semantic_search, float32, in its default chunks."""
    vectors = torch.from_numpy(np.load(_made(material) / "vectors.npy")).float()

    def search(queries: np.ndarray) -> np.ndarray:
        found = semantic_search(torch.from_numpy(queries), vectors, top_k=K, score_function=dot_score)
        return np.array([[one["corpus_id"] for one in hits] for hits in found])

    return _time_queries(material, search)


def _train(material: Material, output: Path) -> Path:
    """The folder of a trained model."""
    options = {"pairs": material.pairs, "output_dir": output, "overwrite": "true", "trackers": "none"}
    if not material.real:
        options |= {"max_steps": 20, "eval_every": 20, "vocab_size": material.words}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    subprocess.run(
        [sys.executable, ROOT / "trainer/run.py", ROOT / "trainer/presets/reddit_dan.yaml", *words], check=True
    )
    return output / "model"


def _folder(material: Material) -> Path:
    return material.folder / "suggest"


def _made(material: Material) -> Path:
    """The folder of what `prepare` makes, in a process of its own so that it does not count as anyone's memory."""
    if not (_folder(material) / "graph.usearch").is_file():
        run("full" if material.real else "smoke", "suggesting.prepare", {})
    return _folder(material)


def _build_graph(vectors: np.ndarray) -> Index:
    graph, rounded = Index(ndim=vectors.shape[1], **GRAPH), quantize(vectors)
    for start in range(0, len(rounded), 4096):
        part = rounded[start : start + 4096]
        graph.add(np.arange(start, start + len(part)), part)
    return graph


def _texts(material: Material, count: int) -> list[str]:
    """Distinct comments of the pairs, in an order drawn with seed 0, then halves of two of them."""
    pairs = material.train_pairs()
    distinct = np.array(sorted({*pairs["input"], *pairs["response"]}), dtype=object)
    draws = np.random.default_rng(0)
    draws.shuffle(distinct)
    texts = dict.fromkeys(distinct.tolist())
    while len(texts) < count:
        first, second = (distinct[row].split() for row in draws.integers(len(distinct), size=2))
        texts[" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]])] = None
    chosen = np.array(list(texts)[:count], dtype=object)
    draws.shuffle(chosen)
    return chosen.tolist()


def _in_blocks(search: Search, queries: np.ndarray) -> np.ndarray:
    return np.concatenate([search(queries[start : start + BLOCK]) for start in range(0, len(queries), BLOCK)])


def _time_build(build: Callable[[], object], count: int) -> dict[str, float]:
    steps, elapsed = time_steps(lambda _: build(), 0, 0.001)
    return {"replies/s": steps * count / elapsed, "MB": peak_megabytes()}


def _time_queries(material: Material, search: Search) -> dict[str, float]:
    """Queries a second, many at a time; milliseconds of one alone; the peak of memory; the share of the best found."""
    folder = _made(material)
    queries = np.load(folder / "queries.npy")
    found = _in_blocks(search, queries)
    passes, elapsed = time_steps(lambda _: _in_blocks(search, queries), 0, material.seconds)
    singles, waited = time_steps(lambda step: search(queries[step % len(queries)][None]), 3, material.seconds)
    figures = {
        "queries/s": passes * len(queries) / elapsed, "ms/query": 1e3 * waited / singles, "MB": peak_megabytes(),
    }  # fmt: skip
    # By score: of replies that are alike, any is as good.
    vectors, tenth = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "scores.npy")[:, -1:]
    scores = np.stack([vectors[rows].astype(np.float32) @ query for rows, query in zip(found, queries, strict=True)])
    return figures | {f"recall@{K}": float((scores >= tenth - 1e-5 * np.abs(tenth)).mean())}
