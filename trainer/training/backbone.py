"""Pretrained encoders to start from: a folder or a repository of the Hub, of transformers or sentence-transformers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import metadata_load
from huggingface_hub.errors import StrictDataclassError
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.processors import TemplateProcessing
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from modeling_convsim import ENCODERS, ConvSimPretrainedConfig, ConvSimPretrainedForMultitask, ConvSimPretrainedModel
from modeling_convsim.encoding.batch_tokenizer import token_limit
from modeling_convsim.encoding.loading import find_folder, parse_model_id
from modeling_convsim.files.command_line import suggest
from modeling_convsim.files.errors import InputError
from trainer.encoders.loading import installed_copy

# Names of poolings in sentence-transformers -> our names.
POOLINGS = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
MODULES = ("Transformer", "Pooling", "Normalize")


def config_fields(model_type: str) -> set[str]:
    """Return the names of the fields of an encoder's config, which `model_config` may set.

    Raises:
        InputError: there is no such encoder.
    """
    if model_type not in ENCODERS:
        expected = ", ".join(sorted(ENCODERS))
        raise InputError(f"model_type is '{model_type}'{suggest(model_type, ENCODERS)}; expected one of {expected}")
    own, inherited = (
        {field.name for field in fields(config)} for config in (ENCODERS[model_type].config_class, PreTrainedConfig)
    )
    return own - inherited


def new_config(config_class: Any, values: Mapping[str, Any]) -> Any:
    """Return a config with the values of its fields.

    Raises:
        InputError: a value of `model_config` is invalid.
    """
    try:
        return config_class(**values)
    except StrictDataclassError as error:
        # The last line names the error in the value, the lines before it the validator.
        raise InputError(f"model_config: {str(error).splitlines()[-1].strip()}") from None


def find_backbone(source: str) -> "Backbone | None":
    """Find the pretrained encoder that `initialize_from` names: a folder, or OWNER/NAME or OWNER/NAME@REVISION.

    Returns:
        None if it names a model of this project, or if there is no such model.

    Raises:
        InputError: the model cannot be downloaded.
    """
    copy = Path(installed_copy(source))
    folder = copy if copy.is_dir() else _download_backbone(source)
    if folder is None:
        return None
    backbone = Backbone(source, folder)
    config = backbone.read("config.json")
    return backbone if config and not str(config.get("model_type", "")).startswith("convsim_") else None


@cache  # a run needs the backbone several times, and the Hub is asked once
def _download_backbone(source: str) -> Path | None:
    """Download a pretrained encoder of the Hub; None if it is a model of this project, or if there is no such model."""
    model_id, revision = parse_model_id(source)
    try:
        config, _ = PreTrainedConfig.get_config_dict(model_id, revision=revision)
    except OSError:
        return None
    if config.get("model_type", "").startswith("convsim_"):
        return None
    try:
        return find_folder(source)
    except ValueError as error:
        raise InputError(f"initialize_from: {source} cannot be loaded: {error}") from error


@dataclass(frozen=True)
class Backbone:
    """A pretrained encoder in a folder.

    Attributes:
        source: the value of `initialize_from`.
        folder: the folder of its files.
    """

    source: str
    folder: Path

    def build_config(self, options: Mapping[str, Any]) -> ConvSimPretrainedConfig:
        """Return the config of a model with new heads: the backbone's, its pooling, its prompts and its length.

        Args:
            options: `model_config`, whose fields replace those of the backbone.

        Raises:
            InputError: a module or a setting of the backbone is not supported, or an option is invalid.
        """
        if unknown := set(options) - config_fields("pretrained"):
            raise InputError(f"model_config has {', '.join(sorted(unknown))}, which pretrained encoders do not support")
        tokenizer = self.load_tokenizer()
        values: dict[str, Any] = {
            "backbone_config": self._backbone_config(),
            "pooling": self._pooling(),
            "prompts": self._prompts(),
            "max_tokens": token_limit(tokenizer.model_max_length),
            **({} if tokenizer.unk_token_id is None else {"unk_token_id": tokenizer.unk_token_id}),
        }
        return new_config(ConvSimPretrainedConfig, values | dict(options))

    def build_model(self, config: ConvSimPretrainedConfig) -> ConvSimPretrainedForMultitask:
        """Return a model with the backbone's weights and new heads.

        Raises:
            InputError: the weights cannot be loaded, or some are missing.
        """
        backbone, loading = self._load(
            AutoModel, config=config.backbone_config, dtype=torch.float32, output_loading_info=True
        )
        model = ConvSimPretrainedForMultitask(config)
        weights = backbone.state_dict()
        own = cast(ConvSimPretrainedModel, model.encoder).backbone
        names = own.state_dict().keys()
        if missing := (set(loading["missing_keys"]) | (names - weights.keys())) & names:
            raise self._refusal(f"its weights lack {', '.join(sorted(missing))}")
        own.load_state_dict({name: weights[name] for name in names})
        return model

    def load_tokenizer(self) -> PreTrainedTokenizerFast:
        """Return the backbone's tokenizer, which truncates as sentence-transformers does.

        In a pair of sentences, each has its own special tokens, and the second one has the token type 1.
        """
        tokenizer = self._load(AutoTokenizer)
        if tokenizer.pad_token is None or not tokenizer.is_fast:
            raise self._refusal("its tokenizer has no padding token, or is not a fast tokenizer")
        # sentence_bert_config.json; older models name their own architecture.
        files = sorted(path.name for path in self.folder.glob("sentence_*_config.json"))
        settings = self.read(files[0]) if files else {}
        if settings.get("do_lower_case"):
            normalizer = tokenizer.backend_tokenizer.normalizer
            tokenizer.backend_tokenizer.normalizer = Normalizers([Lowercase(), *([normalizer] if normalizer else [])])
        limits = [tokenizer.model_max_length, getattr(self._backbone_config(), "max_position_embeddings", -1)]
        limit = settings.get("max_seq_length") or min(limit for limit in limits if limit > 0)
        return _mark_pairs(tokenizer, limit)

    def languages(self) -> list[str]:
        """Return the languages that the backbone's card names; [] if it has none."""
        card = self.folder / "README.md"
        languages = (metadata_load(card) or {}).get("language", []) if card.is_file() else []
        named = [languages] if isinstance(languages, str) else list(languages)
        return [] if "multilingual" in named else named

    def read(self, name: str) -> Any:
        """Return the content of a JSON file of the folder; {} if there is no such file."""
        path = self.folder / name
        if not path.is_file():
            return {}
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self._refusal(f"{path} is not readable as JSON: {error}") from None

    def _backbone_config(self) -> PreTrainedConfig:
        values = self.read("config.json")
        if values.get("model_type") not in CONFIG_MAPPING:
            raise self._refusal(
                f"its type {values.get('model_type')!r} is not implemented in transformers, and custom code in "
                "models is not run"
            )
        config = self._load(AutoConfig)
        if config.is_encoder_decoder or not (hasattr(config, "hidden_size") and hasattr(config, "vocab_size")):
            raise self._refusal(f"{config.model_type} is not a text encoder")
        for name in ("auto_map", "_name_or_path"):
            config.__dict__.pop(name, None)
        config.dtype = None
        return config

    def _pooling(self) -> str:
        modules = self.read("modules.json")
        names = [str(module["type"]).rpartition(".")[2] for module in modules]
        for module, name in zip(modules, names, strict=True):
            if name not in MODULES or not str(module["type"]).startswith("sentence_transformers."):
                raise self._refusal(f"it has the module {module['type']}, expected {', '.join(MODULES)}")
        if not modules:
            return "mean"
        if "Pooling" not in names or modules[0]["path"]:
            raise self._refusal("expected a Transformer module in the folder itself, and a Pooling module")
        settings = self.read(f"{modules[names.index('Pooling')]['path']}/config.json")
        flags = [name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
                 for name, value in settings.items() if name.startswith("pooling_mode_") and value]  # fmt: skip
        mode = settings.get("pooling_mode", flags[0] if len(flags) == 1 else flags)
        if isinstance(mode, list) or mode not in POOLINGS:
            raise self._refusal(f"its pooling is {mode}, expected one of {', '.join(POOLINGS)}")
        if not settings.get("include_prompt", True) and any(self._prompts().values()):
            raise self._refusal("its pooling excludes the tokens of prompts (include_prompt: false)")
        return POOLINGS[mode]

    def _prompts(self) -> dict[str, str]:
        settings = self.read("config_sentence_transformers.json")
        prompts, default = settings.get("prompts") or {}, settings.get("default_prompt_name")
        names = {
            "input": [default],
            "query": ["query", default],
            "response": ["document", "passage", "corpus", default],
        }
        own = {side: next((prompts[each] for each in names if each in prompts), "") for side, names in names.items()}
        return {side: prompt for side, prompt in own.items() if prompt}

    def _load(self, loader: Any, **options: Any) -> Any:
        try:
            return loader.from_pretrained(self.folder, trust_remote_code=False, **options)
        # The type of the exception depends on the library that reads a damaged file; tokenizers raises bare Exceptions.
        except Exception as error:
            raise self._refusal(" ".join(str(error).split()) or type(error).__name__) from None

    def _refusal(self, reason: str) -> InputError:
        return InputError(f"initialize_from: {self.source} cannot be loaded: {reason}")


def _mark_pairs(tokenizer: PreTrainedTokenizerBase, limit: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer that gives each sentence of a pair its own special tokens, and the second the token type 1."""
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    example = backend.encode("a")
    is_special, named = example.special_tokens_mask, list(zip(example.tokens, example.ids, strict=True))
    before, after = named[: is_special.index(0)], named[len(named) - is_special[::-1].index(0) :]
    sentences = [
        [f"{token}:{number}" for token in (*(name for name, _ in before), variable, *(name for name, _ in after))]
        for number, variable in enumerate(("$A", "$B"))
    ]
    backend.post_processor = TemplateProcessing(
        single=sentences[0], pair=[*sentences[0], *sentences[1]], special_tokens=list(dict([*before, *after]).items())
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=limit,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        **tokenizer.special_tokens_map,
    )
