"""Runs of several processes and machines have the losses of one process."""

import re
import signal
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.forking import run_machines, run_python, run_ranks
from tests.trainer.tiny_backbone import save_backbone
from tests.trainer.training.distributed_gradients import TASKS
from tests.trainer.training.tiny_runs import RUN, losses, read_losses

SCRIPT = Path(__file__).with_name("distributed_gradients.py")
ALTERED = SCRIPT.with_name("altered_run.py")
# The loss does not depend on the bias of the responses: its gradient is rounding noise, which Adam scales up.
NOISE = "response_head.layers.1.bias"


def assert_close_models(expected: Path, actual: Path) -> None:
    weights, others = (load_file(folder / "model" / "model.safetensors") for folder in (expected, actual))
    del weights[NOISE]
    for name, value in weights.items():
        torch.testing.assert_close(others[name], value, rtol=0, atol=1e-3)


def test_two_processes_reproduce_the_losses_and_averages_of_one(two_process_preset, tmp_path):
    averaged = ("--max_steps", "20", "--average_from", "0.4")
    done = run_ranks(RUN, two_process_preset, "--output_dir", tmp_path / "two", *averaged)
    assert done.returncode == 0, done.stdout
    one = losses(two_process_preset, tmp_path / "one", *averaged)
    assert read_losses(tmp_path / "two") == pytest.approx(one, rel=1e-5)
    assert_close_models(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two" / "model" / "modules.json").is_file()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux names threads in /proc")
@pytest.mark.parametrize(("how", "code"), [("ends", 0), ("raises", 2)])
def test_no_thread_of_a_process_group_outlives_a_run(two_process_preset, tmp_path, how, code):
    arguments = [how, two_process_preset, "--output_dir", tmp_path / "run"]
    for done in run_machines(ALTERED, [arguments] * 2):
        (counts,) = re.findall(r"exit code (\d), threads: (\d+) during training, (\d+) after it", done.stdout)
        assert done.returncode == code and counts[0] == str(code), done.stdout
        assert int(counts[1]) > 0 and counts[2] == "0"


def test_a_pretrained_encoder_has_the_losses_of_one_process_in_two(two_process_preset, tmp_path):
    settings = yaml.safe_load(two_process_preset.read_text())
    backbone = save_backbone(tmp_path / "backbone", vocabulary=[f"word{number}" for number in range(40)])
    settings |= {"initialize_from": str(backbone), "log_every": 1, "learning_rate": 0.001}
    for name in ("model_type", "model_config", "vocab_size"):
        del settings[name]
    two_process_preset.write_text(yaml.safe_dump(settings))
    one = losses(two_process_preset, tmp_path / "one")
    two = losses(two_process_preset, tmp_path / "two", ranks=2)
    assert two == pytest.approx(one, rel=1e-5) and one[-1] < one[0]


def test_two_machines_reproduce_one_process_and_resume_after_one_of_them_is_lost(two_process_preset, tmp_path):
    pytest.importorskip("gensim", reason="gensim is not installed")
    # Skip-gram vectors and a tokenizer of the run, which the second machine gets from the first.
    options = ["--word_vectors", "skip_gram", "--eval_every", "3", "--log_every", "1"]
    expected = losses(two_process_preset, tmp_path / "one", *options)
    run, caches = tmp_path / "run", [tmp_path / "first", tmp_path / "second"]  # a shared folder, caches of their own
    started = [[two_process_preset, "--output_dir", run, "--cache_dir", cache, *options] for cache in caches]
    survivor, killed = run_machines(ALTERED, [["1", *each] for each in started])
    assert killed.returncode == -signal.SIGKILL and survivor.returncode == 2
    (line,) = (line for line in survivor.stdout.splitlines() if line.startswith("error: "))
    assert f"another process of the run in {run} has ended" in line and "continue with --resume true" in line
    for done in run_machines(RUN, [[*each, "--resume", "true"] for each in started]):
        assert done.returncode == 0, done.stdout
    assert read_losses(run) == pytest.approx(expected, rel=1e-6)
    assert_close_models(tmp_path / "one", run)
    # The second machine has its own cache, without word vectors.
    entries = {path.name for path in caches[0].iterdir() if path.is_dir()}
    assert {path.name for path in caches[1].iterdir()} == entries


def test_processes_wait_for_one_that_works_alone_longer_than_for_other_collectives():
    code = """
import os, time
from datetime import timedelta
import torch.distributed as dist
from trainer.processes import is_first_on_machine, rank, share, wait_for_all
here = int(os.environ["RANK"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, here == 0)  # waits for both
dist.init_process_group("gloo", store=store, rank=here, world_size=2, timeout=timedelta(seconds=1))
wait_for_all()
if rank() == 0:
    time.sleep(1.5)
wait_for_all()
print(share(rank()), is_first_on_machine())
dist.destroy_process_group()
"""
    for done in run_machines("-c", [[code], [code]]):
        assert (done.returncode, done.stdout) == (0, "0 True\n")


@pytest.fixture(scope="module")
def gradients(tmp_path_factory) -> list[dict[str, dict[str, torch.Tensor]]]:
    """The gradients of each task by one process and by two."""
    folder, results = tmp_path_factory.mktemp("gradients"), []
    for processes in (1, 2):
        out = folder / f"{processes}.pt"
        commands = [(SCRIPT, out, str(rank), str(processes), folder / "rendezvous") for rank in range(processes)]
        for done in run_python(commands, environments=[{}] * processes):
            assert done.returncode == 0, done.stdout
        results.append(torch.load(out))
    return results


@pytest.mark.parametrize("task", TASKS)
def test_two_processes_have_the_gradients_of_one(gradients, task):
    one, two = (each[task] for each in gradients)
    trained = {name for name, gradient in one.items() if gradient.abs().max() > 0}
    assert any("response_head" in name for name in trained) == task.startswith("response")
    for name in trained:
        torch.testing.assert_close(
            two[name], one[name], rtol=1e-6, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )
