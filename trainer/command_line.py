"""Reads the settings of a run from a preset and the command line, which takes precedence."""

import argparse
import dataclasses
import difflib
import functools
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from data_scripts.files.command_line import suggest
from data_scripts.files.errors import InputError
from trainer.arguments import (
    DEFAULT_MODEL_TYPE,
    DEFAULT_STEPS,
    HEADINGS,
    NEW_TOKENIZER,
    NEW_WEIGHTS,
    Arguments,
    table_learning_rate_ratio,
    validate,
)
from trainer.preset_files import list_presets, load_extensions, preset_path, read_preset
from trainer.tasks import TASKS, validate_tasks

USAGE = "convsim train PRESET [--OPTION VALUE ...]"
NONE = ("null", "none")
MAPPINGS = ("model_config", "tasks")
EXPECTED = {bool: "true or false", dict: "a JSON mapping", int: "a whole number", float: "a number"}


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
    validate(arguments)
    validate_tasks(arguments)
    _validate_model(arguments)
    _validate_best_metric(arguments)
    if arguments.max_steps is None and arguments.epochs is None and not arguments.adapt:
        arguments.max_steps = DEFAULT_STEPS
    return arguments


def _validate_model(arguments: Arguments) -> None:
    if arguments.model_type is None:  # then `build_model` compares model_config with the config of initialize_from
        return
    fields = config_fields(arguments.model_type)
    for key in arguments.model_config:
        if key not in fields:
            expected = ", ".join(sorted(fields))
            raise InputError(f"model_config has '{key}'{suggest(key, fields)}; expected some of {expected}")


def _validate_best_metric(arguments: Arguments) -> None:
    """Refuse a misspelled dataset in `best_metric` now; the other parts of the name are checked at step 0."""
    dataset = arguments.best_metric.partition(".")[0]
    known = {"last", "stsb", "cqa", *(task.evaluator for task in TASKS.values() if task.evaluator)}
    if dataset not in known and (suggestion := suggest(dataset, known)):
        raise InputError(f"best_metric is '{arguments.best_metric}', which starts with '{dataset}'{suggestion}")


def config_fields(model_type: str) -> set[str]:
    """Return the names of the fields of an encoder's config, which `model_config` may set.

    Raises:
        InputError: there is no such encoder.
    """
    from transformers import PreTrainedConfig

    from modeling_convsim import ENCODERS  # imports torch

    if model_type not in ENCODERS:
        expected = ", ".join(sorted(ENCODERS))
        raise InputError(f"model_type is '{model_type}'{suggest(model_type, ENCODERS)}; expected one of {expected}")
    own, inherited = (
        {field.name for field in dataclasses.fields(config)}
        for config in (ENCODERS[model_type].config_class, PreTrainedConfig)
    )
    return own - inherited


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
    full_names = {option.name: option.name for option in dataclasses.fields(arguments_class())}
    for field in config_fields(model_type or DEFAULT_MODEL_TYPE):
        full_names.setdefault(field, f"model_config.{field}")
        full_names[f"model_config.{field}"] = f"model_config.{field}"
    full_names |= {f"tasks.{task}": f"tasks.{task}" for task in TASKS}
    matches = difflib.get_close_matches(name, full_names, n=1)
    return f"; did you mean '{full_names[matches[0]]}'?" if matches else ""


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Parse `PRESET [--option VALUE …]`; PRESET is the name of a preset that ships with convsim, or a YAML file.

    Raises:
        InputError: the preset is missing or unreadable, an option is unknown, a value has the wrong type or is out of
            range, or two options do not fit together.
        SystemExit: the command line has --help, which was printed.
    """
    if {"--help", "-h"} & set(argv):
        print(_format_help(argv))
        raise SystemExit(0)
    if not argv or argv[0].startswith("-"):
        raise InputError("the first argument must be a preset; `python trainer/run.py` lists the presets")
    preset, *words = argv
    with _errors_in(preset):
        values = read_preset(preset_path(preset))
        load_extensions(values.get("extensions"))
    with _errors_in("command line"):
        overrides = _read_words(words)
        load_extensions(overrides.get("extensions"))
    with _errors_in(preset):
        options = _change({}, values)
    with _errors_in("command line"):
        of_new_model = (*NEW_TOKENIZER, *NEW_WEIGHTS) if "initialize_from" in overrides else ()
        changed = _change({name: options[name] for name in options if name not in of_new_model}, overrides)
    arguments = _build(preset, options, changed)
    if arguments.table_learning_rate is None:
        # Last, so that an override of learning_rate changes both; written out, so that config.yaml is complete.
        arguments.table_learning_rate = arguments.learning_rate * table_learning_rate_ratio(arguments)
    return arguments


@contextmanager
def _errors_in(source: str) -> Iterator[None]:
    """Let the errors of a preset or of the command line begin with its name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _build(preset: str, options: dict[str, Any], changed: dict[str, Any]) -> Arguments:
    """Build the settings; an error names the command line if the preset alone is valid, else the preset."""
    try:
        return build_arguments(**changed)
    except InputError as error:
        with _errors_in(preset):
            build_arguments(**options)
        raise InputError(f"command line: {error}") from None


