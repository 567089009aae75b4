"""The first table of the report: the runs and their sizes."""

from collections.abc import Mapping

from trainer.report.measurements import Measurements
from trainer.report.page import Cell, Page

COLUMNS = ("run", "system", "training rows", "removed", "training length", "rows seen", "total seconds")


def write_runs(page: Page, measurements: Measurements, failures: Mapping[str, str]) -> None:
    """Write the training rows, steps and seconds of each run, and the runs that failed."""
    page.heading(2, "The runs")
    page.text(
        "All results below are from these runs, except published results, which are marked as the paper's. Rows with "
        "an evaluation sentence are removed from the training data: `removed` is their number, and `training rows` is "
        "the number of the remaining rows."
    )
    named = [(system.label, system) for system in measurements.systems]
    named += [(f"{sweep.setting} = {value}", system) for sweep in measurements.sweeps for value, system in sweep.runs]
    rows: list[list[Cell]] = []
    values = []
    for label, system in named:
        run = system.results.get("run", {})
        removed = sum(part.get("removed", 0) for part in system.results.get("leakage", {}).values())
        values.append({"run": system.name, "system": label, "removed": removed, **run})
        counts = run.get("rows") or ({"sentences": run["sentences"]} if "sentences" in run else {})
        trained = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        length = f"passes: {run['epochs']}" if "epochs" in run else f"{run.get('steps', 0):,} steps" if run else ""
        seconds = run.get("total_seconds", run.get("seconds"))
        total = round(seconds) if seconds else None
        rows.append([system.name, label, trained, removed, length, run.get("pairs"), total])
    page.table("runs", COLUMNS, rows, values)
    for name, error in failures.items():
        page.text(f"`{name}` is missing: {error}.")
