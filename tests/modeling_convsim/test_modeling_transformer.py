import itertools
import math

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from torch import nn

from modeling_convsim import ConvSimTransformerConfig, ConvSimTransformerModel
from modeling_convsim.modeling_layouts import timing_signal
from modeling_convsim.modeling_transformer import drop_values
from tests.modeling_convsim.tiny_models import SENTENCES, build, pack, pad


def scalar_timing_signal(position: int, size: int) -> list[float]:
    scales = [10_000 ** (i / (size / 2 - 1)) for i in range(size // 2)]
    return [math.sin(position / scale) for scale in scales] + [math.cos(position / scale) for scale in scales]


@pytest.mark.parametrize("size", [16, 512])
def test_timing_signal_agrees_with_the_formula(size):
    expected = torch.tensor([scalar_timing_signal(position, size) for position in range(64)], dtype=torch.float64)
    signal = timing_signal(64, size, torch.device("cpu"))
    assert signal.dtype == torch.float32
    torch.testing.assert_close(signal.double(), expected, rtol=0, atol=1e-5)


def reference_states(model: ConvSimTransformerModel, sentence: list[int]) -> list[torch.Tensor]:
    """Hidden states (tokens, hidden_size) after the embeddings and after each layer, by torch's own layers."""
    config = model.config
    size = config.hidden_size
    signal = torch.tensor([scalar_timing_signal(position, size) for position in range(len(sentence))])
    words = model.embed_tokens.weight[torch.tensor(sentence)]
    if config.residual:
        words = words @ model.input_projection.weight.T
    states = [words * math.sqrt(size) + signal.to(words.dtype)]
    for ours in model.layers:
        layer = nn.TransformerEncoderLayer(
            size,
            config.num_attention_heads,
            config.intermediate_size,
            dropout=0.0,
            activation="relu",
            layer_norm_eps=config.layer_norm_eps,
            norm_first=True,
            batch_first=True,
            dtype=states[0].dtype,
        )
        nn.init.zeros_(layer.self_attn.in_proj_bias)
        nn.init.zeros_(layer.self_attn.out_proj.bias)
        layer.self_attn.in_proj_weight.data = ours.attention.query_key_value.weight.data
        layer.self_attn.out_proj.weight.data = ours.attention.output.weight.data
        layer.norm1.load_state_dict(ours.attention_norm.state_dict())
        layer.norm2.load_state_dict(ours.feed_forward_norm.state_dict())
        layer.linear1.load_state_dict(ours.intermediate.state_dict())
        layer.linear2.load_state_dict(ours.output.state_dict())
        states.append(layer(states[-1].unsqueeze(0)).squeeze(0))
    states[-1] = model.norm(states[-1])
    return states


@torch.no_grad()
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_agrees_with_torchs_layers_sentence_by_sentence(attention):
    model = build("transformer").encoder
    model.set_attn_implementation(attention)
    sentences = [sentence for sentence in SENTENCES if sentence]
    vectors = model(**pack(sentences)).pooler_output
    for sentence, vector in zip(sentences, vectors, strict=True):
        mean = sum(reference_states(model, sentence)[-1]) / len(sentence)
        projected = model.projection.weight @ mean + model.projection.bias
        torch.testing.assert_close(vector, projected / projected.norm(), rtol=0, atol=2e-6)


@torch.no_grad()
def test_hidden_states_agree_with_torchs_layers():
    model = build("transformer").encoder
    sentences = [[5, 6, 7], [9, 10, 11, 1, 13]]
    output = model(**pad(sentences), output_hidden_states=True)
    assert len(output.hidden_states) == 1 + model.config.num_hidden_layers
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    for row, sentence in enumerate(sentences):
        expected = reference_states(model, sentence)
        actual = [states[row, : len(sentence)] for states in output.hidden_states]
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_batch_with_empty_texts_has_finite_gradients():
    model = build("transformer")
    with torch.autograd.detect_anomaly(check_nan=True):
        model.encoder(**pack(SENTENCES)).pooler_output.cos().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.encoder.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("probability", "scale"), [(0.1, 10 / 9), (0.5, 2), (0.999995, 200_000)])
def test_dropout_keeps_each_value_with_its_probability_whatever_its_neighbors(dtype, probability, scale):
    torch.manual_seed(0)
    values = torch.linspace(1, 2, 3 * 33_337, dtype=dtype).view(3, -1).requires_grad_()
    dropped = drop_values(values, probability)
    is_kept = dropped != 0
    expected = values.detach() * torch.tensor(scale, dtype=dtype)
    torch.testing.assert_close(dropped.detach(), torch.where(is_kept, expected, 0.0))
    for part in (is_kept, *is_kept, is_kept[:, ::4], is_kept[:, 1::4], is_kept[:, 2::4], is_kept[:, 3::4]):
        deviation = (probability * (1 - probability) / part.numel()) ** 0.5
        assert abs(part.double().mean().item() - (1 - probability)) < 4 * deviation + 2**-16
    both = (is_kept[:, 1:] & is_kept[:, :-1]).double().mean().item()
    assert abs(both - (1 - probability) ** 2) < 0.01  # neighbors share random bits, but not their own 16
    dropped.sum().backward()
    torch.testing.assert_close(values.grad, is_kept.to(dtype) * torch.tensor(scale, dtype=dtype))


@torch.no_grad()
def test_dropout_is_applied_to_the_embeddings_within_the_network_and_at_the_end_of_both_parts():
    model = build("transformer").encoder
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.forward = lambda values: 3 * values  # in place of leaving values out
    sentence, size = [5, 6, 7], model.config.hidden_size
    signal = torch.tensor([scalar_timing_signal(position, size) for position in range(3)])
    hidden = 3 * (model.embed_tokens.weight[torch.tensor(sentence)] * math.sqrt(size) + signal)
    for layer in model.layers:
        heads = layer.attention.query_key_value(layer.attention_norm(hidden)).view(3, 3, 2, size // 2)
        query, key, value = heads.permute(1, 2, 0, 3)  # (heads, tokens, size / 2) each
        weights = (query @ key.mT / math.sqrt(size // 2)).softmax(-1)
        hidden = hidden + 3 * layer.attention.output((weights @ value).permute(1, 0, 2).reshape(3, size))
        units = 3 * layer.intermediate(layer.feed_forward_norm(hidden)).clamp(min=0)
        hidden = hidden + 3 * layer.output(units)
    expected = model.projection(model.norm(hidden).mean(0))
    for batch in (pack([sentence]), pad([sentence])):
        vector = model(**batch).pooler_output[0]
        torch.testing.assert_close(vector, expected / expected.norm(), rtol=0, atol=1e-5)


@pytest.fixture
def kernel_calls(monkeypatch):
    """The calls of torch's kernel for GPUs, which does not run on a CPU; sentences are read as on a GPU."""
    calls = []

    def attend(q, k, v, scale):
        weights = torch.einsum("qhs,khs->hqk", q, k).mul(scale).softmax(-1)
        return torch.einsum("hqk,khs->qhs", weights, v)

    def kernel(
        q, k, v, bias, starts_q, starts_k, longest_q, longest_k, dropout, custom_mask_type, compute_log_sumexp, scale
    ):
        assert bias is None and custom_mask_type == 0  # not causal
        assert compute_log_sumexp == torch.is_grad_enabled()  # which the backward pass reads
        assert starts_q.dtype == torch.int32 and torch.equal(starts_q, starts_k)
        assert longest_q == longest_k == starts_q.diff().max()
        calls.append({"tokens": q.shape[1], "dropout": dropout})
        spans = [slice(*ends) for ends in itertools.pairwise(starts_q.tolist())]
        values = torch.cat([attend(q[0, span], k[0, span], v[0, span], scale) for span in spans])
        return values.unsqueeze(0), "log sums", "seed"

    monkeypatch.setattr(torch.ops.aten, "_efficient_attention_forward", kernel)
    monkeypatch.setattr(ConvSimTransformerModel, "_reads_without_padding", lambda *_: True)
    return calls


def pooled_and_gradients(model, batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.zero_grad()
    pooled = model(**batch).pooler_output
    (pooled * torch.arange(pooled.numel()).view_as(pooled).cos()).sum().backward()
    return pooled.detach(), [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("arrange", [pack, pad])
def test_the_kernel_for_gpus_reads_all_sentences_at_once_without_padding(arrange, request):
    model, batch = build("transformer").encoder, arrange(SENTENCES)
    expected = pooled_and_gradients(model, batch)
    kernel_calls = request.getfixturevalue("kernel_calls")
    torch.testing.assert_close(pooled_and_gradients(model, batch), expected, rtol=1e-4, atol=1e-6)
    tokens = sum(len(sentence) for sentence in SENTENCES)
    assert kernel_calls == model.config.num_hidden_layers * [{"tokens": tokens, "dropout": 0.0}]
    kernel_calls.clear()
    model.config.attention_dropout = 0.25
    model.train()(**batch)
    assert [call["dropout"] for call in kernel_calls] == model.config.num_hidden_layers * [0.25]


@torch.no_grad()
def test_the_kernel_for_gpus_is_not_called_for_no_tokens(request):
    model = build("transformer").encoder
    expected = model(**pack([[]])).pooler_output
    kernel_calls = request.getfixturevalue("kernel_calls")
    torch.testing.assert_close(model(**pack([[]])).pooler_output, expected, rtol=0, atol=0)
    assert not kernel_calls


def test_sentences_are_read_without_padding_on_a_gpu_unless_another_kernel_is_selected(monkeypatch):
    model, gpu = build("transformer").encoder, torch.device("cuda")
    assert model._reads_without_padding(gpu) and not model._reads_without_padding(torch.device("cpu"))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert not model._reads_without_padding(gpu)
    with monkeypatch.context() as patch:
        patch.setattr(torch.version, "hip", "7.0")  # AMD's GPUs
        assert not model._reads_without_padding(gpu)
    model.config.num_attention_heads = 4  # of 4 dimensions, fewer than the kernel reads at once
    assert not model._reads_without_padding(gpu)
    model.config.num_attention_heads = 2
    model.config._attn_implementation = "eager"
    assert not model._reads_without_padding(gpu)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 100}, "hidden_size is 100, expected an even multiple of num_attention_heads 8"),
        ({"hidden_size": 15, "num_attention_heads": 3}, "hidden_size is 15, expected an even multiple"),
        ({"attention_dropout": 1.0}, "attention_dropout is 1.0, expected at least 0 and below 1"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, expected numbers above 0"),
        ({"token_dropout": -0.1}, "token_dropout is -0.1, expected at least 0 and below 1"),
        ({"learned_token_weights": True}, "learned_token_weights requires residual: true"),
        ({"residual_scale": 0.1}, "residual_scale requires residual: true"),
        ({"residual": True, "residual_scale": 0}, "residual_scale is 0, expected numbers above 0"),
        ({"residual": True, "hidden_sizes": [9]}, r"hidden_sizes is \[9\], which only earlier .*; expected \[\]:"),
    ],
)
def test_config_refuses_values_out_of_range(values, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        ConvSimTransformerConfig(**values)
