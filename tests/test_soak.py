"""The soak command counts what it injects, and fails if something is lost; its published table is that of a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.forking import CONTEXT
from tests.soak import __main__ as soak
from tests.soak import registry, runner
from tests.soak.registry import Fault, Scenario, load_scenarios
from tests.soak.report import HERE, build_summary, build_table, write_results

ROOT = Path(__file__).resolve().parents[1]
RESULTS = HERE / "results.json"


def test_the_smoke_run_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "get_context", lambda method: CONTEXT)
    assert soak.main(["--smoke", "--output", str(tmp_path)]) == 0
    entries = json.loads((tmp_path / "results.json").read_text())["scenarios"]
    assert set(entries) == {name for name, one in load_scenarios().items() if one.smoke}
    for name, entry in entries.items():
        assert entry["injected"] == entry["handled"] >= 1 and not entry["lost"], name


def scenario_of(faults: list[Fault], error: Exception | None = None) -> Scenario:
    def run(folder: Path, draws: Random, count: int) -> Iterator[Fault]:
        assert folder.is_dir() and not list(folder.iterdir()) and count == 2
        yield from faults
        if error:
            raise error

    return Scenario("invented", "SIGKILL", "nothing", run, faults=2, smoke=2)


@pytest.mark.parametrize(
    ("faults", "error", "lost"),
    [
        ([Fault("one"), Fault("two")], None, []),
        ([Fault("one"), Fault("two", "a file is missing")], None, ["two: a file is missing"]),
        ([Fault("one")], KeyError("cause"), ["unexpected error"]),
        ([], None, ["no fault was injected"]),
    ],
)
def test_a_scenario_that_loses_something_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, faults: list[Fault], error: Exception | None, lost: list[str]
) -> None:
    monkeypatch.setattr(runner, "load_scenarios", lambda: {"invented": scenario_of(faults, error)})
    entry = runner.run_scenario("invented", smoke=True, seed=0)
    assert len(entry["lost"]) == len(lost)
    assert all(message.startswith(start) for message, start in zip(entry["lost"], lost, strict=True))
    assert entry["injected"] == entry["handled"] + len(lost)
    monkeypatch.setattr(soak, "load_scenarios", lambda: {"invented": scenario_of(faults, error)})
    monkeypatch.setattr(soak, "run_soak", lambda *_: {"invented": entry})
    assert soak.main(["--smoke"]) == int(bool(lost))


def test_the_table_counts_each_kind(tmp_path: Path) -> None:
    entry = {"kind": "SIGKILL", "part": "a", "injected": 3, "handled": 2, "lost": ["x"], "faults": [], "seconds": 1.2}
    other = entry | {"kind": "disk full", "injected": 1, "handled": 1, "lost": []}
    write_results(tmp_path, {"one": entry, "two": other}, seed=7)
    assert json.loads((tmp_path / "results.json").read_text())["seed"] == 7
    lines = (tmp_path / "results.md").read_text().splitlines()
    assert "| SIGKILL | a | 3 | 2 | 1 | 1 |" in lines and lines[-1] == "| all | | 4 | 3 | 1 | 2 |"
    assert {"| SIGKILL | 3 | 2 | 1 |", "| disk full | 1 | 1 | 0 |", "| all | 4 | 3 | 1 |"} <= set(lines)


def test_every_scenario_has_a_kind_and_injects_faults() -> None:
    assert registry.SCENARIOS is load_scenarios()
    for name, one in load_scenarios().items():
        assert one.kind and one.part and one.run.__doc__ and one.faults >= max(one.smoke, 1), name


@pytest.mark.skipif(not RESULTS.is_file(), reason="make soak has not been run")
def test_the_published_tables_are_those_of_the_last_run() -> None:
    entries = json.loads(RESULTS.read_text())["scenarios"]
    assert set(entries) == set(load_scenarios()) and not any(entry["lost"] for entry in entries.values())
    text = (HERE / "results.md").read_text()
    assert "\n".join(build_table(entries)) in text and "\n".join(build_summary(entries)) in text
    published = (ROOT / "SECURITY.md").read_text()
    assert "| fault | injected |" not in published or "\n".join(build_summary(entries)) in published
