"""The lexical channel of query and response vectors: a dot product that also counts the tokens two texts share."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .modeling_averaging import token_codes
from .modeling_base import normalize


class LexicalChannel(nn.Module):
    """Maps a text to the normalized sum of its distinct tokens' codes, each multiplied by its token's weight.

    The dot product of two such vectors approximates the cosine of the texts' weighted sets of tokens, which are like
    TF-IDF vectors: a random projection (Achlioptas 2003, "Database-friendly random projections", theorem 1.1). Nothing
    in it is trained. Not in the paper.

    Args:
        vocab_size: Number of tokens in the vocabulary.
        size: Dimensions of a vector.
        pad_token_id: Id of the padding token.

    Attributes:
        weights: (vocab_size,), saved with the model; ones in a new model.
        codes: (vocab_size, size), not saved.
    """

    weights: Tensor
    codes: Tensor

    def __init__(self, vocab_size: int, size: int, pad_token_id: int) -> None:
        super().__init__()
        self.pad_token_id = pad_token_id
        self.register_buffer("weights", torch.ones(vocab_size))
        # On the meta device, a model's `_init_weights` computes both.
        codes = torch.tensor(token_codes(vocab_size, size)).to(self.weights.device)
        self.register_buffer("codes", codes, persistent=False)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, cu_seqlens: Tensor | None = None
    ) -> Tensor:
        """Maps padded or packed token ids to L2-normalized vectors (batch, lexical_size); zeros without any token."""
        if cu_seqlens is None:
            mask = input_ids != self.pad_token_id if attention_mask is None else attention_mask
            return normalize(self._sum_padded(input_ids.long(), mask.bool()))
        return normalize(self._sum_packed(input_ids.long(), cu_seqlens.to(input_ids.device).long()))

    def resize(self, vocab_size: int) -> None:
        """Changes the number of tokens; new ones get a weight of one."""
        added = self.weights.new_ones(max(0, vocab_size - len(self.weights)))
        self.weights = torch.cat([self.weights[:vocab_size], added])
        self.codes = torch.tensor(token_codes(vocab_size, self.codes.shape[1])).to(self.codes)

    @staticmethod
    def append(vectors: Tensor, lexical: Tensor, share: float) -> Tensor:
        """Appends the channel's vectors to L2-normalized ones, both (batch, size), so that the result is normalized.

        The dot product of two results is (1 - share) times that of the vectors plus share times the channel's.
        """
        return torch.cat([(1 - share) ** 0.5 * vectors, share**0.5 * lexical], dim=-1)

    def _sum_packed(self, input_ids: Tensor, cu_seqlens: Tensor) -> Tensor:
        vocab_size = len(self.codes)
        sentences = torch.arange(len(cu_seqlens) - 1, device=input_ids.device)  # (batch,)
        of_token = sentences.repeat_interleave(cu_seqlens.diff())  # (total_tokens,)
        # Sorted by sentence, then by token.
        keys = torch.unique(of_token * vocab_size + input_ids[: len(of_token)])
        ids, offsets = keys % vocab_size, torch.searchsorted(keys, sentences * vocab_size)
        return F.embedding_bag(ids, self.codes, offsets, mode="sum", per_sample_weights=self.weights[ids])

    def _sum_padded(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """The same without data-dependent shapes, so that it compiles and exports."""
        is_same = (input_ids.unsqueeze(2) == input_ids.unsqueeze(1)) & mask.unsqueeze(1)  # (batch, tokens, tokens)
        is_repeat = is_same.tril(-1).any(2)
        weights = self.weights[input_ids] * (mask & ~is_repeat)  # (batch, tokens)
        return (F.embedding(input_ids, self.codes) * weights.unsqueeze(-1)).sum(1)
