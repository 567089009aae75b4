"""Reads the settings of a run from a preset and the command line, which takes precedence."""

import argparse
import dataclasses
import difflib
import functools
import importlib.util
import json
import types
import typing
from pathlib import Path
from typing import Any, NoReturn

from data_scripts.command_line import ArgumentParser, suggest, with_underscores
from data_scripts.errors import InputError
from trainer.arguments import (
    DEFAULT_MODEL_TYPE,
    DEFAULT_STEPS,
    NEW_TOKENIZER,
    NEW_WEIGHTS,
    Arguments,
    default_of,
    table_learning_rate_ratio,
    validate,
)
from trainer.preset_files import list_presets, load_extensions, read_preset
from trainer.tasks import TASKS, validate_tasks

USAGE = "accelerate launch trainer/run.py PRESET.yaml [--OPTION VALUE ...]"
NONE = ("null", "none")
MAPPINGS = ("model_config", "tasks")


def arguments_class() -> type[Arguments]:
    """Return `Arguments` with the options of every registered task."""
    return _combine(tuple(dict.fromkeys(task.Options for task in TASKS.values())))


@functools.cache  # arguments are equal only if their class is the same
def _combine(options: tuple[type[Arguments], ...]) -> type[Arguments]:
    return dataclasses.dataclass(type("Arguments", options, {"__doc__": Arguments.__doc__}))


def build_arguments(**options: Any) -> Arguments:
    """Build the settings of a run in Python: other options have their defaults.

    Raises:
        InputError: a value is out of range, or two options do not fit together.
        TypeError: an option does not exist.
    """
    arguments = arguments_class()(**options)
    if arguments.model_type is None and not arguments.initialize_from:
        arguments.model_type = DEFAULT_MODEL_TYPE
    if arguments.model_type is not None:
        _validate_model_type(arguments.model_type)
    validate(arguments)
    validate_tasks(arguments)
    _validate_best_metric(arguments)
    _validate_model_config(arguments)
    if arguments.max_steps is None and arguments.epochs is None and not arguments.adapt:
        arguments.max_steps = DEFAULT_STEPS
    return arguments


def _validate_model_type(model_type: str) -> None:
    """Refuse the name of an encoder that does not exist.

    The package's own encoders are known by their files, so that torch is not imported.
    """
    package = importlib.util.find_spec("modeling_convsim")
    assert package is not None and package.submodule_search_locations
    files = Path(package.submodule_search_locations[0]).glob("modeling_*.py")
    if model_type in {file.stem.removeprefix("modeling_") for file in files} - {"base"}:
        return
    from modeling_convsim import ENCODERS  # takes seconds; an extension, which registers encoders, has imported it

    if model_type not in ENCODERS:
        raise InputError(
            f"model_type is '{model_type}'{suggest(model_type, ENCODERS)}; "
            f"expected one of {', '.join(sorted(ENCODERS))}"
        )


def _validate_best_metric(arguments: Arguments) -> None:
    """Refuse a misspelled dataset in `best_metric` now; the other parts of the name are checked at step 0."""
    dataset = arguments.best_metric.partition(".")[0]
    known = {"last", "stsb", "cqa", *(task.evaluator for task in TASKS.values() if task.evaluator)}
    if dataset not in known and (suggestion := suggest(dataset, known)):
        raise InputError(f"best_metric is '{arguments.best_metric}', which starts with '{dataset}'{suggestion}")


def _validate_model_config(arguments: Arguments) -> None:
    if not arguments.model_config or arguments.model_type is None:  # then `build_model` compares both configs
        return
    fields = config_fields(arguments.model_type)
    for key in arguments.model_config:
        if key not in fields:
            raise InputError(
                f"model_config has '{key}'{suggest(key, fields)}; expected some of {', '.join(sorted(fields))}"
            )


def config_fields(model_type: str | None) -> set[str]:
    """Return the names of the fields of an encoder's config, which `model_config` may set."""
    # They import torch, which takes seconds.
    from transformers import PreTrainedConfig

    from modeling_convsim import ENCODERS

    config_class: Any = ENCODERS[model_type or DEFAULT_MODEL_TYPE].config_class
    return {each.name for each in dataclasses.fields(config_class)} - {
        each.name for each in dataclasses.fields(PreTrainedConfig)
    }


def suggest_option(name: str, model_type: str | None) -> str:
    """Return the end of an error message that names the option that was probably meant; empty if none is similar.

    Args:
        name: what the user wrote: an option, a field of the encoder's config, or an entry of a mapping such as
            `tasks.snly`.
        model_type: the encoder; None for the default one.

    Example:
        >>> suggest_option("learning_rat", "dan")
        "; did you mean 'learning_rate'?"
        >>> suggest_option("token_dropout", "dan")
        "; did you mean 'model_config.token_dropout'?"
    """
    similar = _similar_option(name, model_type)
    return f"; did you mean '{similar}'?" if similar else ""


