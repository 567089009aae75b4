"""Damaged runs and wrong inputs of the commands that read finished runs: one line, exit code 2, no traceback."""

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from data_scripts.errors import InputError
from modeling_convsim.encoding.checksums import CHECKSUMS
from tests.trainer.evaluation.invented_data import write_data_folder
from tests.trainer.publish.test_publish import SETTINGS, make_run
from trainer.evaluation.checksums import record_files
from trainer.evaluation.results import read_results, update_results
from trainer.report.plan import read_plan
from trainer.sweep.scoring import save_dev_scores
from trainer.sweep.variations import expand_variations

HUB = ("--hub_model_id", "ORG/name", "--dry_run")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """A finished run in run/, the datasets in data/, an empty folder and a file."""
    folder = tmp_path_factory.mktemp("damaged")
    make_run(folder / "run", tiny_tokenizer)
    (folder / "data").mkdir()
    write_data_folder(folder / "data")
    (folder / "empty").mkdir()
    (folder / "file").write_text("text")
    return folder


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    """A copy of the run, to damage."""
    return Path(shutil.copytree(folder / "run", tmp_path / "run"))


def check_refused(capsys: pytest.CaptureFixture[str], module: str, *argv: Any) -> str:
    """Call a command, which must end with exit code 2 and one line; returns it."""
    main: Callable[[list[str]], int] = importlib.import_module(module).main
    capsys.readouterr()
    try:
        code = main([str(word) for word in argv])
    except SystemExit as error:  # from the parser
        code = error.code  # type: ignore[assignment]
    assert code == 2
    printed = capsys.readouterr().err.splitlines()
    lines = [line for line in printed if line.strip() and " examples" not in line and "?it/s" not in line]
    assert len(lines) == 1 and lines[0].startswith("error: ")
    return lines[0]


RESULTS = {
    "a list": "[]",
    "nested lists": "[" * 100_000,
    "not JSON": "{",
    "a number as a part": '{"stsb": 3}',
    "a number as a split": '{"stsb": {"test": 3}, "run": {}}',
    "a list as a part": '{"export": []}',
    "a number in leakage": '{"leakage": {"pairs": 3}}',
    "a number in export": '{"export": {"onnx": 3}}',
    "an incomplete export": '{"export": {"onnx": {}}}',
}


