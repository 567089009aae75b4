"""The base classes of every ConvSim encoder and multitask model: packed and padded input, saving and loading.

A batch holds `batch` sentences of at most `tokens` tokens. It is either padded, `input_ids (batch, tokens)` with an
`attention_mask` of the same shape, or packed, `input_ids (total_tokens,)` with `cu_seqlens (batch + 1,)`: the offset at
which each sentence starts, followed by the one at which the last sentence ends. Ids after that belong to no sentence.
The offsets may be on a CPU while the ids are on a GPU: they are then read without waiting for the GPU.

To write an encoder, subclass `ConvSimConfig`, `ConvSimEncoder` and `ConvSimForMultitask` in one file and register the
multitask class with `modeling_convsim.register_encoder`. Files named `modeling_*.py` in this folder are registered
automatically. Of this package, they import only each other, relatively, because a published model holds a copy of them.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling

from .modeling_config import ConvSimConfig

# Sentences of similar length that are read together: fewer make matrix products small, more need more padding.
CPU_GROUP_SIZE, GPU_GROUP_SIZE = 32, 256


class ZeroLinear(nn.Linear):
    """A linear layer initialized to zero: the last layer of a residual branch, so that x + branch(x) starts as x."""


class ZeroEmbedding(nn.Embedding):
    """An embedding matrix initialized to zero: it contributes nothing until it is trained."""


class TokenWeights(nn.Embedding):
    """One learned weight per token, (vocab_size, 1), initialized to one."""


class DynamicTanh(nn.Module):
    """`gain * tanh(scale * x) + bias` of each dimension; in a new model nearly x, where x is small."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(size))
        self.gain = nn.Parameter(torch.empty(size))
        self.bias = nn.Parameter(torch.empty(size))

    def forward(self, vectors: Tensor) -> Tensor:
        """Maps vectors (batch, size) to vectors of the same shape."""
        return self.gain * torch.tanh(self.scale * vectors) + self.bias


def normalize(vectors: Tensor) -> Tensor:
    """L2-normalizes vectors (batch, dimensions); a zero vector stays zero.

    `F.normalize` would multiply the gradient of a zero vector, such as that of an empty text, by 1e12.
    """
    norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)  # (batch, 1)
    return vectors / torch.where(norms > 1e-12, norms, 1.0)


def divide_by_sqrt(sums: Tensor, counts: Tensor) -> Tensor:
    """Divides sums (batch, dimensions) by the square root of counts (batch,), at least 1: TensorFlow's `sqrtn`."""
    return sums / counts.clamp_min(1).to(sums.dtype).sqrt().unsqueeze(-1)


