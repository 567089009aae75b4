"""MTEB's own code, on a model as sentence-transformers opens it, computes our scores."""

import random
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer

from tests.conftest import WORDS
from trainer.encoders.loading import load_encoder
from trainer.evaluation.evaluators import evaluate_encoder
from trainer.evaluation.similarity import cosine, encode_pairs
from trainer.evaluation.stsb import correlation_by_genre

REPLIES = 60  # fewer than the candidates of a query, so that all are ranked


def sentences(draw: random.Random, count: int) -> list[str]:
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 9))) for _ in range(count)]


def test_mteb_computes_our_scores(make_run: Any, tmp_path: Path) -> None:
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    model, draw = str(make_run(tmp_path / "run") / "model"), random.Random(0)
    scores = [draw.random() * 5 for _ in range(50)]
    stsb = Dataset.from_dict({"sentence1": sentences(draw, 50), "sentence2": sentences(draw, 50), "score": scores})
    columns = {"input": sentences(draw, REPLIES), "response": sentences(draw, REPLIES)}
    pairs = Dataset.from_dict({**columns, "thread": list(map(str, range(REPLIES))), "source": ["invented"] * REPLIES})
    data = {"pairs": {"test": pairs}, "stsb": {"test": stsb.add_column("genre", [None] * 50)}}
    encoder = load_encoder(model)
    ours = evaluate_encoder(encoder, data, "test", ["response_prediction"])
    cosines = cosine(*encode_pairs(encoder, stsb["sentence1"][:], stsb["sentence2"][:]))
    of_cosines = correlation_by_genre(cosines, data["stsb"]["test"])["all"]

    correlations = mteb.get_task("STSBenchmark", eval_splits=["test"])
    correlations.dataset, correlations.data_loaded = DatasetDict({"test": stsb}), True
    about = TaskMetadata(
        name="Replies", type="Retrieval", category="t2t", description="The reply to a message among all replies.",
        main_score="hit_rate_at_1", dataset={"path": "local", "revision": "1"}, modalities=["text"],
        eval_splits=["test"], eval_langs=["eng-Latn"],
    )  # fmt: skip
    replies = type("Replies", (AbsTaskRetrieval,), {"metadata": about})()
    ids = [str(number) for number in range(REPLIES)]
    parts: dict[str, Any] = {
        "corpus": Dataset.from_dict({"id": ids, "text": columns["response"]}),
        "queries": Dataset.from_dict({"id": ids, "text": columns["input"]}),
        "relevant_docs": {number: {number: 1} for number in ids},
        "top_ranked": None,
    }
    replies.dataset, replies.data_loaded = {"default": {"test": parts}}, True

    tasks = [correlations, replies]
    results = mteb.evaluate(SentenceTransformer(model), tasks, cache=None, co2_tracker=False).task_results
    theirs = {result.task_name: result.scores["test"][0] for result in results}
    for name in ("pearson", "spearman"):
        assert theirs["STSBenchmark"][f"cosine_{name}"] == pytest.approx(of_cosines[name], abs=1e-4)
    for n in (1, 3, 10):
        expected = ours["response_prediction"][f"p_at_{n}"]
        assert theirs["Replies"][f"hit_rate_at_{n}"] == pytest.approx(expected, abs=1e-4)
