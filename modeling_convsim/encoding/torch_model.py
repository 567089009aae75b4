"""Encoders that compute with PyTorch: all but averages of words."""

import copy
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
)

import modeling_convsim.registry  # noqa: F401  registers the models with the Auto classes
from modeling_convsim.modeling_averaging import LABELS, AveragingModel, hash_weights
from modeling_convsim.modeling_base import ConvSimEncoder, copy_to, normalize
from modeling_convsim.modeling_heads import ConvSimForMultitask


class TorchModel:
    """A model in evaluation mode, as `Encoder` uses it: see `AveragingModel`.

    Attributes:
        module: The encoder or multitask model.
        config: Its config.
        has_heads: Whether it is a multitask model.
    """

    def __init__(self, module: ConvSimEncoder | ConvSimForMultitask) -> None:
        self.module: Any = module.eval()
        self.config = module.config
        # Not by its class, which is another one if a model's own code defines it.
        self.has_heads = hasattr(module, "response_head")
        self._encoder = self.module.encoder if self.has_heads else self.module
        self.prompt = self.config.prompt

    @property
    def description(self) -> str:
        """The kind of model and its number of parameters, for people."""
        return f"{self.config.label}, {self.module.num_parameters():,} parameters"

    def digest(self) -> str:
        """See `hash_weights`."""
        return hash_weights(_weights(self.module), self.config.lexical_share)

    @property
    def batch_size(self) -> int:
        """Texts per batch."""
        return 128 if self._encoder.pads_batches and self.module.device.type == "cpu" else 1024

    @property
    def sorted_batches(self) -> int:
        """Batches that are sorted by length together: many for encoders that pad, so that there is little padding."""
        return 16 if self._encoder.pads_batches else 1

    @property
    def threads(self) -> int:
        """Threads that encode, each with its own texts. On a GPU, one tokenizes while the other waits for the GPU."""
        if self.module.device.type != "cpu":
            return 2
        return 1 if self._encoder.pads_batches else torch.get_num_threads()

    @torch.inference_mode()
    def vectors(self, token_ids: Sequence[Sequence[int]], side: str = "input") -> np.ndarray:
        """Maps the token ids of texts to vectors: see `AveragingModel.vectors`."""
        lengths = np.fromiter(map(len, token_ids), np.int64, count=len(token_ids))
        cu_seqlens = np.concatenate([[0], lengths.cumsum()])  # (batch + 1,)
        input_ids = np.fromiter(chain.from_iterable(token_ids), np.int64, count=cu_seqlens[-1])  # (total_tokens,)
        packed = {
            "input_ids": copy_to(torch.from_numpy(input_ids), self.module.device),
            "cu_seqlens": torch.from_numpy(cu_seqlens),
        }
        vectors = self._encoder(**packed).pooler_output
        if side == "response":
            vectors = self.module.response_vectors(vectors, **packed)
        elif side == "query" and self.has_heads:
            vectors = self.module.query_vectors(vectors, **packed)
        is_half = vectors.dtype in (torch.float16, torch.bfloat16)
        vectors = vectors.float()
        if is_half and (side == "input" or self.config.normalize_response):
            vectors = normalize(vectors)  # half precision rounds the norms
        return vectors.cpu().numpy()

    @torch.inference_mode()
    def nli_logits(self, premises: np.ndarray, hypotheses: np.ndarray) -> np.ndarray:
        """See `AveragingModel.nli_logits`."""
        first, second = (
            torch.from_numpy(each).to(self.module.device, self.module.dtype) for each in (premises, hypotheses)
        )
        return self.module.nli_head(first, second).float().cpu().numpy()


def _weights(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: each.detach().float().cpu().numpy() for name, each in module.state_dict().items()}


def in_use(module: ConvSimEncoder | ConvSimForMultitask) -> AveragingModel | TorchModel:
    """A model as `Encoder` uses it: of a model that averages words, a copy of its present weights."""
    if module.config.model_type not in LABELS:
        return TorchModel(module)
    weights = {name: each.copy() for name, each in _weights(module).items()}
    return AveragingModel(copy.copy(module.config), weights)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for bfloat16 matrix products: a GPU, or a CPU with AVX512-BF16 or AMX-BF16.

    Without such instructions bfloat16 is emulated, many times slower than float32.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def load_model(name: str, trust: bool = False) -> tuple[ConvSimEncoder | ConvSimForMultitask, PreTrainedTokenizerFast]:
    """The model and the tokenizer of a folder; raises an exception of the library that reads it, or ValueError."""
    # Unless trust_remote_code is given, transformers asks through `input()` and reads a piped text as the answer.
    values, _ = PreTrainedConfig.get_config_dict(name)
    if "auto_map" in values and values.get("model_type") not in CONFIG_MAPPING and not trust:
        raise ValueError(
            f"its type {values.get('model_type')!r} needs custom code, which is not run: import the file that "
            "registers this encoder first, or, if you trust the author, pass trust_remote_code=True in Python"
        )
    config = AutoConfig.from_pretrained(name, trust_remote_code=trust)
    is_multitask = any(architecture.endswith("ForMultitask") for architecture in config.architectures or [])
    auto_class = AutoModelForPreTraining if is_multitask else AutoModel
    model, loading = auto_class.from_pretrained(
        name, config=config, dtype=torch.float32, output_loading_info=True, trust_remote_code=trust
    )
    if loading["missing_keys"]:
        raise ValueError(f"its weights lack {', '.join(sorted(loading['missing_keys']))}")
    damaged = [name for name, weights in model.state_dict().items() if not weights.isfinite().all()]
    if damaged:
        raise ValueError(f"its weights {', '.join(damaged)} are not finite: damaged, or training diverged")
    return model, cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(name, trust_remote_code=trust))


def place(model: Any, device: Any, dtype: str) -> TorchModel:
    """Moves a model to a device, by default a GPU if there is one, in a precision: see `Encoder.from_pretrained`."""
    model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if dtype == "bfloat16" or (dtype == "auto" and has_fast_bfloat16(model.device)):
        model.to(torch.bfloat16)
    return TorchModel(model)
