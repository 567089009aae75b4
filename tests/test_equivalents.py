"""The tables of other libraries' tests name tests that exist here, or a reason."""

import ast
from functools import cache
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parent
TABLES = ["modeling_convsim/transformers_common.yaml", "trainer/publish/sentence_transformers.yaml"]


@cache
def functions(file: str) -> set[str]:
    """The test functions that a file of `tests/` defines."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("table", TABLES)
def test_each_test_has_an_equivalent_that_exists_or_a_reason(table):
    entries = yaml.safe_load((TESTS / table).read_text(encoding="utf-8"))["tests"]
    wrong = [
        name
        for name, entry in entries.items()
        if not (entry.keys() == {"not_applicable"} or {"equivalent"} <= entry.keys() <= {"equivalent", "note"})
        or not all(entry.values())
    ]
    assert not wrong
    named = {test for entry in entries.values() for test in entry.get("equivalent", [])}
    missing = {test for test in named if not (test.count("::") == 1 and _exists(*test.split("::")))}
    assert not missing


def _exists(file: str, name: str) -> bool:
    return (TESTS / file).is_file() and name.startswith("test_") and name in functions(file)
