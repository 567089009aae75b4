"""The registry of encoders: those in the folder, and one defined in a file elsewhere."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining

import modeling_convsim
from modeling_convsim import ENCODERS, Encoder, register_encoder
from tests.modeling_convsim.tiny_models import SENTENCES, build, pack, pad, save


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
def max_encoder():
    """The file of an encoder, which registers it for one test."""
    from tests.extensions import max_encoder

    register_encoder(max_encoder.ConvSimMaxForMultitask)  # it may have been imported before
    yield max_encoder
    ENCODERS.pop("max", None)


def test_encoder_defined_elsewhere_is_saved_and_loaded_like_the_others(max_encoder, tiny_tokenizer, tmp_path):
    multitask = max_encoder.ConvSimMaxForMultitask
    assert ENCODERS["max"] is register_encoder(multitask) is multitask  # registering it again changes nothing
    model = build("max")
    save(model, tiny_tokenizer, tmp_path)
    assert (tmp_path / "max_encoder.py").read_text() == Path(max_encoder.__file__).read_text()
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"]["AutoModel"] == "max_encoder.ConvSimMaxModel"

    encoder = AutoModel.from_pretrained(tmp_path)
    assert type(encoder) is max_encoder.ConvSimMaxModel
    table = model.encoder.embed_tokens.weight
    maxima = torch.stack([torch.cat([table[sentence], torch.zeros(1, 12)]).amax(0) for sentence in SENTENCES])
    expected = maxima / maxima.norm(dim=1, keepdim=True).clamp_min(1e-9)
    for batch in (pack(SENTENCES), pad(SENTENCES)):
        torch.testing.assert_close(encoder(**batch).pooler_output, expected)

    opened = Encoder.from_pretrained(tmp_path, "cpu")
    assert type(opened.model.module) is multitask
    ids = tiny_tokenizer(["the dog runs", "how are you ?"])["input_ids"]
    vectors = opened.encode(["the dog runs", "how are you ?"])
    torch.testing.assert_close(torch.from_numpy(vectors), model.encoder(**pad(ids)).pooler_output)


def test_encoder_without_a_label_or_type_or_with_a_taken_name_is_refused(max_encoder, monkeypatch):
    class Unlabeled(max_encoder.ConvSimMaxConfig):
        label = ""

    class Untyped(max_encoder.ConvSimMaxConfig):
        model_type = "max"

    class Taken(max_encoder.ConvSimMaxConfig):
        model_type = "convsim_dan"

    del ENCODERS["max"]
    for config_class, message in (
        (Unlabeled, "and label '', expected a model_type that starts with 'convsim_' and a label"),
        (Untyped, "Untyped has model_type 'max'"),
        (Taken, r"an encoder named 'dan' exists, modeling_convsim\.modeling_dan\.ConvSimDanForMultitask: choose"),
    ):
        monkeypatch.setattr(max_encoder.ConvSimMaxForMultitask, "config_class", config_class)
        with pytest.raises(ValueError, match=message):
            register_encoder(max_encoder.ConvSimMaxForMultitask)
    assert "max" not in ENCODERS and ENCODERS["dan"].__name__ == "ConvSimDanForMultitask"
