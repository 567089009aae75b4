import json

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from transformers import AutoConfig

from modeling_convsim import ConvSimBilstmConfig, ConvSimBilstmModel, modeling_base, modeling_bilstm
from tests.modeling_convsim.tiny_models import HEADS, SENTENCES, build, pack, pad

SIZES = HEADS | {"embedding_size": 12, "word_embedding_size": 8, "hidden_size": 7}


def build_model(**values: object) -> ConvSimBilstmModel:
    torch.manual_seed(0)
    return ConvSimBilstmModel(ConvSimBilstmConfig(**SIZES, **values)).eval()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def read(weights: dict[str, np.ndarray], lstm: str, words: np.ndarray) -> np.ndarray:
    """Hochreiter and Schmidhuber's cell with forget gates, one token at a time, in float64: (tokens, hidden_size)."""
    size = weights[f"{lstm}.weight_hh_l0"].shape[1]
    hidden, cell, states = np.zeros(size), np.zeros(size), np.empty((len(words), size))
    for step, word in enumerate(words):
        gates = weights[f"{lstm}.weight_ih_l0"] @ word + weights[f"{lstm}.bias_ih_l0"]
        gates += weights[f"{lstm}.weight_hh_l0"] @ hidden + weights[f"{lstm}.bias_hh_l0"]
        input_gate, forget_gate, candidate, output_gate = np.split(gates, 4)
        cell = sigmoid(forget_gate) * cell + sigmoid(input_gate) * np.tanh(candidate)
        hidden = states[step] = sigmoid(output_gate) * np.tanh(cell)
    return states


def reference(model: ConvSimBilstmModel, sentence: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Token vectors (tokens, directions * hidden_size) and the sentence embedding, by a loop in float64."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    config = model.config
    tokens = weights["embed_tokens.weight"][np.array(sentence, dtype=int)]
    directions = [read(weights, "layers.0.directions.0", tokens)]
    if config.bidirectional:
        directions.append(read(weights, "layers.0.directions.1", tokens[::-1])[::-1])
    tokens = np.concatenate(directions, axis=1)
    pooled = tokens.max(axis=0) if sentence else np.zeros(tokens.shape[1])
    vector = weights["projection.weight"] @ pooled + weights["projection.bias"]
    return tokens, vector / (np.linalg.norm(vector) or 1)


@torch.no_grad()
@pytest.mark.parametrize("bidirectional", [True, False])
def test_agrees_with_a_loop_over_tokens_in_float64(bidirectional):
    model = build_model(bidirectional=bidirectional)
    for parameter in model.parameters():
        parameter.copy_(torch.randn_like(parameter) * 0.5)
    expected = np.stack([reference(model, sentence)[1] for sentence in SENTENCES])
    for batch in (pack(SENTENCES), pad(SENTENCES), pad(SENTENCES, width=9, left=True)):
        np.testing.assert_allclose(model(**batch).pooler_output.numpy(), expected, atol=1e-6)


@torch.no_grad()
def test_group_size_does_not_change_embeddings(monkeypatch):
    model = build("bilstm").encoder
    expected = model(**pack(SENTENCES)).pooler_output
    monkeypatch.setattr(modeling_base, "CPU_GROUP_SIZE", 2)
    torch.testing.assert_close(model(**pack(SENTENCES)).pooler_output, expected, rtol=0, atol=1e-6)


def test_gradients_of_a_batch_are_the_sums_over_its_sentences():
    model = build_model().double()
    gradients = []
    for batches in ([pack(SENTENCES)], [pad(SENTENCES, left=True)], [pack([sentence]) for sentence in SENTENCES]):
        model.zero_grad()
        for batch in batches:
            model(**batch).pooler_output.cos().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    torch.testing.assert_close(gradients[0], gradients[2])
    torch.testing.assert_close(gradients[1], gradients[2])


def test_autocast_to_bfloat16_gives_float32_vectors_near_the_exact_ones():
    model = build_model()
    exact = model(**pack(SENTENCES)).pooler_output
    with torch.autocast("cpu", torch.bfloat16):
        for batch in (pack(SENTENCES), pad(SENTENCES)):
            vectors = model(**batch).pooler_output
            assert vectors.dtype == torch.float32
            torch.testing.assert_close(vectors, exact, rtol=0, atol=0.03)
    vectors.cos().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "value"), [("hidden_size", 0), ("num_layers", 2), ("pooling", "mean")])
def test_a_saved_config_of_what_is_not_computed_is_refused(name, value, tmp_path):
    earlier = {"num_layers": 1, "pooling": "max", "hidden_dropout": 0.2}  # of a BiLSTM that is computed as it was
    ConvSimBilstmConfig(**SIZES, **earlier).save_pretrained(tmp_path)
    saved = AutoConfig.from_pretrained(tmp_path).to_dict()
    assert saved.items() >= earlier.items()
    (tmp_path / "config.json").write_text(json.dumps(saved | {name: value}))
    with pytest.raises(StrictDataclassClassValidationError, match=f"{name} is {value}, .*expected"):
        AutoConfig.from_pretrained(tmp_path)


def test_an_lstm_runs_in_float32_under_autocast_on_a_cpu():
    lstm, tokens = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states = modeling_bilstm._hidden_states(lstm, tokens.bfloat16())
    # float32 rounds to 6e-8 of a value, bfloat16 to 4e-3; the kernels of inference and of training differ by a few.
    torch.testing.assert_close(states, lstm(tokens.bfloat16().float())[0].detach(), rtol=0, atol=1e-6)
