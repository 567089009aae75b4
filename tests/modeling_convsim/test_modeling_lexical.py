"""The lexical channel of the vectors that score responses."""

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from transformers import AutoModel, AutoModelForPreTraining

from modeling_convsim import ConvSimDanConfig
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_averaging import token_codes
from modeling_convsim.modeling_lexical import LexicalChannel
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.tiny_models import SENTENCES, build, pack, pad, save

FORMS = pytest.mark.parametrize("form", [pack, lambda sentences: pad(sentences, width=9, left=True)])


def channel(size: int, vocab_size: int = 60) -> LexicalChannel:
    """A channel with random weights, in float64."""
    torch.manual_seed(0)
    module = LexicalChannel(vocab_size, size, pad_token_id=0)
    module.weights.uniform_(0.5, 2)
    return module.double()


def test_codes_are_signs_that_are_nearly_orthogonal_and_the_same_in_any_vocabulary():
    codes = token_codes(3_000, 100).astype(np.float64)
    np.testing.assert_allclose(np.abs(codes), 0.1, rtol=1e-7)
    products = (codes @ codes.T)[np.triu_indices(3_000, 1)]
    # The standard error of the mean is 5e-5, that of the standard deviation 3e-5.
    assert abs(products.mean()) < 2e-4 and abs(products.std() - 0.1) < 2e-4 and np.abs(products).max() < 0.65
    assert abs(codes.mean(0)).max() < 0.01 and abs(codes.mean(1)).max() < 0.05
    np.testing.assert_array_equal(token_codes(7, 100), token_codes(3_000, 100)[:7])
    # Saved models rely on them.
    assert (token_codes(3, 8) > 0).astype(int).tolist() == [
        [0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 1, 1, 0, 1, 1, 1],
        [0, 0, 0, 0, 0, 1, 1, 0],
    ]


@torch.no_grad()
@FORMS
def test_a_vector_is_the_normalized_sum_of_the_codes_of_distinct_tokens(form):
    module = channel(64)
    vectors = module(**form(SENTENCES))
    assert vectors.shape == (len(SENTENCES), 64)
    for sentence, vector in zip(SENTENCES, vectors.numpy(), strict=True):
        total = sum((module.weights[token] * module.codes[token] for token in set(sentence)), torch.zeros(64))
        expected = total.numpy() / (np.linalg.norm(total) or 1)
        np.testing.assert_allclose(vector, expected, atol=1e-12)


@torch.no_grad()
def test_padding_tokens_count_only_without_a_mask_if_they_are_masked_in():
    module, ids = channel(64), torch.tensor([[5, 0, 6, 0]])
    torch.testing.assert_close(module(ids), module(**pack([[5, 6]])))
    torch.testing.assert_close(module(ids, torch.tensor([[1, 1, 1, 0]])), module(**pack([[5, 0, 6]])))


@torch.no_grad()
@FORMS
def test_the_score_is_a_weighted_mean_of_that_of_the_networks_and_that_of_the_tokens(form):
    model = build("dan_lexical").double()
    module = model.lexical_channel
    responses = SENTENCES[::-1]
    output = model(**form(SENTENCES), **{f"response_{name}": value for name, value in form(responses).items()})
    v = model.response_head(model.encoder(**form(responses)).pooler_output)
    lexical = module(**form(SENTENCES)) @ module(**form(responses)).T
    expected = 0.7 * output.pooler_output @ v.T + 0.3 * lexical
    torch.testing.assert_close(output.query_embeds @ output.response_embeds.T, expected)
    assert output.pooler_output.shape == (7, 8) and output.response_embeds.shape == (7, 48)
    norms = torch.linalg.vector_norm(output.response_embeds[[1, 2, 4, 5]], dim=1)
    torch.testing.assert_close(norms, torch.ones_like(norms))


@pytest.mark.parametrize(
    "change", [lambda model: model.train(), lambda model: setattr(model.config, "lexical_share", 0)]
)
def test_training_and_a_share_of_zero_leave_the_channel_out(change):
    model, pairs = build("dan_lexical"), pack(SENTENCES)
    pairs |= {f"response_{name}": value for name, value in pairs.items()}
    change(model)
    output = model(**pairs)
    assert output.query_embeds is None
    torch.testing.assert_close(output.response_embeds, model.response_head(output.pooler_output))
    assert not list(model.lexical_channel.parameters())


def test_weights_and_codes_are_defined_however_a_model_is_made():
    model = build("dan_lexical")
    with torch.device("meta"):
        moved = type(model)(model.config)
    assert all(buffer.is_meta for buffer in moved.lexical_channel.buffers())
    moved.to_empty(device="cpu").init_weights()
    for module in (LexicalChannel(60, 40, pad_token_id=0), moved.lexical_channel):
        assert (module.weights == 1).all() and np.array_equal(module.codes.numpy(), token_codes(60, 40))


@torch.no_grad()
def test_saved_models_compute_the_codes_again_and_the_bare_encoder_has_no_channel(tmp_path):
    model = build("dan_lexical")
    assert (model.lexical_channel.weights == 1).all()
    model.lexical_channel.weights.uniform_()
    model.save_pretrained(tmp_path)
    opened, loading = AutoModelForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading.values())
    for name, buffer in model.lexical_channel.named_buffers():
        assert torch.equal(opened.lexical_channel.get_buffer(name), buffer)
    assert (model.lexical_channel.codes != 0).all() and "lexical_channel.codes" not in model.state_dict()
    encoder, loading = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    batch = pad(SENTENCES)
    torch.testing.assert_close(encoder(**batch).pooler_output, model(**batch).pooler_output)


@torch.no_grad()
@pytest.mark.parametrize("size", [70, 30])
def test_resizing_keeps_the_codes_and_weights_of_tokens(size):
    model = build("dan_lexical")
    module = model.lexical_channel
    module.weights.uniform_(0.5, 2)
    old = module(**pack([[5, 6, 29]]))
    model.resize_token_embeddings(size)
    torch.testing.assert_close(module(**pack([[5, 6, 29]])), old)
    assert len(module.weights) == len(module.codes) == size and (module.weights[60:] == 1).all()
    texts = [list(range(50, size)) if size > 60 else [1, 2]]
    vectors = module(**pack(texts))[0].numpy()
    total = sum(module.weights[token].item() * token_codes(size, 40)[token] for token in texts[0])
    np.testing.assert_allclose(vectors, total / np.linalg.norm(total), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lexical_size": -1, "normalize_response": True}, r"lexical_size is -1, expected 0 \(no lexical channel\)"),
        ({"lexical_size": 8}, "lexical_size is 8, expected .* together with normalize_response: true"),
        (
            {"lexical_share": 0.2, "normalize_response": True},
            "lexical_share is 0.2, expected .* 0 without lexical_size",
        ),
        *(
            ({"lexical_size": 8, "normalize_response": True, "lexical_share": share}, f"lexical_share is {share}, exp")
            for share in (-0.1, 1, float("nan"))
        ),
    ],
)
def test_a_channel_needs_normalized_responses_and_a_share_a_channel(options, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        ConvSimDanConfig(**options)


def test_encoder_and_index_use_the_vectors_of_the_channel(tiny_tokenizer, tmp_path):
    model = build("dan_lexical")
    encoder = Encoder(model, tiny_tokenizer)
    texts = ["How old is the cat?", "we walk", "", "the big house in the city", "do you like the cat"]
    queries, replies = encoder.encode(texts, side="query"), encoder.encode(texts, side="response")
    assert encoder.encode(texts).shape == (5, 8) and queries.shape == replies.shape == (5, 48)
    batch = tiny_tokenizer(texts, padding=True, return_tensors="pt")
    tokens = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        output = model(**tokens, **{f"response_{name}": value for name, value in tokens.items()})
    np.testing.assert_allclose(queries, output.query_embeds.numpy(), atol=1e-6)
    np.testing.assert_allclose(replies, output.response_embeds.numpy(), atol=1e-6)

    save(model, tiny_tokenizer, tmp_path / "model")
    kept = [text for text in texts if text]
    index = ReplyIndex.build(Encoder.from_pretrained(tmp_path / "model"), kept, duplicate_cosine=1)
    index.save(tmp_path / "index")
    scores = queries[0] @ encoder.encode(kept, side="response").T
    scores[kept.index(texts[0])] = -1  # no text answers itself
    for opened in (index, ReplyIndex.load(tmp_path / "index")):
        best = opened.suggest(texts[0], 2)
        assert [one.text for one in best] == [kept[row] for row in np.argsort(-scores)[:2]]
        np.testing.assert_allclose([one.score for one in best], np.sort(scores)[::-1][:2], atol=2e-3)
    index.encoder.model.config.lexical_share = 0.2
    with pytest.raises(ValueError, match="was built with other weights"):
        ReplyIndex.load(tmp_path / "index", index.encoder)
