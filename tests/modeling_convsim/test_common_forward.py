"""Outputs, losses and attention of every class, as transformers' common model tests check them.

`transformers_common.yaml` names the test here for each of theirs.
"""

import inspect

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from modeling_convsim import ConvSimPreTrainedModel
from tests.modeling_convsim.tiny_models import PARTS, SENTENCES, build, build_part, pad, part_inputs

MODELS = ["dan", "transformer", "transformer_residual", "cbow", "bilstm"]


@pytest.fixture(params=PARTS)
def part(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=MODELS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(kind: str, part: str) -> ConvSimPreTrainedModel:
    return build_part(kind, part)


def everything(kind: str, part: str) -> dict[str, bool]:
    """The options that request all outputs of a class."""
    if part == "multitask":
        return {}
    return {"output_hidden_states": True} | ({"output_attentions": True} if kind.startswith("transformer") else {})


# -- outputs ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_outputs_are_deterministic_and_the_same_as_a_tuple(kind, part, model):
    options = part_inputs(part) | everything(kind, part)
    first, second, values = model(**options), model(**options), model(**options, return_dict=False)
    assert isinstance(values, tuple) and len(values) >= 2
    torch.testing.assert_close(first.to_tuple(), second.to_tuple(), rtol=0, atol=0)
    torch.testing.assert_close(values, first.to_tuple(), rtol=0, atol=0)
    assert part == "encoder" or (values[0] is not None and values[0].shape == () and torch.equal(values[0], first.loss))
    assert {name for name in ("hidden_states", "attentions") if name in first} == {
        name.removeprefix("output_") for name in everything(kind, part)
    }


@torch.no_grad()
def test_a_row_does_not_depend_on_the_others_of_its_batch(kind, part, model):
    batch, options = part_inputs(part, labels=False), everything(kind, part)
    whole = model(**batch, **options)
    for row in (0, 4, 5):
        alone = model(**{name: value[row : row + 1] for name, value in batch.items()}, **options)
        for name, value in alone.items():
            if name == "response_scale":
                continue
            for one, many in (
                zip(value, whole[name], strict=True) if isinstance(value, tuple) else [(value, whole[name])]
            ):
                torch.testing.assert_close(one[0], many[row], rtol=0, atol=1e-5)


def test_the_main_input_is_the_first_parameter_of_forward(model):
    assert model.main_input_name == next(iter(inspect.signature(model.forward).parameters)) == "input_ids"


@torch.no_grad()
@pytest.mark.parametrize("kind", ["dan_words", "transformer", "transformer_residual_words", "cbow", "bilstm"])
def test_embeddings_of_the_ids_give_the_output_of_the_ids(kind):
    model, batch = (
        build(kind).encoder,
        pad([sentence for sentence in SENTENCES if 1 not in sentence], width=9, left=True),
    )
    expected = model(**batch, output_hidden_states=True)
    embeddings, mask = model.get_input_embeddings()(batch["input_ids"]), batch["attention_mask"]
    output = model(inputs_embeds=embeddings, attention_mask=mask, output_hidden_states=True)
    torch.testing.assert_close(output.to_tuple(), expected.to_tuple(), rtol=0, atol=1e-6)
    unmasked, ones = model(inputs_embeds=embeddings), torch.ones_like(mask)
    torch.testing.assert_close(
        unmasked.pooler_output, model(inputs_embeds=embeddings, attention_mask=ones).pooler_output
    )
    with pytest.raises(ValueError, match="got both"):
        model(**batch, inputs_embeds=embeddings)
    with pytest.raises(ValueError, match="expected \\(batch, tokens"):
        model(inputs_embeds=embeddings[..., :-1])


@pytest.mark.parametrize("kind", ["dan", "dan_best", "transformer_residual"])
def test_an_encoder_that_looks_up_ids_refuses_embeddings(kind):
    with pytest.raises(ValueError, match=r"needs input_ids for its (bigrams or )?token weights"):
        build(kind).encoder(inputs_embeds=torch.zeros(1, 2, 8))


@torch.no_grad()
def test_a_classifier_returns_the_hidden_states_of_each_tokens_own_sentence(kind):
    model, batch = build_part(kind, "classifier"), part_inputs("classifier", labels=False)
    output = model(**batch, **everything(kind, "classifier"))
    second = batch.pop("token_type_ids") == 1
    for number in (0, 1):
        own = (second == number) & batch["attention_mask"].bool()
        alone = model.encoder(batch["input_ids"], own, **everything(kind, "encoder"))
        for states, expected in zip(output.hidden_states, alone.hidden_states, strict=True):
            torch.testing.assert_close(states[own], expected[own], rtol=0, atol=1e-6)
        for weights, expected in zip(output.attentions or (), alone.attentions or (), strict=True):
            weights, expected = weights.transpose(1, 2)[own], expected.transpose(1, 2)[own]
            torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("option", ["output_hidden_states", "output_attentions"])
def test_a_multitask_model_refuses_a_config_that_requests_what_only_its_encoder_returns(option):
    model = build("transformer")
    model.set_attn_implementation("eager")
    setattr(model.config, option, True)
    assert model.encoder(**pad(SENTENCES))[option.removeprefix("output_")]
    with pytest.raises(ValueError, match=rf"{option}: .* model\.encoder"):
        model(**part_inputs("multitask"))


def test_the_embedding_has_a_gradient_with_respect_to_the_first_hidden_state(kind):
    output = build(kind).encoder(**pad(SENTENCES), **everything(kind, "encoder"))
    first = [output.hidden_states[0], *(output.attentions or ())[:1]]
    for tensor in first:
        tensor.retain_grad()
    output.pooler_output.square()[:, 0].sum().backward()
    assert all(tensor.grad is not None and tensor.grad.any() for tensor in first)


# -- losses -----------------------------------------------------------------------------------------------------------


def test_every_parameter_has_a_gradient(kind, part, model):
    output = model.train()(**part_inputs(part))
    (output.pooler_output.cos().sum() if part == "encoder" else output.loss).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all() and weight.grad.any(), name


@pytest.mark.parametrize("labels", [None, 1, 2])
def test_a_classifier_has_the_loss_of_its_problem_type(kind, labels):
    """Cross-entropy, or a squared error for one label, or a binary cross-entropy for several labels at a time."""
    problem = {None: "single_label_classification", 1: "regression", 2: "multi_label_classification"}[labels]
    config = build(kind).config
    config.problem_type = problem
    if labels:
        config.num_labels = labels
    model, batch = type(build_part(kind, "classifier"))(config).train(), part_inputs("classifier")
    if labels:
        batch["labels"] = torch.linspace(-1, 2, 7) if labels == 1 else (torch.arange(14).view(7, 2) % 3 == 0).float()
    output = model(**batch)
    logits, gold = output.logits.detach().double().numpy(), batch["labels"].numpy()
    if labels == 1:
        expected = (logits[:, 0] - gold) ** 2
    elif labels == 2:
        expected = np.logaddexp(0, logits) - logits * gold
    else:
        expected = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(7), gold]
    assert output.loss.item() == pytest.approx(expected.mean(), abs=1e-5)
    output.loss.backward()
    assert model.nli_head.output.weight.grad.any()


