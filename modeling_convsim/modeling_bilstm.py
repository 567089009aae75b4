"""The bidirectional LSTM encoder, which Yang et al. (2018, footnote 2) found worse than the Transformer.

The paper gives no details. This is InferSent's encoder (Conneau et al. 2017, section 3.2) with a linear output layer.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
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

    word_embedding_size: int = 300
    hidden_size: int = 256
    bidirectional: bool = True

    def validate_bilstm(self) -> None:
        """Requires sizes above zero."""
        self.require_positive("word_embedding_size", "hidden_size")


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
        self.lstm = nn.LSTM(config.word_embedding_size, config.hidden_size, bidirectional=config.bidirectional)
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

        Packed sequences, which it gives the LSTM, break the graph of `torch.compile`.
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
        states = states.take_along_dim(order.argsort(dim=1).unsqueeze(-1), dim=1)
        return self.build_output(self.projection(vectors), last_hidden_state=states[:, :tokens])

    def _read(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Applies the LSTM to sentences padded at their ends, and takes the maximum over tokens in each dimension.

        Args:
            ids: (sentences, width).
            lengths: Number of tokens of each sentence (sentences,), at most `width`.

        Returns:
            Token vectors (sentences, width, directions * hidden_size), zero at padding, and sentence vectors
            (sentences, directions * hidden_size), zero for sentences without tokens.
        """
        if not len(ids):  # which cannot be packed
            empty = self.projection.weight.new_zeros(0, ids.shape[1], self.projection.in_features)
            return empty, empty.sum(1)
        words = self.embed_tokens(ids)  # (sentences, width, word_embedding_size)
        packed = pack_padded_sequence(words, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
        # In float32 on a CPU: oneDNN has a bfloat16 LSTM for some processors only, and raises an error on others.
        with torch.autocast("cpu", enabled=False):
            states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        padding = (torch.arange(ids.shape[1], device=ids.device) >= lengths.unsqueeze(1)).unsqueeze(-1)
        vectors = states.masked_fill(padding, float("-inf")).amax(1).masked_fill(padding[:, 0], 0.0)
        return states.masked_fill(padding, 0.0), vectors


class ConvSimBilstmForSequenceClassification(ConvSimForSequenceClassification):
    """The LSTM encoder with the NLI classifier."""

    config: ConvSimBilstmConfig
    encoder_class = ConvSimBilstmModel


class ConvSimBilstmForMultitask(ConvSimForMultitask):
    """The LSTM encoder with the response network and the NLI classifier."""

    config: ConvSimBilstmConfig
    encoder_class = ConvSimBilstmModel
    classifier_class = ConvSimBilstmForSequenceClassification
