"""The pretrained encoder: pooling, groups of packed sentences, and what it takes from its backbone."""

import copy

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from transformers import XLMRobertaConfig

from modeling_convsim import ConvSimPretrainedConfig, ConvSimPretrainedForMultitask
from tests.modeling_convsim.tiny_models import BERT, SENTENCES, build, pack, pad

BACKBONES = ["pretrained", "pretrained_modernbert", "pretrained_xlm_roberta"]


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("kind", BACKBONES)
def test_vectors_are_the_pooled_states_of_the_backbone(kind, pooling):
    encoder = build(kind).encoder
    encoder.config.pooling = pooling
    backbone = copy.deepcopy(encoder.backbone).double()
    expected = np.zeros((len(SENTENCES), 16))
    for row, sentence in enumerate(SENTENCES):
        if sentence:
            states = backbone(torch.tensor([sentence])).last_hidden_state[0].numpy()
            vector = {"mean": sum(states) / len(states), "cls": states[0], "last": states[-1]}[pooling]
            expected[row] = vector / np.sqrt((vector**2).sum())
    for batch in (pack(SENTENCES), pad(SENTENCES), pad(SENTENCES, width=9, left=True)):
        np.testing.assert_allclose(encoder(**batch).pooler_output.numpy(), expected, rtol=0, atol=2e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", BACKBONES)
def test_sentences_of_several_groups_keep_their_order(kind):
    generator = np.random.default_rng(0)
    sentences = [generator.integers(2, 60, size=length).tolist() for length in generator.integers(0, 30, size=100)]
    encoder, calls = build(kind).encoder, []
    encoder.backbone.register_forward_hook(lambda *_: calls.append(1))
    vectors = encoder(**pack(sentences)).pooler_output
    assert len(calls) == 4  # 32 sentences each, on a CPU
    torch.testing.assert_close(vectors, encoder(**pad(sentences)).pooler_output, rtol=0, atol=2e-6)


def test_the_sizes_are_those_of_the_backbone():
    backbone = XLMRobertaConfig(vocab_size=70, hidden_size=24, num_attention_heads=2, pad_token_id=1)
    for config in (backbone, backbone.to_dict()):
        own = ConvSimPretrainedConfig(backbone_config=config, vocab_size=5)
        assert (own.vocab_size, own.embedding_size, own.pad_token_id) == (70, 24, 1)
        again = ConvSimPretrainedConfig.from_dict(own.to_dict())
        assert type(again.backbone_config) is XLMRobertaConfig and again.to_dict() == own.to_dict()


def test_prompts_of_unknown_sides_are_refused():
    with pytest.raises(StrictDataclassClassValidationError, match="prompts has document, expected some of input,"):
        ConvSimPretrainedConfig(backbone_config=BERT, prompts={"document": "passage: "})


@torch.no_grad()
def test_a_new_model_starts_at_the_vectors_of_the_backbone():
    model = ConvSimPretrainedForMultitask(ConvSimPretrainedConfig(backbone_config=BERT)).eval()
    output = model(**pack(SENTENCES), **{f"response_{name}": value for name, value in pack(SENTENCES).items()})
    torch.testing.assert_close(output.response_embeds, output.pooler_output, rtol=0, atol=1e-6)
    assert model.embedding_tables() == [] and model.encoder.backbone.pooler is None
    assert "BertLayer" in model.encoder._no_split_modules
    # The backbone's weights are initialized as BERT's are, not as those of the heads.
    assert model.encoder.backbone.encoder.layer[0].output.dense.weight.std().item() == pytest.approx(0.02, rel=0.3)


@torch.no_grad()
def test_the_attention_implementation_is_that_of_the_backbone(tmp_path):
    model = build("pretrained")
    assert model.encoder.backbone.config._attn_implementation == "sdpa"
    model.save_pretrained(tmp_path)
    eager = ConvSimPretrainedForMultitask.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert eager.encoder.backbone.config._attn_implementation == "eager"
    expected = model.encoder(**pack(SENTENCES)).pooler_output
    torch.testing.assert_close(eager.encoder(**pack(SENTENCES)).pooler_output, expected, rtol=0, atol=1e-6)
    half = ConvSimPretrainedForMultitask.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {weight.dtype for weight in half.parameters()} == {torch.bfloat16}
