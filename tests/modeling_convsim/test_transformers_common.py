"""The checks of transformers' common model tests, applied to every encoder and its tokenizer.

Tests of saving and loading, initialization, resizing and batching are in `test_saving.py` and `test_modeling_base.py`.
"""

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from accelerate.utils import send_to_device
from transformers import AttentionInterface, AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer, pipeline
from transformers.modeling_outputs import BaseModelOutputWithPooling

from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_layouts import SentenceGroup
from tests.modeling_convsim.tiny_models import KINDS, SENTENCES, build, pack, pad

TEXTS = ["How old are you, and how old is the big dog?", "hello", ""]
BATCHES = pytest.mark.parametrize("batch", [pack(SENTENCES), pad(SENTENCES), pad(SENTENCES, width=9, left=True)])


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(kind, tiny_tokenizer, tmp_path_factory) -> Path:
    """A saved multitask model and its tokenizer."""
    path = tmp_path_factory.mktemp(kind)
    build(kind).save_pretrained(path)
    tiny_tokenizer.save_pretrained(path)
    return path


@torch.no_grad()
def pooled(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model.eval()(**batch).pooler_output


# -- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("auto_class", [AutoModel, AutoModelForPreTraining])
@pytest.mark.parametrize("device_map", ["cpu", "auto", {"": "cpu"}])
def test_device_map_places_every_weight_and_keeps_embeddings_equal(kind, folder, auto_class, device_map, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = auto_class.from_pretrained(folder, device_map=device_map)
    assert {weight.device.type for weight in model.parameters()} == {"cpu"}
    assert torch.equal(pooled(model, pad(SENTENCES)), pooled(build(kind), pad(SENTENCES)))


@pytest.mark.parametrize("part", ["embed", "layers"])
def test_weights_offloaded_to_disk_are_read_when_they_are_needed(kind, folder, part, tmp_path):
    parts = [name for name, _ in build(kind).encoder.named_children()]
    device_map = {name: "disk" if name.startswith(part) else "cpu" for name in parts}
    model = AutoModel.from_pretrained(folder, device_map=device_map, offload_folder=tmp_path)
    assert any(weight.is_meta for weight in model.parameters()) == ("disk" in device_map.values())
    assert torch.equal(pooled(model, pad(SENTENCES)), pooled(build(kind), pad(SENTENCES)))


def test_sentence_groups_are_moved_to_a_layers_device():
    lengths = torch.tensor([2, 5])
    (moved,) = send_to_device([SentenceGroup.from_lengths(lengths, 5)], "meta")
    assert moved.indices.is_meta and moved.keys.is_meta and (moved.sentences, moved.width, moved.tokens) == (2, 5, 7)
    assert send_to_device(SentenceGroup(2, 3, 6), "meta") == SentenceGroup(2, 3, 6)


@pytest.mark.parametrize("auto_class", [AutoModel, AutoModelForPreTraining])
def test_model_created_on_the_meta_device_loads_its_weights(kind, folder, auto_class):
    saved = auto_class.from_pretrained(folder)
    with torch.device("meta"):
        model = auto_class.from_config(AutoConfig.from_pretrained(folder))
    assert all(weight.is_meta for weight in [*model.parameters(), *model.buffers()])
    model.load_state_dict(saved.state_dict(), assign=True)
    assert torch.equal(pooled(model, pad(SENTENCES)), pooled(saved, pad(SENTENCES)))


def test_sharded_weights_load_like_a_single_file(kind, folder, tmp_path):
    model = AutoModelForPreTraining.from_pretrained(folder)
    model.save_pretrained(tmp_path, max_shard_size="2KB")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1 and not (tmp_path / "model.safetensors").exists()
    for auto_class in (AutoModel, AutoModelForPreTraining):
        loaded, loading = auto_class.from_pretrained(tmp_path, output_loading_info=True)
        assert not any(loading.values())
        assert torch.equal(pooled(loaded, pack(SENTENCES)), pooled(model, pack(SENTENCES)))
    expected = Encoder.from_pretrained(folder).encode(TEXTS, side="response")
    assert np.array_equal(Encoder.from_pretrained(tmp_path).encode(TEXTS, side="response"), expected)


@BATCHES
@pytest.mark.parametrize("auto_class", [AutoModel, AutoModelForPreTraining])
def test_bfloat16_embeddings_are_close_to_float32(kind, folder, auto_class, batch):
    model = auto_class.from_pretrained(folder, dtype=torch.bfloat16)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    vectors = pooled(model, batch)
    assert vectors.dtype == torch.bfloat16
    torch.testing.assert_close(vectors.float(), pooled(build(kind), batch), rtol=0, atol=0.01)


def test_bfloat16_gives_finite_gradients(kind, folder):
    model = AutoModelForPreTraining.from_pretrained(folder, dtype=torch.bfloat16).train()
    pairs = pack(SENTENCES) | {f"response_{name}": value for name, value in pack(SENTENCES).items()}
    model(**pairs, return_loss=True).loss.backward()
    gradients = [weight.grad for name, weight in model.named_parameters() if not name.startswith("nli_head")]
    assert all(gradient.isfinite().all() for gradient in gradients)


# -- outputs ----------------------------------------------------------------------------------------------------------


def test_first_parameters_are_input_ids_and_attention_mask(kind):
    model = build(kind)
    for part in (model, model.encoder):
        assert list(inspect.signature(part.forward).parameters)[:2] == ["input_ids", "attention_mask"]


@BATCHES
def test_embeddings_of_a_batch_are_deterministic(kind, batch):
    model = build(kind)
    assert torch.equal(pooled(model, batch), pooled(model, batch))


@BATCHES
def test_return_dict_false_returns_the_output_as_a_tuple(kind, batch):
    model = build(kind)
    pairs = batch | {f"response_{name}": value for name, value in batch.items()}
    for part, inputs in ((model.encoder, batch), (model, pairs)):
        output, values = part(**inputs), part(**inputs, return_dict=False)
        assert isinstance(values, tuple)
        torch.testing.assert_close(values, output.to_tuple(), rtol=0, atol=0)


def test_return_dict_of_the_config_is_applied(kind, folder):
    model = AutoModelForPreTraining.from_pretrained(folder, return_dict=False).eval()
    (vectors,) = model(**pack(SENTENCES))
    # Not bit-identical: the rounding of some kernels depends on how the weights are aligned in memory.
    torch.testing.assert_close(vectors, pooled(build(kind), pack(SENTENCES)), rtol=0, atol=1e-6)


def hidden_states(output: BaseModelOutputWithPooling) -> tuple[torch.Tensor, ...]:
    assert output.hidden_states is not None
    return output.hidden_states


@torch.no_grad()
@pytest.mark.parametrize("left", [False, True])
def test_hidden_states_are_the_token_embeddings_and_the_output_of_every_layer(kind, left):
    model, batch = build(kind).encoder, pad(SENTENCES, width=9, left=left)
    output = model(**batch, output_hidden_states=True)
    states, mask = hidden_states(output), batch["attention_mask"].bool()
    assert {tuple(state.shape[:2]) for state in states} == {(7, 9)}
    if kind != "transformer_residual":  # its layers read a projection of the embeddings
        assert states[0].shape[2] == model.get_input_embeddings().embedding_dim
    assert torch.equal(states[-1], output.last_hidden_state)
    assert all((state[4][mask[4]] != 0).any(1).sum() >= 6 for state in states)
    assert (states[-1][~mask] == 0).all()
    # The states of a token do not depend on the other sentences of the batch.
    for row, sentence in enumerate(SENTENCES):
        alone = hidden_states(model(**pad([sentence], width=max(len(sentence), 1)), output_hidden_states=True))
        for state, expected in zip(states, alone, strict=True):
            torch.testing.assert_close(state[row][mask[row]], expected[0, : len(sentence)], rtol=0, atol=1e-5)
    plain = model(**batch)
    assert plain.hidden_states is None
    torch.testing.assert_close(output.pooler_output, plain.pooler_output, rtol=0, atol=1e-6)


@pytest.mark.parametrize("option", ["output_hidden_states", "output_attentions"])
def test_packed_input_has_no_hidden_states_and_attentions_to_return(kind, option):
    encoder = build(kind).encoder
    with pytest.raises(ValueError, match=f"{option}: "):
        encoder(**pack(SENTENCES), **{option: True})


def test_an_unknown_argument_is_refused(kind):
    for part in (build(kind), build(kind).encoder):
        with pytest.raises(TypeError, match="position_ids"):
            part(**pad(SENTENCES), position_ids=torch.zeros(7, 7))


def test_output_hidden_states_of_the_config_is_applied(kind, folder):
    model = AutoModel.from_pretrained(folder, output_hidden_states=True)
    torch.testing.assert_close(
        hidden_states(model(**pad(SENTENCES))), hidden_states(model(**pad(SENTENCES), output_hidden_states=True))
    )
    assert model(**pad(SENTENCES), output_hidden_states=False).hidden_states is None


@torch.no_grad()
def test_gradients_reach_every_hidden_state(kind):
    model = build(kind).encoder
    with torch.enable_grad():
        states = hidden_states(model(**pad(SENTENCES), output_hidden_states=True))
        for state in states:
            (gradient,) = torch.autograd.grad(state.square().sum(), model.embed_tokens.weight, retain_graph=True)
            assert gradient.any()


@torch.no_grad()
@pytest.mark.parametrize("left", [False, True])
def test_attentions_match_the_positions_of_the_input_with_any_padding(left):
    model = build("transformer").encoder
    batch = pad(SENTENCES, width=9, left=left)
    output = model(**batch, output_attentions=True, output_hidden_states=True)
    assert [tuple(weights.shape) for weights in output.attentions] == [(7, 2, 9, 9)] * 2
    mask = batch["attention_mask"].bool()
    for layer, weights in enumerate(output.attentions):
        for row, sentence in enumerate(SENTENCES):
            alone = pad([sentence], width=max(len(sentence), 1))
            expected = model(**alone, output_attentions=True).attentions[layer][0]
            positions = mask[row].nonzero().squeeze(1)
            actual = weights[row][:, positions][:, :, positions]
            torch.testing.assert_close(actual, expected[:, : len(sentence), : len(sentence)], rtol=0, atol=1e-6)
    plain = model(**batch, output_hidden_states=True)
    torch.testing.assert_close(output.pooler_output, plain.pooler_output, rtol=0, atol=1e-6)
    torch.testing.assert_close(output.hidden_states, plain.hidden_states, rtol=0, atol=1e-5)


def test_encoders_without_attention_refuse_output_attentions(kind):
    encoder = build(kind).encoder
    if kind.startswith("transformer"):
        assert encoder(**pad(SENTENCES), output_attentions=True).attentions
    else:
        with pytest.raises(ValueError, match=r"output_attentions: \w+ has no attention"):
            encoder(**pad(SENTENCES), output_attentions=True)


@torch.no_grad()
@pytest.mark.parametrize("batch", [pack(SENTENCES), pad(SENTENCES)])
def test_the_attention_implementation_can_be_chosen(batch, monkeypatch):
    model = build("transformer").encoder
    expected, calls = pooled(model, batch), []
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *args, **kwargs: calls.append(1))
    model.set_attn_implementation("eager")
    torch.testing.assert_close(pooled(model, batch), expected, rtol=0, atol=1e-6)
    assert not calls

    def mean_attention(module, query, key, value, attention_mask, **kwargs):
        return value.mean(2, keepdim=True).expand_as(value).transpose(1, 2), None

    AttentionInterface.register("mean", mean_attention)
    model.set_attn_implementation("mean")
    assert not torch.allclose(pooled(model, batch), expected, atol=1e-3)


def test_compiled_transformer_returns_hidden_states_and_attentions():
    model, batch = build("transformer").encoder, pad(SENTENCES, width=9)
    options = {"output_hidden_states": True, "output_attentions": True}
    with torch.no_grad():
        # transformers records outputs with hooks, which break the graph.
        compiled = torch.compile(model, backend="eager")(**batch, **options)
        torch.testing.assert_close(compiled.to_tuple(), model(**batch, **options).to_tuple(), rtol=0, atol=1e-6)
    torch.compiler.reset()


# -- training ---------------------------------------------------------------------------------------------------------


def test_gradient_checkpointing_is_refused_by_encoders_without_it(kind):
    model = build(kind)
    assert model.supports_gradient_checkpointing == model.encoder.supports_gradient_checkpointing
    for part in (model, model.encoder):
        if not part.supports_gradient_checkpointing:
            with pytest.raises(ValueError, match=r"does not support (?:activation|gradient) checkpointing"):
                part.gradient_checkpointing_enable()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing_of_the_multitask_model_gives_the_same_gradients(use_reentrant):
    model = build("transformer").train()
    pairs = pack(SENTENCES) | {f"response_{name}": value for name, value in pack(SENTENCES).items()}
    gradients = []
    for checkpointing in (False, True):
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
            assert model.is_gradient_checkpointing
        model.zero_grad()
        output = model(**pairs)
        (output.pooler_output @ output.response_embeds.T).logsumexp(1).sum().backward()
        gradients.append([weight.grad for weight in model.parameters() if weight.grad is not None])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)


# -- tokenizer and pipeline -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [False, True])
def test_tokenizer_pads_and_truncates(kind, folder, left):
    side = "left" if left else "right"
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side=side)
    token_ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    fixed = tokenizer(TEXTS, padding="max_length", max_length=7, truncation=True, return_tensors="pt")
    assert fixed["input_ids"].shape == (3, 7) and fixed["attention_mask"].sum(1).tolist() == [7, 1, 0]
    mask = tokenizer(TEXTS, padding=True, pad_to_multiple_of=8)["attention_mask"][0]
    assert mask == ([0] * 3 + [1] * 13 if left else [1] * 13 + [0] * 3)
    model = AutoModel.from_pretrained(folder)
    expected = pooled(build(kind), pack([ids[:7] for ids in token_ids]))
    torch.testing.assert_close(pooled(model, fixed), expected, rtol=0, atol=1e-6)
    tokenizer.truncation_side = "left"
    truncated = tokenizer(TEXTS, padding=True, max_length=7, truncation=True, return_tensors="pt")
    expected = pooled(build(kind), pack([ids[-7:] for ids in token_ids]))
    torch.testing.assert_close(pooled(model, truncated), expected, rtol=0, atol=1e-6)


def test_feature_extraction_pipeline_returns_the_token_vectors(kind, folder, monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # a pipeline sets it and does not restore it
    extract = pipeline("feature-extraction", model=str(folder), device="cpu")
    encoder = build(kind).encoder
    for batch_size in (1, 2):
        features = extract(TEXTS[:2], batch_size=batch_size, return_tensors=True)
        for text, states in zip(TEXTS, features, strict=False):
            expected = encoder(**pad([extract.tokenizer(text)["input_ids"]])).last_hidden_state
            assert states.shape[0] == 1 and states.shape[2] == expected.shape[2]
            torch.testing.assert_close(states[:, : expected.shape[1]], expected, rtol=0, atol=1e-5)
