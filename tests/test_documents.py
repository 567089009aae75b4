"""The documents are correct: snippets run; options of commands, linked files and named functions exist."""

import functools
import re
import shlex
from pathlib import Path

import pytest

from tests.forking import run_python
from trainer.settings import parse_settings

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    *(
        ROOT / folder / "README.md"
        for folder in ("data_scripts", "modeling_convsim", "trainer", "model_cards", "tests", "examples")
    ),
]
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "tests" / "README.md"]
WITH_COMMANDS = ("data_scripts", "modeling_convsim.suggestion", "data", "suggest")
SCRIPT = ("-m", "trainer.console")  # convsim
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:convsim|python -m|accelerate launch|python trainer/run\.py)\s.*$", re.MULTILINE)


def blocks(language: str, *paths: Path) -> list[str]:
    """The contents of the fenced blocks in a language; "" selects blocks without one."""
    return [text for path in paths for kind, text in BLOCK.findall(path.read_text("utf-8")) if kind == language]


def commands() -> list[str]:
    """Every command in the documents, each on one line."""
    joined = [text.replace("\\\n", " ") for text in blocks("", *DOCUMENTS)]
    lines = [line for text in joined for line in COMMAND.findall(text)]
    return list(dict.fromkeys(line for line in lines if "my_source.py" not in line))  # the reader's file


def run(folder: Path, *words: str) -> str:
    """The output of a Python command that runs outside of the clone; the command must succeed."""
    (done,) = run_python([words], folder, [{"COLUMNS": "120"}])
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@functools.cache
def help_text(*words: str) -> str:
    """The output of a command's --help."""
    return run(ROOT, *words, "--help")


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of `make train`, reduced to a few steps, an index, the base and the examples."""
    folder = tmp_path_factory.mktemp("quickstart")
    run(folder, "-m", "data_scripts", "sample", "--output", "data/sample")
    run(
        folder, str(ROOT / "trainer/run.py"), str(ROOT / "trainer/presets/quickstart.yaml"), "--max_steps", "60",
        "--eval_every", "60", "--final_split", "dev", "--trackers", "none",
    )  # fmt: skip
    (folder / "README.md").write_text("How are you?\nFine.\n")
    run(folder, *SCRIPT, "index", "data/sample/test-00000-of-00001.parquet", "--output", "runs/support")
    for name in ("model_cards", "examples"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize("snippet", blocks("python", *DOCUMENTS))
def test_python_runs(quickstart: Path, snippet: str) -> None:
    run(quickstart, "-c", snippet)


def test_the_chat_log_is_read_as_documented(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    texts = blocks("", ROOT / "data_scripts" / "README.md")
    (number,) = [number for number, text in enumerate(texts) if text.startswith("convsim inspect")]
    _, *words = shlex.split(texts[number])
    lines = iter(run(tmp_path, *SCRIPT, *words).splitlines())
    for line in texts[number + 1].splitlines():
        assert line == "…" or line in lines, f"not printed, or not in this order: {line}"


@pytest.mark.parametrize(
    "command", [text for text in commands() if "trainer/run.py" in text or "convsim train" in text]
)
def test_a_training_command_has_valid_settings(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)
    preset, *options = words[words.index("train" if words[0] == "convsim" else "trainer/run.py") + 1 :]
    options = [word for word in options if word != "…"]
    if words[0] == "convsim" or (preset.endswith(".yaml") and Path(preset).parent.name):
        parse_settings([preset, *(options if options[-1:] != ["--pairs"] else [])])


OTHERS = [text for text in commands() if "python -m" in text or ("convsim" in text and "convsim train" not in text)]


@pytest.mark.parametrize("command", OTHERS)
def test_the_options_of_a_command_are_in_its_help(command: str) -> None:
    words = shlex.split(command.partition("#")[0])
    start = SCRIPT if words[0] == "convsim" else ("-m",)
    module, *words = words[1 if words[0] == "convsim" else 2 :]
    known = help_text(*start, module, *([words[0]] if module in WITH_COMMANDS else []))
    named = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert not {option for option in named if not re.search(rf"(?<![\w-]){option}(?![\w-])", known)}


@pytest.mark.parametrize("path", [*DOCUMENTS, *GUIDES], ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_document_lead_to_files(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", path.read_text("utf-8"))
    assert not [link for link in links if "://" not in link and not (path.parent / link).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.parent.name)
def test_the_links_to_sections_lead_to_headings(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text("utf-8"))
    assert not [section for file, section in links if section not in _anchors(path.parent / file if file else path)]


def _anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
