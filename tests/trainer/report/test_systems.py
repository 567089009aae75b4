"""The systems and sweeps that the report opens from folders, and their labels."""

from pathlib import Path
from typing import Any

import pytest

from data_scripts.files.errors import InputError
from tests.trainer.report.folders import write_model, write_run, write_sweep
from trainer.report.systems import BOTH, CONVERSATIONS, NEIGHBORS, SNLI, UNKNOWN, WORDS, open_folders, open_system

TALK = {"response_prediction": 1.0}
MULTI = {"response_prediction": 0.8, "snli": 0.2}
CBOW, DAN = {"model_type": "convsim_cbow"}, {"model_type": "convsim_dan"}


@pytest.mark.parametrize(
    ("settings", "config", "label", "trained_on", "plain"),
    [
        ({"tasks": TALK}, DAN, "DAN, conversations", CONVERSATIONS, True),
        ({"tasks": MULTI}, {"model_type": "convsim_transformer"}, "Transformer, conversations + SNLI", BOTH, True),
        ({"tasks": MULTI, "snli_share": 0}, DAN, "DAN, conversations", CONVERSATIONS, True),
        ({"tasks": {"snli": 1}}, {"model_type": "convsim_bilstm"}, "BiLSTM, SNLI", SNLI, True),
        ({"tasks": TALK}, {"model_type": "convsim_bilstm", "bidirectional": False}, "LSTM, conversations",
         CONVERSATIONS, True),
        ({"tasks": TALK}, DAN | {"input_network": True}, "DAN, conversations, input network", CONVERSATIONS, False),
        ({"tasks": TALK, "word_vectors": "runs/book_skip_gram"}, DAN, "DAN, conversations, words from book_skip_gram",
         CONVERSATIONS, False),
        ({"tasks": {"of_a_user": 1, "snli": 1, "another": 1}}, DAN, "DAN, SNLI + another + of_a_user",
         "SNLI + another + of_a_user", True),
        ({"tasks": TALK}, {"model_type": "convsim_gru"}, "gru, conversations", CONVERSATIONS, True),
        ({"tasks": {"neighbors": 1}, "documents": ["data/books/", "data/reddit"]}, CBOW,
         "Siamese CBOW (books, reddit)", NEIGHBORS, True),
        ({"tasks": {"neighbors": 1}, "documents": ["data/books"]}, DAN, "Siamese DAN (books)", NEIGHBORS, True),
        ({"method": "skip_gram", "sif": True, "sources": ["data/books"]}, CBOW, "word2vec skip-gram, SIF (books)",
         WORDS, True),
        ({"method": "fasttext", "sif": False, "sources": ["/a/b"]}, CBOW, "fastText (b)", WORDS, True),
        ({"method": "pv_dbow", "sif": False, "sources": ["a"]}, {}, "PV-DBOW (a)", WORDS, True),
    ],
)  # fmt: skip
def test_a_label_has_the_encoder_and_what_it_was_trained_on(tmp_path, settings, config, label, trained_on, plain):
    system = open_system(write_run(tmp_path / "run", settings, config))
    assert (system.name, system.label, system.trained_on, system.is_plain) == ("run", label, trained_on, plain)


@pytest.mark.parametrize(("sif", "method"), [(False, "skip_gram"), (True, "sif")])
def test_skip_gram_and_sif_are_two_methods_and_a_trained_encoder_is_none(tmp_path, sif, method):
    words = open_system(write_run(tmp_path / "words", {"method": "skip_gram", "sif": sif, "sources": ["a"]}, CBOW))
    assert words.method == method
    assert open_system(write_run(tmp_path / "run", {"tasks": TALK})).method is None


def test_the_label_of_a_saved_model_is_its_folders_name(tmp_path: Path) -> None:
    ours = open_system(write_model(tmp_path / "ours", DAN))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "modules.json").write_text("[]")
    theirs = open_system(tmp_path / "theirs")
    assert (ours.label, ours.encoder, ours.trained_on) == ("ours", "DAN", UNKNOWN)
    assert (theirs.label, theirs.encoder, theirs.trained_on) == ("theirs", "", UNKNOWN)


def test_a_folder_without_run_model_or_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path}: expected a finished run"):
        open_folders([tmp_path])


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / where / "dan", {"tasks": TALK}) for where in "ab"]
    with pytest.raises(InputError, match=r"^two runs are called dan: rename"):
        open_folders(folders)


def sweep(folder: Path, unfinished: tuple[str, ...] = ()) -> Path:
    """A sweep over the learning rate, an entry of model_config, and both."""
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


def test_a_folder_has_a_sweep_for_each_setting_with_the_base_run_at_its_own_value(tmp_path: Path) -> None:
    systems, sweeps = open_folders([sweep(tmp_path / "sweep")])
    assert systems == [] and [each.setting for each in sweeps] == ["learning_rate", "model_config.embedding_size"]
    named = [[(value, system.name) for value, system in each.runs] for each in sweeps]
    # The size of the base run is the encoder's default, which is not in its settings.
    assert named == [
        [("0.5", "sweep/base"), ("1", "sweep/rate=1"), ("1e1", "sweep/rate=1e1")],
        [("300", "sweep/base"), ("50", "sweep/size=50")],
    ]
    assert sweeps[0].runs[0][1] is sweeps[1].runs[0][1]


def test_unfinished_runs_of_a_sweep_are_left_out_and_so_is_an_unfinished_base(tmp_path: Path) -> None:
    _, sweeps = open_folders([sweep(tmp_path / "sweep", unfinished=("base", "rate=1"))])
    assert [[value for value, _ in each.runs] for each in sweeps] == [["1e1"], ["50"]]
