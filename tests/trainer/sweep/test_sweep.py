"""Sweeps: planned, run, resumed and compared. The trainer is a stand-in in all tests but one."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from scipy import stats

from tests.forking import CONTEXT, ForkedJob
from tests.trainer.tiny_datasets import write, write_datasets
from trainer.data.datasets import load_run_data
from trainer.data.dev_split import complete_dev_split
from trainer.evaluation.metrics.precision_at_n.precision_at_n import precision_at_n
from trainer.sweep import __main__ as sweep
from trainer.sweep import runs as processes
from trainer.sweep.plan import PlannedRun, expand_variations, parse_variation
from trainer.sweep.table import format_table, paired_difference, read_metrics, score_items

# Prepares the folder as the trainer does. The seed decides how it ends: 13 fails, 99 takes a minute.
STAND_IN = """
import json, os, sys, time
from pathlib import Path
import numpy as np
from trainer.command_line import parse_arguments
from trainer.training.run_folder import begin_run, open_folder

arguments = parse_arguments(sys.argv[1:])
folder = Path(arguments.output_dir)
with open_folder(folder, arguments):
    begin_run(folder, arguments)
    print("begun")
    with (folder.parent / "calls.txt").open("a") as calls:
        print(os.getpid(), os.environ["OMP_NUM_THREADS"], *sys.argv[1:], file=calls)
    if arguments.seed == 99:
        time.sleep(60)
    if arguments.seed == 13:
        print("step 1\\rstep 2\\nerror: out of luck", file=sys.stderr)
        sys.exit(3)
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    generator = np.random.default_rng(0)
    gold = generator.random(400)
    stsb = gold + 10 * arguments.learning_rate * generator.random(400)
    np.savez(folder / "dev_scores.npz", stsb_gold=gold, stsb=stsb, p_at_1=np.ones(400))
    results = {"stsb": {"dev": {"all": {"pearson": 0.5}}}, "run": {"seconds": 1.25, "pairs": 12345}}
    (folder / "results.json").write_text(json.dumps(results))
"""


@pytest.fixture
def preset(tmp_path) -> str:
    settings = {
        "model_config": {"token_dropout": 0.1, "hidden_sizes": [16]},
        "pairs": ["some/pairs"],
        "stsb": "some/sts",
        "max_grad_norm": 1.0,
        "tasks": {"response_prediction": 1},
    }
    path = tmp_path / "preset.yaml"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


@pytest.fixture
def stand_in(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)
    monkeypatch.setattr(sweep, "TRAINER", path)
    monkeypatch.setattr(processes, "_start", ForkedJob)
    return path


def planned(preset: str, *variations: str, overrides: tuple = (), grid: bool = False) -> dict[str, PlannedRun]:
    """The planned runs by name."""
    runs = expand_variations(preset, overrides, variations, Path("sweep"), grid)
    return {run.name: run for run in runs}


def calls(folder: Path) -> list[str]:
    """The arguments of the stand-in's calls."""
    path = folder / "calls.txt"
    return path.read_text().splitlines() if path.is_file() else []


def rows(folder: Path) -> dict[str, dict]:
    return {row["run"]: row for row in map(json.loads, (folder / "rows.jsonl").read_text().splitlines())}


def refused(capsys, *argv: str) -> str:
    """The error message of a sweep: one line, exit code 2."""
    assert sweep.main(list(argv)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("learning_rate=0.1,1e-3,null", ["0.1", "1e-3", "null"]),
        ("mixed_precision=no,bf16", ["no", "bf16"]),
        ("tasks.snli=0, 0.2", ["0", "0.2"]),
        ('tasks={"snli":0.5,"captions":0.5},{"snli":1}', ['{"snli":0.5,"captions":0.5}', '{"snli":1}']),
        ('model_config={"a":[1,2],"b":"x,y"}', ['{"a":[1,2],"b":"x,y"}']),
        ('pairs=["a","b"],data/c,"d,e"', ['["a","b"]', "data/c", '"d,e"']),
        ("best_metric=a=b", ["a=b"]),
    ],
)  # fmt: skip
def test_values_are_split_at_commas_outside_brackets_and_quotes(text, values):
    assert parse_variation(text) == (text.partition("=")[0], values)


def test_by_default_one_setting_is_varied_at_a_time(preset):
    runs = planned(preset, "learning_rate=0.01,0.1", "model_config.token_dropout=0,0.15", "seed=1")
    assert list(runs) == ["base", "learning_rate=0.1", "token_dropout=0", "token_dropout=0.15", "seed=1"]
    assert [run.arguments.learning_rate for run in runs.values()] == [0.01, 0.1, 0.01, 0.01, 0.01]
    assert [run.arguments.model_config["token_dropout"] for run in runs.values()] == [0.1, 0.1, 0, 0.15, 0.1]
    assert all(run.arguments.output_dir == f"sweep/{name}" for name, run in runs.items())
    assert {run.arguments.final_split for run in runs.values()} == {"dev"}