# -- gradient checkpointing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "frozen"), [(None, False), ({"use_reentrant": False}, False), ({"use_reentrant": True}, True)]
)
@pytest.mark.parametrize("part", ["multitask", "classifier"])
@pytest.mark.parametrize("kind", ["transformer", "transformer_residual"])
def test_checkpointing_gives_the_same_gradients(kind, part, options, frozen):
    """`frozen` as an adapter's training freezes the embeddings, whose output then must require gradients."""
    model = build_part(kind, part).train()
    model.get_input_embeddings().requires_grad_(not frozen)
    gradients, counts, calls = [], [], []
    layer = next(module for module in model.modules() if isinstance(module, GradientCheckpointingLayer))
    layer.attention.register_forward_hook(lambda *_: calls.append(1))
    for checkpointing in (False, True):
        if checkpointing:
            model.gradient_checkpointing_enable(options)
            if frozen:
                model.enable_input_require_grads()
        calls.clear()
        model.zero_grad()
        model(**part_inputs(part)).loss.backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad})
        counts.append(len(calls))
    assert counts[1] == 2 * counts[0] > 0
    assert all(gradient is not None for gradient in gradients[0].values())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-6)


def test_checkpointing_is_enabled_and_disabled_in_every_layer(part):
    model = build_part("transformer", part)
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    assert layers and not model.is_gradient_checkpointing
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing and all(layer.gradient_checkpointing for layer in layers)
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing and not any(layer.gradient_checkpointing for layer in layers)
    model.config.gradient_checkpointing = True
    assert type(model)(model.config).is_gradient_checkpointing


