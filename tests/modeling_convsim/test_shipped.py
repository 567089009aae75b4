"""The base model that ships with convsim: in the clone, or named by CONVSIM_BASE."""

from pathlib import Path

import pytest

from modeling_convsim import shipped
from modeling_convsim.files.errors import InputError
from trainer.settings import parse_settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_base_is_that_of_the_clone_unless_the_environment_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONVSIM_BASE", raising=False)
    assert shipped.base_model() == str(ROOT / "model_cards" / "base")
    monkeypatch.setenv("CONVSIM_BASE", "me/base")
    assert shipped.base_model() == "me/base"


def test_a_missing_base_is_an_error_that_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONVSIM_BASE", raising=False)
    monkeypatch.setattr(shipped, "MODEL_CARDS", tmp_path)
    with pytest.raises(InputError, match=r"base: the base model is missing; .* set CONVSIM_BASE to the folder"):
        shipped.base_model()


def test_the_word_base_is_the_base_where_a_preset_or_an_option_names_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVSIM_BASE", "me/base")
    settings = parse_settings(["adapt"])
    assert (settings.initialize_from, settings.teacher) == ("me/base", None)
    words = ["--score_teachers", "base", "runs/mine", "--word_vectors", "base", "--tokenizer", "base"]
    settings = parse_settings(["quickstart", "--vocab_size", "none", *words])
    assert (settings.score_teachers, settings.word_vectors) == (["me/base", "runs/mine"], "me/base")
    assert settings.tokenizer == "me/base"
