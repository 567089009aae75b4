"""What the report makes of folders, and that it measures each thing once. The encoders are made up."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_scripts.errors import InputError
from tests.trainer.evaluation.corpora import corpora
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.report.folders import write_model, write_run, write_sweep
from trainer.data.datasets import Corpora
from trainer.evaluation.evaluators import evaluate_encoder
from trainer.report import systems as module
from trainer.report.systems import BOTH, CONVERSATIONS, NEIGHBOURS, OTHER, SNLI, WORDS, Judge, open_folders, open_system

SOURCES = {name: f"data/{name}" for name in ("stsb", "snli", "cqa", "sts")} | {"pairs": ["data/pairs"]}
TALK = {"response_prediction": 1.0}
MULTI = {"response_prediction": 0.8, "snli": 0.2}
CBOW, DAN = {"model_type": "convsim_cbow"}, {"model_type": "convsim_dan"}


@pytest.mark.parametrize(
    ("settings", "config", "label", "trained_on", "plain"),
    [
        ({"tasks": TALK}, DAN, "DAN, conversations", CONVERSATIONS, True),
        ({"tasks": MULTI}, {"model_type": "convsim_transformer"}, "Transformer, conversations + SNLI", BOTH, True),
        ({"tasks": TALK, "late_tasks": {"snli": 1}}, DAN, "DAN, conversations + SNLI", BOTH, True),
        ({"tasks": MULTI, "snli_share": 0}, DAN, "DAN, conversations", CONVERSATIONS, True),
        ({"tasks": MULTI, "snli_share": 0.1}, DAN, "DAN, conversations + SNLI", BOTH, True),
        ({"tasks": {"response_prediction": 1, "snli": 0}}, DAN, "DAN, conversations", CONVERSATIONS, True),
        ({"tasks": {"snli": 1}}, {"model_type": "convsim_bilstm"}, "BiLSTM, SNLI", SNLI, True),
        ({"tasks": TALK}, {"model_type": "convsim_bilstm", "bidirectional": False}, "LSTM, conversations",
         CONVERSATIONS, True),
        ({"tasks": TALK}, DAN | {"input_network": True}, "DAN, conversations, input network", CONVERSATIONS, False),
        ({"tasks": TALK, "word_vectors": "random"}, DAN, "DAN, conversations", CONVERSATIONS, True),
        ({"tasks": TALK, "word_vectors": "runs/book_skip_gram"}, DAN, "DAN, conversations, words from book_skip_gram",
         CONVERSATIONS, False),
        ({"tasks": {"captions": 1, "response_prediction": 1}}, DAN, "DAN, other tasks", OTHER, True),
        ({"tasks": {"neighbours": 1}, "documents": ["data/books"]}, CBOW, "Siamese CBOW (books)", NEIGHBOURS, True),
        ({"tasks": {"neighbours": 1}, "documents": ["data/books/", "data/reddit"]}, CBOW,
         "Siamese CBOW (books, reddit)", NEIGHBOURS, True),
        ({"tasks": {"neighbours": 1}, "documents": ["data/books"]}, DAN, "Siamese DAN (books)", NEIGHBOURS, True),
        ({"method": "skip_gram", "sif": False, "sources": ["data/books"]}, CBOW, "word2vec skip-gram (books)", WORDS,
         True),
        ({"method": "skip_gram", "sif": True, "sources": ["data/books"]}, CBOW, "word2vec skip-gram, SIF (books)",
         WORDS, True),
        ({"method": "cbow", "sif": False, "sources": ["data/books"]}, CBOW, "word2vec CBOW (books)", WORDS, True),
        ({"method": "fasttext", "sif": False, "sources": ["/a/b"]}, CBOW, "fastText (b)", WORDS, True),
        ({"method": "pv_dbow", "sif": False, "sources": ["a"]}, {}, "PV-DBOW (a)", WORDS, True),
    ],
)  # fmt: skip
def test_a_run_is_called_by_its_encoder_and_what_it_was_trained_on(
    tmp_path: Path, settings: dict, config: dict, label: str, trained_on: str, plain: bool
) -> None:
    system = open_system(write_run(tmp_path / "run", settings, config))
    assert (system.name, system.label, system.trained_on, system.is_plain) == ("run", label, trained_on, plain)


@pytest.mark.parametrize(("sif", "method"), [(False, "skip_gram"), (True, "sif")])
def test_skip_gram_and_sif_are_two_methods_and_a_trained_encoder_is_none(
    tmp_path: Path, sif: bool, method: str
) -> None:
    words = open_system(write_run(tmp_path / "words", {"method": "skip_gram", "sif": sif, "sources": ["a"]}, CBOW))
    assert words.method == method
    assert open_system(write_run(tmp_path / "run", {"tasks": TALK})).method is None


def test_a_saved_model_is_called_by_its_folder_whether_it_is_ours_or_not(tmp_path: Path) -> None:
    ours = open_system(write_model(tmp_path / "ours", DAN))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "modules.json").write_text("[]")
    theirs = open_system(tmp_path / "theirs")
    assert (ours.label, ours.encoder, ours.trained_on) == ("ours", "DAN", OTHER)
    assert (theirs.label, theirs.encoder, theirs.trained_on) == ("theirs", "", OTHER)


def test_a_run_brings_its_results_and_its_metrics(tmp_path: Path) -> None:
    metrics = [{"step": 1, "loss": 2.0}, {"step": 2, "dev": {}}]
    folder = write_run(tmp_path / "run", {"tasks": TALK}, results={"run": {"steps": 2}}, metrics=metrics)
    system = open_system(folder)
    assert system.results == {"run": {"steps": 2}} and system.metrics == metrics
    assert system.model == folder / "model"


def test_what_is_no_run_no_model_and_no_sweep_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path}: expected a finished run"):
        open_folders([tmp_path])


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / where / "dan", {"tasks": TALK}) for where in "ab"]
    with pytest.raises(InputError, match=r"^two runs are called dan: rename"):
        open_folders(folders)


def sweep(folder: Path, unfinished: tuple[str, ...] = ()) -> Path:
    """A sweep of the learning rate, a place in model_config, and both."""
    rows: list[dict[str, Any]] = [
        {"run": "base", "varied": {}},
        {"run": "rate=1", "varied": {"learning_rate": "1"}},
        {"run": "rate=1e1", "varied": {"learning_rate": "1e1"}},
        {"run": "size=50", "varied": {"model_config.embedding_size": "50"}},
        {"run": "both", "varied": {"learning_rate": "1", "model_config.embedding_size": "50"}},
    ]
    for row in rows:
        if row["run"] not in unfinished:
            write_run(folder / row["run"], {"learning_rate": 0.5, "model_config": {}}, CBOW | {"embedding_size": 300})
    return write_sweep(folder, rows)


def test_a_sweep_is_a_study_for_each_setting_with_the_base_run_at_its_own_value(tmp_path: Path) -> None:
    systems, studies = open_folders([sweep(tmp_path / "study")])
    assert systems == [] and [study.key for study in studies] == ["learning_rate", "model_config.embedding_size"]
    named = [[(value, system.name) for value, system in study.runs] for study in studies]
    # The size of the base run is the encoder's default, which its settings do not tell.
    assert named == [
        [("0.5", "study/base"), ("1", "study/rate=1"), ("1e1", "study/rate=1e1")],
        [("300", "study/base"), ("50", "study/size=50")],
    ]
    assert studies[0].runs[0][1] is studies[1].runs[0][1]


def test_runs_of_a_sweep_that_are_not_finished_are_left_out_the_base_too(tmp_path: Path) -> None:
    _, studies = open_folders([sweep(tmp_path / "study", unfinished=("base", "rate=1"))])
    assert [[value for value, _ in study.runs] for study in studies] == [["1e1"], ["50"]]


class Counted:
    """Stands for `load_encoder`: one fake encoder a model, and which were asked for."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.encoders: list[FakeEncoder] = []

    def __call__(self, model: str) -> FakeEncoder:
        self.loaded.append(Path(model).parent.name)
        self.encoders.append(FakeEncoder(size=8 + len(Path(model, "model.safetensors").read_text()) % 3))
        return self.encoders[-1]

    @property
    def encoded(self) -> int:
        return sum(len(encoder.calls) for encoder in self.encoders)


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(module, "load_encoder", counted)
    return counted


