"""python -m trainer.report: a plan's failed runs, and mistakes. `test_tiny_plan` runs a whole plan."""

from tests.trainer.report.folders import write_run
from tests.trainer.report.reading import table_with
from trainer.report import __main__ as command
from trainer.report import plan
from trainer.report.plan import PlannedRun


def test_a_report_names_failed_runs_and_has_exit_code_1(tmp_path, monkeypatch):
    runs = [
        PlannedRun("dan", "DAN", "SNLI", write_run(tmp_path / "dan").folder, []),
        PlannedRun("broken", "", "", tmp_path / "broken", ["run.py"]),
    ]
    monkeypatch.setattr(plan, "read_plan", lambda path: runs)
    monkeypatch.setattr(plan, "run_plan", lambda runs, jobs: {"broken": f"failed (exit code {jobs}): out of luck"})
    (tmp_path / "data").mkdir()
    argv = ["--plan", "plan.yaml", "--jobs", "3", "-o", str(tmp_path / "report"), "--data", str(tmp_path / "data")]
    assert command.main(argv) == 1
    page = (tmp_path / "report" / "README.md").read_text()
    assert "`broken` is missing: failed (exit code 3): out of luck." in page
    assert [line[0] for line in table_with(tmp_path / "report", "run", "system")] == ["dan"]


def test_a_mistake_is_one_line_with_exit_code_2(tmp_path, capsys):
    assert command.main(["--plan", "nowhere.yaml", "-o", str(tmp_path / "report")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: nowhere.yaml: not readable as YAML")
    assert not (tmp_path / "report").exists()
