"""python -m trainer.report: a plan's failed runs, and mistakes. `test_tiny_plan` runs a whole plan."""

import pytest

from tests.trainer.report.folders import write_run
from tests.trainer.report.reading import table_with
from trainer.report import __main__ as command
from trainer.report.plan import ReportPlan


def test_a_report_of_a_plan_names_failed_runs_and_has_exit_code_1(tmp_path, monkeypatch):
    runs = [write_run(tmp_path / name, {"tasks": {"response_prediction": 1}}) for name in ("named", "planned")]
    plan = ReportPlan([runs[1], tmp_path / "broken"], [])
    monkeypatch.setattr(command, "read_plan", lambda path: plan)
    monkeypatch.setattr(command, "run_plan", lambda plan, jobs: {"broken": f"failed (exit code {jobs}): out of luck"})
    (tmp_path / "data").mkdir()
    argv = ["--plan", "plan.yaml", "--jobs", "3", "-o", str(tmp_path / "report"), "--data", str(tmp_path / "data")]
    assert command.main([str(runs[0]), *argv]) == 1
    page = (tmp_path / "report" / "README.md").read_text()
    assert "`broken` is missing: failed (exit code 3): out of luck." in page
    assert [line[0] for line in table_with(tmp_path / "report", "run", "system")] == ["named", "planned"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "name RUNS, or a --plan that trains them"),
        (["nowhere"], "nowhere: expected a finished run"),
        (["nowhere", "--jobs", "2"], "--jobs 2: only a plan trains runs; name one with --plan"),
        (["--plan", "nowhere.yaml"], "nowhere.yaml: not readable as YAML"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2(tmp_path, capsys, argv, message):
    assert command.main([*argv, "-o", str(tmp_path / "report")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"error: {message}")
    assert not (tmp_path / "report").exists()