@pytest.mark.parametrize("content", RESULTS.values(), ids=RESULTS)
def test_damaged_results_are_not_published(run: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (run / "results.json").write_text(content)
    assert "results.json" in check_refused(capsys, "trainer.publish.__main__", run, *HUB)


WEIGHTS, ROUTER = "model/model.safetensors", "model/1_Router/router_config.json"


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["results.json", "config.yaml", "model/tokenizer.json", WEIGHTS, ROUTER])
def test_a_run_with_a_flipped_bit_is_not_published(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    record_files(run, ["results.json", "config.yaml"])
    flip_a_bit(run / name)
    line = check_refused(capsys, "trainer.publish.__main__", run, *HUB)
    assert f"{name.removeprefix('model/')} is damaged: its checksum differs from that in SHA256SUMS" in line


def test_a_model_with_a_flipped_bit_is_not_evaluated(
    folder: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_a_bit(run / WEIGHTS)
    argv = (run / "model", "--tasks", "stsb", "--stsb", folder / "data" / "stsb")
    assert "model.safetensors is damaged: its checksum" in check_refused(capsys, "trainer.evaluation.__main__", *argv)


def test_updated_results_have_a_new_checksum_and_damaged_ones_are_not_updated(run: Path) -> None:
    record_files(run, ["results.json", "config.yaml"])
    update_results(run / "results.json", {"cqa": {"dev": {"map": 0.5}}})
    assert read_results(run / "results.json")["cqa"] == {"dev": {"map": 0.5}}
    flip_a_bit(run / "results.json")
    with pytest.raises(InputError, match=r"results\.json is damaged"):
        update_results(run / "results.json", {})


CONFIGS = {
    "empty": "",
    "a list": "[1]",
    "not YAML": "a: [1",
    "tasks as a list": "tasks: [1]",
    "binary": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("content", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("command", ["publish", "export", "seeds", "report"])
def test_a_damaged_config_is_refused_by_name(
    folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, content: str | bytes
) -> None:
    (run / "config.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    report = ("trainer.report.__main__", run, "-o", tmp_path / "report", "--data", folder / "data")
    commands = {
        "publish": ("trainer.publish.__main__", run, *HUB),
        "export": ("trainer.export.__main__", run, "-o", tmp_path / "export"),
        "seeds": ("trainer.sweep.seeds", run),
        "report": report,
    }
    assert str(run / "config.yaml") in check_refused(capsys, *commands[command])


def damage_model_config(run: Path) -> None:
    (run / "model" / "config.json").write_text("{")


def card_is_a_folder(run: Path) -> None:
    (run / "model" / "README.md").unlink()
    (run / "model" / "README.md").mkdir()


def card_settings_are_numbers(run: Path) -> None:
    (run / "config.yaml").write_text("tasks: {response_prediction: 1}\npairs: 3\n")


@pytest.mark.parametrize("damage", [damage_model_config, card_is_a_folder, card_settings_are_numbers])
def test_a_damaged_run_is_not_published(
    run: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]
) -> None:
    damage(run)
    assert str(run) in check_refused(capsys, "trainer.publish.__main__", run, *HUB)


# -- evaluation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "content"), [("config.json", "[]"), ("config.json", '{"model_type": 3}')])
def test_a_damaged_model_is_not_evaluated(
    folder: Path, run: Path, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    (run / "model" / name).write_text(content)
    argv = (run / "model", "--tasks", "stsb", "--stsb", folder / "data" / "stsb")
    assert "the model cannot be loaded" in check_refused(capsys, "trainer.evaluation.__main__", *argv)


def test_other_modules_of_sentence_transformers_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "modules.json").write_text("[{}]")
    argv = (tmp_path, "--tasks", "stsb", "--stsb", folder / "data" / "stsb")
    assert "the model cannot be loaded" in check_refused(capsys, "trainer.evaluation.__main__", *argv)


@pytest.mark.parametrize("task", ["stsb", "stsb_errors", "stsb_tuned"])
def test_weights_that_are_not_numbers_are_refused(
    folder: Path, run: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    path = run / "model" / "model.safetensors"
    (run / "model" / CHECKSUMS).unlink()
    weights = {name: array * np.float32("nan") for name, array in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})
    argv = (run / "model", "--tasks", task, "--stsb", folder / "data" / "stsb")
    assert "not finite" in check_refused(capsys, "trainer.evaluation.__main__", *argv)


# -- sweeps -----------------------------------------------------------------------------------------------------------


def planned_sweep(folder: Path, tmp_path: Path) -> tuple[Path, Any]:
    preset = tmp_path / "preset.yaml"
    preset.write_text(f"pairs: [{folder}/data/pairs]\ntasks: {{response_prediction: 1}}\n")
    (planned, *_) = expand_variations(str(preset), [], [("seed", ["1"])], tmp_path / "sweep")
    planned.folder.mkdir(parents=True)
    settings = {key: value for key, value in vars(planned.arguments).items() if key != "output_dir"}
    (planned.folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (planned.folder / "results.json").write_text("{}")
    return preset, planned


@pytest.mark.parametrize(
    ("name", "content"), [("config.yaml", "[1]"), ("config.yaml", "a: ["), ("results.json", '{"run": 4}')]
)
def test_a_damaged_run_of_a_sweep_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    preset, planned = planned_sweep(folder, tmp_path)
    np.savez(planned.folder / "dev_scores.npz", p_at_1=np.zeros(3))
    (planned.folder / name).write_text(content)
    argv = (preset, "--vary", "seed=1", "-o", tmp_path / "sweep", "--table_only")
    assert str(planned.folder / name) in check_refused(capsys, "trainer.sweep.__main__", *argv)


def test_damaged_dev_scores_are_a_note_with_the_remedy(folder: Path, tmp_path: Path) -> None:
    _, planned = planned_sweep(folder, tmp_path)
    (planned.folder / "dev_scores.npz").write_bytes(b"junk")
    assert "dev_scores.npz: not readable; delete it" in save_dev_scores(planned, 1)


# -- word vectors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-o", "{new}", "--cache_dir", "{folder}/file"], "--cache_dir: the folder"),
        (["-o", "/proc/vectors", "--cache_dir", "{new}"], "--output: the folder"),
        (["-o", "{new}/vectors", "--seed", "-1", "--cache_dir", "{new}"], "--seed -1: expected a number from 0"),
        (["-o", "{new}/vectors", "--seed", "99999999999"], "--seed 99999999999: expected"),
        (["-o", "{new}/vectors", "--cache_dir", "{new}", "--sif", "--from", "{folder}/empty"], "not readable as YAML"),
        (["-o", "{new}/vectors", "--cache_dir", "{new}", "--sif", "--from", "{folder}/run"], "--from"),
    ],
)
def test_mistakes_of_the_embeddings_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    words = [word.format(folder=folder, new=tmp_path) for word in argv]
    words[1] = str(tmp_path / "vectors") if words[1] == str(tmp_path) else words[1]
    line = check_refused(capsys, "trainer.report.word2vec_command", "skip_gram", folder / "data" / "pairs", *words)
    assert message in line


# -- reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", '{"step"'),
        ("metrics.jsonl", "[1]"),
        ("results.json", '{"stsb": 3}'),
        ("model/config.json", "{"),
        ("model/config.json", "[]"),
    ],
)
def test_a_damaged_run_is_not_reported(
    folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    (run / name).write_text(content)
    argv = (run, "-o", tmp_path / "report", "--data", folder / "empty")
    assert str(run / name) in check_refused(capsys, "trainer.report.__main__", *argv)


@pytest.mark.parametrize("content", ["{", "[1]\n", '{"a": 1}\n'])
def test_damaged_rows_of_a_sweep_are_not_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(content)
    argv = (tmp_path, "-o", tmp_path / "report", "--data", folder / "empty")
    assert "rows.jsonl" in check_refused(capsys, "trainer.report.__main__", *argv)


def test_a_report_cannot_replace_a_file_or_be_made_of_no_data(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = (folder / "run", "--data", folder / "empty", "-o")
    assert str(folder / "file") in check_refused(capsys, "trainer.report.__main__", *argv, folder / "file")
    (tmp_path / "report" / "README.md").mkdir(parents=True)
    assert "README.md" in check_refused(capsys, "trainer.report.__main__", *argv, tmp_path / "report")
    argv = (folder / "run", "--data", folder / "nowhere", "-o", tmp_path / "new")
    assert "no such folder" in check_refused(capsys, "trainer.report.__main__", *argv)


PLANS = {
    "1: {train: quickstart}": "the run's name 1 is not a text",
    "a: {train: quickstar}": "there is no preset quickstar; did you mean 'quickstart'",
    "a: {train: [1]}": "there is no preset [1]",
    "a: {train: ../presets/quickstart}": "there is no preset",
    "a: {train: quickstart, needs: [{}]}": "expected needs to be a list of texts",
    "a: {embed: glove, sources: [x]}": "a: argument METHOD: invalid choice: 'glove'",
    "a: {embed: cbow}": "a: the following arguments are required: SOURCE",
    "a: {embed: cbow, sources: [x], options: {bogus: 1}}": "a: unknown argument '--bogus'",
    "a: {sweep: quickstart, vary: [1]}": "expected vary to be a list of texts",
    "a: {sweep: quickstart, vary: [seed]}": "a: --vary seed: expected KEY=VALUE",
    'a: {sweep: quickstart, vary: ["seed=1"], options: {bogus: 1}}': "a: command line: unknown",
}


@pytest.mark.parametrize(("entry", "message"), PLANS.items())
def test_a_mistake_in_a_plan_shows_before_any_run(tmp_path: Path, entry: str, message: str) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"folder: {tmp_path}/runs\nruns: {{{entry}}}\n")
    with pytest.raises(InputError) as error:
        read_plan(plan)
    assert message in str(error.value) and len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("config", ["[1", "[1]", None])
def test_a_damaged_config_of_finished_word_vectors_is_refused(tmp_path: Path, config: str | None) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "results.json").write_text("{}")
    if config:
        (tmp_path / "runs" / "a" / "config.yaml").write_text(config)
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"folder: {tmp_path}/runs\nruns: {{a: {{embed: cbow, sources: [x]}}}}\n")
    with pytest.raises(InputError, match=r"config\.yaml"):
        read_plan(plan)


def test_seeds_reads_runs_whose_config_names_no_seed(
    folder: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "seed" not in SETTINGS
    assert "two of the runs have the same seed" in check_refused(capsys, "trainer.sweep.seeds", folder / "run", run)
