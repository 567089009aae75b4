"""Saving, loading and initialization of every class, as transformers' common model tests check them.

`transformers_common.yaml` names the test here for each of theirs.
"""

import copy
from itertools import product
from pathlib import Path

import pytest
import torch
from accelerate import cpu_offload
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from modeling_convsim import ConvSimPreTrainedModel
from tests.modeling_convsim.tiny_models import PARTS, build_part, part_inputs

FOUR = ["dan", "transformer", "cbow", "bilstm"]


@pytest.fixture(params=PARTS)
def part(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=FOUR)
def model(request: pytest.FixtureRequest, part: str) -> ConvSimPreTrainedModel:
    return build_part(request.param, part)


def same_weights(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    states = first.state_dict(), second.state_dict()
    return states[0].keys() == states[1].keys() and all(
        torch.equal(states[0][name], states[1][name]) for name in states[0]
    )


@torch.no_grad()
def outputs(model: torch.nn.Module, part: str) -> tuple[torch.Tensor | None, ...]:
    return model.eval()(**part_inputs(part)).to_tuple()


# -- saving -----------------------------------------------------------------------------------------------------------


def test_a_model_that_is_saved_twice_stays_the_same(model, part, tmp_path):
    expected, saved = outputs(model, part), model
    for folder in (tmp_path / "first", tmp_path / "second"):
        saved.save_pretrained(folder)
        assert load_file(folder / "model.safetensors").keys() == model.state_dict().keys()
        saved, loading = type(model).from_pretrained(folder, output_loading_info=True)
        assert not any(loading.values()) and same_weights(saved, model)
        torch.testing.assert_close(outputs(saved, part), expected, rtol=0, atol=1e-6)
        assert all(weight.is_contiguous() for weight in saved.parameters())
        assert len({weight.data_ptr() for weight in saved.parameters()}) == len(model.state_dict())  # no weight is tied
        assert not saved.can_generate() and not (folder / "generation_config.json").exists()


def test_weights_are_read_from_memory_and_from_a_pickled_file(model, tmp_path):
    state = model.state_dict()
    assert same_weights(type(model).from_pretrained(None, config=model.config, state_dict=state), model)
    model.config.save_pretrained(tmp_path)
    torch.save(state, tmp_path / "pytorch_model.bin")
    assert same_weights(type(model).from_pretrained(tmp_path, use_safetensors=False), model)


@pytest.mark.parametrize("dtype", ["float16", torch.bfloat16, "auto"])
def test_the_dtype_has_two_names(model, dtype, tmp_path):
    model.bfloat16().save_pretrained(tmp_path)
    first, second = (type(model).from_pretrained(tmp_path, **{name: dtype}) for name in ("dtype", "torch_dtype"))
    expected = torch.float16 if dtype == "float16" else torch.bfloat16
    assert {weight.dtype for weight in first.parameters()} == {expected}
    assert first.config.dtype == second.config.dtype == expected and same_weights(first, second)


def test_offloaded_weights_are_read_when_they_are_needed(model, part):
    expected = outputs(model, part)
    cpu_offload(model, execution_device=torch.device("cpu"))
    assert all(weight.is_meta for weight in model.parameters())
    torch.testing.assert_close(outputs(model, part), expected, rtol=0, atol=1e-6)


# -- what a file lacks ------------------------------------------------------------------------------------------------


def test_exactly_the_weights_that_a_file_lacks_are_reported(model, part, tmp_path):
    model.base_model.save_pretrained(tmp_path)
    loading = type(model).from_pretrained(tmp_path, output_loading_info=True)[1]
    heads = {name for name in model.state_dict() if not name.startswith("encoder.")}
    assert loading["missing_keys"] == (set() if part == "encoder" else heads)
    save_file({"another": torch.zeros(2)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    loading = type(model).from_pretrained(tmp_path, output_loading_info=True)[1]
    assert loading["missing_keys"] == model.state_dict().keys()


@pytest.mark.parametrize(("kind", "part"), product([*FOUR, "dan_best", "transformer_residual"], PARTS))
def test_missing_weights_are_initialized_like_those_of_a_new_model(kind, part, monkeypatch):
    original = PreTrainedModel._initialize_weights

    def initialize(*args, **kwargs):
        torch.manual_seed(42)
        original(*args, **kwargs)

    monkeypatch.setattr(PreTrainedModel, "_initialize_weights", initialize)
    model_class, config = type(build_part(kind, part)), build_part(kind, part).config
    loaded = model_class.from_pretrained(None, config=copy.deepcopy(config), state_dict={})
    assert not any(weight.is_meta for weight in loaded.parameters())
    assert same_weights(loaded, model_class(config))


def test_a_model_on_the_meta_device_needs_no_tensors_but_its_weights(model, part, tmp_path):
    with torch.device("meta"):
        empty = type(model)(model.config)
    empty.to_empty(device="cpu")
    empty.init_weights()
    assert not list(empty.buffers())
    assert all(tensor is None or tensor.isfinite().all() for tensor in outputs(empty, part))
    model.save_pretrained(tmp_path)
    with torch.device("meta"), pytest.raises(RuntimeError, match="meta device"):
        type(model).from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", FOUR)
def test_other_sizes_are_loaded_only_if_that_is_requested(kind, tmp_path: Path):
    model = build_part(kind, "classifier")
    model.save_pretrained(tmp_path)
    options = {"ignore_mismatched_sizes": True}
    config = copy.deepcopy(model.config)
    config.vocab_size = 20
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=5)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        AutoModel.from_pretrained(tmp_path, config=config)
    five = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=5, **options)
    saved = model.state_dict()
    other = {name for name, weight in five.state_dict().items() if weight.shape != saved[name].shape}
    assert other == {"nli_head.output.weight", "nli_head.output.bias"}
    assert all(torch.equal(weight, saved[name]) for name, weight in five.state_dict().items() if name not in other)
    assert five(**part_inputs("classifier", labels=False)).logits.shape == (7, 5)
    smaller = AutoModel.from_pretrained(tmp_path, config=config, **options)
    assert smaller.embed_tokens.num_embeddings == 20
    assert smaller.eval()(**part_inputs("encoder")).pooler_output.isfinite().all()


def test_special_tokens_and_tied_embeddings_have_defaults(model, part):
    names = ("pad_token_id", "unk_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "tie_word_embeddings")
    values = {name: value for name, value in model.config.to_diff_dict().items() if name not in names}
    config = type(model.config)(**values)
    assert not getattr(config, "tie_word_embeddings", False)
    assert all(tensor is None or tensor.isfinite().all() for tensor in outputs(type(model)(config), part))


# -- embeddings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "part"), product([*FOUR, "dan_best", "transformer_residual"], PARTS))
def test_resizing_keeps_the_embeddings_of_the_other_tokens(kind, part, tmp_path):
    model = build_part(kind, part)
    table = model.get_input_embeddings()
    before, expected = table.weight.detach().clone(), outputs(model, part)
    added = model.resize_token_embeddings(70)
    assert type(added) is type(table) and added is model.get_input_embeddings() and model.config.vocab_size == 70
    assert torch.equal(added.weight[:60], before)
    # transformers draws new embeddings around the mean of the others.
    torch.testing.assert_close(added.weight[60:].mean(0), before.mean(0), rtol=0, atol=1e-3)
    torch.testing.assert_close(outputs(model, part), expected, rtol=0, atol=1e-6)
    batch = part_inputs(part)
    batch["input_ids"][:, -1] = 69
    assert model(**batch)[0].isfinite().all()
    assert model.resize_token_embeddings(40).num_embeddings == model.config.vocab_size == 40
    torch.testing.assert_close(outputs(model, part), expected, rtol=0, atol=1e-6)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(outputs(type(model).from_pretrained(tmp_path), part), expected, rtol=0, atol=1e-6)
    assert model.resize_token_embeddings(41, pad_to_multiple_of=64).num_embeddings == model.config.vocab_size == 64
    with pytest.raises(ValueError, match="integer"):
        model.resize_token_embeddings(41, pad_to_multiple_of=1.3)


def test_embeddings_can_be_replaced(model):
    table = torch.nn.Embedding(10, 10)
    model.set_input_embeddings(table)
    assert model.get_input_embeddings() is table is model.base_model.embed_tokens
    assert model.get_output_embeddings() is None


def test_a_head_model_has_the_encoder_as_its_base_model_with_the_same_config(model, part):
    assert model.base_model is (model if part == "encoder" else model.encoder)
    assert model.base_model.config is model.config
