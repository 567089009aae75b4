"""The commands of `data_scripts` on rows with any values: a dataset whose counts add up, or a refusal in one line."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_scripts.__main__ import main
from tests.fuzzing.invariants import check_message
from tests.fuzzing.strategies import json_values, numbers, records, texts

EXAMPLES = max(settings.default.max_examples // 4, 3)  # a command takes a tenth of a second
SENTENCES = texts()
GOOD = {
    "nli": {"premise": "a", "hypothesis": "b", "label": "neutral"},
    "paraphrases": {"sentence1": "a", "sentence2": "b", "score": 1},
    "captions": {"group": "a", "captions": ["b"]},
    "books": {"book": "a", "paragraph": 1, "sentence": "b"},
    "conversations": {"input": "Hello there you", "response": "Good day to you", "thread": "t"},
}
TABLES = {
    "nli": records(premise=SENTENCES, hypothesis=SENTENCES, label=st.sampled_from([0, 1, 2, -1, "neutral", "-"])),
    "paraphrases": records(sentence1=SENTENCES, sentence2=SENTENCES, score=numbers() | st.none()),
    "captions": records(group=SENTENCES, captions=st.lists(SENTENCES, max_size=3)),
    "books": records(book=SENTENCES, paragraph=numbers(), sentence=SENTENCES),
    "conversations": records(id=SENTENCES, thread=SENTENCES, text=SENTENCES, speaker=SENTENCES),
}


def call(capsys: pytest.CaptureFixture[str], *argv: object) -> int:
    """Call the command; a refusal must be one line."""
    code = main([str(word) for word in argv])
    printed = capsys.readouterr().err
    if code:
        assert code == 2
        line = next(line for line in printed.splitlines() if line.startswith("error: "))
        check_message(line)
    return code


@pytest.mark.parametrize("command", TABLES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_table_becomes_a_dataset_or_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, data: st.DataObject
) -> None:
    table = data.draw(st.lists(TABLES[command] | st.just(GOOD[command]), min_size=1, max_size=4))
    source, output = tmp_path / f"train{data.draw(st.sampled_from(['.jsonl', '.json']))}", tmp_path / "out"
    lines = "".join(json.dumps(record) + "\n" for record in table)
    source.write_text(json.dumps(table) if source.suffix == ".json" else lines)
    if call(capsys, command, source, "-o", output, "--overwrite"):
        return
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    rows = {file.name: pq.read_table(file).to_pylist() for file in output.glob("*.parquet")}
    assert rows and report
    check_rows(command, [row for part in rows.values() for row in part], report)


def check_rows(command: str, rows: list[dict[str, Any]], report: dict[str, Any]) -> None:
    for row in rows:
        for value in row.values():
            assert not isinstance(value, float) or math.isfinite(value)
    if command == "paraphrases":
        assert sum(part["pairs"] for name, part in report.items() if name == "train") == len(rows)
        assert all(row["sentence1"].strip() and row["sentence2"].strip() for row in rows)
    elif command == "nli":
        assert report["train"]["rows"] == len(rows) and {row["label"] for row in rows} <= {0, 1, 2}
    elif command == "captions":
        captions = [caption for row in rows for caption in row["captions"]]
        assert report["train"]["captions"] == len(captions)
    elif command == "books":
        assert report["train"]["sentences"] == len(rows)


LINES = st.lists(texts(surrogates=False).map(lambda text: text.replace("\n", " ")), max_size=9)
SCORES = st.one_of(numbers().map(str), texts(surrogates=False, max_size=4), st.sampled_from(["0", "5", "2.5", ""]))


@settings(max_examples=EXAMPLES)
@given(
    rows=st.lists(st.tuples(st.sampled_from(["main-news", "main-forum", "x"]), SCORES, LINES), min_size=1, max_size=3)
)
def test_the_files_of_stsb(tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[Any]) -> None:
    lines = ["\t".join([genre, "f", "2012", "1", score, "a", *more]) for genre, score, more in rows]
    (tmp_path / "sts-dev.csv").write_bytes("\n".join(lines).encode())
    if not call(capsys, "stsb", tmp_path, "-o", tmp_path / "out", "--overwrite"):
        table = pq.read_table(tmp_path / "out" / "validation-00000-of-00001.parquet").to_pylist()
        assert len(table) == len(lines) and all(0 <= row["score"] <= 5 for row in table)


@settings(max_examples=EXAMPLES)
@given(pairs=LINES, gold=LINES, separator=st.sampled_from(["\t", " "]))
def test_the_files_of_sts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pairs: list[str], gold: list[str], separator: str
) -> None:
    (tmp_path / "2012-test").mkdir(exist_ok=True)
    for name, lines in (("input", [f"a{separator}{line}" for line in pairs]), ("gs", gold)):
        (tmp_path / "2012-test" / f"STS.{name}.MSRpar.txt").write_bytes("\n".join(lines).encode() + b"\n")
    call(capsys, "sts", tmp_path, "-o", tmp_path / "out", "--overwrite")


@settings(max_examples=EXAMPLES)
@given(document=st.lists(records(image_id=numbers() | texts(), caption=texts()), max_size=3) | json_values())
def test_the_files_of_coco(tmp_path: Path, capsys: pytest.CaptureFixture[str], document: Any) -> None:
    path = tmp_path / "captions_train2017.json"
    path.write_text(json.dumps({"images": [{"id": 1}], "annotations": document, "info": document}))
    if not call(capsys, "captions", path, "-o", tmp_path / "out", "--overwrite"):
        rows = pq.read_table(tmp_path / "out" / "train-00000-of-00001.parquet").to_pylist()
        document = json.loads(path.read_text())["annotations"]  # pairs of surrogates are characters now
        written = {(row["group"], caption) for row in rows for caption in row["captions"]}
        assert written == {(str(one["image_id"]), one["caption"].strip()) for one in document if one["caption"].strip()}
