import gzip
import re
from pathlib import Path

import pytest

from data_scripts.chats.logs import check_log, read_log
from data_scripts.chats.messages import ChatLog
from modeling_convsim.files.errors import InputError

VOICES = """\
\ufeffWEBVTT

NOTE
Ann: a note

STYLE
::cue { color: red }

Introduction
00:01.500 --> 00:04.000 align:start
<v Ann Lee>Hello, <b>Ben</b> &amp; all,
how are you?</v>

1:00:05.000 --> 1:00:07.500
<v.loud Ben>Fine. <v Ann Lee>Good: let us begin.

1:01:00.000 --> 1:02:00.000
With 1 < 2.
"""
NAMES = """\
1
00:00:01,000 --> 00:00:02,000
Music plays

2
00:00:05,000 --> 00:00:07,500
- ANN: Hello
- BEN: Hi

3
00:00:07,500 --> 00:00:08,500
how are you?

4
00:00:08,500 --> 00:00:09,000
[laughter]

5
00:00:10,000 --> 00:00:12,000
ANN: Fine.
"""


def read(path: Path, text: str | bytes, **options) -> tuple[list, ChatLog]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    log = ChatLog(path, "c", **options)
    check_log(log)
    located = list(read_log(log))
    assert all(re.fullmatch(rf"{re.escape(str(path))}:\d+", location) for location, _ in located)
    return [item for _, item in located], log


@pytest.mark.parametrize("encode", [str.encode, lambda text: text.removeprefix("\ufeff").encode("utf-16")])
def test_voices(tmp_path, encode):
    items, log = read(tmp_path / "a.vtt", encode(VOICES.replace("\n", "\r\n")))
    assert [(item.speaker, item.time, item.text) for item in items] == [
        ("Ann Lee", 1.5, "Hello, Ben & all,"),
        ("Ann Lee", 1.5, "how are you?"),
        ("Ben", 3605, "Fine."),
        ("Ann Lee", 3605, "Good: let us begin."),
        ("Ann Lee", 3660, "With 1 < 2."),
    ]
    assert {(item.parent, item.thread, item.source, item.gap) for item in items} == {(None, "c", "c", None)}
    assert len({item.id for item in items}) == 5 and not log.left_out and not log.broken.counts


def test_names_before_texts(tmp_path):
    items, log = read(tmp_path / "a.srt.gz", gzip.compress(NAMES.encode()), gap=60.0)
    assert [(item.speaker, item.time, item.text) for item in items] == [
        ("ANN", 5, "Hello"), ("BEN", 5, "Hi"), ("BEN", 7.5, "how are you?"), ("ANN", 10, "Fine."),
    ]  # fmt: skip
    assert {item.gap for item in items} == {60}
    assert log.left_out == {"text without a speaker": 1, "sound": 1} and log.detected == {"format": "subtitles"}


def cues(*texts: str) -> str:
    return "\n".join(f"00:00:{number:02} --> 00:00:{number + 1:02}\n{text}\n" for number, text in enumerate(texts))


def test_a_rare_name_begins_a_text(tmp_path):
    texts = ["Ann: a", "Ben: b"] * 11 + ["Note: c"]
    items, _ = read(tmp_path / "a.vtt", cues(*texts))
    assert (items[-1].speaker, items[-1].text) == ("Ben", "Note: c")
    items, _ = read(tmp_path / "a.vtt", cues(*texts[:6], "Note: c"))
    assert (items[-1].speaker, items[-1].text) == ("Note", "c")


@pytest.mark.parametrize(
    "texts", [["a"], ["Ann: a", "b"], ["Ann: a", "Ann: b"], ["Ann: a", "Ben: b", *"abcdefghi"]], ids=len
)
def test_subtitles_without_names_are_refused(tmp_path, texts):
    with pytest.raises(InputError, match=r"a\.vtt: . of \d+ texts begin with a name; expected speaker names"):
        read(tmp_path / "a.vtt", cues(*texts))
