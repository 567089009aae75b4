"""The bidirectional LSTM encoder, which Yang et al. (2018, footnote 2) tried and found worse than the Transformer.

The paper gives no details: this is InferSent's (Conneau et al. 2017, section 3.2), with a linear layer at the end.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from .modeling_base import ConvSimConfig, ConvSimEncoder, ConvSimForMultitask

# Sentences read together, of like length, on a CPU: fewer make small matrix products, more hold more padding.
SENTENCES_TOGETHER = 32


@strict
class ConvSimBilstmConfig(ConvSimConfig):
    """Config of the LSTM encoder; see `ConvSimConfig` for the fields all encoders have.

    Args:
        word_embedding_size: Numbers in a word's embedding.
        hidden_size: Units of each direction. (InferSent: 2048; 256 is our choice, for a small encoder.)
        num_layers: LSTM layers; each reads both directions of the one before.
        bidirectional: Reads every sentence from its end, too; without it this is the paper's other one, the LSTM.
        pooling: What becomes of the token vectors: "max", the largest of each number (InferSent's "BiLSTM-max"),
            "mean", or "last", the final state of each direction (its "LSTM").
        hidden_dropout: Dropout in [0, 1) of the word embeddings.
    """

    model_type = "convsim_bilstm"

    word_embedding_size: int = 300
    hidden_size: int = 256
    num_layers: int = 1
    bidirectional: bool = True
    pooling: Literal["mean", "max", "last"] = "max"
    hidden_dropout: float | int = 0.0

    def validate_bilstm(self) -> None:
        """Sizes are above zero; dropout is a probability."""
        self.require_positive("word_embedding_size", "hidden_size", "num_layers")
        if not 0 <= self.hidden_dropout < 1:
            raise ValueError(f"hidden_dropout is {self.hidden_dropout}, expected at least 0 and below 1")


class ConvSimBilstmLayer(nn.Module):
    """An LSTM for each direction. The second one gets the sentences turned round, so that neither has read padding."""

    def __init__(self, size: int, config: ConvSimBilstmConfig) -> None:
        super().__init__()
        directions = 2 if config.bidirectional else 1
        self.directions = nn.ModuleList(nn.LSTM(size, config.hidden_size) for _ in range(directions))

    def forward(self, tokens: Tensor, turned: Tensor) -> Tensor:
        """Tokens (width, sentences, size) to the same of size directions x hidden_size.

        `turned` (width, sentences) is, for each place, that of the same token in the flattened places when the
        sentences are turned round, their padding left where it is.
        """
        forwards, *backwards = self.directions
        outputs = [forwards(tokens)[0]]
        for lstm in backwards:
            outputs.append(_take(lstm(_take(tokens, turned))[0], turned))
        return torch.cat(outputs, dim=-1)


def _take(tokens: Tensor, places: Tensor) -> Tensor:
    """Tokens (…, size) at places (width, sentences) of the flattened ones."""
    return tokens.flatten(0, -2).index_select(0, places.flatten()).view(*places.shape, tokens.shape[-1])


class ConvSimBilstmModel(ConvSimEncoder):
    """Word embeddings, LSTM layers in both directions, the largest number over tokens, a linear layer."""

    config: ConvSimBilstmConfig
    pads_batches = True

    def __init__(self, config: ConvSimBilstmConfig) -> None:
        super().__init__(config)
        size = config.hidden_size * (2 if config.bidirectional else 1)
        sizes = [config.word_embedding_size] + [size] * (config.num_layers - 1)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.word_embedding_size)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.layers = nn.ModuleList(ConvSimBilstmLayer(input_size, config) for input_size in sizes)
        self.projection = nn.Linear(size, config.embedding_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.LSTM):  # torch's start, and so InferSent's
            for parameter in module.parameters():
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`; a text of no tokens has the linear layer's output for zeros.

        Compiling needs `torch._dynamo.config.allow_rnn`.
        """
        if cu_seqlens is not None:
            words = self._embed(self.check_packed(input_ids, attention_mask))
            return self.build_output(self.projection(self._read_packed(words, cu_seqlens)))
        input_ids, mask = self.check_padded(input_ids, attention_mask)
        width = input_ids.shape[1]
        if not width:  # no LSTM takes a batch of empty texts only
            input_ids, mask = F.pad(input_ids, (0, 1)), F.pad(mask, (0, 1))
        # The tokens before the padding, wherever that is.
        order = mask.byte().argsort(dim=1, descending=True, stable=True)
        words = self._embed(input_ids.gather(1, order)).transpose(0, 1)
        states, vectors = self._read(words, mask.sum(1))

        def put_back(tokens: Tensor) -> Tensor:
            """Tokens (width, batch, size) where their ids stood (batch, width, size), zeros elsewhere."""
            tokens = tokens.transpose(0, 1).take_along_dim(order.argsort(dim=1).unsqueeze(-1), dim=1)
            return (tokens * mask.unsqueeze(-1))[:, :width]

        last = put_back(states[-1])
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        hidden_states = (*map(put_back, states[:-1]), last) if wanted else None
        return self.build_output(self.projection(vectors), last_hidden_state=last, hidden_states=hidden_states)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embed_tokens(ids))

    def _read_packed(self, words: Tensor, cu_seqlens: Tensor) -> Tensor:
        """Words (total_tokens, word_embedding_size) to `_read`'s vectors of the sentences, a few at a time on a CPU."""
        lengths = cu_seqlens.diff()
        order = lengths.argsort(stable=True)
        with_padding = F.pad(words, (0, 0, 0, 1))
        vectors = []
        for group in order.split(SENTENCES_TOGETHER if words.device.type == "cpu" else max(len(order), 1)):
            steps = torch.arange(max(int(lengths[group].max()), 1), device=words.device).unsqueeze(1)
            places = torch.where(steps < lengths[group], cu_seqlens[group] + steps, len(words))
            vectors.append(self._read(_take(with_padding, places), lengths[group])[1])
        return torch.cat(vectors)[order.argsort()]

    def _read(self, words: Tensor, lengths: Tensor) -> tuple[list[Tensor], Tensor]:
        """Reads and pools sentences of some lengths (sentences,), padded at their ends.

        Args:
            words: (width, sentences, word_embedding_size).
            lengths: of the sentences, none above `width`.

        Returns:
            The words and each layer's token vectors (width, sentences, directions x hidden_size), with anything at
            padding, and sentence vectors (sentences, directions x hidden_size), zero for a sentence of no tokens.
        """
        steps = torch.arange(len(words), device=words.device).unsqueeze(1)
        sentences = torch.arange(len(lengths), device=words.device)
        mask = steps < lengths
        turned = torch.where(mask, lengths - 1 - steps, steps) * len(lengths) + sentences
        states = [words]
        for layer in self.layers:
            states.append(layer(states[-1], turned))
        tokens, padding = states[-1], ~mask.unsqueeze(-1)
        if self.config.pooling == "max":
            vectors = tokens.masked_fill(padding, float("-inf")).amax(0).masked_fill(padding[0], 0.0)
        tokens = tokens.masked_fill(padding, 0.0)
        if self.config.pooling == "mean":
            vectors = tokens.sum(0) / lengths.clamp_min(1).unsqueeze(-1).to(tokens.dtype)
        elif self.config.pooling == "last":
            forwards, backwards = tokens.tensor_split([self.config.hidden_size], dim=-1)
            vectors = torch.cat([forwards[(lengths - 1).clamp_min(0), sentences], backwards[0]], dim=-1)
        return states, vectors


class ConvSimBilstmForMultitask(ConvSimForMultitask):
    """The LSTM encoder with the response network and the inference classifier."""

    config: ConvSimBilstmConfig
    encoder_class = ConvSimBilstmModel