def test_a_grid_combines_all_values(preset):
    runs = planned(preset, "seed=0,1", "model_config.token_dropout=0.1,0.2", "seed=2", grid=True)
    assert [(run.arguments.seed, run.arguments.model_config["token_dropout"]) for run in runs.values()] == [
        (seed, dropout) for seed in (0, 1, 2) for dropout in (0.1, 0.2)
    ]
    assert list(runs)[:2] == ["seed=0,token_dropout=0.1", "seed=0,token_dropout=0.2"]


def test_the_same_settings_are_not_run_twice(preset):
    assert list(planned(preset, "learning_rate=0.01,0.010,1e-1,0.1", "seed=0")) == ["base", "learning_rate=1e-1"]
    assert list(planned(preset, "seed=0,1", overrides=("--seed", "1"))) == ["base", "seed=0"]
    assert len(planned(preset, "seed=1,1", "batch_size=128", grid=True)) == 1


def test_a_dotted_key_leaves_the_rest_of_its_mapping(preset):
    overrides = ("--model_config", '{"residual": true}')
    run = planned(preset, "model_config.hidden_sizes=[8,8]", overrides=overrides)["hidden_sizes=8_8"]
    assert run.arguments.model_config == {"token_dropout": 0.1, "hidden_sizes": [8, 8], "residual": True}
    combined = planned(preset, "model_config.hidden_sizes=[4]", "model_config.residual=true", grid=True)
    expected = {"token_dropout": 0.1, "hidden_sizes": [4], "residual": True}
    assert [run.arguments.model_config for run in combined.values()] == [expected]


def test_mappings_and_lists_are_parsed_as_by_the_trainer(preset):
    runs = planned(
        preset,
        'model_config={"token_dropout": 0.5}',
        'tasks={"snli": 1, "response_prediction": 0}',
        'pairs=["a","b"],c',
        "max_grad_norm=null",
        overrides=("--snli", "some/snli", "--model_config", '{"residual": true}'),
    )
    base, config, tasks, two, one, norm = (run.arguments for run in runs.values())
    assert config.model_config == {**base.model_config, "token_dropout": 0.5} and base.model_config["residual"]
    assert tasks.tasks == {"snli": 1, "response_prediction": 0}
    assert (two.pairs, one.pairs) == (["a", "b"], ["c"])
    assert base.max_grad_norm == 1.0 and norm.max_grad_norm is None


def test_names_are_readable_safe_and_different(preset):
    long = json.dumps({"token_dropout": 0.5, "word_embedding_size": 500, "bigram_buckets": 65536})
    runs = planned(preset, "pairs=a/b,a_b,../c", f"model_config={long}", "tasks.response_prediction=0.5")
    assert len(runs) == 6 and all("/" not in name and len(name) <= 100 for name in runs)
    assert "pairs=a_b" in runs and "pairs=.._c" in runs and "tasks.response_prediction=0.5" in runs
    names = "learning_rate warmup late_from late_learning_rate table_learning_rate max_grad_norm"
    varied = [*names.split(), "model_config.token_dropout", "model_config.initializer_range"]
    many = planned(preset, *(f"{name}=0.123456789" for name in varied), grid=True)
    assert max(map(len, many)) <= 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vary", "seed=1,2,3,4,-5"], "--vary seed=-5: command line: seed is -5; expected 0 or more"),
        (["--vary", "learning_rat=1"], "unknown option 'learning_rat'; did you mean 'learning_rate'"),
        (["--vary", "tasks.naps=0.5"], "--vary tasks.naps=0.5: command line: tasks has 'naps'"),
        (["--vary", "seed.x=1"], "--vary seed.x=1: command line: unknown option 'seed.x'"),
        (["--vary", "seed=[1,2"], r"--vary seed=\[1,2: brackets or quotes do not match"),
        (["--vary", "seed"], "expected KEY=VALUE,VALUE"),
        (["--vary", "output_dir=a"], "the sweep sets output_dir; vary another option"),
        (["--vary", "seed=1", "--final_split", "both"], "--final_split: the sweep sets this option; drop it"),
        (["--vary", "seed=1", "--seeds", "3"], "unknown option 'seeds'; did you mean 'seed'"),
    ],
)
def test_every_run_is_checked_before_the_first_starts(preset, stand_in, tmp_path, capsys, options, message):
    folder = tmp_path / "sweep"
    assert re.search(message, refused(capsys, preset, *options, "-o", str(folder)))
    assert not folder.exists()


