"""Records that Python cannot parse, lines without an end, and damaged members of an archive."""

import json
import zipfile

import pytest

from data_scripts.files import texts
from data_scripts.files.errors import InputError
from data_scripts.files.texts import read_lines
from tests.data_scripts.chats.reading import read_items


def test_json_lines_that_exceed_pythons_limits_are_counted(tmp_path):
    values = "0", "[" * 40_000 + "]" * 40_000, "1" * 5_000, "1"
    lines = [f'{{"input": "a", "response": "b", "more": {value}}}' for value in values]
    (tmp_path / "chats.jsonl").write_text("\n".join(lines), encoding="utf-8")
    items, log = read_items(tmp_path / "chats.jsonl")
    assert len(items) == 2 and log.broken.counts == {"not JSON": 2}


def test_a_long_line_is_refused_before_it_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "MAX_LINE_BYTES", 1 << 21)
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{}\n" + b"0" * (1 << 23) + b"\n{}\n")
    with pytest.raises(InputError, match=r"long.jsonl:2: a line of more than 2 MiB, which is the limit"):
        list(read_lines(path, (".jsonl",)))


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
