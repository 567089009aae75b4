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

from typing import Any

from .encoding import Encoder
from .modeling_heads import ConvSimMultitaskOutput
from .registry import CLASSES, ENCODERS, register_encoder

__all__ = ["ENCODERS", "ConvSimMultitaskOutput", "Encoder", "register_encoder", *CLASSES]


def __getattr__(name: str) -> Any:
    """The config or model of a name; a type checker sees it as Any: import it from its module for its exact type."""
    if name in CLASSES:
        return CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