def test_finished_runs_are_not_run_again_and_others_resume_or_start_over(preset, stand_in, tmp_path):
    folder = tmp_path / "sweep"
    argv = [preset, "--vary", "seed=1,2,3", "-o", str(folder), "--jobs", "4"]
    assert sweep.main(argv) == 0
    assert len(calls(folder)) == 4
    for name in ("seed=1", "seed=2"):
        (folder / name / "results.json").unlink()
    (folder / "seed=1" / "checkpoint-5").mkdir()
    (folder / "seed=1" / "model" / "config.json").unlink()
    (folder / "seed=1" / "model").rmdir()
    (folder / "calls.txt").unlink()
    assert sweep.main(argv) == 0
    first, second = sorted(calls(folder), key=lambda line: "--seed 2" in line)
    assert "--seed 1" in first and first.endswith("--resume true --overwrite false")
    assert "--seed 2" in second and second.endswith("--resume false --overwrite true")
    assert [(folder / f"seed={seed}.log").read_text() for seed in (1, 2)] == ["begun\nbegun\n"] * 2
    (folder / "calls.txt").unlink()
    assert sweep.main(argv) == 0 and calls(folder) == []


def test_a_finished_run_with_other_settings_is_an_error_that_names_them(preset, stand_in, tmp_path, capsys):
    folder = tmp_path / "sweep"
    assert sweep.main([preset, "--vary", "seed=1", "-o", str(folder)]) == 0
    before = calls(folder)
    capsys.readouterr()
    message = refused(capsys, preset, "--vary", "seed=2,1", "--max_steps", "7", "-o", str(folder))
    assert f"{folder}/base holds a run with other settings (max_steps was 1000, is 7)" in message
    assert calls(folder) == before
    # Settings without effect on the model may differ, and the folder may have been moved.
    moved = folder.rename(tmp_path / "moved")
    assert sweep.main([preset, "--vary", "seed=1", "--log_every", "3", "-o", str(moved)]) == 0
    assert calls(moved) == before


def test_a_failed_run_is_reported_and_the_others_continue(preset, stand_in, tmp_path, capsys):
    folder = tmp_path / "sweep"
    assert sweep.main([preset, "--vary", "seed=13,1", "-o", str(folder)]) == 1
    table = rows(folder)
    assert list(table) == ["base", "seed=13", "seed=1"]
    assert table["seed=13"]["note"] == "failed (exit code 3): error: out of luck" and "stsb" not in table["seed=13"]
    assert table["seed=1"]["stsb"] == 0.5 and "note" not in table["seed=1"]
    assert "failed (exit code 3): error: out of luck" in capsys.readouterr().out
    # Only the failed run is repeated.
    assert sweep.main([preset, "--vary", "seed=13,1", "-o", str(folder)]) == 1
    assert len(calls(folder)) == 4 and "--seed 13" in calls(folder)[-1]


def sweep_with(trainer: Path, argv: list[str]) -> None:
    sweep.TRAINER = trainer
    sys.exit(sweep.main(argv))


def test_a_sweep_that_is_stopped_ends_its_runs(preset, tmp_path):
    folder, trainer = tmp_path / "sweep", tmp_path / "trainer.py"
    pid = tmp_path / "pid"
    code = f"import os, pathlib, time\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(60)"
    trainer.write_text(code)
    process = CONTEXT.Process(target=sweep_with, args=(trainer, [preset, "--vary", "seed=1", "-o", str(folder)]))
    process.start()
    while not pid.is_file() or not pid.read_text():
        assert process.is_alive()
        time.sleep(0.05)
    process.terminate()
    process.join(60)
    assert process.exitcode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert [path.name for path in folder.iterdir()] == ["base.log"]


