"""The arithmetic of tests.benchmarks.preparing, on measurements of which the result is known."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.preparing import PHASES, format_table, main
from tests.forking import run_python


def test_seconds_grow_with_the_pairs_and_memory_where_it_grew() -> None:
    flat, bounded = {"seconds": 2.0, "MB": 99.0}, {"seconds": 4.0, "MB": 100.0}
    measured = {
        1_000_000: {phase: dict(flat) for phase in PHASES},
        2_000_000: {phase: dict(bounded) for phase in PHASES},
    }
    measured[1_000_000]["order of an epoch"]["MB"] = 80.0
    measured[2_000_000]["token cache"]["bytes"] = 60_000_000
    # A tenth of the most tokens in a pass, and half of the words.
    measured[2_000_000]["word vectors"] |= {"tokens": 30_000_000, "words": 15_000}
    lines = format_table(measured, 600_000_000).splitlines()
    rows = {line.split(" | ")[0].strip("| "): line.rstrip(" |").split(" | ")[1:] for line in lines if "|" in line}
    assert rows["token cache"] == ["2.0", "99", "4.0", "100", "1,200.0", "100"]
    assert rows["word vectors"] == ["2.0", "99", "4.0", "100", "40.0", "200"]
    assert rows["order of an epoch"] == ["2.0", "80", "4.0", "100", "1,200.0", "12,060"]
    assert lines[-1] == "The token cache has 30.0 bytes and 15.0 tokens per pair."


def test_growth_needs_two_numbers_of_pairs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["preparing", "data/reddit", "--pairs", "100", "100"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "--pairs: expected two numbers or more" in capsys.readouterr().err


def test_the_command_prints_every_phase(tmp_path: Path) -> None:
    words = "the shop is open until four o'clock on friday and closed on sunday".split()
    texts = [" ".join(words[start : start + 5]) for start in range(8)]
    pq.write_table(pa.table({"input": texts, "response": texts[::-1]}), tmp_path / "train-00000-of-00001.parquet")
    (done,) = run_python([("-m", "tests.benchmarks.preparing", tmp_path, "--pairs", "100", "200")], seconds=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert all(f"| {phase} | " in done.stdout for phase in PHASES)
    # Five of the eight texts have "o'clock", which is three tokens.
    assert done.stdout.rstrip().endswith(" 12.5 tokens per pair.")
