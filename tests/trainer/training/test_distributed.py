import re
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.forking import run_machines, run_python, run_ranks
from tests.trainer.training.tiny_runs import ROOT, RUN, losses, read_losses

SCRIPT = Path(__file__).with_name("distributed_gradients.py")


def gradients(folder: Path, task: str, mini_batch: int, processes: int) -> dict[str, torch.Tensor]:
    out, rendezvous = folder / f"{processes}.pt", folder / "rendezvous"
    commands = [
        (SCRIPT, out, task, str(mini_batch), str(rank), str(processes), rendezvous) for rank in range(processes)
    ]
    for done in run_python(commands, environments=[{}] * processes):
        assert done.returncode == 0, done.stdout
    return torch.load(out)


# The loss does not depend on the bias of the responses: its gradient is rounding noise, which Adam scales up.
NOISE = "response_head.layers.1.bias"
LAUNCH = (
    "accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no"
)


def test_accelerate_launch_on_two_processes_reproduces_the_losses_and_averages_of_one(two_process_preset, tmp_path):
    averaged = ("--max_steps", "20", "--average_from", "0.4")
    command = ["-m", *LAUNCH.split(), RUN, two_process_preset, "--output_dir", tmp_path / "two", "--num_processes", "2"]
    command += averaged
    environment = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    (done,) = run_python([command], environments=[environment])
    assert done.returncode == 0, done.stdout
    one = losses(two_process_preset, tmp_path / "one", *averaged)
    assert read_losses(tmp_path / "two") == pytest.approx(one, rel=1e-5)
    expected, actual = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    expected.pop(NOISE)
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=0, atol=1e-3)
    assert (tmp_path / "two" / "model" / "modules.json").is_file()
    counts = re.findall(r"with (\d+) processes of \d+ pairs each, a process receives [\d.,]+ MB in a step", done.stdout)
    assert counts == ["2", "8", "64"]  # once, by the main process
    waits = re.search(r"Seconds that each process waited for others between steps: ([\d.]+), ([\d.]+)", done.stdout)
    assert waits and float(waits[2]) > float(waits[1])  # the first process evaluates and saves alone


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux names threads in /proc")
@pytest.mark.parametrize("failure", [[], ["--fail"]])
def test_no_thread_of_a_process_group_outlives_a_run(two_process_preset, tmp_path, failure):
    script, code = SCRIPT.with_name("counted_threads.py"), 2 if failure else 0
    arguments = [*failure, two_process_preset, "--output_dir", tmp_path / "run", "--num_processes", "2"]
    for done in run_machines(script, [arguments] * 2):
        (counts,) = re.findall(r"exit code (\d), threads: (\d+) during training, (\d+) after it", done.stdout)
        assert done.returncode == code and counts[0] == str(code), done.stdout
        assert int(counts[1]) > 0 and counts[2] == "0"


def test_a_run_sharded_over_two_processes_reproduces_the_losses_of_one_and_resumes(two_process_preset, tmp_path):
    settings = yaml.safe_load(two_process_preset.read_text())
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
    dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    settings |= {
        "model_type": "transformer",
        "model_config": {**sizes, **dropout, "embedding_size": 8},
        "eval_every": 3,
        "log_every": 1,
    }
    two_process_preset.write_text(yaml.safe_dump(settings))
    one = losses(two_process_preset, tmp_path / "one")
    two = losses(two_process_preset, tmp_path / "two", "--sharded", "true", ranks=2)
    assert two == pytest.approx(one, rel=1e-5)
    expected, actual = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    expected.pop(NOISE)
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=0, atol=1e-3)
    interrupted = SCRIPT.with_name("interrupted_run.py")
    options = ["--num_processes", "2", "--sharded", "true"]
    stopped = run_ranks(interrupted, two_process_preset, "--output_dir", tmp_path / "stopped", *options)
    assert stopped.returncode and [path.name for path in (tmp_path / "stopped").glob("checkpoint-*")] == [
        "checkpoint-3"
    ]
    assert losses(two_process_preset, tmp_path / "stopped", "--sharded", "true", "--resume", "true", ranks=2) == two


@pytest.mark.parametrize(
    ("task", "mini_batch"),
    [
        ("response_prediction", 0), ("response_prediction", 3), ("matryoshka", 3), ("snli", 0), ("entailment", 0),
        ("ranking", 0), ("distillation", 0), ("response_distillation", 3),
        ("response_prediction_with_teachers", 3), ("entailment_with_teachers", 0),
    ],
)  # fmt: skip
def test_two_processes_have_the_gradients_of_one(tmp_path, task, mini_batch):
    one, two = gradients(tmp_path, task, 0, processes=1), gradients(tmp_path, task, mini_batch, processes=2)
    trained = {name for name, gradient in one.items() if gradient.abs().max() > 0}
    assert any("response_head" in name for name in trained) == task.startswith(("response", "matryoshka"))
    for name in trained:
        torch.testing.assert_close(
            two[name], one[name], rtol=1e-6, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )
