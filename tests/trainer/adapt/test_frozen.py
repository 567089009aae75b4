"""A pretrained encoder that is not trained: each text is encoded once, and its vector is that of the encoder."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForPreTraining

from data_scripts.chats.conversations import ConversationOptions
from modeling_convsim import ConvSimDanForMultitask, ConvSimPretrainedConfig, ConvSimPretrainedForMultitask
from modeling_convsim.encoding import Encoder, JointEncoder
from modeling_convsim.encoding.torch_model import load_model
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.tiny_models import BERT, MODERN_BERT
from tests.trainer.adapt.conftest import CHATS
from tests.trainer.adapt.test_adapt import COLUMNS, write_chats
from tests.trainer.tiny_backbone import save_backbone
from trainer.adapt import adaptation, cross_validation, joint, start
from trainer.adapt.chats import adapt_to_chats
from trainer.adapt.frozen import Vectors, freeze, unfreeze
from trainer.adapt.selection import Gain
from trainer.training.backbone import find_backbone


def packed(*texts: list[int]) -> dict[str, torch.Tensor]:
    offsets = torch.tensor([0, *map(len, texts)]).cumsum(0)
    return {"input_ids": torch.tensor([token for text in texts for token in text]), "cu_seqlens": offsets}


@pytest.mark.parametrize("config", [BERT, MODERN_BERT], ids=lambda config: config["model_type"])
def test_each_text_is_read_once_without_dropout_and_only_the_heads_have_gradients(config):
    options = {**config, "hidden_dropout_prob": 0.5, "mlp_dropout": 0.5}
    model = ConvSimPretrainedForMultitask(ConvSimPretrainedConfig(backbone_config=options))
    encoder, vectors, reads = model.encoder, Vectors(), []
    texts = [[5, 6, 7], [], [8], [5, 6, 7, 9]]
    expected = copy.deepcopy(encoder).eval()(**packed(*texts)).pooler_output
    encoder.backbone.register_forward_hook(lambda *_: reads.append(1))
    freeze(encoder, vectors)
    model.train()
    for order in ([0, 1, 2, 3], [3, 3, 0], [2]):
        found = encoder(**packed(*(texts[row] for row in order))).pooler_output
        torch.testing.assert_close(found, expected[order], rtol=0, atol=1e-6)
    assert len(vectors) == 4 and len(reads) == 1 and encoder.training
    pairs = {f"response_{name}": value for name, value in packed(*texts).items()}
    model(**packed(*texts), **pairs, return_loss=True).loss.backward()
    trained = {name for name, value in model.named_parameters() if value.grad is not None}
    assert {name.split(".")[0] for name in trained} == {"response_head"} and len(reads) == 1
    padded = {"input_ids": torch.tensor([[8]]), "attention_mask": torch.ones(1, 1)}
    encoder.eval()
    torch.testing.assert_close(encoder(**padded).pooler_output, expected[[2]], rtol=0, atol=1e-6)
    unfreeze(encoder)
    encoder(**packed([8]))
    assert len(reads) == 3 and all(value.requires_grad for value in encoder.parameters())


@pytest.fixture
def backbone(tmp_path, base, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONVSIM_BASE", base)  # whose language is not known
    monkeypatch.setattr(adaptation, "FEWEST_STEPS", 2)
    return str(save_backbone(tmp_path / "backbone"))


def adapt_chats(backbone: str, count: int, overwrite: bool = False) -> dict[str, Any]:
    file = Path(write_chats(Path("support.csv"), CHATS[:count]))
    return adapt_to_chats([file], ConversationOptions(columns=COLUMNS, overwrite=overwrite), Path("run"), backbone)


def test_the_own_base_is_joined_if_it_knows_the_language_else_the_frozen_encoder_is_alone(
    backbone, base, monkeypatch, capsys
):
    shares = start.SHARES
    monkeypatch.setattr(cross_validation, "FOLDS", 2)
    monkeypatch.setattr(start, "SHARES", (0.0,))
    monkeypatch.setattr(joint, "choose", lambda _: 0.4)
    monkeypatch.setattr(joint, "TO_KEEP", -99.0)
    monkeypatch.setattr(Gain, "exceeds", lambda self, errors: errors < 0)  # only then
    shutil.copytree(base, "own")
    config = json.loads(Path("own/config.json").read_text())
    Path("own/config.json").write_text(json.dumps(config | {"language": ["de", "en"]}))
    monkeypatch.setenv("CONVSIM_BASE", "own")
    results = adapt_chats(backbone, 54)
    assert results["joint"]["share"] == 0.4 and results["joint"]["queries"] == results["response_prediction"]["queries"]
    assert "combined with the project's own base, which has a weight of 0.4" in capsys.readouterr().out
    encoder = ReplyIndex.load("run/replies").encoder
    assert isinstance(encoder, JointEncoder) and encoder.share == 0.4
    assert encoder.digest() == Encoder.from_pretrained("run/model").digest()
    second = AutoModelForPreTraining.from_pretrained("run/model/second")
    assert isinstance(second, ConvSimDanForMultitask)
    # what was joined is overwritten by a single model
    monkeypatch.setenv("CONVSIM_BASE", base)
    monkeypatch.setattr(start, "SHARES", shares)
    results = adapt_chats(backbone, 54, overwrite=True)
    assert "joint" not in results and {"base", "bm25"} <= results["baselines"].keys()
    assert isinstance(ReplyIndex.load("run/replies").encoder, Encoder)

    # its encoder is frozen, and its heads, channel and index are those of the chats
    (model, tokenizer), found = load_model("run/model"), find_backbone(backbone)
    assert found is not None
    untrained = found.build_model(found.build_config({})).encoder.state_dict()
    assert all(torch.equal(value, untrained[name]) for name, value in model.encoder.state_dict().items())
    channel, special = model.lexical_channel, tokenizer.all_special_ids
    assert not channel.weights[special].any() and channel.weights.count_nonzero() == len(channel.weights) - len(special)
    assert tokenizer.model_max_length == 150  # all that it reads
    # the index has the vectors that the saved model gives
    index = ReplyIndex.load("run/replies")
    built = ReplyIndex.build(Encoder.from_pretrained("run/model"), index.replies.texts, message_weight=0)
    np.testing.assert_allclose(index.vectors[:, : built.vectors.shape[1]], built.vectors, rtol=0, atol=2e-3)


def test_the_replies_of_few_pairs_are_suggested_by_the_encoder_as_it_is(backbone, capsys):
    adapt_chats(backbone, 20)
    index = ReplyIndex.load("run/replies")
    assert "too few to adapt" in capsys.readouterr().out and index.encoder.name == str(Path("run/model").resolve())
    assert index.suggest("where is the dog")
