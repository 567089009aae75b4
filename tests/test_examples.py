"""Every example runs, offline, on tiny models and data."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState
from transformers import PreTrainedTokenizerFast

from tests.modeling_convsim.tiny_models import build
from trainer.adapt import adaptation

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> str:
    """The folder of a DAN with random weights."""
    folder = tmp_path_factory.mktemp("model")
    build("dan").save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def run_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Runs `python examples/NAME ARGUMENTS` in this process, in an empty folder; returns the printed lines."""

    def run(name: str, *arguments: str) -> list[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        AcceleratorState._reset_state(reset_partial_state=True)  # as in a new process
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def test_every_example_is_tested_and_listed() -> None:
    examples = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert examples == {"similarity.py", "faq_search.py", "train_on_chats.py", "chats.ipynb"}
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert not [name for name in examples if name not in text]


def test_similarity_compares_each_pair_of_sentences(run_example: Callable[..., list[str]], model: str) -> None:
    lines = run_example("similarity.py", "--model", model, "how old are you?", "how old are you?", "the dog eats")
    assert [line[8:] for line in lines] == [
        "how old are you?  |  how old are you?",
        "how old are you?  |  the dog eats",
        "how old are you?  |  the dog eats",
    ]
    same, *different = (float(line[:6]) for line in lines)
    assert same == pytest.approx(1, abs=1e-3)
    assert all(-1 <= value < 0.999 for value in different)


def test_faq_search_finds_the_question_with_its_answer(run_example: Callable[..., list[str]], model: str) -> None:
    lines = run_example("faq_search.py", "--model", model, "When does the shop open?")
    assert lines[0] == "When does the shop open?"
    assert lines[1] == " 1.000  When does the shop open?  ->  At nine, Monday to Saturday."


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("similarity.py", ["--model", "no/such/model"], "`make train` trains the default"),
        ("faq_search.py", ["--model", "no/such/model"], "`make train` trains the default"),
        ("train_on_chats.py", ["missing.csv", "-o", "run"], "error: missing.csv: cannot be read"),
    ],
)
def test_a_mistake_is_one_line(
    run_example: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    name: str,
    arguments: list[str],
    message: str,
) -> None:
    with pytest.raises(SystemExit) as exit:
        run_example(name, *arguments)
    assert exit.value.code == 2 and message in capsys.readouterr().err


def test_train_on_chats_suggests_replies(
    run_example: Callable[..., list[str]],
    tmp_path: Path,
    tiny_tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adaptation, "FEWEST_STEPS", 4)
    build("dan_best").save_pretrained(tmp_path / "base")
    tiny_tokenizer.save_pretrained(tmp_path / "base")
    rows = ["ticket,from,text"]
    for number in range(80):
        letters = "abcdefghij"[number % 10] * (1 + number // 10)
        rows += [f"{number},Ann,where is the parcel {letters}", f"{number},Tom,the parcel {letters} is here"]
    (tmp_path / "table.csv").write_text("\n".join(rows), encoding="utf-8")
    words = ["--columns", "thread=ticket", "speaker=from", "--repliers", "Tom", "--base", "base", "-o", "run"]
    lines = run_example("train_on_chats.py", "table.csv", *words)
    assert [line for line in lines if line.startswith("P@1: how often")]
    assert "Where is my parcel?" in lines and lines[-1].startswith("  ") and lines[-1].endswith(" is here")
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code cells, in one namespace, with fewer pairs and steps."""
    smaller = {"STEPS = 400": "STEPS = 2", '["train"]': '["train"].shuffle(seed=0).select(range(3000))'}
    cells = json.loads((EXAMPLES / "chats.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for full, reduced in smaller.items():
        assert sum(full in text for text in code) == 1
        code = [text.replace(full, reduced) for text in code]
    monkeypatch.chdir(tmp_path)
    AcceleratorState._reset_state(reset_partial_state=True)
    namespace: dict[str, object] = {}
    for text in code:
        exec(text, namespace)
    assert namespace["embeddings"].shape == (3, 128)  # type: ignore[attr-defined]


def test_the_notebook_holds_the_output_of_a_run() -> None:
    cells = json.loads((EXAMPLES / "chats.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = ["".join(output["text"]) for cell in code for output in cell["outputs"]]
    assert any(text.startswith("id,parent,thread,text") for text in outputs)
    assert any("P@1 on the test split: " in text for text in outputs)