def test_the_bootstrap_agrees_with_a_loop_over_resamples():
    generator = np.random.default_rng(1)
    gold = generator.random(300)
    ours, theirs = gold + 0.5 * generator.random(300), gold + generator.random(300)
    measured = paired_difference(ours, theirs, gold)
    assert measured is not None
    differences = []
    for _ in range(3000):
        drawn = generator.integers(300, size=300)
        r, s = (np.corrcoef(scores[drawn], gold[drawn])[0, 1] for scores in (ours, theirs))
        differences.append(r - s)
    low, high = np.percentile(differences, [2.5, 97.5])
    assert measured["difference"] == pytest.approx(np.corrcoef(ours, gold)[0, 1] - np.corrcoef(theirs, gold)[0, 1])
    assert (measured["low"], measured["high"]) == pytest.approx((low, high), abs=0.1 * (high - low))
    assert measured == paired_difference(ours, theirs, gold)


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    generator = np.random.default_rng(2)
    theirs = (generator.random(5000) < 0.3).astype(float)
    ours = np.where(generator.random(5000) < 0.1, 1 - theirs, theirs)  # most answers are the same
    measured = paired_difference(ours, theirs)
    assert measured is not None
    mean, error = (ours - theirs).mean(), (ours - theirs).std() / np.sqrt(5000)
    expected = mean + stats.norm.ppf([0.025, 0.975]) * error
    assert measured["difference"] == pytest.approx(mean)
    assert (measured["low"], measured["high"]) == pytest.approx(tuple(expected), abs=0.2 * error)


def test_constant_scores_have_no_difference_in_correlation():
    gold = np.arange(50.0)
    assert paired_difference(np.zeros(50), gold, gold) is None
    assert paired_difference(gold, gold) == {"difference": 0, "low": 0, "high": 0}


def test_runs_are_compared_on_the_same_items_only(preset, stand_in, tmp_path):
    folder = tmp_path / "sweep"
    varied = ["--vary", "learning_rate=0.3", "--vary", "pairs=other/pairs", "--vary", "stsb=null"]
    argv = [preset, *varied, "-o", str(folder)]
    assert sweep.main(argv) == 0
    compared = rows(folder)
    assert "stsb_difference" in compared["learning_rate=0.3"] and "p_at_1_difference" in compared["learning_rate=0.3"]
    assert (
        "stsb_difference" in compared["pairs=other_pairs"] and "p_at_1_difference" not in compared["pairs=other_pairs"]
    )
    assert "stsb_difference" not in compared["stsb=null"] and "p_at_1_difference" in compared["stsb=null"]
    assert compared["learning_rate=0.3"]["stsb_difference"]["high"] < 0
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_leaves_missing_metrics_empty_and_marks_intervals_without_zero():
    results = {
        "stsb": {"dev": {"all": {"pearson": 0.75, "pairs": 3}, "news": {"pearson": float("nan")}}},
        "response_prediction": {"p_at_1": 0.25, "split": "dev"},
        "cqa": {"dev": {"map": 0.5}},
        "run": {"seconds": 61.25, "pairs": 1_234_567},
    }
    measured = read_metrics(results)
    assert measured == {"stsb": 0.75, "p_at_1": 0.25, "cqa_map": 0.5, "seconds": 61.25, "pairs": 1_234_567}
    clear, unclear = ({"difference": 0.02, "low": low, "high": 0.03} for low in (0.01, -0.01))
    table = format_table(
        [
            {"run": "base", "varied": {}, **measured},
            {"run": "a=1", "varied": {"b.a": "1"}, "stsb_difference": clear, "p_at_1_difference": unclear},
            {"run": "a=2", "varied": {"b.a": "2"}, "note": "failed | x"},
        ]
    )
    header, _, *lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    base, first, failed = (dict(zip(header, line, strict=False)) for line in lines)
    shown = {"STS-B": "0.7500", "P@1": "0.2500", "CQA MAP": "0.5000", "seconds": "61.2", "pairs": "1,234,567"}
    assert {title: cell for title, cell in base.items() if cell} == {"run": "base", **shown}
    assert first["STS-B vs base"] == "+0.0200 [+0.0100, +0.0300] *" and first["STS-B"] == ""
    assert first["P@1 vs base"] == "+0.0200 [-0.0100, +0.0300]" and first["varied"] == "b.a=1"
    assert failed["run"] == "a=2" and r"| failed \| x |" in table


