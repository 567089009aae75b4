"""The lexical channel as a module of sentence-transformers, in the routes of queries and replies of published models.

A published folder holds a copy of this file, which imports the folder's `modeling_lexical`, and which
sentence-transformers runs with `trust_remote_code=True`.
"""

from typing import Any

import torch
from sentence_transformers.base.modules import Module
from torch import Tensor

from modeling_convsim.modeling_lexical import LexicalChannel


class LexicalRoute(Module):
    """Appends the lexical channel's vector to an L2-normalized vector of the same text.

    Args:
        vocab_size: Number of tokens in the vocabulary.
        lexical_size: Dimensions of the channel.
        lexical_share: The channel's share in a score.
        pad_token_id: Id of the padding token.
    """

    config_keys = ("vocab_size", "lexical_size", "lexical_share", "pad_token_id")  # type: ignore[assignment]

    def __init__(self, vocab_size: int, lexical_size: int, lexical_share: float, pad_token_id: int) -> None:
        super().__init__()
        self.vocab_size, self.lexical_size = vocab_size, lexical_size
        self.lexical_share, self.pad_token_id = lexical_share, pad_token_id
        self.channel = LexicalChannel(vocab_size, lexical_size, pad_token_id)

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Replaces `sentence_embedding` (batch, size) by (batch, size + lexical_size)."""
        lexical = self.channel(features["input_ids"], features["attention_mask"])
        vectors = features["sentence_embedding"]
        return features | {
            "sentence_embedding": self.channel.append(vectors, lexical.to(vectors.dtype), self.lexical_share)
        }

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Saves the config and the tokens' weights."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> "LexicalRoute":  # type: ignore[override]
        """Loads the module from a folder or a repository of the Hub."""
        names = ("token", "cache_folder", "revision", "local_files_only")
        hub = {name: kwargs[name] for name in names if name in kwargs}
        route = cls(**cls.load_config(model_name_or_path, subfolder=subfolder, **hub))
        with torch.no_grad():
            weights = cls.load_torch_weights(model_name_or_path, subfolder=subfolder, **hub)
            route.channel.weights.copy_(weights["channel.weights"])
        return route