def copy_to(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor to a device; from a CPU to a GPU without waiting for what the GPU computes."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class _SparseBagSums(torch.autograd.Function):
    """`F.embedding_bag` in sum mode with a coalesced sparse gradient, computed without one row per token.

    The gradient of a row is the weighted sum of the gradients of the bags that it occurs in. This is an embedding bag
    over the bags' gradients, which are few enough to stay in the processor's cache.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(table, ids, offsets, weights)
        return F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        table, ids, offsets, weights = ctx.saved_tensors
        counts = torch.cat([offsets, offsets.new_tensor([len(ids)])]).diff()  # (bags,)
        bags = torch.repeat_interleave(counts, output_size=len(ids))  # (ids,): the bag of each id
        gradient = gradient.contiguous()  # (bags, dimensions)
        # Sorting distinct keys gives the order of a stable sort in less time.
        positions = torch.arange(len(ids), device=ids.device)
        keys = torch.sort(ids * len(ids) + positions).values
        order = keys % max(len(ids), 1)
        rows, occurrences = torch.unique_consecutive(ids[order], return_counts=True)
        sorted_weights = None if weights is None else weights[order]
        starts = occurrences.cumsum(0) - occurrences
        values = F.embedding_bag(bags[order], gradient, starts, mode="sum", per_sample_weights=sorted_weights)
        table_gradient = torch.sparse_coo_tensor(
            rows.unsqueeze(0), values, table.shape, is_coalesced=True, check_invariants=False
        )
        weight_gradient = None
        if ctx.needs_input_grad[3]:
            # Of each id, the gradient of its bag . its row. PyTorch has no public function that copies no rows.
            compute = torch.ops.aten._embedding_bag_per_sample_weights_backward
            weight_gradient = compute(gradient, table, ids, offsets, bags, 0)
        return table_gradient, None, None, weight_gradient


class ConvSimPreTrainedModel(PreTrainedModel):
    """Initialization and embedding tables of encoders and multitask models; `forward` ignores unknown arguments."""

    config: ConvSimConfig
    config_class: type[ConvSimConfig]  # set by transformers, from the annotation of `config`
    base_model_prefix = "encoder"
    encoder_class: ClassVar[type[PreTrainedModel] | None] = None  # of models with heads
    classifier_class: ClassVar[type[PreTrainedModel] | None] = None  # of multitask models

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)
        if isinstance(module, (ZeroLinear, ZeroEmbedding)):
            init.zeros_(module.weight)
        elif isinstance(module, (TokenWeights, nn.LayerNorm)):
            init.ones_(module.weight)
        elif isinstance(module, DynamicTanh):
            init.constant_(module.scale, 2.0)
            init.constant_(module.gain, 0.5)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.initializer_range or module.embedding_dim**-0.5)

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves weights, config and code; `AutoModel` can open the folder of a model with heads, as the bare encoder.

        `AutoModelForPreTraining` cannot open the folder of a bare encoder.
        """
        parts = {"AutoModel": self.encoder_class, "AutoModelForSequenceClassification": self.classifier_class}
        self.config.auto_map = {  # the file of each class, which is copied, and its name
            name: f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}" for name, cls in parts.items() if cls
        }
        super().save_pretrained(save_directory, *args, **kwargs)

    def embedding_tables(self) -> list[nn.Parameter]:
        """The parameters of all embedding tables, whose gradients `set_sparse_gradients` makes sparse."""
        tables = [module for module in self.modules() if isinstance(module, nn.Embedding)]
        return [parameter for table in tables for parameter in table.parameters()]

    def set_sparse_gradients(self, enabled: bool) -> None:
        """Makes the gradients of `embedding_tables()` sparse, which the optimizer must support, or dense."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                module.sparse = enabled  # DistributedDataParallel reads this attribute, too


class ConvSimEncoder(ConvSimPreTrainedModel):
    """Maps token ids to L2-normalized sentence embeddings.

    Every encoder implements `forward(input_ids, attention_mask=None, cu_seqlens=None, **kwargs)`, which returns a
    `BaseModelOutputWithPooling`: `pooler_output (batch, embedding_size)` is the sentence embedding; `last_hidden_state
    (batch, tokens, dimensions)` holds the token vectors, zero at padding, for padded input only. The embedding of a
    text without tokens is the network's output for zeros, or zeros. Transformers also return `hidden_states` (the token
    embeddings and the output of every layer, undefined at padding, except the last) and `attentions` of padded input,
    if they are requested.
    """

    token_weights: TokenWeights | None  # of encoders that have them
    # Whether sentences of similar length should be batched together, because part of the work is done on padding.
    pads_batches: ClassVar[bool] = False
    # Whether `python -m trainer.export` can write it, which needs a padded forward without data-dependent shapes.
    exports_to_onnx: ClassVar[bool] = True
    # A folder saved from a multitask model opens as a bare encoder, too, whose heads are left out on purpose.
    _keys_to_ignore_on_load_unexpected = [r"^(response|input|nli)_head\.", r"^lexical_channel\."]  # noqa: RUF012

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replaces the word embeddings and resizes the token weights to match; new tokens get a weight of one."""
        super().set_input_embeddings(value)
        if (token_weights := getattr(self, "token_weights", None)) is not None:
            old = token_weights.weight.data
            shared = min(len(old), value.num_embeddings)
            self.token_weights = TokenWeights(value.num_embeddings, 1, device=old.device, dtype=old.dtype)
            self.token_weights.weight.data.fill_(1.0)[:shared] = old[:shared]

    @torch.no_grad()
    def scale_tokens(self, weights: Tensor) -> None:
        """Sets the initial weight of every token in the sentence embedding.

        Args:
            weights: (vocab_size, 1).

        Raises:
            ValueError: The encoder has no token weights.
        """
        if (token_weights := getattr(self, "token_weights", None)) is None:
            has_option = hasattr(self.config, "learned_token_weights")
            remedy = "set" if has_option else "use CBOW, or a DAN or a residual Transformer with"
            raise ValueError(f"{self.config.model_type} has no token weights: {remedy} learned_token_weights: true")
        token_weights.weight.copy_(weights)

    def drop_tokens(self, ids: Tensor, probability: float) -> Tensor | None:
        """Samples weights of tokens in training, shaped like `ids`: 0 with a probability, else 1 / (1 - probability).

        Returns None if nothing is dropped.
        """
        if not self.training or not probability:
            return None
        return F.dropout(torch.ones(ids.shape, dtype=self.dtype, device=ids.device), probability)

    def requested(self, options: Mapping[str, Any], name: str) -> Any:
        """An option of `forward`, by its keyword arguments or by the config."""
        return getattr(self.config, name) if options.get(name) is None else options[name]

    def prepare_packed(
        self, input_ids: Tensor | None, attention_mask: Tensor | None, cu_seqlens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Validates a packed batch and converts it to int64.

        Returns:
            The ids of the sentences, without any that follow the last one, and `cu_seqlens` on their device.

        Raises:
            ValueError: A shape is wrong, there is an attention mask, or `cu_seqlens` are not offsets of the ids.
        """
        if input_ids is None or input_ids.dim() != 1 or attention_mask is not None:
            shape = "no input_ids" if input_ids is None else f"input_ids of shape {tuple(input_ids.shape)}"
            raise ValueError(f"cu_seqlens needs packed input_ids (total_tokens,) and no attention_mask, got {shape}")
        if cu_seqlens.dim() != 1 or not len(cu_seqlens):
            raise ValueError(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}, expected (batch + 1,)")
        cu_seqlens = cu_seqlens.long()
        # Read in one transfer, for the sake of GPUs; from a CPU, without one.
        first, last, is_ascending = torch.stack(
            [cu_seqlens[0], cu_seqlens[-1], (cu_seqlens[1:] >= cu_seqlens[:-1]).all().long()]
        ).tolist()
        if first or last > len(input_ids) or not is_ascending:
            raise ValueError(
                f"cu_seqlens goes from {first} to {last}{'' if is_ascending else ' and descends'}, expected ascending "
                f"offsets from 0 to at most {len(input_ids)}, the number of packed input_ids"
            )
        return input_ids[:last].long(), copy_to(cu_seqlens, input_ids.device)

    def prepare_padded(self, input_ids: Tensor | None, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Validates padded `input_ids (batch, tokens)`, converts them to integers, and derives the mask.

        Returns:
            The ids, and the boolean mask (batch, tokens), true at real tokens.

        Raises:
            ValueError: The shape is wrong.
        """
        if input_ids is None:
            raise ValueError("expected input_ids, got none")
        if input_ids.dim() != 2:
            raise ValueError(
                f"input_ids has shape {tuple(input_ids.shape)}, expected (batch, tokens), "
                "or (total_tokens,) together with cu_seqlens"
            )
        mask = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        # A tokenizer may return an empty text as a float tensor of shape (1, 0).
        return input_ids.long(), mask

    def read_in_groups(self, ids: Tensor, cu_seqlens: Tensor, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Reads packed sentences, sorted by length and padded in groups: (batch, dimensions), in the batch's order.

        Args:
            ids: (total_tokens,).
            cu_seqlens: (batch + 1,); if they are on a CPU, nothing waits for a GPU.
            read: Maps ids (sentences, width), padded at their ends, and their mask to vectors (sentences, dimensions).
        """
        lengths = cu_seqlens.diff()  # (batch,)
        order = lengths.argsort(stable=True)
        groups = order.split(CPU_GROUP_SIZE if ids.device.type == "cpu" else GPU_GROUP_SIZE)
        widths = [max([1, *lengths[group].tolist()]) for group in groups]
        lengths, starts, order = (copy_to(part, ids.device) for part in (lengths, cu_seqlens[:-1], order))
        padded = F.pad(ids, (0, 1), value=self.config.pad_token_id)  # (total_tokens + 1,)
        vectors = []
        for group, width in zip(order.split([len(group) for group in groups]), widths, strict=True):
            steps = torch.arange(width, device=ids.device)
            mask = steps < lengths[group].unsqueeze(1)  # (sentences, width)
            vectors.append(read(padded[torch.where(mask, starts[group].unsqueeze(1) + steps, len(ids))], mask))
        return torch.cat(vectors)[order.argsort()]

    def build_output(self, sentence: Tensor, **fields: Any) -> BaseModelOutputWithPooling:
        """L2-normalizes sentence vectors (batch, embedding_size) and builds the encoder's output."""
        # Under autocast the last layer returns half precision; normalize (and later score) in the weights' dtype.
        # Weights in half precision: norms that are computed in float32 are closer to one.
        dtype = self.dtype  # which iterates over the parameters
        wide = sentence.to(torch.promote_types(dtype, torch.float32))
        return BaseModelOutputWithPooling(pooler_output=normalize(wide).to(dtype), **fields)

    def look_up_sums(
        self, table: nn.Embedding, ids: Tensor, cu_seqlens: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Sums the embeddings of each packed sentence, weighted by `weights (total_tokens,)`: (batch, dimensions)."""
        if table.sparse and torch.is_grad_enabled():
            return _SparseBagSums.apply(table.weight, ids, cu_seqlens[:-1], weights)
        return F.embedding_bag(ids, table.weight, cu_seqlens[:-1], mode="sum", per_sample_weights=weights)


# With this, `save_pretrained` copies the code files and writes `auto_map`; subclasses inherit it.
ConvSimEncoder.register_for_auto_class("AutoModel")
