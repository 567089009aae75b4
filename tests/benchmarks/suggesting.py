"""Suggestion: the approximate search of `modeling_convsim.searching` against exact search, over the same vectors.

They are those of a DAN that is not trained, whose sentence embeddings are averages of words: replies that share words
lie near each other, as they do in a trained one.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers.util import dot_score, semantic_search
from usearch.index import Index

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding import Encoder
from modeling_convsim.searching import build_graph, exact_search, graph_search
from tests.benchmarks.material import Material
from tests.benchmarks.measuring import peak_megabytes, run, time_steps

SIZE = 512
K = 10
BLOCK = 256  # queries at a time, as `ReplyIndex.suggest_many` takes them
Search = Callable[[np.ndarray], np.ndarray]  # queries (n, SIZE) to rows (n, K)


def prepare(material: Material) -> dict[str, float]:
    """Makes what is read, once: vectors of replies and of queries, their true scores, and our graph as it is saved."""
    folder = _folder(material)
    folder.mkdir(exist_ok=True)
    torch.manual_seed(0)
    config = ConvSimDanConfig(
        vocab_size=material.words, word_embedding_size=SIZE, embedding_size=SIZE, bigram_buckets=0, residual=True,
        response_residual=True, normalize_response=True,
    )  # fmt: skip
    encoder = Encoder(ConvSimDanForMultitask(config), material.tokenizer(material.words))
    count, queries = (1_000_000, 1_000) if material.real else (3_000, 50)
    texts = _texts(material, count + queries)
    np.save(folder / "queries.npy", encoder.encode(texts[count:], side="query"))
    np.save(folder / "vectors.npy", encoder.encode(texts[:count], side="response").astype(np.float16))
    vectors, found = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    np.save(folder / "scores.npy", _in_blocks(lambda block: exact_search(vectors, block, K)[0], found))
    build_graph(vectors).save(str(folder / "graph.usearch"))
    return {}


def build(material: Material) -> dict[str, float]:
    """Our graph, from float16 vectors."""
    vectors = np.load(_made(material) / "vectors.npy")
    return _time_build(lambda: build_graph(vectors), len(vectors))


def build_default(material: Material) -> dict[str, float]:
    """usearch with its own settings, from the same vectors."""
    vectors = np.load(_made(material) / "vectors.npy")

    def build() -> None:
        graph = Index(ndim=SIZE, metric="ip")
        for start in range(0, len(vectors), 4096):
            part = vectors[start : start + 4096].astype(np.float32)
            graph.add(np.arange(start, start + len(part)), part)

    return _time_build(build, len(vectors))


def ours(material: Material) -> dict[str, float]:
    """An index opened as `ReplyIndex.load` opens it, its files mapped."""
    folder = _made(material)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    graph = Index.restore(str(folder / "graph.usearch"), view=True)
    return _time_queries(material, lambda queries: graph_search(graph, vectors, queries, K)[1])


def ours_exact(material: Material) -> dict[str, float]:
    """What a restricted index of many replies does: parts of the float16 vectors made float32."""
    vectors = np.load(_made(material) / "vectors.npy", mmap_mode="r")
    return _time_queries(material, lambda queries: exact_search(vectors, queries, K)[1])


def sentence_transformers(material: Material) -> dict[str, float]:
    """sentence_transformers.util.semantic_search, float32, in its default chunks."""
    vectors = torch.from_numpy(np.load(_made(material) / "vectors.npy")).float()

    def search(queries: np.ndarray) -> np.ndarray:
        found = semantic_search(torch.from_numpy(queries), vectors, top_k=K, score_function=dot_score)
        return np.array([[one["corpus_id"] for one in hits] for hits in found])

    return _time_queries(material, search)


def _folder(material: Material) -> Path:
    return material.folder / "suggest"


def _made(material: Material) -> Path:
    """The folder of what `prepare` makes, in a process of its own so that it does not count as anyone's memory."""
    if not (_folder(material) / "graph.usearch").is_file():
        run("full" if material.real else "smoke", "suggesting.prepare", {})
    return _folder(material)


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
    """Queries a second over all of them, again and again; the peak of memory; the share of the best found."""
    folder = _made(material)
    queries = np.load(folder / "queries.npy")
    found = _in_blocks(search, queries)
    passes, elapsed = time_steps(lambda _: _in_blocks(search, queries), 0, material.seconds)
    figures = {"queries/s": passes * len(queries) / elapsed, "MB": peak_megabytes()}
    # By score: of replies that are alike, any is as good.
    vectors, tenth = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "scores.npy")[:, -1:]
    scores = np.stack([vectors[rows].astype(np.float32) @ query for rows, query in zip(found, queries, strict=True)])
    return figures | {f"recall@{K}": float((scores >= tenth - 1e-5 * np.abs(tenth)).mean())}
