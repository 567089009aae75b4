"""From a preset and the command line to `Arguments`: one option a field, the command line wins."""

import argparse
import dataclasses
import difflib
import functools
import importlib.util
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any, NoReturn

import yaml

from data_scripts.errors import InputError
from trainer.arguments import Arguments, table_learning_rate_ratio, validate
from trainer.tasks import TASKS, validate_tasks


def arguments_class() -> type[Arguments]:
    """`Arguments` with the options of every registered task."""
    return _combine(tuple(dict.fromkeys(task.Options for task in TASKS.values())))


@functools.cache  # arguments are equal only if their class is the same
def _combine(options: tuple[type[Arguments], ...]) -> type[Arguments]:
    return dataclasses.dataclass(type("Arguments", options, {"__doc__": Arguments.__doc__}))


def build_arguments(**options: Any) -> Arguments:
    """The arguments of a run, from Python: unnamed options have their defaults.

    Raises:
        InputError: a value is out of range, or two exclude each other.
        TypeError: there is no such option.
    """
    arguments = arguments_class()(**options)
    _validate_model_type(arguments.model_type)
    validate(arguments)
    validate_tasks(arguments)
    return arguments


def _validate_model_type(model_type: str) -> None:
    """Refuse the name of no encoder; the package's own are known by their files, without the import of torch."""
    package = importlib.util.find_spec("modeling_convsim")
    assert package is not None and package.submodule_search_locations
    files = Path(package.submodule_search_locations[0]).glob("modeling_*.py")
    if model_type in {file.stem.removeprefix("modeling_") for file in files} - {"base"}:
        return
    from modeling_convsim import ENCODERS  # takes seconds; an extension, which registers encoders, has imported it

    if model_type not in ENCODERS:
        raise InputError(f"model_type is '{model_type}'; expected one of {', '.join(sorted(ENCODERS))}")


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours to report."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def _build_parser() -> _Parser:
    """The command line of `arguments_class()`: one option a field, its type read from the annotation."""
    parser = _Parser(
        prog="trainer/run.py",
        description="Train an encoder as a preset says.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("preset", help="YAML file of the options below, for example trainer/presets/quickstart.yaml")
    cls = arguments_class()
    annotations = typing.get_type_hints(cls)
    for option in dataclasses.fields(cls):
        annotation = annotations[option.name]
        optional = isinstance(annotation, types.UnionType)
        kind: Any = typing.get_args(annotation)[0] if optional else annotation
        nargs = "*" if typing.get_origin(kind) is list else None
        kind = typing.get_args(kind)[0] if nargs else kind
        default = option.default_factory() if callable(option.default_factory) else option.default
        parser.add_argument(
            f"--{option.name}",
            type=functools.partial(_convert, kind, optional),
            nargs=nargs,
            metavar={bool: "true|false", dict: "JSON"}.get(kind, kind.__name__.upper()),
            default=default,
            help=option.metadata["help"],
        )
    return parser


def _convert(kind: type, optional: bool, text: str) -> Any:
    if optional and text.lower() in ("null", "none"):
        return None
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
    """Arguments of `PRESET.yaml [--key value …]`.

    Raises:
        InputError: for a missing or unreadable preset, an unknown key, or a value of the wrong type or out of range.
    """
    if not argv or argv[0].startswith("-"):
        _build_parser().parse_args(["--help"] if "--help" in argv or "-h" in argv else [])
    preset, *overrides = argv
    try:
        values = read_preset(Path(preset))
        load_extensions([*values.get("extensions", []), *_extensions_of(overrides)])
        _refuse_unknown(values)
        parser = _build_parser()
        arguments = _parse(parser, preset, _as_options(values))
    except InputError as error:
        raise InputError(f"{preset}: {error}") from None
    if overrides:
        try:
            arguments = _parse(
                parser, preset, [*_as_options(dataclasses.asdict(arguments)), *_merged(arguments, overrides)]
            )
        except InputError as error:
            raise InputError(f"command line: {error}") from None
    if arguments.table_learning_rate is None:
        # Last, so that an override of learning_rate moves both; written out, so that config.yaml says all.
        arguments.table_learning_rate = arguments.learning_rate * table_learning_rate_ratio(arguments)
    return arguments


def _parse(parser: argparse.ArgumentParser, preset: str, options: list[str]) -> Arguments:
    namespace = vars(parser.parse_args([preset, *options]))
    namespace.pop("preset")
    return build_arguments(**namespace)


def read_preset(path: Path) -> dict[str, Any]:
    """The options of a preset, over those of the preset beside it that its key `extends` names.

    Raises:
        InputError: a file is missing or is no YAML mapping.
    """
    if not path.is_file():
        presets = ", ".join(sorted(preset.stem for preset in (Path(__file__).parent / "presets").glob("*.yaml")))
        raise InputError(f"no such preset file; the project's own are in trainer/presets: {presets}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"not readable as YAML: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"expected a mapping of options, found {type(values).__name__}")
    base = values.pop("extends", None)
    if base is None:
        return values
    base_path = path.with_name(f"{base}.yaml")
    if not base_path.is_file() or base_path == path:
        raise InputError(f"extends is '{base}'; expected the name of another preset in {path.parent}")
    try:
        return {**read_preset(base_path), **values}
    except RecursionError:
        raise InputError(f"extends: {base_path.name} and the presets it extends extend each other") from None


def load_extensions(files: list[str]) -> None:
    """Import Python files that register tasks and encoders of a user's own; a file is imported once.

    Raises:
        InputError: there is no such file, or it raises an error.
    """
    for file in files:
        path = Path(file).resolve()
        name = f"convsim_extension_{path.stem}"
        if getattr(sys.modules.get(name), "__file__", None) == str(path):
            continue
        if path.suffix != ".py" or not path.is_file():
            raise InputError(f"extensions: {file} is no Python file")
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None and specification.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(specification)
        try:
            specification.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise InputError(f"extensions: {file} cannot be imported: {type(error).__name__}: {error}") from error


def _extensions_of(words: list[str]) -> list[str]:
    """The files of `--extensions FILE …` on a command line; they add options, so they are read before the others."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--extensions", nargs="*", default=[])
    return parser.parse_known_args(words)[0].extensions


def _refuse_unknown(values: dict[str, Any]) -> None:
    known = {option.name for option in dataclasses.fields(arguments_class())}
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else "; `python trainer/run.py --help` lists the options"
            raise InputError(f"unknown key '{key}'{hint}")


def _as_options(values: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for key, value in values.items():
        if value is None:
            continue
        if isinstance(value, dict):
            value = json.dumps(value)
        items = value if isinstance(value, list) else [value]
        options += [f"--{key}", *(str(item) for item in items)]
    return options


def _merged(arguments: Arguments, overrides: list[str]) -> list[str]:
    """Overrides in which `--model_config` adds to the preset's mapping instead of replacing it."""
    option = "--model_config"
    # `--key=value` is two words like any other.
    merged = [word for text in overrides for word in (text.split("=", 1) if text.startswith(f"{option}=") else [text])]
    for index, word in enumerate(merged[:-1]):
        if word == option:
            addition = _convert_or_refuse(merged[index + 1], option)
            merged[index + 1] = json.dumps({**arguments.model_config, **addition})
    return merged


def _convert_or_refuse(text: str, option: str) -> dict:
    try:
        return _convert(dict, False, text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"argument {option}: {error}") from None
