"""The deep averaging network over words and hashed bigrams (Yang et al. 2018, section 2.3 and footnote 3)."""

from dataclasses import field
from itertools import pairwise
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .modeling_averaging import hash_bigrams
from .modeling_base import ConvSimEncoder, DynamicTanh, TokenWeights, ZeroEmbedding, ZeroLinear, divide_by_sqrt
from .modeling_config import ConvSimConfig
from .modeling_heads import ConvSimForMultitask, ConvSimForSequenceClassification


@strict
class ConvSimDanConfig(ConvSimConfig):
    """Config of the deep averaging network; see `ConvSimConfig` for the fields all encoders have.

    Args:
        word_embedding_size: Dimensions of word and bigram embeddings.
        bigram_buckets: Rows of the embedding matrix into which bigrams are hashed; 0 disables bigrams. (The paper
            learns bigram embeddings without saying how it numbers them; the hash is our choice.)
        hidden_sizes: Units of the DNN's hidden layers. Its output layer has `embedding_size` units. With `residual` and
            without hidden layers, there is no DNN: the embedding is the sum.
        activation: Activation of every layer of the DNN, except the last one if `residual`. (Our choice: tanh.)
        residual: The embedding is sum + DNN(sum). The DNN's last layer and the bigram embeddings are initialized to
            zero, so that training starts at the sum of word embeddings; random bigram embeddings would outweigh the
            words that two sentences share. Requires `embedding_size` equal to `word_embedding_size`. Not in the paper.
        dynamic_tanh: In place of a DNN, the embedding is `gain * tanh(scale * sum) + bias`, with learned vectors (Zhu
            et al., 2025, "Transformers without normalization", section 4, where the scale is one number). Requires
            `residual` and no hidden layers. Not in the paper.
        token_dropout: Probability, in [0, 1), that a word or bigram is left out of the sums during training; the others
            are multiplied by 1 / (1 - probability). It reduces memorization of training pairs. Not in the paper.
        learned_token_weights: Multiply every word embedding by a learned weight of its token. Not in the paper.
        single_sum: Divide one sum over words and bigrams by the square root of the number of words, as the paper says;
            otherwise, each of two sums is divided by the square root of its own count (TensorFlow's `sqrtn` combiner).
    """

    model_type = "convsim_dan"
    label: ClassVar[str] = "DAN"
    attribute_map: ClassVar[dict[str, str]] = ConvSimConfig.attribute_map | {"hidden_size": "word_embedding_size"}

    word_embedding_size: int = 300
    bigram_buckets: int = 2**18
    hidden_sizes: list[int] = field(default_factory=lambda: [300, 300])
    activation: Literal["tanh", "relu"] = "tanh"
    residual: bool = False
    dynamic_tanh: bool = False
    token_dropout: float | int = 0.0
    learned_token_weights: bool = False
    single_sum: bool = False

    def validate_dan(self) -> None:
        """Requires sizes that are above zero and compatible, and a token dropout that is a probability."""
        self.require_positive("word_embedding_size", "hidden_sizes")
        if not 0 <= self.token_dropout < 1:
            raise ValueError(f"token_dropout is {self.token_dropout}, expected at least 0 and below 1")
        if self.bigram_buckets < 0:
            raise ValueError(f"bigram_buckets is {self.bigram_buckets}, expected 0 (no bigrams) or more")
        if self.residual and self.embedding_size != self.word_embedding_size:
            raise ValueError(
                f"residual adds the sum of word embeddings to the output: embedding_size is {self.embedding_size}, "
                f"expected word_embedding_size {self.word_embedding_size}"
            )
        if self.dynamic_tanh and (self.hidden_sizes or not self.residual):
            raise ValueError("dynamic_tanh replaces the DNN: set residual: true and hidden_sizes: []")


