"""The multitask model of a run: a new one, or the saved one of `initialize_from`."""

from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim import ENCODERS
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.training.initialization import transformer_from_dan
from trainer.training.loading import load_pretrained


def build_model(arguments: Arguments, tokenizer: PreTrainedTokenizerFast) -> ConvSimForMultitask:
    """Build a multitask model with random weights, or load that of `initialize_from`.

    Raises:
        InputError: the options do not define a model, or the model does not fit the tokenizer.
    """
    torch.manual_seed(arguments.seed)
    model_class = ENCODERS[arguments.model_type]
    if arguments.initialize_from:
        model = _load_model(arguments, model_class)
    else:
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
    model_class = ENCODERS[arguments.model_type]
    config = _new_config(arguments, model_class.config_class, arguments.vocab_size)
    if arguments.token_weights == "sif":
        with torch.device("meta"):
            encoder = model_class.encoder_class(config)
            weights = torch.ones(config.vocab_size, 1)
        try:
            encoder.scale_tokens(weights)
        except ValueError as error:
            raise InputError(f"token_weights is sif, but {error}") from None


def _load_model(arguments: Arguments, model_class: type[ConvSimForMultitask]) -> ConvSimForMultitask:
    source = arguments.initialize_from
    assert source is not None
    config = load_pretrained(AutoConfig, source, "initialize_from")
    if (arguments.model_type, config.model_type) == ("transformer", "convsim_dan"):
        dan = load_pretrained(ENCODERS["dan"], source, "initialize_from")
        return transformer_from_dan(arguments.model_config, dan, source)
    if config.model_type != model_class.config_class.model_type:
        raise InputError(f"initialize_from holds a {config.model_type} model, but model_type is {arguments.model_type}")
    changed = {key: value for key, value in arguments.model_config.items() if getattr(config, key, None) != value}
    if changed:
        raise InputError(f"model_config differs from the model in initialize_from: {changed}; drop these entries")
    model = load_pretrained(model_class, source, "initialize_from")
    damaged = [name for name, weights in model.state_dict().items() if not weights.isfinite().all()]
    if damaged:
        raise InputError(
            f"initialize_from: the weights {', '.join(damaged)} of {source} are not finite; use another model"
        )
    return model


def _new_config(arguments: Arguments, config_class: Any, vocab_size: int, **special_tokens: Any) -> Any:
    try:
        return config_class(**{"vocab_size": vocab_size, **special_tokens, **arguments.model_config})
    except StrictDataclassError as error:
        # The last line names the error in the value, the lines before it the validator.
        raise InputError(f"model_config: {str(error).splitlines()[-1].strip()}") from None