@pytest.fixture(scope="module")
def data() -> Corpora:
    return corpora()


def test_the_judge_measures_what_evaluation_does_once_and_keeps_it(
    tmp_path: Path, loader: Counted, data: Corpora
) -> None:
    system = open_system(write_run(tmp_path / "run", {"tasks": TALK}))
    expected = evaluate_encoder(loader(str(system.model)), vars(data), "both", ["stsb", "cqa"], intervals=True)
    before = loader.encoded
    judge = Judge(data, SOURCES, tmp_path / "kept")
    assert judge.scores(system, "stsb") == expected["stsb"] and judge.scores(system, "cqa") == expected["cqa"]
    after = loader.encoded
    assert after > before
    assert judge.scores(system, "stsb") == expected["stsb"]
    # Another judge, as of another call of the command, reads what the first one left.
    again = Judge(data, SOURCES, tmp_path / "kept")
    assert again.scores(open_system(tmp_path / "run"), "stsb") == expected["stsb"]
    assert loader.encoded == after and loader.loaded == ["run", "run"]


@pytest.mark.parametrize("changed", ["weights", "sources"])
def test_the_judge_measures_anew_when_the_weights_or_the_sources_change(
    tmp_path: Path, loader: Counted, data: Corpora, changed: str
) -> None:
    folder = write_run(tmp_path / "run", {"tasks": TALK})
    Judge(data, SOURCES, tmp_path / "kept").scores(open_system(folder), "stsb")
    before, sources = loader.encoded, dict(SOURCES)
    if changed == "weights":
        (folder / "model" / "model.safetensors").write_text("others")
    else:
        sources["cqa"] = "elsewhere/cqa"
    judge = Judge(data, sources, tmp_path / "kept")
    found = judge.scores(open_system(folder), "stsb")
    assert loader.encoded > before
    assert (
        found == evaluate_encoder(loader(str(folder / "model")), vars(data), "both", ["stsb"], intervals=True)["stsb"]
    )
    # What was kept of the old ones is gone, and the new is kept.
    after = loader.encoded
    assert judge.scores(open_system(folder), "stsb") == found and loader.encoded == after