class ConvSimDanModel(ConvSimEncoder):
    """Sums word and bigram embeddings, divides each sum by the square root of its count, and applies a DNN."""

    config: ConvSimDanConfig

    def __init__(self, config: ConvSimDanConfig) -> None:
        super().__init__(config)
        word_size = config.word_embedding_size
        self.embed_tokens = nn.Embedding(config.vocab_size, word_size)
        bigram_class = ZeroEmbedding if config.residual else nn.Embedding
        self.embed_bigrams = bigram_class(config.bigram_buckets, word_size) if config.bigram_buckets else None
        self.token_weights = TokenWeights(config.vocab_size, 1) if config.learned_token_weights else None
        self.dynamic_tanh = DynamicTanh(word_size) if config.dynamic_tanh else None
        sizes = [word_size, *config.hidden_sizes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        if config.hidden_sizes or not config.residual:
            output_class = ZeroLinear if config.residual else nn.Linear
            self.layers.append(output_class(sizes[-1], config.embedding_size))
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`; `last_hidden_state` holds the word embeddings times their token weights."""
        if cu_seqlens is not None:
            sums = self._sum_packed(*self.prepare_packed(input_ids, attention_mask, cu_seqlens))
            return self.build_output(self._apply_layers(sums))
        sums, words = self._sum_padded(*self.prepare_padded(input_ids, attention_mask))
        return self.build_output(self._apply_layers(sums), last_hidden_state=words)

    def _sum_packed(self, input_ids: Tensor, cu_seqlens: Tensor) -> Tensor:
        """Scaled sums of words and bigrams (batch, word_embedding_size) of packed sentences."""
        lengths = cu_seqlens.diff()  # (batch,)
        weights = self._drop_tokens(input_ids)  # (total_tokens,)
        if self.token_weights is not None:
            learned = self.token_weights(input_ids).squeeze(-1)
            weights = learned if weights is None else weights * learned
        words = self.look_up_sums(self.embed_tokens, input_ids, cu_seqlens, weights)
        if self.embed_bigrams is None:
            return divide_by_sqrt(words, lengths)
        # A bigram belongs to its second token, so the first token of a sentence has none. The extra element at the end
        # is for empty sentences that start there.
        has_bigram = torch.ones(len(input_ids) + 1, dtype=torch.bool, device=input_ids.device)
        has_bigram.index_fill_(0, cu_seqlens, False)
        bigram_ids = hash_bigrams(input_ids[:-1], input_ids[1:], self.config.bigram_buckets)[has_bigram[1:-1]]
        counts = (lengths - 1).clamp_min(0)
        offsets = F.pad(counts.cumsum(0), (1, 0))
        bigrams = self.look_up_sums(self.embed_bigrams, bigram_ids, offsets, self._drop_tokens(bigram_ids))
        return self._scale(words, bigrams, lengths, counts)

    def _sum_padded(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The same sums without data-dependent shapes, so that they compile and export, and the word embeddings.

        Args:
            input_ids: (batch, tokens).
            mask: (batch, tokens), true at real tokens.
        """
        words = self.embed_tokens(input_ids) * mask.unsqueeze(-1)
        if self.token_weights is not None:
            words = words * self.token_weights(input_ids)
        if (weights := self._drop_tokens(input_ids)) is not None:
            words = words * weights.unsqueeze(-1)
        sums, lengths = words.sum(1), mask.sum(1)  # (batch, word_embedding_size), (batch,)
        if self.embed_bigrams is None:
            return divide_by_sqrt(sums, lengths), words
        bigram_mask = mask[:, :-1] & mask[:, 1:]  # (batch, tokens - 1)
        bigram_ids = hash_bigrams(input_ids[:, :-1], input_ids[:, 1:], self.config.bigram_buckets)
        bigrams = self.embed_bigrams(bigram_ids) * bigram_mask.unsqueeze(-1)
        if (weights := self._drop_tokens(bigram_ids)) is not None:
            bigrams = bigrams * weights.unsqueeze(-1)
        return self._scale(sums, bigrams.sum(1), lengths, bigram_mask.sum(1)), words

    def _scale(self, words: Tensor, bigrams: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
        """One scaled sum (batch, word_embedding_size) of those of words and bigrams, whose numbers are (batch,)."""
        if self.config.single_sum:
            return divide_by_sqrt(words + bigrams, lengths)
        return divide_by_sqrt(words, lengths) + divide_by_sqrt(bigrams, counts)

    def _drop_tokens(self, ids: Tensor) -> Tensor | None:
        return self.drop_tokens(ids, self.config.token_dropout)

    def _apply_layers(self, sums: Tensor) -> Tensor:
        """Maps scaled sums (batch, word_embedding_size) to sentence vectors (batch, embedding_size)."""
        if self.dynamic_tanh is not None:
            return self.dynamic_tanh(sums)
        if not len(self.layers):
            return sums
        activation = torch.tanh if self.config.activation == "tanh" else F.relu
        *hidden_layers, output_layer = self.layers
        hidden = sums
        for layer in hidden_layers:
            hidden = activation(layer(hidden))
        output = output_layer(hidden)
        return sums + output if self.config.residual else activation(output)


class ConvSimDanForSequenceClassification(ConvSimForSequenceClassification):
    """The deep averaging network with the NLI classifier."""

    config: ConvSimDanConfig
    encoder_class = ConvSimDanModel


class ConvSimDanForMultitask(ConvSimForMultitask):
    """The deep averaging network with the response network and the NLI classifier."""

    config: ConvSimDanConfig
    encoder_class = ConvSimDanModel
    classifier_class = ConvSimDanForSequenceClassification
