"""Files that would take more memory than the limits, or crash the parser, are refused in one line."""

import gzip
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
from backports import zstd

from data_scripts.__main__ import main
from data_scripts.chats.logs import check_log, read_log
from data_scripts.chats.messages import ChatLog
from data_scripts.errors import InputError
from data_scripts.files import json_streams, texts
from data_scripts.files import lines as files
from data_scripts.files.lines import BrokenLines, read_lines

PAIR = '{"input": "a", "response": "b", "more": %s}'
PACKERS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress, "": bytes}


def read(path: Path) -> tuple[list, BrokenLines]:
    log = ChatLog(path, path.stem)
    check_log(log)
    return [item for _, item in read_log(log)], log.broken


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message


@pytest.mark.parametrize("form", ["[%s]", "%s", '{"guild": {}, "channel": {"id": "1"}, "messages": [%s]}'])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("[" * 40_000 + "]" * 40_000, "too many arrays and objects within each other"),
        ('{"a":' * 40_000 + "1" + "}" * 40_000, "too many arrays and objects within each other"),
        ("1" * 5_000, "too many digits in a number"),
        ("-" + "1" * 600_000, "too many digits in a number"),
    ],
    ids=["arrays", "objects", "integer", "longer than a chunk"],
)
def test_json_that_exceeds_pythons_limits_is_refused(tmp_path, form, value, reason):
    path = tmp_path / "chats.json"
    # On several lines, so that the file is not one of JSON lines.
    path.write_text((form % (PAIR % value)).replace(", ", ",\n"), encoding="utf-8")
    assert reason in refusal(path)


def test_json_lines_that_exceed_pythons_limits_are_counted(tmp_path):
    path = tmp_path / "chats.jsonl"
    lines = [PAIR % value for value in ("[" * 40_000 + "]" * 40_000, "1" * 5_000, "1")]
    path.write_text("\n".join([PAIR % "0", *lines]), encoding="utf-8")
    items, broken = read(path)
    assert len(items) == 2
    assert broken.counts == {"not JSON": 2}


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("form", [".jsonl", ".tsv", ".csv", ".json", "array.json"])
def test_a_line_or_record_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch, form, suffix):
    monkeypatch.setattr(texts, "MAX_LINE_BYTES", 1 << 21)
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 21)  # for the message
    monkeypatch.setattr(json_streams, "MAX_LINE_BYTES", 1 << 21)
    text = "a" * (1 << 23)
    content = {".json": '{"input":\n"%s"}', "array.json": '[{"input": "%s"}]'}.get(form, "%s") % text
    path = tmp_path / f"bomb{form}{suffix}"
    path.write_bytes(PACKERS[suffix](content.encode()))
    assert "more than 2 MiB" in refusal(path)


def test_a_long_line_is_refused_before_it_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 21)
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{}\n" + b"0" * (1 << 23) + b"\n{}\n")
    with pytest.raises(InputError, match=r"long.jsonl:2: a line of more than 2 MiB, which is the limit"):
        list(read_lines(path, (".jsonl",)))


def test_a_long_line_in_a_tar_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("data_scripts.files.texts.MAX_LINE_BYTES", 1 << 10)
    (tmp_path / "a.jsonl").write_text(PAIR % ("0" * 2_000))
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        archive.add(tmp_path / "a.jsonl", "a.jsonl")
    assert "logs.tar/a.jsonl:1: a line of more than" in refusal(tmp_path / "logs.tar")


def test_coco_with_a_number_of_thousands_of_digits_is_refused(tmp_path, capsys):
    path = tmp_path / "captions_train2017.json"
    path.write_text('{"annotations": [{"image_id": %s, "caption": "A dog."}]}' % ("1" * 5_000))
    assert main(["captions", str(path), "-o", str(tmp_path / "out")]) == 2
    assert "captions_train2017.json: too many digits in a number" in capsys.readouterr().err


def slack(path: Path, **options) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", "[]")
        archive.writestr("general/2024-01-01.json", json.dumps([{"type": "message", "ts": "1", "text": "hello" * 500}]))
        archive.writestr("general/2024-01-02.json", json.dumps([{"type": "message", "ts": "2", "text": "yes"}]))
    return path


@pytest.mark.parametrize("change", ["flag", "content", "method", "large"])
def test_a_damaged_file_in_a_slack_zip_is_counted_and_the_others_are_read(tmp_path, monkeypatch, change):
    path = slack(tmp_path / "slack.zip")
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        member = archive.infolist()[1]
    directory = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 1)
    if change == "flag":  # encrypted
        content[directory + 8] |= 1
        content[member.header_offset + 6] |= 1
    elif change == "method":  # unknown compression
        content[directory + 10] = content[member.header_offset + 8] = 99
    elif change == "content":
        content[member.header_offset + 60 : member.header_offset + 70] = b"\xff" * 10
    else:
        monkeypatch.setattr("data_scripts.chats.formats.slack.MAX_FILE_BYTES", 1_000)
    path.write_bytes(content)
    items, broken = read(path)
    assert [message.text for message in items] == ["yes"]
    assert broken.counts.total() == 1
    assert "general/2024-01-01.json" in broken.examples[0]
