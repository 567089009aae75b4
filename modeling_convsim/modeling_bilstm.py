"""The bidirectional LSTM encoder, which Yang et al. (2018, footnote 2) found worse than the Transformer.

The paper gives no details. This is InferSent's encoder (Conneau et al. 2017, section 3.2) with a linear output layer.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .modeling_base import ConvSimEncoder
from .modeling_config import ConvSimConfig
from .modeling_heads import ConvSimForMultitask, ConvSimForSequenceClassification


@strict
class ConvSimBilstmConfig(ConvSimConfig):
    """Config of the LSTM encoder; see `ConvSimConfig` for the fields that all encoders share.

    Args:
        word_embedding_size: Dimensions of word embeddings.
        hidden_size: Units of each direction. (InferSent uses 2048; 256 is our choice, for a small encoder.)
        bidirectional: Read every sentence in both directions; False gives the paper's unidirectional LSTM.
    """

    model_type = "convsim_bilstm"
    label: ClassVar[str] = "BiLSTM"
    removed_options: ClassVar[dict[str, Any]] = {"num_layers": 1, "pooling": "max"}

    word_embedding_size: int = 300
    hidden_size: int = 256
    bidirectional: bool = True

    def validate_bilstm(self) -> None:
        """Requires sizes above zero."""
        self.require_positive("word_embedding_size", "hidden_size")


class ConvSimBilstmLayer(nn.Module):
    """One LSTM per direction. The second one reads reversed sentences, so that neither reads padding before tokens."""

    def __init__(self, size: int, config: ConvSimBilstmConfig) -> None:
        super().__init__()
        directions = 2 if config.bidirectional else 1
        self.directions = nn.ModuleList(nn.LSTM(size, config.hidden_size) for _ in range(directions))

    def forward(self, tokens: Tensor, reversal: Tensor) -> Tensor:
        """Maps tokens (width, sentences, size) to (width, sentences, directions * hidden_size).

        `reversal` (width, sentences) holds the flat index, of width * sentences, from which each position of the
        reversed sentences is taken. Padding stays at its position.
        """
        forward_lstm, *backward_lstms = self.directions
        outputs = [_hidden_states(forward_lstm, tokens)]
        for lstm in backward_lstms:
            outputs.append(_gather(_hidden_states(lstm, _gather(tokens, reversal)), reversal))
        return torch.cat(outputs, dim=-1)


def _hidden_states(lstm: nn.Module, tokens: Tensor) -> Tensor:
    """Runs an LSTM over tokens (width, sentences, size): (width, sentences, hidden_size).

    Under autocast on a CPU it runs in float32: oneDNN has a bfloat16 LSTM for some processors only, and raises an error
    on others.
    """
    if tokens.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return lstm(tokens.float())[0]
    return lstm(tokens)[0]


def _gather(tokens: Tensor, indices: Tensor) -> Tensor:
    """Selects tokens (…, size) by their flat indices (width, sentences): (width, sentences, size)."""
    return tokens.flatten(0, -2).index_select(0, indices.flatten()).view(*indices.shape, tokens.shape[-1])


class ConvSimBilstmModel(ConvSimEncoder):
    """Word embeddings, an LSTM in both directions, a maximum over tokens, and a linear layer."""

    config: ConvSimBilstmConfig
    pads_batches: ClassVar[bool] = True
    # PyTorch exports an LSTM for one batch size and one number of tokens only.
    exports_to_onnx: ClassVar[bool] = False

    def __init__(self, config: ConvSimBilstmConfig) -> None:
        super().__init__(config)
        size = config.hidden_size * (2 if config.bidirectional else 1)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.word_embedding_size)
        self.layers = nn.ModuleList([ConvSimBilstmLayer(config.word_embedding_size, config)])
        self.projection = nn.Linear(size, config.embedding_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.LSTM):  # PyTorch's default, and so InferSent's
            for parameter in module.parameters():
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`; the vector of a text without tokens is the linear layer's output for zeros.

        Compiling needs `torch._dynamo.config.allow_rnn`.
        """
        if cu_seqlens is not None:
            input_ids, cu_seqlens = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            vectors = self.read_in_groups(input_ids, cu_seqlens, lambda ids, mask: self._read(ids, mask.sum(1))[1])
            return self.build_output(self.projection(vectors))
        input_ids, mask = self.prepare_padded(input_ids, attention_mask)
        tokens = mask.shape[1]
        if not tokens:  # an LSTM rejects a batch in which every text is empty
            input_ids, mask = F.pad(input_ids, (0, 1)), F.pad(mask, (0, 1))
        order = mask.byte().argsort(dim=1, descending=True, stable=True)  # moves tokens before padding, wherever it is
        states, vectors = self._read(input_ids.take_along_dim(order, dim=1), mask.sum(1))
        states = states.transpose(0, 1).take_along_dim(order.argsort(dim=1).unsqueeze(-1), dim=1) * mask.unsqueeze(-1)
        return self.build_output(self.projection(vectors), last_hidden_state=states[:, :tokens])

    def _read(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Applies the LSTM to sentences padded at their ends, and takes the maximum over tokens in each dimension.

        Args:
            ids: (sentences, width).
            lengths: Number of tokens of each sentence (sentences,), at most `width`.

        Returns:
            Token vectors (width, sentences, directions * hidden_size), undefined at padding, and sentence vectors
            (sentences, directions * hidden_size), zero for sentences without tokens.
        """
        states = self.embed_tokens(ids).transpose(0, 1)  # (width, sentences, word_embedding_size)
        steps = torch.arange(len(states), device=ids.device).unsqueeze(1)  # (width, 1)
        sentences = torch.arange(len(lengths), device=ids.device)
        mask = steps < lengths  # (width, sentences)
        reversal = torch.where(mask, lengths - 1 - steps, steps) * len(lengths) + sentences
        states = self.layers[0](states, reversal)
        padding = ~mask.unsqueeze(-1)  # (width, sentences, 1)
        return states, states.masked_fill(padding, float("-inf")).amax(0).masked_fill(padding[0], 0.0)


class ConvSimBilstmForSequenceClassification(ConvSimForSequenceClassification):
    """The LSTM encoder with the NLI classifier."""

    config: ConvSimBilstmConfig
    encoder_class = ConvSimBilstmModel


class ConvSimBilstmForMultitask(ConvSimForMultitask):
    """The LSTM encoder with the response network and the NLI classifier."""

    config: ConvSimBilstmConfig
    encoder_class = ConvSimBilstmModel
    classifier_class = ConvSimBilstmForSequenceClassification
