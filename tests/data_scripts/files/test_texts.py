"""Records that Python cannot parse, lines without an end, and damaged members of an archive."""

import json
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.chats.logs import check_log
from data_scripts.chats.messages import ChatLog
from data_scripts.files import texts
from data_scripts.files.errors import InputError
from data_scripts.files.records import read_records
from data_scripts.files.texts import BrokenLines, read_lines
from tests.data_scripts.chats.reading import read_items


def test_json_lines_that_exceed_pythons_limits_are_counted(tmp_path):
    values = "0", "[" * 40_000 + "]" * 40_000, "1" * 5_000, "1"
    lines = [f'{{"input": "a", "response": "b", "more": {value}}}' for value in values]
    (tmp_path / "chats.jsonl").write_text("\n".join(lines), encoding="utf-8")
    items, log = read_items(tmp_path / "chats.jsonl")
    assert len(items) == 2 and log.broken.counts == {"not JSON": 2}


@pytest.mark.parametrize("name", ["chats.csv", "63", "chats.log"])
def test_a_pipe_is_refused_without_being_opened(tmp_path, name):
    os.mkfifo(tmp_path / name)  # to open it would wait for a writer
    with pytest.raises(InputError, match=rf"{name}: a pipe, .* write it to a file first, and name that file"):
        check_log(ChatLog(tmp_path / name, "chats"))


def test_a_long_line_is_refused_before_it_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "MAX_LINE_BYTES", 1 << 21)
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{}\n" + b"0" * (1 << 23) + b"\n{}\n")
    with pytest.raises(InputError, match=r"long.jsonl:2: a line of more than 2 MiB, which is the limit"):
        list(read_lines(path, (".jsonl",)))


LONG, COUNT = "a" * 1_000, 3_000  # more than is read at a time


def write_pairs(path: Path) -> None:
    pair = json.dumps({"input": LONG, "response": "b"})
    lines = "\n".join([pair] * COUNT)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"input": [LONG] * COUNT, "response": ["b"] * COUNT}), path)
    else:
        tables = {".csv": f"input,response\n{LONG},b" + f"\n{LONG},b" * COUNT, ".json": f"[{','.join([pair] * COUNT)}]"}
        path.write_text(tables.get(path.suffix, lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("suffix", "change", "message"),
    [
        (".csv", "truncated", "changed while it was read"),
        (".csv", "appended", "changed while it was read"),
        (".csv", "replaced", "changed while it was read"),
        (".jsonl", "truncated", "changed while it was read"),
        (".json", "truncated", "not JSON, after .* complete records"),
        (".parquet", "truncated", "changed while it was read|not readable"),
        (".parquet", "appended", "changed while it was read"),
    ],
)
def test_an_input_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, suffix, change, message):
    monkeypatch.setattr(texts, "HEAD_BYTES", 1 << 10)
    path = tmp_path / f"chats{suffix}"
    write_pairs(path)
    rows, content = read_records(path).rows({"input", "response"}, BrokenLines()), path.read_bytes()
    next(rows)
    end = content.rindex(b"\n", 0, -1) if suffix == ".csv" else len(content) - 10_000
    changed = {"truncated": content[:end], "appended": content * 2, "replaced": content[: len(content) // 2]}[change]
    if change == "replaced":
        (tmp_path / "new").write_bytes(changed)
        (tmp_path / "new").replace(path)
    else:
        path.write_bytes(changed)
    with pytest.raises(InputError, match=rf"chats{suffix}: (?:{message})"):
        list(rows)


def test_a_short_input_that_grows_after_its_format_was_recognized_is_refused(tmp_path):
    path = tmp_path / "chats.csv"
    path.write_text("input,response\na,b\nc,d\n", encoding="utf-8")
    rows = read_records(path).rows({"input", "response"}, BrokenLines())
    with path.open("a", encoding="utf-8") as file:
        file.write("e,f\n")
    with pytest.raises(InputError, match=r"chats.csv: changed while it was read; wait until the program"):
        list(rows)


@pytest.mark.parametrize("change", ["encrypted", "damaged"])
def test_a_damaged_file_in_a_slack_zip_is_counted_and_the_others_are_read(tmp_path, change):
    path = tmp_path / "slack.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", "[]")
        for day, text in ((1, "hello" * 500), (2, "yes")):
            message = {"type": "message", "ts": str(day), "text": text}
            archive.writestr(f"general/2024-01-0{day}.json", json.dumps([message]))
        start = archive.infolist()[1].header_offset
    content = bytearray(path.read_bytes())
    if change == "encrypted":
        content[content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 1) + 8] |= 1
        content[start + 6] |= 1
    else:
        content[start + 60 : start + 70] = b"\xff" * 10
    path.write_bytes(content)
    items, log = read_items(path)
    assert [message.text for message in items] == ["yes"] and log.broken.counts.total() == 1
    assert "general/2024-01-01.json" in log.broken.examples[0]
