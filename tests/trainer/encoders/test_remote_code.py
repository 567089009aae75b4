"""Python code in the folder of a model is never run, whatever is piped into a command."""

import builtins
import json
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoTokenizer

from data_scripts.errors import InputError
from trainer.encoders.loading import load_encoder
from trainer.training.model import load_pretrained

CODE = """
from pathlib import Path
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
Path(MARKER).touch()
class Config(PretrainedConfig):
    model_type = "foreign"
class Model(PreTrainedModel):
    config_class = Config
class Tokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def foreign_model(tmp_path: Path) -> Path:
    """A model of an unknown type, whose code creates the file `ran`."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "foreign.py").write_text(CODE.replace("MARKER", repr(str(tmp_path / "ran"))))
    classes = {"AutoConfig": "foreign.Config", "AutoModel": "foreign.Model"}
    (folder / "config.json").write_text(json.dumps({"model_type": "foreign", "auto_map": classes}))
    tokenizer = {"tokenizer_class": "Tokenizer", "auto_map": {"AutoTokenizer": [None, "foreign.Tokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: load_pretrained(AutoConfig, folder, "initialize_from"),
        lambda folder: load_pretrained(AutoTokenizer, folder, "tokenizer"),
        load_encoder,
    ],
)
def test_code_in_a_models_folder_is_not_run(foreign_model, load, monkeypatch, tmp_path):
    monkeypatch.setattr(builtins, "input", lambda *prompt: "y")  # the first line of a file that is piped in
    with pytest.raises(InputError, match="contains custom code"):
        load(str(foreign_model))
    assert not (tmp_path / "ran").exists()