def _similar_option(name: str, model_type: str | None) -> str | None:
    full_names = {option.name: option.name for option in dataclasses.fields(arguments_class())}
    for field in config_fields(model_type):
        full_names.setdefault(field, f"model_config.{field}")
        full_names[f"model_config.{field}"] = f"model_config.{field}"
    full_names |= {f"tasks.{task}": f"tasks.{task}" for task in TASKS}
    matches = difflib.get_close_matches(name, full_names, n=1)
    return full_names[matches[0]] if matches else None


class _Parser(ArgumentParser):
    """An argument parser that raises its errors, so that they can name the preset or the command line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def _build_parser() -> _Parser:
    """Build the command line of `arguments_class()`: one option per field, with the type of its annotation.

    The namespace holds only the options that are given.
    """
    parser = _Parser(
        prog="trainer/run.py",
        usage=USAGE,
        description="Train an encoder with the settings of a preset. Options of the command line take precedence.",
        epilog=f"The value none resets an option to its default.\n\n{list_presets()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("preset", metavar="PRESET.yaml", help="YAML file of the options below")
    annotations = typing.get_type_hints(arguments_class())
    groups: dict[str, Any] = {}
    for option in _options_by_group():
        group = option.metadata["group"] or _tasks_of(option.name)
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        kind, is_list = _value_type(annotations[option.name])
        default = default_of(option)
        groups[group].add_argument(
            f"--{option.name}",
            type=functools.partial(_convert, kind, None if is_list else option),
            nargs="*" if is_list else None,
            metavar=_metavar(kind, option.metadata["choices"]),
            help=f"{option.metadata['help']} (default: {_format_default(default)})".replace("%", "%%"),
        )
    return parser


def _options_by_group() -> list[dataclasses.Field]:
    """Return the options of a run in the order of `--help`: those of the tasks follow the option `tasks`."""
    base = {option.name for option in dataclasses.fields(Arguments)}
    options = dataclasses.fields(arguments_class())
    of_tasks = sorted((option for option in options if option.name not in base), key=lambda o: _tasks_of(o.name))
    after = next(index for index, option in enumerate(options) if option.name == "tasks") + 1
    return [*options[:after], *of_tasks, *(option for option in options[after:] if option.name in base)]


def _tasks_of(option: str) -> str:
    """Return the heading of an option: the tasks that read it."""
    names = [task.name for task in TASKS.values() if any(o.name == option for o in dataclasses.fields(task.Options))]
    return f"{'task' if len(names) == 1 else 'tasks'} {', '.join(names)}"


def _value_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of an option's values, and whether the option is a list of them."""
    if isinstance(annotation, types.UnionType):  # TYPE | None
        annotation = typing.get_args(annotation)[0]
    is_list = typing.get_origin(annotation) is list
    return (typing.get_args(annotation)[0] if is_list else annotation), is_list


def _metavar(kind: type, choices: tuple[str, ...] | None) -> str:
    return "|".join(choices) if choices else {bool: "true|false", dict: "JSON"}.get(kind, kind.__name__.upper())


