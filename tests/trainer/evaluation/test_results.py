"""The results file is read, merged and written atomically; the table."""

import os
from pathlib import Path

import pytest

from modeling_convsim.files.json_files import read_object
from trainer.evaluation.results import (
    flatten,
    format_table,
    merge_results,
    update_results,
    write_results,
)


@pytest.mark.parametrize(
    ("kept", "new", "merged"),
    [
        ({"run": {"steps": 7}}, {"snli": {"accuracy": 0.5}}, {"run": {"steps": 7}, "snli": {"accuracy": 0.5}}),
        ({"cqa": {"dev": {"map": 1}}}, {"cqa": {"test": {"map": 2}}}, {"cqa": {"dev": {"map": 1}, "test": {"map": 2}}}),
        (
            {"sts": {"12": {"a": {"r": 0.1, "old": 1}}}},
            {"sts": {"12": {"a": {"r": 0.3}}}},
            {"sts": {"12": {"a": {"r": 0.3}}}},
        ),
        # A part with numbers is one measurement, which replaces an older one completely.
        ({"snli": {"accuracy": 0.5, "old": 1}}, {"snli": {"accuracy": 0.6}}, {"snli": {"accuracy": 0.6}}),
        ({"stsb": "damaged"}, {"stsb": {"dev": {"all": {}}}}, {"stsb": {"dev": {"all": {}}}}),
    ],
)
def test_merging_keeps_other_parts_and_replaces_measurements(kept: dict, new: dict, merged: dict) -> None:
    assert merge_results(kept, new) == merged


def test_values_are_flattened_to_their_paths_and_the_file_is_indented_by_two(tmp_path: Path) -> None:
    results = {"stsb": {"dev": {"all": {"pearson": 0.5, "interval": [0.4, 0.6]}}, "note": {}}, "version": "1"}
    assert flatten(results) == {
        "stsb.dev.all.pearson": 0.5, "stsb.dev.all.interval": [0.4, 0.6], "version": "1",
    }  # fmt: skip
    write_results(tmp_path / "results.json", {"snli": {"accuracy": 0.5}})
    assert (tmp_path / "results.json").read_text() == '{\n  "snli": {\n    "accuracy": 0.5\n  }\n}\n'


def test_table_has_a_line_for_each_number() -> None:
    years = {"2012": {"MSRpar": {"pearson": 0.2, "pearson_interval": [0.1, 0.3], "spearman": -0.4, "pairs": 1000}}}
    table = format_table({"sts": years, "snli": {"accuracy": 0.25}})
    assert [line.split() for line in table.splitlines()] == [
        ["sts", "2012", "MSRpar", "pearson", "0.2000", "[0.1000,", "0.3000]"],
        ["sts", "2012", "MSRpar", "spearman", "-0.4000"],
        ["sts", "2012", "MSRpar", "pairs", "1,000"],
        ["snli", "accuracy", "0.2500"],
    ]


def test_processes_that_update_a_file_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "results.json"
    write_results(path, {"first": {"score": 1}})
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            for part in range(10):
                update_results(path, {f"{number} {part}": {"score": number}})
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert len(read_object(path)) == 31 and [file.name for file in tmp_path.iterdir()] == ["results.json"]
