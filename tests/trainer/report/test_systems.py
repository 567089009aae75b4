"""Systems are opened from the folders of finished runs."""

from pathlib import Path

import pytest

from modeling_convsim.files.errors import InputError
from tests.trainer.report.folders import write_run
from trainer.report.plan import PlannedRun
from trainer.report.systems import open_system


def test_a_variation_is_no_plain_system(tmp_path: Path) -> None:
    labels = {"DAN, conversations": True, "DAN, conversations, input network": False}
    for number, (label, is_plain) in enumerate(labels.items()):
        system = write_run(tmp_path / str(number), label)
        assert system.encoder == "DAN" and system.is_plain == is_plain


def test_an_unfinished_run_and_a_damaged_line_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is not the folder of a finished run"):
        open_system(PlannedRun("nowhere", "", "", tmp_path / "nowhere", []))
    run = PlannedRun("run", "", "", write_run(tmp_path / "run", metrics=[{"step": 1}]).folder, [])
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step"\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl:2: not JSON .*delete the line"):
        open_system(run)