def test_the_embedded_input_can_be_made_to_require_gradients(model, part):
    model.requires_grad_(False)
    model.enable_input_require_grads()
    assert model(**part_inputs(part))[1].requires_grad
    model.disable_input_require_grads()
    assert not model(**part_inputs(part))[1].requires_grad


# -- attention --------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_eager_attention_is_that_of_torch(dtype, left, masked):
    batch = pad([sentence for sentence in SENTENCES if sentence], width=9, left=left)
    if not masked:
        del batch["attention_mask"]
    results = []
    for implementation in ("sdpa", "eager"):
        model = build("transformer").encoder.to(dtype)
        model.set_attn_implementation(implementation)
        results.append(model(**batch, output_hidden_states=True).hidden_states[-1])
    tolerance = {torch.float32: 1e-6, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=tolerance * results[0].abs().max().item())


def implementations(model: torch.nn.Module) -> set[str]:
    """What the config of every part of a model names."""
    parts = [module for module in model.modules() if isinstance(module, PreTrainedModel) or hasattr(module, "config")]
    return {module.config._attn_implementation for module in parts}


def test_the_attention_implementation_is_chosen_in_the_config_on_loading_and_later(part, tmp_path):
    model = build_part("transformer", part)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert implementations(loaded) == {"sdpa"}
    assert implementations(type(model).from_pretrained(tmp_path, attn_implementation="eager")) == {"eager"}
    config = type(model.config)(**model.config.to_diff_dict() | {"attn_implementation": "eager"})
    assert config._attn_implementation == "eager"
    assert implementations(type(model)(config)) == {"eager"}
    for implementation in ("eager", "sdpa"):
        loaded.set_attn_implementation(implementation)
        assert implementations(loaded) == {implementation}
    with pytest.raises(ValueError, match="foo"):
        loaded.set_attn_implementation("foo")
    assert implementations(loaded) == {"sdpa"}


@torch.no_grad()
@pytest.mark.parametrize("part", ["encoder", "classifier"])
def test_attentions_of_the_config_are_returned(part):
    model, batch = build_part("transformer", part), part_inputs(part, labels=False)
    model.set_attn_implementation("eager")
    expected = model(**batch, output_attentions=True).attentions
    assert [tuple(weights.shape) for weights in expected] == [(7, 2, 7, 7)] * 2
    model.config.output_attentions = True
    torch.testing.assert_close(model(**batch).attentions, expected, rtol=0, atol=0)
    assert model(**batch, output_attentions=False).attentions is None


# -- compilation ------------------------------------------------------------------------------------------------------


def test_a_compiled_model_has_the_same_gradients():
    model, batch = build_part("dan", "classifier").train(), part_inputs("classifier")
    gradients = []
    for function in (model, torch.compile(model, backend="aot_eager", fullgraph=True)):
        model.zero_grad()
        function(**batch).loss.backward()
        gradients.append([weight.grad for weight in model.parameters()])
    torch.compiler.reset()
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-5)
