"""Sentence encoders that learn from conversations what sentences mean.

Importing this package registers its models with `AutoConfig`, `AutoModel` (the encoder), `AutoModelForPreTraining` (the
encoder with its heads) and `AutoModelForSequenceClassification`. Their classes can be imported from here, too.

modeling_config, modeling_base  what all encoders share: config; packed and padded input, saving
modeling_NAME                   one encoder each; modeling_layouts is a part of the Transformer
modeling_lexical                the lexical channel, which counts the tokens that two texts share
modeling_heads                  response network and NLI classifier, and the models that have them
registry                        finds the encoders; `register_encoder` adds one of another folder
encoding/                       `Encoder`: texts to vectors; its command
suggestion/                     `ReplyIndex`: builds, searches, calibrates and saves; its command, and a page

The `modeling_*` files import only each other, because they are copied into every published model.
"""

from typing import TYPE_CHECKING, Any

from . import registry
from .encoding import Encoder
from .registry import *  # noqa: F403

__all__ = ["Encoder", *registry.__all__]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A type checker sees the encoders' classes as Any; import them from their modules for their exact types."""