def _format_default(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return json.dumps(value) if isinstance(value, (dict, bool)) else str(value).replace("None", "none")


def _convert(kind: type, resettable: dataclasses.Field | None, text: str) -> Any:
    """Convert a word to a value; "none" gives the default of the option `resettable`."""
    if resettable is not None and text.lower() in NONE:
        return default_of(resettable)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        value = json.loads(text) if kind is dict else kind(text)
        if not isinstance(value, kind):
            raise ValueError
        return value
    except (KeyError, ValueError):
        expected = {bool: "true or false", dict: "a JSON mapping", int: "a whole number", float: "a number"}[kind]
        raise argparse.ArgumentTypeError(f"expected {expected}, got '{text}'") from None


def parse_arguments(argv: list[str]) -> Arguments:
    """Parse `PRESET.yaml [--key value …]`.

    Raises:
        InputError: the preset is missing or unreadable, an option is unknown, a value has the wrong type or is out of
            range, or two options do not fit together.
    """
    if any(word in ("--help", "-h") for word in argv):
        preset_extensions = _preset_extensions(read_preset(Path(argv[0]))) if Path(argv[0]).is_file() else []
        load_extensions([*preset_extensions, *_extensions_of(argv)])
        _build_parser().parse_args(["--help"])
    if not argv or argv[0].startswith("-"):
        raise InputError("the first argument must be a preset; `python trainer/run.py` lists the presets")
    preset, *overrides = argv
    try:
        values = read_preset(Path(preset))
        load_extensions([*_preset_extensions(values), *_extensions_of(overrides)])
        options = _parse_preset(preset, values)
    except InputError as error:
        raise InputError(f"{preset}: {error}") from None
    try:
        changes = _parse_overrides(preset, overrides, options)
    except InputError as error:
        raise InputError(f"command line: {error}") from None
    if changes.get("initialize_from"):
        options = {name: value for name, value in options.items() if name not in (*NEW_TOKENIZER, *NEW_WEIGHTS)}
    arguments = _build(preset, options, changes)
    if arguments.table_learning_rate is None:
        # Last, so that an override of learning_rate changes both; written out, so that config.yaml is complete.
        arguments.table_learning_rate = arguments.learning_rate * table_learning_rate_ratio(arguments)
    return arguments


def _parse_preset(preset: str, values: dict[str, Any]) -> dict[str, Any]:
    known = [option.name for option in dataclasses.fields(arguments_class())]
    for key in values:
        if key not in known:
            model_type = values.get("model_type", Arguments.model_type)
            raise InputError(f"unknown key '{key}'{_suggest_or_refer_to_help(str(key), model_type)}")
    return _parse_words(preset, _as_options(values))[0]


def _parse_words(preset: str, words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the given options, and the unknown words."""
    namespace, unknown = _build_parser().parse_known_args([preset, *words])
    values = vars(namespace)
    values.pop("preset")
    return values, unknown


def _parse_overrides(preset: str, overrides: list[str], options: dict[str, Any]) -> dict[str, Any]:
    words, entries = _split_entries(overrides)
    changes, unknown = _parse_words(preset, words)
    model_type = changes.get("model_type", options.get("model_type", Arguments.model_type))
    if unknown:
        word = next((word for word in unknown if word.startswith("-")), unknown[0]).partition("=")[0]
        name = with_underscores(word).lstrip("-")
        hint = _suggest_or_refer_to_help(name, model_type, prefix="--") if word.startswith("--") else ""
        raise InputError(f"unknown argument '{word}'{hint}")
    if changes.get("model_config"):
        changes["model_config"] = {**options.get("model_config", {}), **changes["model_config"]}
    for mapping, key, value in entries:
        before = changes.get(mapping, options.get(mapping, default_of(_field(mapping))))
        changes[mapping] = {**before, key: value}
    return changes


def _split_entries(overrides: list[str]) -> tuple[list[str], list[tuple[str, str, Any]]]:
    """Take `--model_config.KEY VALUE` and `--tasks.KEY VALUE` out of a command line.

    Returns:
        The other words, and (mapping, key, value) of each entry.
    """
    words: list[str] = []
    entries: list[tuple[str, str, Any]] = []
    remaining = iter(overrides)
    for word in remaining:
        option, equals, text = with_underscores(word).partition("=")
        mapping, dot, key = option.removeprefix("--").partition(".")
        if not (option.startswith("--") and dot and mapping in MAPPINGS):
            words.append(word)
            continue
        value = text if equals else next(remaining, None)
        if value is None or not key:
            raise InputError(f"argument {option}: expected --{mapping}.KEY VALUE")
        try:
            entries.append((mapping, key, json.loads(value)))
        except ValueError:
            entries.append((mapping, key, value))
    return words, entries


def _field(name: str) -> dataclasses.Field:
    return next(option for option in dataclasses.fields(Arguments) if option.name == name)


def _suggest_or_refer_to_help(name: str, model_type: str | None, prefix: str = "") -> str:
    """Return the end of an error message on an unknown option; `prefix` stands before the suggested one."""
    try:
        similar = _similar_option(name, model_type)
    except KeyError:  # the encoder is unknown too
        similar = None
    return f"; did you mean '{prefix}{similar}'?" if similar else "; `python trainer/run.py --help` lists the options"


def _build(preset: str, options: dict[str, Any], changes: dict[str, Any]) -> Arguments:
    """Build the settings; an error names the command line if the preset alone is valid, else the preset."""
    try:
        return build_arguments(**{**options, **changes})
    except InputError as error:
        try:
            build_arguments(**options)
        except InputError:
            raise InputError(f"{preset}: {error}") from None
        raise InputError(f"command line: {error}") from None


def _extensions_of(words: list[str]) -> list[str]:
    """Return the files of `--extensions FILE …`, which must be imported before their options can be parsed."""
    parser = _Parser(add_help=False)
    parser.add_argument("--extensions", nargs="*", default=[])
    return parser.parse_known_args(words)[0].extensions


def _preset_extensions(values: dict[str, Any]) -> list[str]:
    files = values.get("extensions") or []
    return [str(file) for file in (files if isinstance(files, list) else [files])]


def _as_options(values: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for key, value in values.items():
        if value is None:
            continue
        if isinstance(value, dict):
            try:
                value = json.dumps(value)
            except (TypeError, ValueError) as error:
                raise InputError(f"{key}: expected texts, numbers and lists of them ({error})") from error
        items = value if isinstance(value, list) else [value]
        options += [f"--{key}", *(str(item) for item in items)]
    return options
