"""Sentence encoders that learn from conversations what sentences mean.

Importing this package registers its models with `AutoConfig`, `AutoModel` (the encoder) and `AutoModelForPreTraining`
(the encoder with its response and NLI heads). Every `modeling_NAME.py` in this folder defines one encoder, and its
classes can be imported from here: `from modeling_convsim import ConvSimDanConfig`. `register_encoder` adds an encoder
defined in a file elsewhere.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encoding import Encoder
    from .registry import (
        ENCODERS,
        ConvSimConfig,
        ConvSimEncoder,
        ConvSimForMultitask,
        ConvSimForSequenceClassification,
        ConvSimMultitaskOutput,
        ConvSimPreTrainedModel,
        NliHead,
        ResponseHead,
        register_encoder,
    )

__all__ = [  # and, once they are registered, the encoders' classes
    "ENCODERS",
    "ConvSimConfig",
    "ConvSimEncoder",
    "ConvSimForMultitask",
    "ConvSimForSequenceClassification",
    "ConvSimMultitaskOutput",
    "ConvSimPreTrainedModel",
    "Encoder",
    "NliHead",
    "ResponseHead",
    "register_encoder",
]


# A type checker sees the encoders' classes as Any; import them from their modules for their exact types.
def __getattr__(name: str) -> Any:
    """Imports what is not imported yet: `Encoder`, and the models if Python started with one of our commands."""
    if name == "Encoder":
        globals()[name] = import_module(".encoding", __name__).Encoder
    elif name in __all__ or name.startswith("ConvSim"):
        _register_models()
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _register_models() -> None:
    """Registers the models with transformers' Auto classes and imports their classes into this package."""
    registry = import_module(".registry", __name__)
    globals().update({name: getattr(registry, name) for name in registry.__all__})
    __all__.extend(name for name in registry.__all__ if name not in __all__)


def _is_locating_command() -> bool:
    """Whether this import is the start of `python -m modeling_convsim.NAME`.

    Python imports this package before it runs the command's module. Until then, `sys.argv[0]` is "-m".
    """
    return sys.argv[:1] == ["-m"] and any(
        word.removeprefix("-m").startswith("modeling_convsim.") for word in sys.orig_argv
    )


# Our commands print --help without importing torch and transformers, which takes seconds. `encoding.encoder` registers
# the models when a command opens one.
if not _is_locating_command():
    _register_models()
