"""The deep averaging network over words and hashed bigrams (Yang et al. 2018, section 2.3 and footnote 3)."""

from dataclasses import field
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from .modeling_base import ConvSimConfig, ConvSimEncoder, ConvSimForMultitask, TokenWeights, ZeroEmbedding, ZeroLinear


@strict
class ConvSimDanConfig(ConvSimConfig):
    """Config of the deep averaging network; see `ConvSimConfig` for the fields all encoders have.

    Args:
        word_embedding_size: Numbers in a word's, and in a bigram's, embedding.
        bigram_buckets: Rows of the table into which bigrams are hashed; 0 leaves bigrams out. (The paper learns bigram
            embeddings and does not say how it numbers them: the hash is our choice.)
        hidden_sizes: Hidden layers of the DNN; its last layer always has `embedding_size` units.
        activation: After every layer of the DNN, the last one included unless `residual`. (Our choice: tanh.)
        residual: The embedding is sum + DNN(sum), which starts as the plain sum of words: the DNN's last layer and the
            bigrams start at zero, for vectors of random bigrams would drown the words that two sentences share. Needs
            `embedding_size` equal to `word_embedding_size`. Not the paper's.
        token_dropout: Share, in [0, 1), of the words and of the bigrams that are left out of the sums in training; the
            others weigh 1 / (1 - share). Not the paper's; it keeps the tables from learning pairs by heart.
        learned_token_weights: A learned number per vocabulary entry multiplies its word embedding. Not the paper's.
    """

    model_type = "convsim_dan"

    word_embedding_size: int = 300
    bigram_buckets: int = 2**18
    hidden_sizes: list[int] = field(default_factory=lambda: [300, 300])
    activation: Literal["tanh", "relu"] = "tanh"
    residual: bool = False
    token_dropout: float | int = 0.0
    learned_token_weights: bool = False

    def validate_dan(self) -> None:
        """Sizes are above zero and fit one another."""
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


def hash_bigrams(first: Tensor, second: Tensor, buckets: int) -> Tensor:
    """Bucket ids, in [0, buckets), of bigrams of int64 token ids; the order of the two tokens counts."""
    return (first * 1_000_003 + second) % 2_147_483_647 % buckets


def divide_by_sqrt(sums: Tensor, counts: Tensor) -> Tensor:
    """Sums (batch, width) over the square root of counts (batch,): TensorFlow's `sqrtn`; a count of 0 is taken as 1."""
    return sums / counts.clamp_min(1).to(sums.dtype).sqrt().unsqueeze(-1)


class ConvSimDanModel(ConvSimEncoder):
    """Word and bigram embeddings, each summed and divided by the root of its own count, added, then a DNN."""

    config: ConvSimDanConfig

    def __init__(self, config: ConvSimDanConfig) -> None:
        super().__init__(config)
        width = config.word_embedding_size
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        bigram_class = ZeroEmbedding if config.residual else nn.Embedding
        self.embed_bigrams = bigram_class(config.bigram_buckets, width) if config.bigram_buckets else None
        self.token_weights = TokenWeights(config.vocab_size, 1) if config.learned_token_weights else None
        widths = [width, *config.hidden_sizes]
        last_class = ZeroLinear if config.residual else nn.Linear
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.layers.append(last_class(widths[-1], config.embedding_size))
        self.post_init()

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replaces the word table; token weights follow its size, new entries starting at one."""
        self.embed_tokens = value
        if self.token_weights is not None:
            old = self.token_weights.weight.data
            kept = min(len(old), value.num_embeddings)
            self.token_weights = TokenWeights(value.num_embeddings, 1, device=old.device, dtype=old.dtype)
            self.token_weights.weight.data.fill_(1.0)[:kept] = old[:kept]

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`; `last_hidden_state` holds the (weighted) word embeddings."""
        if cu_seqlens is not None:
            averages = self._sum_packed(self.check_packed(input_ids, attention_mask), cu_seqlens)
            return self.build_output(self._apply_layers(averages))
        averages, words = self._sum_padded(*self.check_padded(input_ids, attention_mask))
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        hidden_states = (words,) if wanted else None
        return self.build_output(self._apply_layers(averages), last_hidden_state=words, hidden_states=hidden_states)

    def _sum_packed(self, input_ids: Tensor, cu_seqlens: Tensor) -> Tensor:
        lengths = cu_seqlens.diff()
        weights = self._drop_tokens(input_ids)
        if self.token_weights is not None:
            learned = self.token_weights(input_ids).squeeze(-1)
            weights = learned if weights is None else weights * learned
        averages = divide_by_sqrt(self.look_up_sums(self.embed_tokens, input_ids, cu_seqlens, weights), lengths)
        if self.embed_bigrams is None:
            return averages
        # A bigram belongs to its second token, so every token has one but the first of a sentence. The extra place at
        # the end takes the starts of empty sentences there.
        has_bigram = torch.ones(len(input_ids) + 1, dtype=torch.bool, device=input_ids.device)
        has_bigram.index_fill_(0, cu_seqlens, False)
        bigram_ids = hash_bigrams(input_ids[:-1], input_ids[1:], self.config.bigram_buckets)[has_bigram[1:-1]]
        counts = (lengths - 1).clamp_min(0)
        offsets = F.pad(counts.cumsum(0), (1, 0))
        bigrams = self.look_up_sums(self.embed_bigrams, bigram_ids, offsets, self._drop_tokens(bigram_ids))
        return averages + divide_by_sqrt(bigrams, counts)

    def _sum_padded(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The same sums with no shape that depends on the data, so that they compile and export."""
        words = self.embed_tokens(input_ids) * mask.unsqueeze(-1)
        if self.token_weights is not None:
            words = words * self.token_weights(input_ids)
        if (kept := self._drop_tokens(input_ids)) is not None:
            words = words * kept.unsqueeze(-1)
        averages = divide_by_sqrt(words.sum(1), mask.sum(1))
        if self.embed_bigrams is None:
            return averages, words
        bigram_mask = mask[:, :-1] & mask[:, 1:]
        bigram_ids = hash_bigrams(input_ids[:, :-1], input_ids[:, 1:], self.config.bigram_buckets)
        bigrams = self.embed_bigrams(bigram_ids) * bigram_mask.unsqueeze(-1)
        if (kept := self._drop_tokens(bigram_ids)) is not None:
            bigrams = bigrams * kept.unsqueeze(-1)
        return averages + divide_by_sqrt(bigrams.sum(1), bigram_mask.sum(1)), words

    def _drop_tokens(self, ids: Tensor) -> Tensor | None:
        """Weights like `ids`: 0 for a token that is left out of this step, 1 / (1 - share) for the others."""
        if not self.training or not self.config.token_dropout:
            return None
        return F.dropout(torch.ones(ids.shape, dtype=self.dtype, device=ids.device), self.config.token_dropout)

    def _apply_layers(self, averages: Tensor) -> Tensor:
        activation = torch.tanh if self.config.activation == "tanh" else F.relu
        hidden = averages
        for layer in self.layers[:-1]:
            hidden = activation(layer(hidden))
        output = self.layers[-1](hidden)
        return averages + output if self.config.residual else activation(output)


class ConvSimDanForMultitask(ConvSimForMultitask):
    """The deep averaging network with the response network and the inference classifier."""

    config: ConvSimDanConfig
    encoder_class = ConvSimDanModel
