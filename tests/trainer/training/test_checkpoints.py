"""The order in which processes write a checkpoint, and what is loaded from which one."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data_scripts.errors import InputError
from trainer.training import checkpoints
from trainer.training.checkpoints import (
    complete_checkpoint,
    load_checkpoint,
    newest_whole_checkpoint,
    place_checkpoint,
    recorded_precision,
    save_checkpoint,
)
from trainer.training.context import Progress
from trainer.training.run_folder import list_checkpoints


def complete(folder: Path, step: int, best_step: int | None, **progress: Any) -> None:
    written = folder / f".checkpoint-{step}"
    written.mkdir()
    (written / "weights").write_text(f"of step {step}")
    complete_checkpoint(written, Progress(step=step, best_step=best_step, **progress), is_last=False)


def test_a_checkpoint_whose_best_one_is_missing_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    complete(tmp_path, 2, None)
    complete(tmp_path, 4, 3)
    assert newest_whole_checkpoint(tmp_path).name == "checkpoint-2"  # before the first evaluation, without a best one
    reason = "its best checkpoint checkpoint-3 cannot be used"
    assert f"checkpoint-4 cannot be used: {reason}" in caplog.text
    shutil.rmtree(tmp_path / "checkpoint-2")
    with pytest.raises(InputError, match=rf"no whole checkpoint \(checkpoint-4: {reason}\): start again with --overw"):
        newest_whole_checkpoint(tmp_path)


@pytest.mark.parametrize("is_main", [True, False])
def test_the_main_process_completes_a_checkpoint_after_all_have_written_and_before_any_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_main: bool
) -> None:
    events: list[Any] = []
    monkeypatch.setattr(
        checkpoints, "complete_checkpoint", lambda *arguments, is_last: events.append((*arguments, is_last))
    )
    monkeypatch.setattr(checkpoints, "wait_for_all", lambda: events.append("waits"))
    monkeypatch.setattr(checkpoints, "share", lambda own: events.append(own) or "of the main process")
    context: Any = SimpleNamespace(
        accelerator=SimpleNamespace(is_main_process=is_main), folder=tmp_path, arguments=SimpleNamespace(max_steps=8),
        interruption=SimpleNamespace(),
    )  # fmt: skip
    model: Any = SimpleNamespace(save=lambda folder: events.append(("model", folder)))
    metrics: Any = SimpleNamespace(save=lambda folder: events.append(("metrics", folder)))
    for step in (4, 8):
        events.clear()
        progress = Progress(step=step)
        save_checkpoint(context, model, metrics, progress)
        temporary = tmp_path / f".checkpoint-{step}"
        completed = [(temporary, progress, step == 8)] if is_main else []
        shared = tmp_path / f"checkpoint-{step}"
        assert events == ["waits", ("model", temporary), ("metrics", temporary), "waits", *completed, shared]
        assert context.interruption.saved == "of the main process"


@pytest.mark.parametrize("is_main", [True, False])
def test_a_resumed_run_has_the_recorded_progress_on_its_own_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_main: bool
) -> None:
    complete(tmp_path, 4, 4, device="cuda", processes=2, pairs=96, mixed_precision="bf16")
    checkpoint, checked, loaded = tmp_path / "checkpoint-4", [], []
    monkeypatch.setattr(checkpoints, "check_unchanged", lambda *arguments: checked.append(arguments))
    recorded = json.loads((checkpoint / "progress.json").read_text())
    shared = [checkpoint, recorded]
    monkeypatch.setattr(checkpoints, "share", lambda own: shared.pop(0))
    accelerator, interruption = SimpleNamespace(is_main_process=is_main), SimpleNamespace()
    context: Any = SimpleNamespace(accelerator=accelerator, folder=tmp_path, interruption=interruption)
    model: Any = SimpleNamespace(load=loaded.append)
    progress = Progress(device="cpu", processes=1)
    with load_checkpoint(context, model, progress) as folder:
        assert folder == checkpoint
    assert (progress.step, progress.best_step, progress.pairs, progress.mixed_precision) == (4, 4, 96, "bf16")
    assert (progress.device, progress.processes) == ("cpu", 1)
    assert loaded == [checkpoint] == [interruption.saved]
    assert checked == ([(tmp_path, recorded, progress)] if is_main else [])


def test_the_precision_of_a_run_is_that_of_its_last_readable_checkpoint(tmp_path: Path) -> None:
    assert recorded_precision(tmp_path) is None
    complete(tmp_path, 2, 2, mixed_precision="bf16")
    complete(tmp_path, 4, 4, mixed_precision="no")
    assert recorded_precision(tmp_path) == "no"
    for damage in ("[]", "{", "{}"):
        (tmp_path / "checkpoint-4" / "progress.json").write_text(damage)
        assert recorded_precision(tmp_path) == "bf16"


def test_a_checkpoint_that_is_written_again_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    for name in (".checkpoint-4", "checkpoint-4", "checkpoint-2", ".checkpoint-4-replaced"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(name)
    place_checkpoint(tmp_path / ".checkpoint-4", tmp_path / "checkpoint-4", [tmp_path / "checkpoint-2"])
    assert [path.name for path in list_checkpoints(tmp_path)] == ["checkpoint-2", "checkpoint-4"]
    assert (tmp_path / "checkpoint-4" / "weights").read_text() == ".checkpoint-4"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-4"]
