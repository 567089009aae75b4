"""From a preset and the command line to `Arguments`: one option a field, the command line wins."""

import argparse
import dataclasses
import difflib
import functools
import json
import types
import typing
from pathlib import Path
from typing import Any, NoReturn

import yaml

from data_scripts.errors import InputError
from trainer.arguments import Arguments, validate


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours to report."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def _build_parser() -> _Parser:
    """The command line of `Arguments`: one option a field, its type read from the annotation."""
    parser = _Parser(
        prog="trainer/run.py",
        description="Train an encoder as a preset says.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("preset", help="YAML file of the options below, for example trainer/presets/quickstart.yaml")
    for option in dataclasses.fields(Arguments):
        optional = isinstance(option.type, types.UnionType)
        kind: Any = typing.get_args(option.type)[0] if optional else option.type
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
    parser = _build_parser()
    if not argv or argv[0].startswith("-"):
        parser.parse_args(["--help"] if "--help" in argv or "-h" in argv else [])
    preset, *overrides = argv
    try:
        arguments = _parse(parser, preset, _preset_as_options(Path(preset)))
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
        arguments.table_learning_rate = arguments.learning_rate * arguments.table_ratio()
    return arguments


def _parse(parser: argparse.ArgumentParser, preset: str, options: list[str]) -> Arguments:
    namespace = vars(parser.parse_args([preset, *options]))
    namespace.pop("preset")
    arguments = Arguments(**namespace)
    validate(arguments)
    return arguments


def _preset_as_options(path: Path) -> list[str]:
    """A preset in the form of the command line, so that both are converted and checked in one way."""
    if not path.is_file():
        presets = ", ".join(sorted(preset.stem for preset in (Path(__file__).parent / "presets").glob("*.yaml")))
        raise InputError(f"no such preset file; the project's own are in trainer/presets: {presets}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"not readable as YAML: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"expected a mapping of options, found {type(values).__name__}")
    known = {option.name for option in dataclasses.fields(Arguments)}
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else "; `python trainer/run.py --help` lists the options"
            raise InputError(f"unknown key '{key}'{hint}")
    return _as_options(values)


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
