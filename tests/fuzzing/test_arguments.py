"""The command lines of all commands: any words end with exit code 0 or 2 and at most one line, never a traceback."""

import importlib
import io
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data_scripts.commands import find_commands

MODULES = {
    "encoding": "modeling_convsim.encoding.__main__",
    "suggestion build": "modeling_convsim.suggestion.__main__",
    "suggestion suggest": "modeling_convsim.suggestion.__main__",
    "suggestion calibrate": "modeling_convsim.suggestion.__main__",
    "evaluation": "trainer.evaluation.__main__",
    "mteb_tasks": "trainer.evaluation.mteb_tasks",
    "embeddings": "trainer.report.word2vec_command",
    "report": "trainer.report.__main__",
    "publish": "trainer.publish.__main__",
    "export": "trainer.export.__main__",
    "seeds": "trainer.sweep.seeds",
    "sweep": "trainer.sweep.__main__",
    "run": "trainer.run",
    **{f"data_scripts {command.names[0]}": "data_scripts.__main__" for command in find_commands().values()},
}
# No word names a dataset on the Hub, an existing model or a preset that can be trained: nothing is started.
WORDS = st.one_of(
    st.sampled_from(
        ["", "-", "--", "-o", "-h", "--help", "missing.csv", "missing/folder", "a:b", "a@b", "=", "--=", "--x", "0"]
    ),
    st.sampled_from(
        ["-1", "1e999", "9" * 5_000, "nan", "true", "none", "{}", "[", "[" * 5_000, "@", "%s", "\udcff", "a" * 300]
    ),
    st.sampled_from(
        ["--output", "--output=", "-omissing/\udcff", "--tasks", "--tasks.snli", "--model_config.x", "--data", "--seed"]
    ),
    st.sampled_from(
        ["stsb", "sample", "all", "--columns", "text=", "--gap", "1x", "--license", "--split", "--filters", "--engine"]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
)
PRESET = "trainer/presets/quickstart.yaml"


def call(name: str, words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, str, str]:
    """Run a command's `main`; returns its exit code and what it printed, on streams as strict as a terminal's."""
    first = name.split()[1:]
    monkeypatch.chdir(folder)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    for stream, value in (("stdout", out), ("stderr", err), ("stdin", io.StringIO()), ("argv", [name, *first, *words])):
        monkeypatch.setattr(sys, stream, value)
    main = importlib.import_module(MODULES[name]).main
    try:
        code = main() if name == "run" else main([*first, *words])
    except SystemExit as error:
        code = error.code
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return code, texts[0], texts[1]


@pytest.mark.parametrize("name", ["data_scripts paraphrases", "encoding", "seeds"])
def test_a_path_that_is_not_utf8_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow and DuckDB raise errors of several kinds for such paths, some of them after hours of work."""
    (tmp_path / "pairs\udce9.jsonl").write_text('{"a": "One.", "b": "1."}')
    with monkeypatch.context() as patch:
        code, _, printed = call(name, ["pairs\udce9.jsonl", "-o", "out"], tmp_path, patch)
    assert code == 2 and "pairs\\udce9.jsonl' is not UTF-8" in printed


# mteb takes many seconds to import, so its command is part of a long run only.
@pytest.mark.parametrize(
    "name", [name for name in MODULES if name != "mteb_tasks" or settings.default.max_examples > 100]
)
@given(words=st.lists(WORDS, max_size=5))
@example(words=["a" * 300, "-o", "x"])
@example(words=["missing", "-o", "b" * 300])
@example(words=["\udcff", "-o", "missing\udcff"])
def test_any_words_end_with_an_exit_code(
    name: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        code, _, printed = call(name, words, tmp_path, patch)
    lines = [line for line in printed.splitlines() if line.strip()]
    assert code in (0, None, 2)
    assert "Traceback" not in printed
    if code == 2:
        assert lines[-1].startswith("error: ")
