"""The language of the repository: the field's terms in American spelling, and no references to absent files.

`make lint` runs codespell for misspellings; these tests find phrases that are spelled correctly but hard to understand.
"""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT_FILES = re.compile(r"\.(?:py|md|ya?ml|toml|cff|ipynb|jinja)$|(?:^|/)Makefile$")
NOT_TRACKED = {".git", ".venv", "build", "data", "dist", "report", "runs", "shared"}  # skipped in a copy without git

# Regular expression (case is ignored) -> what to write instead.
PHRASES = {
    # American spelling, identifiers included
    r"(?:capitali|categori|generali|initiali|maximi|minimi|normali|optimi|organi|paralleli|quanti|recogni|regulari|"
    r"seriali|standardi|summari|tokeni|utili|vectori|visuali)s(?:e[ds]?|er|ers|ing|ation|ations)(?![a-z])": "-ize",
    r"licence": "license",
    r"colour": "color",
    r"neighbour": "neighbor",
    r"behaviour": "behavior",
    r"favour": "favor",
    r"centre": "center",
    r"catalogue": "catalog",
    r"artefact": "artifact",
    r"\bgrey\b": "gray",
    r"\b(?:label|model|cancel|travel)l(?:ed|ing)\b": "one l: labeled, modeling, canceled",
    r"\bwhilst\b": "while",
    # The field's terms
    r"\bjudg(?:e|es|ed|ing)\b": "evaluate, evaluation",
    r"\bcorpora\b": "datasets",
    r"\brows of a set\b": "examples of a split",
    r"\d (?:(?:million|billion) )?numbers\b": "dimensions, parameters or values",
    r"\bof length one\b": "L2-normalized",
    r"\b(?:may|can) be cut\b": "can be truncated; Matryoshka embeddings",
    r"\bsays? the same\b": "semantically equivalent; is equal",
    r"\bsay all\b|\bsays all\b": "is complete",
    r"\bodds\b": "sampling weight, probability",
    r"\bhow often (?:a|each) task is (?:drawn|sampled)\b": "sampling weight",
    r"\bshare[ds]? out\b|\bsharing out\b": "shard, distribute",
    r"\ball (?:was|were) chosen on dev\b": "hyperparameters were selected on dev",
    # Archaic and clipped phrases
    r"\bgoes on\b|\bwent on\b|\bto go on\b": "resume, continue",
    r"\b(?:made|make|makes|making|written|built|trained) anew\b|\bmade again\b": "regenerate, rebuild, retrain",
    r"\bno one in\b": "none of",
    r"\bhow the house\b": "repository layout",
    r"\bis told\b|\bare told\b|\bas it says\b": "receives, is given; as documented",
    r"(?<!there )\bis no (?:(?-i:[A-Z])\w+ )?(?:file|folder|directory|mapping|number)\b": "is not a ...",
    r"\bthe project's own\b": "the shipped presets, the package's models",
    r"\bso to speak\b": "(omit it)",
    r"\bspoken of\b": "used, mentioned",
}
ABSENT = {
    r"\bDESIGN\.md\b": "CONTRIBUTING.md describes the design",
    r"\bSTYLE\.md\b": "CONTRIBUTING.md describes the style",
}
DEVELOPERS_DATA = {
    r"\.\./shared\b": "a folder that the user names",
    r"\bCONVSIM_DATA\b": "a folder that the user names; the variable is for tests and benchmarks alone",
}
# (file, phrase as matched, in lower case) -> why it stays.
ALLOWED: dict[tuple[str, str], str] = {}


@cache
def text_files() -> dict[str, list[str]]:
    """The lines of every tracked text file, by path, without those of this file."""
    return {
        path: (ROOT / path).read_text(encoding="utf-8").splitlines()
        for path in tracked_files()
        if TEXT_FILES.search(path) and ROOT / path != Path(__file__).resolve() and (ROOT / path).is_file()
    }


def tracked_files() -> list[str]:
    """The paths that git tracks; in a copy without git, all paths outside of folders that git ignores."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.split("\0")[:-1]
    except (OSError, subprocess.CalledProcessError):
        paths = []
        for folder, folders, files in os.walk(ROOT):
            top = Path(folder) == ROOT
            folders[:] = [name for name in folders if name != "__pycache__" and not (top and name in NOT_TRACKED)]
            paths += [(Path(folder) / name).relative_to(ROOT).as_posix() for name in files]
        return sorted(paths)


def occurrences(phrases: dict[str, str], files: dict[str, list[str]]) -> list[str]:
    """`FILE:LINE: 'PHRASE': write ...` for each occurrence that is not allowed."""
    compiled = {re.compile(phrase, re.IGNORECASE): remedy for phrase, remedy in phrases.items()}
    return [
        f"{path}:{number}: '{match[0]}': write {remedy}"
        for path, lines in files.items()
        for number, line in enumerate(lines, 1)
        for phrase, remedy in compiled.items()
        for match in phrase.finditer(line)
        if (path, match[0].lower()) not in ALLOWED
    ]


def test_no_file_uses_a_phrase_that_has_a_plain_term() -> None:
    found = occurrences(PHRASES, text_files())
    assert not found, "\n".join(found)


def test_no_file_cites_a_document_that_does_not_exist() -> None:
    found = occurrences(ABSENT, text_files())
    assert not found, "\n".join(found)


def test_only_tests_name_the_developers_data() -> None:
    files = {path: lines for path, lines in text_files().items() if not path.startswith(("tests/", ".ci/"))}
    found = occurrences(DEVELOPERS_DATA, files)
    assert not found, "\n".join(found)


def test_allowed_phrases_are_still_there() -> None:
    for path, phrase in ALLOWED:
        assert phrase in "\n".join(text_files()[path]).lower(), f"remove ({path}, {phrase}) from ALLOWED"


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("def initialise_weights():", "initialise"),
        ("Tokenisers and NEIGHBOURS", "NEIGHBOUR"),
        ("what it is judged on", "judged"),
        ("0.3 billion numbers", "3 billion numbers"),
        ("The run goes on.", "goes on"),
        ("notes.txt is no Python file", "is no Python file"),
    ],
)
def test_a_phrase_is_reported_with_its_line(line: str, phrase: str) -> None:
    (report,) = [one for one in occurrences(PHRASES, {"a.py": ["", line]}) if f"'{phrase}'" in one]
    assert report.startswith("a.py:2: ")


def test_plain_text_is_not_reported() -> None:
    lines = ["an optimistic organism", "initialize the tokenizer", "the models' premises", "a corpus of dialogs"]
    assert not occurrences(PHRASES | ABSENT | DEVELOPERS_DATA, {"a.py": lines})
