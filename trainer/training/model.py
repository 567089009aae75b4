"""The multitask model of a run: a new one, or the saved one of `initialize_from`."""

from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedConfig, PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from data_scripts.files.folders import check_files
from modeling_convsim import ENCODERS
from modeling_convsim.encoding.loading import parse_model_id
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import DEFAULT_MODEL_TYPE, Arguments
from trainer.training.initialization import transformer_from_dan


def build_model(arguments: Arguments, tokenizer: PreTrainedTokenizerFast) -> ConvSimForMultitask:
    """Build a multitask model with random weights, or load that of `initialize_from`.

    Raises:
        InputError: the options do not define a model, or the model does not fit the tokenizer.
    """
    torch.manual_seed(arguments.seed)
    if arguments.initialize_from:
        model = _load_model(arguments, arguments.initialize_from)
    else:
        model_class = ENCODERS[arguments.model_type or DEFAULT_MODEL_TYPE]
        special = {"pad_token_id": tokenizer.pad_token_id, "unk_token_id": tokenizer.unk_token_id}
        model = model_class(_new_config(arguments, model_class.config_class, len(tokenizer), **special))
    if len(tokenizer) > model.config.vocab_size:
        raise InputError(
            f"the tokenizer has {len(tokenizer)} entries, but the model's vocab_size is {model.config.vocab_size}: use "
            "the tokenizer that the model was trained with (drop --tokenizer)"
        )
    dims = getattr(arguments, "matryoshka_dims", [])
    if not all(0 < size < model.config.embedding_size for size in dims):
        raise InputError(
            f"matryoshka_dims is {dims}; expected sizes above 0 and below the model's embedding_size "
            f"{model.config.embedding_size}"
        )
    return model


def validate_model(arguments: Arguments) -> None:
    """Check the options of a new model before any data are read.

    Raises:
        InputError: the options do not define a model.
    """
    if arguments.initialize_from:
        return
    model_class = ENCODERS[arguments.model_type or DEFAULT_MODEL_TYPE]
    config = _new_config(arguments, model_class.config_class, arguments.vocab_size)
    if arguments.token_weights == "sif":
        with torch.device("meta"):
            encoder = model_class.encoder_class(config)
            weights = torch.ones(config.vocab_size, 1)
        try:
            encoder.scale_tokens(weights)
        except ValueError as error:
            raise InputError(f"token_weights is sif, but {error}") from None


def load_initial_config(source: str, option: str = "initialize_from") -> PreTrainedConfig:
    """Load the config of a model to start from, which `option` names.

    Raises:
        InputError: it cannot be loaded, or is not that of a multitask model.
    """
    config = load_pretrained(AutoConfig, source, option)
    is_multitask = any(name.endswith("ForMultitask") for name in config.architectures or ())
    if config.model_type.removeprefix("convsim_") not in ENCODERS or not is_multitask:
        raise InputError(
            f"{option}: {source} holds {' '.join(config.architectures or [config.model_type])}, expected a "
            "multitask model; name a model that a run saved (runs/NAME/model)"
        )
    return config


def load_pretrained(loader: Any, source: str, option: str) -> Any:
    """Return what a loader opens: a folder, or OWNER/NAME or OWNER/NAME@REVISION. Code in the source is not run.

    Raises:
        InputError: the source cannot be loaded, or a file of it is damaged; the message names the option.
    """
    name, revision = source, None
    if Path(source).is_dir():
        check_files(Path(source))
    else:
        name, revision = parse_model_id(source)
    try:
        return loader.from_pretrained(name, **({"revision": revision} if revision else {}), trust_remote_code=False)
    # The type of the exception depends on the library that reads a damaged file; tokenizers raises bare Exceptions.
    except Exception as error:
        message = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{option}: {source} cannot be loaded: {message}") from None


def _load_model(arguments: Arguments, source: str) -> ConvSimForMultitask:
    config = load_initial_config(source)
    model_type = config.model_type.removeprefix("convsim_")
    if (arguments.model_type, model_type) == ("transformer", "dan"):
        dan = load_pretrained(ENCODERS["dan"], source, "initialize_from")
        return transformer_from_dan(arguments.model_config, dan, source)
    if arguments.model_type not in (None, model_type):
        raise _conflict("model_type", arguments.model_type, source, model_type)
    own = config.to_dict()
    for name, value in arguments.model_config.items():
        if own.get(name) != value:
            raise _conflict(f"model_config.{name}", value, source, own.get(name))
    model = load_pretrained(ENCODERS[model_type], source, "initialize_from")
    damaged = [name for name, weights in model.state_dict().items() if not weights.isfinite().all()]
    if damaged:
        raise InputError(
            f"initialize_from: the weights {', '.join(damaged)} of {source} are not finite; use another model"
        )
    return model


def _conflict(name: str, given: object, source: str, own: object) -> InputError:
    option = name.partition(".")[0]
    return InputError(
        f"{name} is {given}, but that of the model in initialize_from, {source}, is {own}: leave {option} out (to "
        f"reset an option of a preset: --{option} none), or drop initialize_from to train a new model"
    )


def _new_config(arguments: Arguments, config_class: Any, vocab_size: int, **special_tokens: Any) -> Any:
    try:
        return config_class(**{"vocab_size": vocab_size, **special_tokens, **arguments.model_config})
    except StrictDataclassError as error:
        # The last line names the error in the value, the lines before it the validator.
        raise InputError(f"model_config: {str(error).splitlines()[-1].strip()}") from None
