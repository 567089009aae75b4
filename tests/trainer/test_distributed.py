import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("distributed_gradients.py")
ROOT = Path(__file__).resolve().parents[2]


def gradients(out: Path, task: str, launcher: list[str]) -> dict[str, torch.Tensor]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *launcher, str(SCRIPT), str(out), task]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return torch.load(out)


@pytest.mark.parametrize("task", ["response_prediction", "snli"])
def test_two_processes_have_the_gradients_of_one(tmp_path, task):
    one = gradients(tmp_path / "one.pt", task, [])
    two = gradients(tmp_path / "two.pt", task, ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"])
    trained = {name for name, gradient in one.items() if gradient.abs().max() > 0}
    assert any("response_head" in name for name in trained) == (task == "response_prediction")
    for name in trained:
        torch.testing.assert_close(
            two[name], one[name], rtol=1e-6, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )
