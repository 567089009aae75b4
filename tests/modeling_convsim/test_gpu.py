"""Models and `Encoder` on a GPU, compared with the CPU; to run them, set CUDA_VISIBLE_DEVICES=0."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import KINDS, SENTENCES, build, pack, pad, save

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU, or CUDA_VISIBLE_DEVICES hides it")
GPU = torch.device("cuda")
TEXTS = [" ".join(["the", "big", "dog", "runs"][: 1 + index % 4] * (1 + index % 7)) for index in range(700)]


def to_gpu(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: value.to(GPU) for key, value in batch.items()}


def pooled_and_gradients(model: nn.Module, batch: dict[str, Tensor]) -> list[Tensor]:
    model.zero_grad()
    model.train()  # for cuDNN; nothing is dropped
    pooled = model(**batch).pooler_output.float()
    (pooled * torch.arange(pooled.numel(), device=pooled.device).view_as(pooled).cos()).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    values = [pooled.detach(), *(gradient.to_dense() for gradient in gradients)]
    return [value.to("cpu", torch.float32, copy=True) for value in values]  # to(GPU) moves a gradient, too


def assert_close(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for ours, reference in zip(found, expected, strict=True):
        assert (ours - reference).norm() <= tolerance * reference.norm()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arrange", [pack, pad])
def test_vectors_and_gradients_are_those_of_a_cpu(kind, arrange):
    model, batch = build(kind).encoder, arrange(SENTENCES)
    model.set_sparse_gradients(arrange is pack)
    expected = pooled_and_gradients(model, batch)
    # cuDNN computes an LSTM in TF32.
    assert_close(pooled_and_gradients(model.to(GPU), to_gpu(batch)), expected, 1e-2 if kind == "bilstm" else 1e-4)


@torch.no_grad()
@pytest.mark.parametrize("kind", [*KINDS, "dan_lexical"])
def test_offsets_may_be_on_the_cpu(kind):
    model, batch = build(kind).to(GPU), pack(SENTENCES)
    on_gpu = to_gpu(batch)
    expected = model.encoder(**on_gpu).pooler_output
    mixed = {"input_ids": on_gpu["input_ids"], "cu_seqlens": batch["cu_seqlens"]}
    torch.testing.assert_close(model.encoder(**mixed).pooler_output, expected)
    responses = model.response_vectors(expected, **mixed)
    torch.testing.assert_close(responses, model.response_vectors(expected, **on_gpu))


@pytest.mark.parametrize("arrange", [pack, pad])
@pytest.mark.parametrize("kind", ["transformer", "transformer_residual"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_without_padding_has_the_vectors_and_gradients_of_groups_by_length(kind, arrange, dtype, monkeypatch):
    model, batch = build(kind).encoder.to(GPU), to_gpu(arrange(SENTENCES))
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        assert model._reads_without_padding(GPU)
        found = pooled_and_gradients(model, batch)
        monkeypatch.setattr(type(model), "_reads_without_padding", lambda *_: False)
        expected = pooled_and_gradients(model, batch)
    assert_close(found, expected, 1e-4 if dtype == torch.float32 else 0.03)


@torch.no_grad()
def test_dropout_of_attention_weights_without_padding():
    model, batch = build("transformer").encoder.to(GPU), to_gpu(pack(SENTENCES))
    model.config.attention_dropout = 0.5
    model.train()
    with torch.autocast("cuda", torch.bfloat16):
        assert not torch.equal(model(**batch).pooler_output, model(**batch).pooler_output)
        model.config.attention_dropout = 0.0
        assert torch.equal(model(**batch).pooler_output, model(**batch).pooler_output)


@pytest.mark.parametrize("kind", [*KINDS, "dan_lexical"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_encoder_gives_the_vectors_of_a_cpu(kind, dtype, tiny_tokenizer, tmp_path):
    save(build(kind), tiny_tokenizer, tmp_path)
    on_cpu, on_gpu = Encoder.from_pretrained(tmp_path, "cpu"), Encoder.from_pretrained(tmp_path, "cuda", dtype)
    for side in ("input", "response"):
        expected, found = on_cpu.encode(TEXTS, side), on_gpu.encode(TEXTS, side, batch_size=20)
        assert found.dtype == np.float32
        cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
        assert cosines.min() > (0.99999 if dtype == "float32" else 0.999)