KNOWN: dict[str, Any] = {
    "stsb": {"dev": {"all": {"pearson": 0.5}}, "test": {"all": {"pearson": 0.25}}},
    "cqa": {"dev": {"map": 0.5}, "test2017": {"map": 0.125}},
    "snli": {"accuracy": 0.75, "split": "test"},
    "response_prediction": {"p_at_1": 0.375, "split": "test"},
    "sts": {"2012": {"MSRpar": {"pearson": 0.5}}},
}
OPTIONS = {"stsb": "stsb", "cqa": "cqa", "snli": "snli", "sts": "sts", "response_prediction": "pairs"}


@pytest.mark.parametrize("task", KNOWN)
def test_what_a_run_measured_on_the_same_source_is_taken_from_its_results(
    tmp_path: Path, loader: Counted, data: Corpora, task: str
) -> None:
    system = open_system(write_run(tmp_path / "run", {"tasks": TALK, **SOURCES}, results=KNOWN))
    assert Judge(data, SOURCES, tmp_path / "kept").scores(system, task) == KNOWN[task]
    assert loader.loaded == []


@pytest.mark.parametrize("task", ["stsb", "cqa", "sts", "response_prediction"])
def test_what_a_run_measured_on_another_source_is_measured_again(
    tmp_path: Path, loader: Counted, data: Corpora, task: str
) -> None:
    settings = {"tasks": TALK, **SOURCES, OPTIONS[task]: ["other"] if OPTIONS[task] == "pairs" else "other"}
    system = open_system(write_run(tmp_path / "run", settings, results=KNOWN))
    found = Judge(data, SOURCES, tmp_path / "kept").scores(system, task)
    assert (
        found
        == evaluate_encoder(FakeEncoder(size=loader.encoders[0].size), vars(data), "both", [task], intervals=True)[task]
    )


def test_what_a_run_measured_on_dev_alone_is_measured_again(tmp_path: Path, loader: Counted, data: Corpora) -> None:
    results = {
        "stsb": {"dev": {"all": {"pearson": 0.5}}},
        "response_prediction": {"p_at_1": 1.0, "split": "validation"},
    }
    system = open_system(write_run(tmp_path / "run", {"tasks": TALK, **SOURCES}, results=results))
    judge = Judge(data, SOURCES, tmp_path / "kept")
    stsb, predicted = judge.scores(system, "stsb"), judge.scores(system, "response_prediction")
    assert stsb and set(stsb) == {"dev", "test"} and predicted and predicted["split"] == "test"


def test_what_cannot_be_measured_is_none(tmp_path: Path, loader: Counted, data: Corpora) -> None:
    system = open_system(write_model(tmp_path / "model", DAN))
    assert Judge(Corpora(stsb=data.stsb), SOURCES, tmp_path / "kept").scores(system, "cqa") is None
    # A fake encoder has no classifier of inference.
    assert Judge(data, SOURCES, tmp_path / "kept").scores(system, "snli") is None
    assert json.loads((tmp_path / "kept" / "model.json").read_text())["snli"] is None


def test_systems_and_the_data_alone_are_kept_apart(tmp_path: Path, loader: Counted, data: Corpora) -> None:
    judge = Judge(data, SOURCES, tmp_path / "kept")
    first, second = (open_system(write_model(tmp_path / name, DAN, name), f"study/{name}") for name in ("a", "bcd"))

    def given(value: Any) -> Callable[[], Any]:
        return lambda: value

    for _ in range(2):
        for system, value in ((first, 1), (second, [2]), (None, None)):
            assert judge.keep(system, "x", given(value)) == value
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "data.json",
        "study__a.json",
        "study__bcd.json",
    ]


def test_angles_and_cosines_are_those_of_the_vectors(tmp_path: Path, loader: Counted, data: Corpora) -> None:
    assert data.stsb and data.sts
    system = open_system(write_model(tmp_path / "model", DAN))
    judge = Judge(data, SOURCES, tmp_path / "kept")
    encoder = FakeEncoder(size=loader(str(system.model)).size)

    def cosines(pairs: Any) -> np.ndarray:
        first, second = (encoder.encode(pairs[side]).astype(np.float64) for side in ("sentence1", "sentence2"))
        return (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)

    for _ in range(2):  # measured, then kept
        for split, key in (("dev", "validation"), ("test", "test")):
            expected = -np.arccos(cosines(data.stsb[key]))
            np.testing.assert_allclose(judge.stsb_angles(system, split), expected, atol=1e-6)
        found = judge.sts_scores(system)
        assert list(found) == [("2012", "MSRpar"), ("2012", "OnWN"), ("2014", "OnWN")]
        for (year, name), scores in found.items():
            np.testing.assert_allclose(scores, cosines(data.sts[year][name]), atol=1e-6)
