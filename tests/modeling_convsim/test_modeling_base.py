import math

import pytest
import torch
import torch.nn.functional as F
from huggingface_hub.errors import StrictDataclassClassValidationError, StrictDataclassFieldValidationError
from torch import nn

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimForMultitask
from modeling_convsim.modeling_base import normalize
from modeling_convsim.modeling_heads import NliHead
from tests.modeling_convsim.tiny_models import DAN, KINDS, SENTENCES, pack, pad


def embed(model: ConvSimForMultitask, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return model.encoder(**batch).pooler_output


def test_packed_padded_and_single_sentences_have_equal_embeddings(multitask):
    packed = embed(multitask, pack(SENTENCES))
    for padded in (pad(SENTENCES), pad(SENTENCES, width=11), pad(SENTENCES, width=9, left=True)):
        torch.testing.assert_close(embed(multitask, padded), packed, rtol=0, atol=1e-6)
    alone = torch.cat([embed(multitask, pack([sentence])) for sentence in SENTENCES])
    torch.testing.assert_close(alone, packed, rtol=0, atol=1e-6)


def test_mask_is_derived_from_padding_ids_by_default(multitask):
    batch = pad(SENTENCES)
    ids = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, multitask.config.pad_token_id)
    torch.testing.assert_close(embed(multitask, {"input_ids": ids}), embed(multitask, batch), rtol=0, atol=1e-6)


def test_last_hidden_state_is_per_token_and_zero_at_padding(multitask):
    batch = pad(SENTENCES)
    states = multitask.encoder(**batch).last_hidden_state
    assert states.shape[:2] == batch["input_ids"].shape
    assert (states[batch["attention_mask"] == 0] == 0).all()
    known = (batch["attention_mask"] == 1) & (batch["input_ids"] != multitask.config.unk_token_id)
    assert (states[known].abs().sum(1) > 0).all()


def test_empty_text_alone_as_a_float_tensor_gives_the_same_vector(multitask):
    among_others = embed(multitask, pack(SENTENCES))[0]
    assert among_others.isfinite().all()
    torch.testing.assert_close(embed(multitask, {"input_ids": torch.zeros(1, 0)})[0], among_others, rtol=0, atol=1e-6)
    packed = {"input_ids": torch.zeros(0), "cu_seqlens": torch.tensor([0, 0, 0])}
    torch.testing.assert_close(embed(multitask, packed)[1], among_others, rtol=0, atol=1e-6)


def test_empty_text_of_an_untrained_model_has_bounded_gradients():
    # Its vector is zero before normalization: dividing by a norm of 1e-12 would multiply the gradient by 1e12.
    model = ConvSimDanForMultitask(ConvSimDanConfig(**DAN, embedding_size=12))
    output = model.encoder(**pack([[], [5, 6]])).pooler_output
    assert (output[0] == 0).all()
    output.sum().backward()
    assert all(parameter.grad.abs().max() < 100 for parameter in model.encoder.parameters())


@pytest.mark.parametrize(
    "batch",
    [
        {"input_ids": torch.tensor([3, 4])},
        {"input_ids": torch.tensor([[3, 4]]), "cu_seqlens": torch.tensor([0, 2])},
        {"input_ids": torch.tensor([3]), "attention_mask": torch.tensor([1]), "cu_seqlens": torch.tensor([0, 1])},
    ],
)
def test_input_that_is_neither_padded_nor_packed_is_refused(multitask, batch):
    with pytest.raises(ValueError, match=r"\(total_tokens,\)"):
        multitask.encoder(**batch)


IDS = torch.tensor([5, 6, 7, 8, 9, 10])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_after_the_last_offset_belong_to_no_sentence(multitask, dtype):
    batch = {"input_ids": IDS, "cu_seqlens": torch.tensor([0, 2, 4], dtype=dtype)}
    expected = embed(multitask, pack([[5, 6], [7, 8]]))
    assert torch.equal(embed(multitask, batch), expected)
    with torch.no_grad():
        output = multitask(**batch, **{f"response_{name}": value for name, value in batch.items()})
        torch.testing.assert_close(output.pooler_output, expected, rtol=0, atol=1e-6)
        responses = multitask.response_vectors(expected, **pack([[5, 6], [7, 8]]))
        torch.testing.assert_close(output.response_embeds, responses, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([2, 4, 6], "goes from 2 to 6, expected ascending offsets from 0 to at most 6"),
        ([0, 4, 9], "goes from 0 to 9, expected ascending offsets from 0 to at most 6"),
        ([0, 4, 2, 6], "goes from 0 to 6 and descends, expected"),
        ([], r"cu_seqlens has shape \(0,\), expected \(batch \+ 1,\)"),
        ([[0, 6]], r"cu_seqlens has shape \(1, 2\), expected"),
    ],
)
def test_offsets_that_do_not_fit_the_ids_are_refused(multitask, offsets, message):
    with pytest.raises(ValueError, match=message):
        multitask.encoder(IDS, cu_seqlens=torch.tensor(offsets, dtype=torch.int64))


