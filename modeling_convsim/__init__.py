"""Sentence encoders that learn from conversations what sentences mean.

Importing this package registers its models with `AutoConfig`, `AutoModel` (the encoder), `AutoModelForPreTraining` (the
encoder with its response and NLI heads) and `AutoModelForSequenceClassification`. Every `modeling_NAME.py` in this
folder defines one encoder, and its classes can be imported from here: `from modeling_convsim import ConvSimDanConfig`.
`register_encoder` adds an encoder defined in a file elsewhere.
"""

from typing import TYPE_CHECKING, Any

from . import registry
from .encoding import Encoder
from .registry import *  # noqa: F403

__all__ = ["Encoder", *registry.__all__]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A type checker sees the encoders' classes as Any; import them from their modules for their exact types."""
