"""The options of the commands that write pairs."""

import argparse
import os
from pathlib import Path

import pytest

from data_scripts.clean.filters import PAPER, Filters
from data_scripts.pairs.options import PairOptions, add_filter_arguments, phone_regions, read_filters
from modeling_convsim.files.errors import InputError


def parse(*arguments: str) -> PairOptions:
    parser = argparse.ArgumentParser()
    add_filter_arguments(parser)
    return PairOptions.from_arguments(parser.parse_args(arguments))


def options(*arguments: str) -> Filters:
    return read_filters(parse(*arguments))


def regions_of(*arguments: str) -> tuple[str, ...]:
    return phone_regions(parse(*arguments))


def test_the_countries_of_phone_numbers_are_given_with_mask():
    assert regions_of() == regions_of("--mask") == ("US",)
    assert regions_of("--mask", "--phone_regions", "de, US,DE") == ("DE", "US")
    with pytest.raises(InputError, match="--phone_regions: only valid with --mask"):
        options("--phone_regions", "DE")
    with pytest.raises(InputError, match="--phone_regions: unknown country 'XX'; expected codes such as US,DE"):
        options("--mask", "--phone_regions", "DE,xx,YY")
    assert options("--mask", "--phone_regions", "DE") == PAPER


def test_options_become_filters(tmp_path: Path):
    (tmp_path / "bots.txt").write_text("AutoModerator\n\n WikiTextBot \n")
    arguments = f"--filters none --markdown --min_characters 3 --language de --bots {tmp_path / 'bots.txt'}"
    assert options(*arguments.split()) == Filters("none", 3, ("automoderator", "wikitextbot"), "de", True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--language", "english"], "--language english: expected one of .*, en, "),
        (["--bots", "missing.txt"], "--bots missing.txt: cannot be read"),
        (["--bots", os.devnull], "--bots /dev/null: contains no names; expected one per line"),
    ],
)
def test_wrong_options_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        options(*arguments)
