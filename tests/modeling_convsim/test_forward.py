"""Outputs, losses and attention of every class: encoder, multitask model and classifier."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from accelerate.utils import send_to_device
from transformers import AttentionInterface, AutoModel, AutoModelForPreTraining, pipeline
from transformers.modeling_layers import GradientCheckpointingLayer

from modeling_convsim import ConvSimPreTrainedModel
from modeling_convsim.modeling_layouts import SentenceGroup
from tests.modeling_convsim.tiny_models import SENTENCES, build, build_part, pack, pad, part_inputs, save

ATTENTION = ["transformer", "transformer_residual", "pretrained"]


def test_features_of_an_earlier_pass_are_ignored(model: ConvSimPreTrainedModel, part: str) -> None:
    batch = part_inputs(part)
    expected = model(**batch, return_dict=True).to_tuple()
    found = model(**batch, sentence_embedding=torch.zeros(7, 3), return_dict=True).to_tuple()
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True) if one is not None)


def everything(kind: str, part: str = "encoder") -> dict[str, bool]:
    """The options that request all outputs of a class."""
    has_states = kind in ATTENTION and part == "encoder"
    return {"output_hidden_states": True, "output_attentions": True} if has_states else {}


@torch.no_grad()
def pooled(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(**batch).pooler_output


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


@torch.no_grad()
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind", ATTENTION)
def test_hidden_states_are_the_token_embeddings_and_the_output_of_every_layer(kind, left):
    model, batch = build(kind).encoder, pad(SENTENCES, width=9, left=left)
    output = model(**batch, output_hidden_states=True)
    states, mask = output.hidden_states, batch["attention_mask"].bool()
    assert {tuple(state.shape[:2]) for state in states} == {(7, 9)}
    if kind != "transformer_residual":  # its layers read a projection of the embeddings
        assert states[0].shape[2] == model.get_input_embeddings().embedding_dim
    assert torch.equal(states[-1], output.last_hidden_state)
    assert all((state[4][mask[4]] != 0).any(1).sum() >= 6 for state in states)
    assert (states[-1][~mask] == 0).all()
    plain = model(**batch)
    assert plain.hidden_states is None
    torch.testing.assert_close(output.pooler_output, plain.pooler_output, rtol=0, atol=1e-6)


@pytest.mark.parametrize("option", ["output_hidden_states", "output_attentions"])
@pytest.mark.parametrize("kind", ["transformer"])
def test_packed_input_has_no_hidden_states_and_attentions_to_return(kind, option):
    encoder = build(kind).encoder
    with pytest.raises(ValueError, match=f"{option}: "):
        encoder(**pack(SENTENCES), **{option: True})


@pytest.mark.parametrize("kind", ATTENTION)
def test_options_of_the_config_are_applied(kind, tmp_path):
    model = build(kind)
    model.save_pretrained(tmp_path)
    plain = model.encoder(**pad(SENTENCES), output_hidden_states=True)
    opened = AutoModel.from_pretrained(tmp_path, output_hidden_states=True).eval()
    torch.testing.assert_close(opened(**pad(SENTENCES)).hidden_states, plain.hidden_states, rtol=0, atol=1e-6)
    assert opened(**pad(SENTENCES), output_hidden_states=False).hidden_states is None
    (vectors,) = AutoModelForPreTraining.from_pretrained(tmp_path, return_dict=False).eval()(**pack(SENTENCES))
    torch.testing.assert_close(vectors, pooled(model, pack(SENTENCES)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch", [pack(SENTENCES), pad(SENTENCES), pad(SENTENCES, width=9, left=True)])
def test_bfloat16_embeddings_are_close_to_float32_and_gradients_finite(kind, batch):
    model, expected = build(kind).bfloat16(), pooled(build(kind), batch)
    vectors = pooled(model, batch)
    assert vectors.dtype == torch.bfloat16
    torch.testing.assert_close(vectors.float(), expected, rtol=0, atol=0.01)
    model.train()(
        **batch, **{f"response_{name}": value for name, value in batch.items()}, return_loss=True
    ).loss.backward()
    gradients = [weight.grad for name, weight in model.named_parameters() if not name.startswith("nli_head")]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_feature_extraction_pipeline_returns_the_token_vectors(kind, tiny_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # a pipeline sets it and does not restore it
    texts = ["How old are you, and how old is the big dog?", "hello"]
    extract = pipeline("feature-extraction", model=str(save(build(kind), tiny_tokenizer, tmp_path)), device="cpu")
    for text, states in zip(texts, extract(texts, batch_size=2, return_tensors=True), strict=True):
        expected = build(kind).encoder(**pad([tiny_tokenizer(text)["input_ids"]])).last_hidden_state
        torch.testing.assert_close(states[:, : expected.shape[1]], expected, rtol=0, atol=1e-5)


# -- losses and gradients ---------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("options", "frozen"), [(None, False), ({"use_reentrant": False}, False), ({"use_reentrant": True}, True)]
)
@pytest.mark.parametrize("part", ["multitask", "classifier"])
@pytest.mark.parametrize("kind", ["transformer", "transformer_residual", "pretrained", "pretrained_xlm_roberta"])
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


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_eager_attention_is_that_of_torch(dtype):
    batch, results = pad([sentence for sentence in SENTENCES if sentence], width=9, left=True), []
    for implementation in ("sdpa", "eager"):
        model = build("transformer").encoder.to(dtype)
        model.set_attn_implementation(implementation)
        results.append(model(**batch, output_hidden_states=True).hidden_states[-1])
    tolerance = {torch.float32: 1e-6, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=tolerance * results[0].abs().max().item())


@torch.no_grad()
@pytest.mark.parametrize("kind", ["transformer", "pretrained"])
@pytest.mark.parametrize("left", [False, True])
def test_attentions_match_the_positions_of_the_input_with_any_padding(kind, left):
    model = build(kind).encoder
    model.set_attn_implementation("eager")
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
            torch.testing.assert_close(actual.sum(2), torch.ones(2, len(sentence)))  # over what a token attends to
    plain = model(**batch, output_hidden_states=True)
    torch.testing.assert_close(output.pooler_output, plain.pooler_output, rtol=0, atol=1e-6)
    torch.testing.assert_close(output.hidden_states, plain.hidden_states, rtol=0, atol=1e-5)


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


def test_sentence_groups_are_moved_to_a_layers_device():
    keys = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    (moved,) = send_to_device([SentenceGroup(2, 5, keys)], "meta")
    assert moved.keys.is_meta and (moved.sentences, moved.width) == (2, 5)
    assert send_to_device(SentenceGroup(2, 3), "meta") == SentenceGroup(2, 3)
