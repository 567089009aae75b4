"""Sentence encoders that learn from conversations what sentences mean.

Importing this package registers its models with `AutoConfig`, `AutoModel` (the encoder) and `AutoModelForPreTraining`
(the encoder with its response and NLI heads). Every `modeling_NAME.py` in this folder defines one encoder, and its
classes can be imported from here: `from modeling_convsim import ConvSimDanConfig`. `register_encoder` adds an encoder
defined in a file elsewhere.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from transformers import AutoConfig, AutoModel, AutoModelForPreTraining

from .encoding import Encoder
from .modeling_base import (
    ConvSimConfig,
    ConvSimEncoder,
    ConvSimForMultitask,
    ConvSimMultitaskOutput,
    ConvSimPreTrainedModel,
    NliHead,
    ResponseHead,
)

if TYPE_CHECKING:  # the encoders' classes are found at run time; import them from their modules for their exact types

    def __getattr__(name: str) -> Any: ...


__all__ = [
    "ENCODERS",
    "ConvSimConfig",
    "ConvSimEncoder",
    "ConvSimForMultitask",
    "ConvSimMultitaskOutput",
    "ConvSimPreTrainedModel",
    "Encoder",
    "NliHead",
    "ResponseHead",
    "register_encoder",
]

ENCODERS: dict[str, type[ConvSimForMultitask]] = {}  # short name, such as "dan", to multitask class

MultitaskClass = TypeVar("MultitaskClass", bound=type[ConvSimForMultitask])


def register_encoder(multitask_class: MultitaskClass) -> MultitaskClass:
    """Adds an encoder to `ENCODERS` and registers its classes with transformers' Auto classes.

    The encoder's name is its config's `model_type` without "convsim_". Importing the file that calls this is all it
    takes to train, evaluate and publish the encoder.

    Example:
        ```python
        @register_encoder
        class ConvSimMaxForMultitask(ConvSimForMultitask):
            config: ConvSimMaxConfig
            encoder_class = ConvSimMaxModel
        ```

    Raises:
        ValueError: The config lacks `label` or a `model_type` that starts with "convsim_", or the name is taken.
    """
    config_class = multitask_class.config_class
    name = config_class.model_type.removeprefix("convsim_")
    if name in ("", config_class.model_type) or not config_class.label:
        raise ValueError(
            f"{config_class.__name__} has model_type {config_class.model_type!r} and label {config_class.label!r}, "
            "expected a model_type that starts with 'convsim_' and a label for tables"
        )
    if _qualified_name(registered := ENCODERS.get(name, multitask_class)) != _qualified_name(multitask_class):
        raise ValueError(f"an encoder named {name!r} exists, {_qualified_name(registered)}: choose another model_type")
    # exist_ok: a folder opened with trust_remote_code=True may have registered the same model types before this import.
    AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    AutoModel.register(config_class, multitask_class.encoder_class, exist_ok=True)
    AutoModelForPreTraining.register(config_class, multitask_class, exist_ok=True)
    ENCODERS[name] = multitask_class
    return multitask_class


def _qualified_name(multitask_class: type) -> str:
    return f"{multitask_class.__module__}.{multitask_class.__qualname__}"


def _multitask_class(module: ModuleType) -> type[ConvSimForMultitask]:
    """The one multitask class that an encoder's module defines."""
    (multitask_class,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ConvSimForMultitask) and value.__module__ == module.__name__
    )
    return multitask_class


for _name in sorted(module.name for module in iter_modules(__path__)):
    if _name.startswith("modeling_") and _name != "modeling_base":
        _multitask = register_encoder(_multitask_class(import_module(f"{__name__}.{_name}")))
        _classes = (_multitask.config_class, _multitask.encoder_class, _multitask)
        globals().update({cls.__name__: cls for cls in _classes})
        __all__ += [cls.__name__ for cls in _classes]
