"""The registry of encoders: those in the folder, and one defined in a file elsewhere."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining

import modeling_convsim
from modeling_convsim import ENCODERS, Encoder, register_encoder
from tests.modeling_convsim import encoder_max
from tests.modeling_convsim.encoder_max import ConvSimMaxForMultitask, ConvSimMaxModel
from tests.modeling_convsim.tiny_models import SENTENCES, build, pack, pad


def test_every_modeling_file_is_registered():
    assert set(ENCODERS) == {"bilstm", "cbow", "dan", "pretrained", "transformer"}


@pytest.mark.parametrize("name", ENCODERS)
def test_auto_classes_and_the_package_have_the_registered_classes(name):
    multitask_class = ENCODERS[name]
    options = build(name).config.to_diff_dict()
    config = AutoConfig.for_model(options.pop("model_type"), **options)
    assert type(config) is multitask_class.config_class and config.label
    assert type(AutoModel.from_config(config)) is multitask_class.encoder_class
    assert type(AutoModelForPreTraining.from_config(config)) is multitask_class
    for part in (multitask_class.config_class, multitask_class.encoder_class, multitask_class):
        assert getattr(modeling_convsim, part.__name__) is part


@pytest.fixture
def registered():
    """The toy encoder's class, registered for one test."""
    yield register_encoder(ConvSimMaxForMultitask)
    del ENCODERS["max"]


def test_encoder_defined_elsewhere_is_saved_and_loaded_like_the_others(registered, tiny_tokenizer, tmp_path):
    assert ENCODERS["max"] is registered is ConvSimMaxForMultitask
    assert register_encoder(registered) is registered  # registering it again changes nothing
    model = build("max")
    model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "encoder_max.py").read_text() == Path(encoder_max.__file__).read_text()
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"]["AutoModel"] == "encoder_max.ConvSimMaxModel"

    encoder = AutoModel.from_pretrained(tmp_path)
    assert type(encoder) is ConvSimMaxModel
    table = model.encoder.embed_tokens.weight
    maxima = torch.stack([torch.cat([table[sentence], torch.zeros(1, 12)]).amax(0) for sentence in SENTENCES])
    expected = maxima / maxima.norm(dim=1, keepdim=True).clamp_min(1e-9)
    for batch in (pack(SENTENCES), pad(SENTENCES)):
        torch.testing.assert_close(encoder(**batch).pooler_output, expected)

    opened = Encoder.from_pretrained(tmp_path, "cpu")
    assert type(opened.model.module) is ConvSimMaxForMultitask
    ids = tiny_tokenizer(["the dog runs", "how are you ?"])["input_ids"]
    vectors = opened.encode(["the dog runs", "how are you ?"])
    torch.testing.assert_close(torch.from_numpy(vectors), model.encoder(**pad(ids)).pooler_output)


def test_encoder_without_a_label_or_type_or_with_a_taken_name_is_refused(monkeypatch):
    class Unlabeled(encoder_max.ConvSimMaxConfig):
        label = ""

    class Untyped(encoder_max.ConvSimMaxConfig):
        model_type = "max"

    class Taken(encoder_max.ConvSimMaxConfig):
        model_type = "convsim_dan"

    for config_class, message in (
        (Unlabeled, "and label '', expected a model_type that starts with 'convsim_' and a label"),
        (Untyped, "Untyped has model_type 'max'"),
        (Taken, r"an encoder named 'dan' exists, modeling_convsim\.modeling_dan\.ConvSimDanForMultitask: choose"),
    ):
        monkeypatch.setattr(ConvSimMaxForMultitask, "config_class", config_class)
        with pytest.raises(ValueError, match=message):
            register_encoder(ConvSimMaxForMultitask)
    assert "max" not in ENCODERS and ENCODERS["dan"].__name__ == "ConvSimDanForMultitask"