def test_batch_without_sentences_has_no_embeddings(multitask):
    size = multitask.config.embedding_size
    no_ids = torch.zeros(0, dtype=torch.int64)
    packed = {"input_ids": no_ids, "cu_seqlens": torch.tensor([0])}
    for batch in (packed, {"input_ids": no_ids.view(0, 0)}, {"input_ids": torch.zeros(0, 5, dtype=torch.int64)}):
        assert embed(multitask, batch).shape == (0, size)
        output = multitask(**batch, **{f"response_{name}": value for name, value in batch.items()})
        lexical_size = multitask.config.lexical_size if multitask.config.lexical_share else 0
        assert output.response_embeds.shape == (0, size + lexical_size)


def test_half_precision_normalizes_in_float32(multitask):
    words = pack([sentence for sentence in SENTENCES if sentence])
    vectors = embed(multitask.bfloat16(), words)
    assert vectors.dtype == torch.bfloat16
    # Rounding moves each value by at most 2**-9 of itself, in either direction, and so the norm by less.
    torch.testing.assert_close(vectors.double().norm(dim=1), torch.ones(len(vectors)).double(), rtol=0, atol=2**-9)


def test_sparse_gradient_equals_dense_gradient(multitask):
    tables = multitask.embedding_tables()
    assert sum(table.numel() for table in tables) == sum(
        parameter.numel() for name, parameter in multitask.named_parameters() if "embed_" in name or "token_w" in name
    )
    for batch in (pack(SENTENCES), pad(SENTENCES)):
        gradients = {}
        for enabled in (False, True):
            multitask.set_sparse_gradients(enabled)
            multitask.zero_grad()
            multitask(**batch).pooler_output.cos().sum().backward()
            assert all(table.grad.is_sparse == enabled for table in tables)
            gradients[enabled] = [table.grad.to_dense() if enabled else table.grad for table in tables]
        torch.testing.assert_close(gradients[True], gradients[False], rtol=0, atol=1e-6)


def test_packed_texts_of_both_sides_share_one_encoder_call(multitask):
    calls = []
    multitask.encoder.register_forward_hook(lambda *_: calls.append(1))
    responses = [[20, 21], [], [22]]
    names = ("input_ids", "cu_seqlens")
    output = multitask(
        **pack(SENTENCES[:3]),
        **{f"response_{name}": pack(responses)[name] for name in names},
        **{f"hypothesis_{name}": pack(SENTENCES[3:6])[name] for name in names},
    )
    assert len(calls) == 1
    torch.testing.assert_close(output.pooler_output, embed(multitask, pack(SENTENCES[:3])), rtol=0, atol=1e-6)
    expected = multitask.response_vectors(embed(multitask, pack(responses)), **pack(responses))
    torch.testing.assert_close(output.response_embeds, expected, rtol=1e-6, atol=1e-5)
    second = embed(multitask, pack(SENTENCES[3:6]))
    torch.testing.assert_close(output.hypothesis_embeds, second, rtol=0, atol=1e-6)
    torch.testing.assert_close(output.nli_logits, multitask.nli_head(output.pooler_output, second))


def test_residual_response_head_starts_at_the_identity():
    head = ConvSimDanForMultitask(ConvSimDanConfig(**DAN, embedding_size=12, response_residual=True)).response_head
    x = torch.randn(5, 12)
    assert torch.equal(head(x), x)


@torch.no_grad()
@pytest.mark.parametrize("normalize", [False, True])
def test_score_with_an_input_network_is_a_product_of_two_networks(normalize):
    torch.manual_seed(2)
    sizes = {"embedding_size": 12, "input_network": True, "normalize_response": normalize, "logit_scale_init": 7.0}
    model = ConvSimDanForMultitask(ConvSimDanConfig(**DAN, **sizes)).eval()
    responses = [[20, 21], [], [22]]
    output = model(**pack(SENTENCES[:3]), **{f"response_{name}": value for name, value in pack(responses).items()})
    sides = []
    for sentences, head in ((SENTENCES[:3], "input_head"), (responses, "response_head")):
        vectors = embed(model, pack(sentences)).double()
        for layer in range(3):
            linear = model.get_submodule(f"{head}.layers.{layer}").double()
            vectors = vectors @ linear.weight.T + linear.bias
            vectors = vectors if layer == 2 else torch.tanh(vectors)
        sides.append(F.normalize(vectors, dim=1) if normalize else vectors)
    expected = sides[0] @ sides[1].T
    scores = output.query_embeds @ output.response_embeds.T
    torch.testing.assert_close(scores.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.pooler_output, embed(model, pack(SENTENCES[:3])), rtol=0, atol=1e-6)
    scales = [name for name, _ in model.named_parameters() if name.endswith("logit_scale")]
    assert scales == ["response_head.logit_scale"] * normalize  # of both sides


