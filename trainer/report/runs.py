"""The first table of the report: the runs and their sizes."""

from collections.abc import Mapping, Sequence

from trainer.report.page import Cell, Page
from trainer.report.systems import Sweep, System

COLUMNS = ("run", "system", "training rows", "removed", "training length", "rows seen", "total seconds")


def write_runs(page: Page, systems: Sequence[System], sweeps: Sequence[Sweep], failures: Mapping[str, str]) -> None:
    """Write the training rows, steps and seconds of each run, and the runs that failed."""
    page.heading(2, "The runs")
    page.text(
        "All results below are from these runs, except published results, which are marked as the paper's. Rows with "
        "an evaluation sentence are removed from the training data: `removed` is their number, and `training rows` is "
        "the number of the remaining rows."
    )
    runs = [(system.label, system) for system in systems]
    runs += [(f"{sweep.setting} = {value}", system) for sweep in sweeps for value, system in sweep.runs]
    values = [
        {"run": system.name, "system": label, "removed": _removed_rows(system), **system.results.get("run", {})}
        for label, system in runs
    ]
    page.table("runs", COLUMNS, [_row(label, system) for label, system in runs], values)
    for name, error in failures.items():
        page.text(f"`{name}` is missing: {error}.")


def _row(label: str, system: System) -> list[Cell]:
    run = system.results.get("run", {})
    rows = run.get("rows") or ({"sentences": run["sentences"]} if "sentences" in run else {})
    seconds = run.get("total_seconds", run.get("seconds"))
    length = ""
    if run:
        length = f"passes: {run['epochs']}" if "epochs" in run else f"{run.get('steps', 0):,} steps"
    return [
        system.name,
        label,
        ", ".join(f"{name} {count:,}" for name, count in rows.items()),
        _removed_rows(system),
        length,
        run.get("pairs"),
        round(seconds) if seconds else None,
    ]


def _removed_rows(system: System) -> int:
    return sum(part.get("removed", 0) for part in system.results.get("leakage", {}).values())
