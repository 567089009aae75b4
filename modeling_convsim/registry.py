"""The registry of encoders. Importing this module registers the encoders of this folder with the Auto classes."""

from importlib import import_module
from pathlib import Path
from typing import TypeVar

from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoModelForSequenceClassification
from transformers.utils import ModelOutput

from .modeling_base import ConvSimPreTrainedModel
from .modeling_config import ConvSimConfig
from .modeling_heads import ConvSimForMultitask

ENCODERS: dict[str, type[ConvSimForMultitask]] = {}  # short name, such as "dan", to multitask class
# The configs, models and outputs of the `modeling_*.py` files in this folder, by their names.
CLASSES: dict[str, type] = {}

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
    if multitask_class.classifier_class is not None:
        AutoModelForSequenceClassification.register(config_class, multitask_class.classifier_class, exist_ok=True)
    ENCODERS[name] = multitask_class
    return multitask_class


def _qualified_name(multitask_class: type) -> str:
    return f"{multitask_class.__module__}.{multitask_class.__qualname__}"


for path in sorted(Path(__file__).parent.glob("modeling_*.py")):
    module = import_module(f".{path.stem}", __package__)
    for name, value in vars(module).items():
        is_class = isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
        if is_class and issubclass(value, (ConvSimConfig, ConvSimPreTrainedModel, ModelOutput)):
            CLASSES[name] = value
            if issubclass(value, ConvSimForMultitask) and value is not ConvSimForMultitask:
                register_encoder(value)
