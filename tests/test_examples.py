"""Every example runs, offline, on tiny models and data."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import AutoModelForPreTraining, PreTrainedTokenizerFast

from data_scripts.loading import load_pairs
from data_scripts.sample import FOLDER
from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.shipped import VARIABLE
from tests.modeling_convsim.tiny_models import build, save
from tests.trainer.tiny_backbone import save_backbone
from trainer.adapt import adaptation
from trainer.data.tokenizer import train_tokenizer

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
RunExample = Callable[..., list[str]]


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunExample:
    """Runs `python examples/NAME ARGUMENTS` in this process, in an empty folder; returns the printed lines."""

    def run(name: str, *arguments: str) -> list[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        AcceleratorState._reset_state(reset_partial_state=True)  # as in a new process
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def log(tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log of 80 tickets; a tiny model takes the place of the base."""
    torch.manual_seed(0)
    save(build("dan_best"), tiny_tokenizer, tmp_path / "base")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "base"))
    rows = ["ticket,from,text"]
    for number in range(80):
        letters = "abcdefghij"[number % 10] * (1 + number // 10)
        rows += [f"{number},Ann,where is the parcel {letters}", f"{number},Tom,the parcel {letters} is here"]
    rows += ["99,Ann,how old is the dog", "99,Tom,it is very old"]
    (tmp_path / "support.csv").write_text("\n".join(rows), encoding="utf-8")
    return "support.csv"


def test_every_example_is_tested_and_listed() -> None:
    examples = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert examples == {
        "adapt_and_suggest.ipynb", "finetune_pretrained.py", "search_my_chats.py", "train_with_trainer.py",
    }  # fmt: skip
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert not [name for name in examples if name not in text]


def test_a_message_of_the_log_is_found_with_its_answer(run_example: RunExample, log: str) -> None:
    lines = run_example("search_my_chats.py", log, "how old is the dog?")
    best = lines.index("") + 1  # after the report on the log
    assert [line[7:] for line in lines[best : best + 2]] == ["how old is the dog", "-> it is very old"]


def test_a_pretrained_encoder_is_fine_tuned(run_example: RunExample, log: str, tmp_path: Path) -> None:
    backbone = save_backbone(tmp_path / "backbone")
    lines = run_example("finetune_pretrained.py", log, "--model", str(backbone), "--max_steps", "2")
    assert lines[-1].startswith("P@1 ") and (tmp_path / "runs/finetuned/run/model/model.safetensors").is_file()


@pytest.mark.parametrize("name", ["finetune_pretrained.py", "search_my_chats.py"])
def test_a_mistake_is_one_line(run_example: RunExample, log: str, name: str) -> None:
    query = ["query"] if name == "search_my_chats.py" else []
    with pytest.raises(SystemExit, match=r"^error: missing\.csv: cannot be read"):
        run_example(name, "missing.csv", *query)


def test_the_trainer_of_transformers_trains_an_encoder(run_example: RunExample, tmp_path: Path) -> None:
    pairs = list(load_pairs(str(FOLDER))["train"])[::40]
    tokenizer = train_tokenizer([pair[side] for pair in pairs for side in ("input", "response")], "word", 2_000)
    config = ConvSimDanConfig(vocab_size=len(tokenizer), word_embedding_size=32, embedding_size=32, residual=True)
    save(ConvSimDanForMultitask(config), tokenizer, tmp_path / "start")
    lines = run_example("train_with_trainer.py", "--max_steps", "40", "--model", "start")
    assert [line.split("  ")[1] for line in lines[-2:]] == [
        "On Friday we are open until six.", "Take a tablet and lie down.",
    ]  # fmt: skip
    batch = runpy.run_path(str(EXAMPLES / "train_with_trainer.py"))["collate"](tokenizer, pairs)
    before, after = (
        AutoModelForPreTraining.from_pretrained(folder).eval()(**batch).loss for folder in ("start", "runs/trainer")
    )
    assert after < before


def test_the_notebook_runs(log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code cells, in one namespace, on a small log."""
    monkeypatch.setattr(adaptation, "FEWEST_STEPS", 4)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "examples").mkdir()
    (tmp_path / log).rename(tmp_path / "examples" / log)
    monkeypatch.chdir(tmp_path / "examples")
    namespace: dict[str, object] = {}
    for cell in _code_cells():
        exec("".join(cell["source"]).replace('["Tom", "Elena", "Priya"]', '["Tom"]'), namespace)
    suggestion = namespace["suggestion"]
    assert suggestion.text.endswith(" is here")  # type: ignore[attr-defined]


def test_the_notebook_holds_the_output_of_a_run() -> None:
    code = _code_cells()
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    texts = ["".join(output.get("text", "")) for cell in code for output in cell["outputs"]]
    assert any("\n  all-MiniLM-L6-v2 " in text for text in texts)
    assert "image/png" in code[-1]["outputs"][0]["data"]


def _code_cells() -> list[dict]:
    cells = json.loads((EXAMPLES / "adapt_and_suggest.ipynb").read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]
