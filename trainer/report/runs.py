"""The runs that a report is made of: how large each was."""

from collections.abc import Mapping, Sequence

from trainer.report.page import Cell, Page
from trainer.report.systems import Study, System


def write_runs(page: Page, systems: Sequence[System], studies: Sequence[Study], failures: Mapping[str, str]) -> None:
    """Steps, rows seen, seconds and training rows of each run, so that a reduced size shows."""
    page.heading(2, "The runs")
    page.text(
        "Everything below is measured on these; published figures are marked as the paper's. Training rows are those "
        "left after every evaluation sentence was taken out; `removed` counts those."
    )
    runs = [(system.label, system) for system in systems]
    runs += [(f"{study.key} = {value}", system) for study in studies for value, system in study.runs]
    rows: list[list[Cell]] = []
    numbers = []
    for label, system in runs:
        run = system.results.get("run", {})
        read = run.get("rows") or {"sentences": run["sentences"]} if run else {}
        removed = sum(part.get("removed", 0) for part in system.results.get("leakage", {}).values())
        passes = f"passes: {run['epochs']}" if "epochs" in run else f"{run.get('steps', 0):,} steps" if run else ""
        seen = run.get("pairs")
        seconds = run.get("total_seconds", run.get("seconds"))
        shown = ", ".join(f"{name} {count:,}" for name, count in read.items())
        rows.append([system.name, label, shown, removed, passes, seen, round(seconds) if seconds else None])
        numbers.append({"run": system.name, "system": label, "removed": removed, **run})
    columns = ["run", "system", "training rows", "removed", "trained for", "rows seen", "seconds in all"]
    page.table("runs", columns, rows, numbers)
    for name, failed in failures.items():
        page.text(f"`{name}` is missing: {failed}.")