def _read_words(words: Sequence[str]) -> dict[str, list[str]]:
    """Read `--option VALUE …` and `--option=VALUE`, with underscores or hyphens: option -> its values."""
    options: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            values = options[name.replace("-", "_")] = [value] if equals else []
        elif values is None:
            raise InputError(f"unknown argument '{word}'; expected --OPTION VALUE")
        else:
            values.append(word)
    return options


def _change(options: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the values of a preset, or of the command line as words; none gives an option its default."""
    changed = dict(options)
    annotations = typing.get_type_hints(arguments_class())
    for name, value in changes.items():
        mapping, dot, entry = str(name).partition(".")
        if dot and mapping in MAPPINGS:
            before = changed.get(mapping, getattr(Arguments(), mapping))
            changed[mapping] = {**before, entry: _convert_entry(name, value)}
        elif name not in annotations:
            raise _unknown_option(str(name), {**options, **changes}.get("model_type"))
        elif (value := _convert(name, annotations[name], value)) is None:
            changed.pop(name, None)
        else:
            changed[name] = {**changed.get(name, {}), **value} if name == "model_config" else value
    return changed


def _convert_entry(name: str, words: Any) -> Any:
    if not isinstance(words, list) or len(words) != 1:
        raise InputError(f"{name}: expected --{name} VALUE on the command line, or a mapping in a preset")
    try:
        return json.loads(words[0])
    except ValueError:
        return words[0]


def _unknown_option(name: str, model_type: Any) -> InputError:
    try:
        suggestion = suggest_option(name, model_type[0] if isinstance(model_type, list) else model_type)
    except InputError:  # the encoder is unknown too
        suggestion = ""
    return InputError(f"unknown option '{name}'{suggestion or '; `python trainer/run.py --help` lists the options'}")


def _convert(name: str, annotation: Any, value: Any) -> Any:
    """Convert a value to the type of its option; None stands for the default of the option."""
    kind, is_list = _value_type(annotation)
    values = value if isinstance(value, list) else [value]
    if is_list:
        return None if value is None else [_convert_value(name, kind, each) for each in values]
    if len(values) != 1:
        raise InputError(f"{name}: expected one value, got {len(values)}")
    return None if str(values[0]).lower() in NONE else _convert_value(name, kind, values[0])


def _convert_value(name: str, kind: Any, value: Any) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if kind is not dict:
            return kind(str(value))
        if isinstance(mapping := json.loads(value) if isinstance(value, str) else value, dict):
            return {str(key): entry for key, entry in mapping.items()}
        raise ValueError
    except (KeyError, ValueError):
        raise InputError(f"{name}: expected {EXPECTED[kind]}, got '{value}'") from None


def _value_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of an option's values, and whether the option is a list of them."""
    if isinstance(annotation, types.UnionType):  # TYPE | None
        annotation = typing.get_args(annotation)[0]
    is_list = typing.get_origin(annotation) is list
    return (typing.get_args(annotation)[0] if is_list else annotation), is_list


def _format_help(argv: Sequence[str]) -> str:
    """Return the help, which has the options of the tasks in the extensions of a command line and its preset."""
    if preset_path(argv[0]).is_file():
        load_extensions(read_preset(preset_path(argv[0])).get("extensions"))
    load_extensions(_read_words([word for word in argv[1:] if word != "-h"]).get("extensions"))
    parser = argparse.ArgumentParser(
        usage=USAGE,
        description="Train an encoder with the settings of a preset. Options of the command line take precedence.",
        epilog=f"The value none resets an option to its default.\n\n{list_presets()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    annotations, defaults = typing.get_type_hints(arguments_class()), arguments_class()()
    of_every_run, title = {option.name for option in dataclasses.fields(Arguments)}, ""
    groups: dict[str, Any] = {}
    for option in dataclasses.fields(arguments_class()):
        title = HEADINGS.get(option.name, title) if option.name in of_every_run else _tasks_of(option.name)
        group = groups[title] = groups.get(title) or parser.add_argument_group(title)
        kind, is_list = _value_type(annotations[option.name])
        text = f"{option.metadata['help']} (default: {_format_default(getattr(defaults, option.name))})"
        metavar = "|".join(option.metadata["choices"] or [])
        metavar = metavar or {bool: "true|false", dict: "JSON"}.get(kind, kind.__name__.upper())
        metavar += " ..." * is_list
        group.add_argument(f"--{option.name}", metavar=metavar, help=text.replace("%", "%%"))
    return parser.format_help()


def _tasks_of(option: str) -> str:
    """Return the heading of an option: the tasks that read it."""
    names = [task.name for task in TASKS.values() if any(o.name == option for o in dataclasses.fields(task.Options))]
    return f"{'task' if len(names) == 1 else 'tasks'} {', '.join(names)}"


def _format_default(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return json.dumps(value) if isinstance(value, (dict, bool)) else str(value).replace("None", "none")