@pytest.fixture
def tiny_preset(tmp_path) -> str:
    """A preset of a run that takes a second."""
    data = write_datasets(tmp_path / "data")
    sizes = {"word_embedding_size": 8, "embedding_size": 8, "bigram_buckets": 16}
    settings = {
        "model_config": {**sizes, "hidden_sizes": [8], "response_hidden_sizes": [8], "nli_hidden_size": 8},
        "pairs": [data["pairs"]],
        "stsb": data["stsb"],
        "tasks": {"response_prediction": 1},
        "optimizer": "adamw",
        "max_steps": 3,
        "eval_every": 3,
        "batch_size": 16,
        "trackers": ["none"],
        "mixed_precision": "no",
        "device": "cpu",
        "cache_dir": str(tmp_path / "cache"),
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


def test_a_sweep_of_two_real_runs(tiny_preset, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(processes, "_start", ForkedJob)
    folder = tmp_path / "sweep"
    argv = [tiny_preset, "--vary", "learning_rate=0.1", "--log_every", "1", "-o", str(folder), "--jobs", "2"]
    assert sweep.main(argv) == 0
    assert (folder / "table.md").read_text().count("\n| ") == 4
    assert "| learning_rate=0.1 |" in capsys.readouterr().out
    compared = rows(folder)
    for name, row in compared.items():
        results = json.loads((folder / name / "results.json").read_text())
        assert set(results["stsb"]) == {"dev"} and results["response_prediction"]["split"] == "dev"
        assert row["p_at_1"] == results["response_prediction"]["p_at_1"]
        with np.load(folder / name / "dev_scores.npz") as scores:
            assert len(scores["p_at_1"]) == results["response_prediction"]["queries"] == 120
            assert scores["p_at_1"].mean() == pytest.approx(row["p_at_1"])
            assert stats.pearsonr(scores["stsb"], scores["stsb_gold"])[0] == pytest.approx(row["stsb"], abs=1e-5)
    differences = compared["learning_rate=0.1"]
    assert differences["stsb_difference"]["difference"] == pytest.approx(
        differences["stsb"] - compared["base"]["stsb"], abs=1e-5
    )
    assert differences["p_at_1_difference"]["low"] <= differences["p_at_1_difference"]["difference"]
    times = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.npz")}
    assert sweep.main(argv) == 0 and rows(folder) == compared
    assert times == {path: path.stat().st_mtime_ns for path in folder.glob("*/*.npz")}


def test_ties_count_against_the_model_as_in_precision_at_n(tiny_preset, tmp_path, monkeypatch):
    scores = np.array([[2, 1, 1], [1, 1, 0], [0, 1, 0], [np.nan, 0, 0], [1, np.nan, 0], [3, 2, 2.5]])
    (run,) = expand_variations(tiny_preset, [], [], tmp_path)
    run.folder.mkdir()
    (run.folder / "results.json").write_text('{"response_prediction": {"split": "dev"}}')
    monkeypatch.setattr("modeling_convsim.encoding.encoder.Encoder.from_pretrained", lambda folder: None)
    monkeypatch.setattr("trainer.evaluation.response_prediction.score_candidates", lambda encoder, queries: scores)
    first = score_items(run, torch.get_num_threads())["p_at_1"]
    assert first.tolist() == [1, 0, 0, 0, 0, 1]
    assert first.mean() == precision_at_n(scores, np.zeros(6, dtype=int), [1])["p_at_1"]


@pytest.fixture
def scored(monkeypatch):
    """The inputs that `score_items` scores, without a model."""
    inputs = []
    monkeypatch.setattr("modeling_convsim.encoding.encoder.Encoder.from_pretrained", lambda folder: None)
    monkeypatch.setattr(
        "trainer.evaluation.response_prediction.score_candidates",
        lambda encoder, queries: inputs.extend(queries.inputs) or np.zeros((len(queries.inputs), 2)),
    )
    return inputs


def _run_with_pairs(tiny_preset, tmp_path, *folders):
    (run,) = expand_variations(tiny_preset, ["--pairs", *map(str, folders)], [], tmp_path)
    run.folder.mkdir()
    (run.folder / "results.json").write_text('{"response_prediction": {"split": "dev"}}')
    return run


@pytest.mark.parametrize("dev_threads", [0, 1])
def test_runs_are_scored_on_the_dev_split_that_they_completed(tiny_preset, tmp_path, scored, dev_threads):
    """As in a run, of which a few chats have a few dev pairs, or none."""
    folder = tmp_path / "few"
    rows = [{"input": f"{n}?", "response": f"{n}!", "thread": f"t{n // 2}", "source": "x"} for n in range(60)]
    write(folder, "train", rows[2 * dev_threads :])
    if dev_threads:
        write(folder, "validation", rows[: 2 * dev_threads])
    run = _run_with_pairs(tiny_preset, tmp_path, folder)
    data = load_run_data(run.arguments)
    complete_dev_split(data)
    expected = data.evaluation["pairs"]["validation"]
    score_items(run, torch.get_num_threads())
    assert scored == expected["input"][:] and len(scored) == 12


def test_a_model_that_cannot_be_read_is_noted_in_the_table(preset, stand_in, tmp_path):
    argv = [preset, "--vary", "seed=1", "-o", str(tmp_path / "sweep")]
    assert sweep.main(argv) == 0
    (tmp_path / "sweep" / "seed=1" / "dev_scores.npz").unlink()
    assert sweep.main(argv) == 1
    assert rows(tmp_path / "sweep")["seed=1"]["note"].startswith("not scored: ")
