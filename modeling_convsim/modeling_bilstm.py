"""The bidirectional LSTM encoder, which Yang et al. (2018, footnote 2) found worse than the Transformer.

The paper gives no details. This is InferSent's encoder (Conneau et al. 2017, section 3.2) with a linear output layer.
"""

from typing import ClassVar, Literal

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

# Sentences of similar length that a CPU reads together: fewer make matrix products small, more need more padding.
CPU_GROUP_SIZE = 32


@strict
class ConvSimBilstmConfig(ConvSimConfig):
    """Config of the LSTM encoder; see `ConvSimConfig` for the fields that all encoders share.

    Args:
        word_embedding_size: Dimensions of word embeddings.
        hidden_size: Units of each direction. (InferSent uses 2048; 256 is our choice, for a small encoder.)
        num_layers: Number of LSTM layers; each layer reads both directions of the previous one.
        bidirectional: Read every sentence in both directions; False gives the paper's unidirectional LSTM.
        pooling: How token vectors become a sentence vector: "max" over tokens in each dimension (InferSent's
            "BiLSTM-max"), "mean", or "last", the final state of each direction (InferSent's "LSTM").
        hidden_dropout: Dropout of the word embeddings, in [0, 1).
    """

    model_type = "convsim_bilstm"
    label: ClassVar[str] = "BiLSTM"

    word_embedding_size: int = 300
    hidden_size: int = 256
    num_layers: int = 1
    bidirectional: bool = True
    pooling: Literal["mean", "max", "last"] = "max"
    hidden_dropout: float | int = 0.0

    def validate_bilstm(self) -> None:
        """Requires sizes above zero and a dropout that is a probability."""
        self.require_positive("word_embedding_size", "hidden_size", "num_layers")
        if not 0 <= self.hidden_dropout < 1:
            raise ValueError(f"hidden_dropout is {self.hidden_dropout}, expected at least 0 and below 1")


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

    Under autocast torch asks oneDNN for a bfloat16 LSTM even where oneDNN has none, which raises an error. There
    the LSTM runs in float32.
    """
    on_cpu = tokens.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    if on_cpu and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        with torch.autocast("cpu", enabled=False):
            return lstm(tokens.float())[0]
    return lstm(tokens)[0]


def _gather(tokens: Tensor, indices: Tensor) -> Tensor:
    """Selects tokens (…, size) by their flat indices (width, sentences): (width, sentences, size)."""
    return tokens.flatten(0, -2).index_select(0, indices.flatten()).view(*indices.shape, tokens.shape[-1])


class ConvSimBilstmModel(ConvSimEncoder):
    """Word embeddings, LSTM layers in both directions, a maximum over tokens, and a linear layer."""

    config: ConvSimBilstmConfig
    pads_batches: ClassVar[bool] = True
    # PyTorch exports an LSTM for one batch size and one number of tokens only.
    export_formats: ClassVar[tuple[str, ...]] = ()

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
        if isinstance(module, nn.LSTM):  # PyTorch's default, and so InferSent's
            for parameter in module.parameters():
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`; the vector of a text without tokens is the linear layer's output for zeros.

        Compiling needs `torch._dynamo.config.allow_rnn`.
        """
        output_hidden_states = self.check_options(kwargs, packed=cu_seqlens is not None)
        if cu_seqlens is not None:
            input_ids, cu_seqlens = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            words = self.dropout(self.embed_tokens(input_ids))
            return self.build_output(self.projection(self._read_packed(words, cu_seqlens)))
        if inputs_embeds is not None:
            embeddings, mask = self.prepare_embeds(input_ids, attention_mask, inputs_embeds)
        else:
            input_ids, mask = self.prepare_padded(input_ids, attention_mask)
            embeddings = self.embed_tokens(input_ids)
        states, vectors = self._read_padded(embeddings, mask, bool(output_hidden_states))
        return self.build_output(
            self.projection(vectors),
            last_hidden_state=states[-1],
            hidden_states=tuple(states) if output_hidden_states else None,
        )

    def _read_padded(self, embeddings: Tensor, mask: Tensor, all_states: bool) -> tuple[list[Tensor], Tensor]:
        """Reads padded sentences, wherever their padding is.

        Args:
            embeddings: word embeddings (batch, tokens, word_embedding_size).
            mask: (batch, tokens), true at real tokens.
            all_states: return all states that `_read` returns, not only the last.

        Returns:
            The states (batch, tokens, size), zero at padding, and the sentence vectors.
        """
        tokens = mask.shape[1]
        if not tokens:  # an LSTM rejects a batch in which every text is empty
            embeddings, mask = F.pad(embeddings, (0, 0, 0, 1)), F.pad(mask, (0, 1))
        # Move the tokens before the padding, wherever it is.
        order = mask.byte().argsort(dim=1, descending=True, stable=True)
        words = self.dropout(embeddings)
        # (width, batch, word_embedding_size)
        sorted_words = words.take_along_dim(order.unsqueeze(-1), dim=1).transpose(0, 1)
        (_, *outputs), vectors = self._read(sorted_words, mask.sum(1))
        original_order = order.argsort(dim=1).unsqueeze(-1)
        outputs = [state.transpose(0, 1) for state in (outputs if all_states else outputs[-1:])]
        outputs = [state.take_along_dim(original_order, dim=1) * mask.unsqueeze(-1) for state in outputs]
        # The words are those that the LSTM reads, not a copy: the embedding has a gradient with respect to them.
        states = [words, *outputs] if all_states else outputs
        return states if tokens else [state[:, :0] for state in states], vectors

    def _read_packed(self, words: Tensor, cu_seqlens: Tensor) -> Tensor:
        """`_read`'s sentence vectors for packed words (total_tokens, word_embedding_size); in small groups on a CPU."""
        lengths = cu_seqlens.diff()  # (batch,)
        order = lengths.argsort(stable=True)
        words_and_padding = F.pad(words, (0, 0, 0, 1))  # (total_tokens + 1, word_embedding_size)
        vectors = []
        for group in order.split(CPU_GROUP_SIZE if words.device.type == "cpu" else max(len(order), 1)):
            steps = torch.arange(max([1, *lengths[group].tolist()]), device=words.device).unsqueeze(1)  # (width, 1)
            # (width, sentences)
            indices = torch.where(steps < lengths[group], cu_seqlens[group] + steps, len(words))
            vectors.append(self._read(_gather(words_and_padding, indices), lengths[group])[1])
        return torch.cat(vectors)[order.argsort()]

    def _read(self, words: Tensor, lengths: Tensor) -> tuple[list[Tensor], Tensor]:
        """Applies the LSTM layers to sentences padded at their ends, and pools.

        Args:
            words: (width, sentences, word_embedding_size).
            lengths: Number of tokens of each sentence (sentences,), at most `width`.

        Returns:
            The words and each layer's token vectors (width, sentences, directions * hidden_size), undefined at padding,
            and sentence vectors (sentences, directions * hidden_size), zero for sentences without tokens.
        """
        steps = torch.arange(len(words), device=words.device).unsqueeze(1)  # (width, 1)
        sentences = torch.arange(len(lengths), device=words.device)
        mask = steps < lengths  # (width, sentences)
        reversal = torch.where(mask, lengths - 1 - steps, steps) * len(lengths) + sentences
        states = [words]
        for layer in self.layers:
            states.append(layer(states[-1], reversal))
        return states, self._pool(states[-1], mask, lengths)

    def _pool(self, tokens: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
        """Pools token vectors (width, sentences, size) to sentence vectors (sentences, size)."""
        padding = ~mask.unsqueeze(-1)  # (width, sentences, 1)
        if self.config.pooling == "max":
            return tokens.masked_fill(padding, float("-inf")).amax(0).masked_fill(padding[0], 0.0)
        tokens = tokens.masked_fill(padding, 0.0)
        if self.config.pooling == "mean":
            return tokens.sum(0) / lengths.clamp_min(1).unsqueeze(-1).to(tokens.dtype)
        forward_states, backward_states = tokens.tensor_split([self.config.hidden_size], dim=-1)
        sentences = torch.arange(len(lengths), device=tokens.device)
        return torch.cat([forward_states[(lengths - 1).clamp_min(0), sentences], backward_states[0]], dim=-1)


class ConvSimBilstmForSequenceClassification(ConvSimForSequenceClassification):
    """The LSTM encoder with the NLI classifier."""

    config: ConvSimBilstmConfig
    encoder_class = ConvSimBilstmModel


class ConvSimBilstmForMultitask(ConvSimForMultitask):
    """The LSTM encoder with the response network and the NLI classifier."""

    config: ConvSimBilstmConfig
    encoder_class = ConvSimBilstmModel
    classifier_class = ConvSimBilstmForSequenceClassification