def test_dense_layers_carry_the_input_exactly_in_bfloat16():
    config = ConvSimDanConfig(**DAN, embedding_size=12, response_residual=True, normalize_response=False)
    head = ConvSimDanForMultitask(config).response_head  # its DNN gives zeros before training
    x = vectors = torch.randn(6, 12).bfloat16()
    for weight, bias, activation in head.as_dense_layers():
        vectors = {"relu": F.relu, "identity": nn.Identity()}[activation](
            F.linear(vectors, weight.bfloat16(), bias.bfloat16())
        )
    assert torch.equal(vectors, x)


def test_nli_head_features_and_hidden_layer():
    head = NliHead(ConvSimDanConfig(**DAN, embedding_size=12)).double()
    u, v = torch.randn(2, 4, 12, dtype=torch.float64)
    features = torch.cat([u, v, abs(u - v), u * v], dim=1)
    hidden = (features @ head.hidden.weight.T + head.hidden.bias).clamp(min=0)
    torch.testing.assert_close(head(u, v), hidden @ head.output.weight.T + head.output.bias)


@pytest.mark.parametrize("initializer_range", [None, 0.05])
def test_weights_are_initialized_as_documented(initializer_range):
    torch.manual_seed(0)
    sizes = {"vocab_size": 400, "word_embedding_size": 100, "hidden_sizes": [60, 200], "embedding_size": 80}
    config = ConvSimDanConfig(
        **sizes, initializer_range=initializer_range, normalize_response=True, logit_scale_init=7.0
    )
    model = ConvSimDanForMultitask(config)
    for table in (model.encoder.embed_tokens, model.encoder.embed_bigrams):
        assert abs(table.weight.mean().item()) < 2e-3
        assert table.weight.std().item() == pytest.approx(initializer_range or 0.1, rel=0.02)
        assert table.weight.abs().max() > 3 * table.weight.std()  # normal, not uniform
    for layer in [module for module in model.modules() if isinstance(module, nn.Linear)]:
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5  # Glorot and Bengio (2010)
        assert 0.97 * bound < layer.weight.abs().max() <= bound and not layer.bias.any()
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert model.response_head.logit_scale.item() == pytest.approx(math.log(7))


def test_short_and_long_vectors_are_normalized_and_zero_stays_zero():
    direction = torch.tensor([0.6, 0.0, -0.8], dtype=torch.float64)
    lengths = torch.tensor([[1e-10], [1e-5], [0.003], [1.0], [1e8], [0.0]], dtype=torch.float64)
    expected = direction.expand(6, 3).clone()
    expected[5] = 0
    torch.testing.assert_close(normalize(lengths * direction), expected)


def test_resized_vocabulary_keeps_its_embeddings_and_accepts_new_tokens(multitask):
    before = embed(multitask, pack(SENTENCES))
    multitask.resize_token_embeddings(70)
    assert multitask.config.vocab_size == multitask.get_input_embeddings().num_embeddings == 70
    torch.testing.assert_close(embed(multitask, pack(SENTENCES)), before, rtol=0, atol=0)
    assert embed(multitask, pack([[69, 61]])).isfinite().all()
    multitask.set_sparse_gradients(True)
    multitask(**pack([[69]])).pooler_output.sum().backward()
    assert multitask.get_input_embeddings().weight.grad.is_sparse == bool(multitask.embedding_tables())


@pytest.mark.parametrize("multitask", KINDS, indirect=True)
def test_compiles_without_a_graph_break_for_padded_input(multitask):
    batch = pad(SENTENCES)
    compiled = torch.compile(multitask.encoder, backend="eager", fullgraph=True)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):  # the LSTM needs it
        torch.testing.assert_close(compiled(**batch).pooler_output, embed(multitask, batch), rtol=0, atol=1e-6)
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"embedding_size": 0}, "embedding_size is 0, expected numbers above 0"),
        ({"response_hidden_sizes": []}, r"response_hidden_sizes is \[\], expected the size of at least one"),
        ({"response_hidden_sizes": [5, -1]}, r"response_hidden_sizes is \[5, -1\], expected numbers above 0"),
        ({"logit_scale_init": 0}, "logit_scale_init is 0, expected numbers above 0"),
        ({"initializer_range": -0.1}, "initializer_range is -0.1, expected numbers above 0"),
        ({"pad_token_id": 60, "vocab_size": 60}, "pad_token_id is 60, expected an id below vocab_size 60"),
        ({"bigram_buckets": -1}, "bigram_buckets is -1, expected 0"),
        ({"hidden_sizes": [0]}, r"hidden_sizes is \[0\], expected numbers above 0"),
        ({"dynamic_tanh": True, "hidden_sizes": []}, "dynamic_tanh replaces the DNN: set residual: true and"),
        ({"dynamic_tanh": True, "residual": True, "embedding_size": 300}, r"true and hidden_sizes: \[\]"),
        ({"residual": True, "embedding_size": 500}, "embedding_size is 500, expected word_embedding_size 300"),
    ],
)
def test_config_refuses_values_out_of_range(values, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        ConvSimDanConfig(**values)


def test_config_refuses_a_value_of_another_type():
    with pytest.raises(StrictDataclassFieldValidationError, match="embedding_size"):
        ConvSimDanConfig(embedding_size="large")
