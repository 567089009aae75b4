"""The tuned matrix in a published folder: the route gives the score of results.json, and damage gives one line."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from datasets import Dataset
from scipy import stats
from sentence_transformers import SentenceTransformer

from modeling_convsim.encoding import Encoder
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.json_files import read_object
from tests.conftest import WORDS
from tests.modeling_convsim.tiny_models import build
from tests.trainer.publish.test_publish import SETTINGS
from trainer.evaluation.evaluators import evaluate_encoder
from trainer.evaluation.sts_tuning import read_matrix
from trainer.publish.__main__ import main as publish
from trainer.publish.folder import build_folder, verify_folder

MATRIX_FILE = "model/1_Router/sts_0_Dense/model.safetensors"


def invented_stsb() -> dict[str, Dataset]:
    random = np.random.default_rng(0)

    def split(pairs: int) -> Dataset:
        first = [random.choice(WORDS[:40], 5).tolist() for _ in range(pairs)]
        changed = random.integers(0, 6, pairs)
        second = [
            words[: 5 - n] + random.choice(WORDS[:40], n).tolist() for words, n in zip(first, changed, strict=True)
        ]
        return Dataset.from_dict({
            "sentence1": [" ".join(words) for words in first], "sentence2": [" ".join(words) for words in second],
            "score": (5.0 - changed).tolist(), "genre": ["news", "captions"] * (pairs // 2),
        })  # fmt: skip

    return {"train": split(120), "validation": split(60), "test": split(60)}


@pytest.fixture(scope="module")
def stsb() -> dict[str, Dataset]:
    return invented_stsb()


@pytest.fixture(scope="module")
def tuned_run(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any, stsb: dict[str, Dataset]) -> Path:
    """A finished run with tuned scores."""
    run = tmp_path_factory.mktemp("runs") / "tuned"
    model = build("dan")
    matrices: dict[str, np.ndarray] = {}
    results = evaluate_encoder(
        Encoder(model, tiny_tokenizer), {"stsb": stsb}, "both", ["stsb", "stsb_tuned"], matrices=matrices
    )
    build_folder(
        model, tiny_tokenizer, run / "model", results=results, settings=SETTINGS, sts_matrix=matrices["stsb_tuned"]
    )
    (run / "results.json").write_text(json.dumps(results))
    (run / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    return run


def angular_pearson(first: np.ndarray, second: np.ndarray, gold: list[float]) -> float:
    first, second = first.astype(float), second.astype(float)
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    return float(stats.pearsonr(-np.arccos(cosines.clip(-1, 1)), gold).statistic)


def score_by_route(model: Path, pairs: Dataset) -> float:
    """The tuned Pearson's r as a reader of the card computes it."""
    encoder = SentenceTransformer(str(model), device="cpu")
    # Each distinct text once: near a cosine of 1, a rounding error of 1e-7 would change the angle by 5e-4.
    texts = list(dict.fromkeys([*pairs["sentence1"], *pairs["sentence2"]]))
    vectors = dict(zip(texts, encoder.encode(texts, task="sts"), strict=True))
    first, second = (np.stack([vectors[text] for text in pairs[side]]) for side in ("sentence1", "sentence2"))
    return angular_pearson(first, second, pairs["score"][:])


@pytest.mark.parametrize(("split", "name"), [("validation", "dev"), ("test", "test")])
def test_the_route_of_the_loaded_folder_gives_the_tuned_score(tuned_run, stsb, split, name):
    results = read_object(tuned_run / "results.json")
    expected = results["stsb_tuned"][name]["all"]["pearson"]
    assert abs(expected - results["stsb"][name]["all"]["pearson"]) > 1e-3  # the matrix is not the identity
    assert score_by_route(tuned_run / "model", stsb[split]) == pytest.approx(expected, abs=1e-6)


def test_verification_fails_where_the_route_has_another_matrix(tuned_run):
    matrix = read_matrix(tuned_run / "model")
    verify_folder(tuned_run / "model", sts_matrix=matrix)
    with pytest.raises(InputError, match="task=sts differ"):
        verify_folder(tuned_run / "model", sts_matrix=matrix @ np.diag(np.linspace(1, 2, len(matrix))))


@pytest.mark.parametrize("damage", ["cut short", "missing"])
def test_a_damaged_matrix_is_refused_in_one_line(tuned_run, tmp_path, capsys, damage):
    run = Path(shutil.copytree(tuned_run, tmp_path / "run"))
    path = run / MATRIX_FILE
    if damage == "cut short":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        path.unlink()
    assert publish([str(run), "--hub_model_id", "ORG/tuned", "--dry_run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line and "train the model or download it again" in line
