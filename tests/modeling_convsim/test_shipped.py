"""The base model that ships with convsim: in the clone, or named by CONVSIM_BASE."""

from pathlib import Path

import pytest

from modeling_convsim import shipped
from modeling_convsim.files.errors import InputError
from trainer import settings as settings_module

ROOT = Path(__file__).resolve().parents[2]


def test_the_base_is_that_of_the_clone_unless_the_environment_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONVSIM_BASE", raising=False)
    assert shipped.base_model() == str(ROOT / "model_cards" / "base")
    monkeypatch.setenv("CONVSIM_BASE", "me/base")
    assert shipped.base_model() == "me/base"


def test_a_missing_base_is_an_error_that_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONVSIM_BASE", raising=False)
    monkeypatch.setattr(shipped, "MODEL_CARDS", tmp_path)
    with pytest.raises(InputError, match=r"base: the base model is missing; .* let CONVSIM_BASE name a copy"):
        shipped.base_model()


def test_a_preset_of_ours_finds_the_base_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert settings_module.read_preset(settings_module.preset_path("adapt"))["initialize_from"] == "model_cards/base"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONVSIM_BASE", "me/base")
    assert settings_module.read_preset(settings_module.preset_path("adapt"))["initialize_from"] == "me/base"


def test_a_preset_is_named_by_its_name_or_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings_module.preset_path("quickstart") == ROOT / "trainer" / "presets" / "quickstart.yaml"
    for other in ("quikstart", "quickstart.yaml", "presets/quickstart"):
        assert settings_module.preset_path(other) == Path(other)
    Path("quickstart").touch()
    assert settings_module.preset_path("quickstart") == Path("quickstart")
