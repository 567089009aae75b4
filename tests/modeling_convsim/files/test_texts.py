"""Records that Python cannot parse, lines without an end, and damaged members of an archive."""

import gzip
import json
import os
import zipfile

import pytest

from data_scripts.chats.logs import check_log
from data_scripts.chats.messages import ChatLog
from modeling_convsim.files import texts
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import check_records, read_records
from modeling_convsim.files.texts import BrokenLines, TextFile
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
        list(TextFile(path).lines())


@pytest.mark.parametrize("name", ["T.CSV", "t.Csv.GZ"])
def test_a_suffix_may_have_capital_letters(tmp_path, name):
    pack = gzip.compress if name.endswith("GZ") else bytes
    (tmp_path / name).write_bytes(pack(b"input,response\na,b\n"))
    check_records(tmp_path / name)
    records = read_records(tmp_path / name).rows({"input", "response"}, BrokenLines())
    assert [record for _, record in records] == [{"input": "a", "response": "b"}]


def test_an_object_may_be_longer_than_a_line(tmp_path, monkeypatch):
    for limit in ("MAX_LINE_BYTES", "HEAD_BYTES"):
        monkeypatch.setattr(texts, limit, 1 << 10)
    values = [{"input": "é" * 100, "number": 1.5, "more": [True, None]}] * 1_000
    for name, document in {"array": values, "object": {"list": values}}.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        records = [record for _, record in read_records(path).rows((), BrokenLines())]
        assert records == (values if name == "array" else [document])


@pytest.mark.parametrize("head", [1 << 10, 1 << 24])
def test_a_list_of_an_object_is_streamed_after_the_fields_that_tell_its_format(tmp_path, monkeypatch, head):
    monkeypatch.setattr(texts, "HEAD_BYTES", head)
    path, values = tmp_path / "chat.json", [{"text": f"hello {number}"} for number in range(1_000)]
    document = {"name": "a", "chats": {"about": "b", "list": values}, "more": [1]}
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")

    def read(before: str) -> dict:
        (record,) = read_records(path, streamed=[("chats.list", frozenset({before}))]).rows((), BrokenLines())
        return record[1]

    record = read("name")
    assert record.keys() == {"name", "chats.list"} and list(record["chats.list"]) == values
    assert read("more") == document


@pytest.mark.parametrize(
    "content", ["[1, 2", "[1, 2,]", "[1] x", '["\xff"]', '[{"a" 1}]', '{"a": 1', '{"a": }', "{1: 2}", '"{}"', "3"]
)
def test_a_document_that_is_not_json_is_refused(tmp_path, content):
    path = tmp_path / "chat.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"chat\.json: "):
        list(read_records(path).rows((), BrokenLines()))


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
