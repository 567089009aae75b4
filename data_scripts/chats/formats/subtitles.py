"""Subtitles of calls and meetings (.vtt, .srt) with the names of who speaks: `<v Ann>Hello` or `Ann: Hello`.

A text without a name continues what the speaker before it says.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from data_scripts.chats.formats import Format
from data_scripts.chats.formats.transcripts import RARE
from data_scripts.chats.messages import ChatLog, Items, Message
from data_scripts.clean.text import unescape
from modeling_convsim.files.errors import InputError

SUFFIXES = (".vtt", ".srt")
MIN_NAMED = 0.2  # of the texts: if fewer begin with a name, it is not known who says the others
_CLOCK = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})(?:[.,](\d{1,3}))?"
_TIMING = re.compile(rf"\s*{_CLOCK}\s*-->\s*{_CLOCK}(?:\s.*)?")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_TAG = re.compile(r"</?[a-z\d][^<>]*>", re.IGNORECASE)
_NAMED = re.compile(r"(?:-\s*)?([^\W\d_][^:<>|;,\t\"]{0,39}):\s+(\S.*)")
_SOUND = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|♪.*")


class _Cue(NamedTuple):
    location: str
    time: float  # seconds since the beginning
    lines: list[str]  # with tags


def _read(log: ChatLog) -> Items:
    cues = _cues(log)
    names, speaker, number = _names(log, cues), "", 0
    for cue in cues:
        for name, text in _parts(cue.lines, names):
            speaker = name or speaker
            if not text:
                continue
            if not speaker or _SOUND.fullmatch(text):
                log.leave_out("sound" if speaker else "text without a speaker")
                continue
            number += 1
            yield cue.location, Message(f"text {number}", None, log.name, speaker, cue.time, text, log.name, log.gap)


def _names(log: ChatLog, cues: list[_Cue]) -> set[str]:
    """The names of the speakers; raises InputError if too few texts have one."""
    voices = {name.strip() for cue in cues for line in cue.lines for name in _VOICE.findall(line)}
    if voices:
        return voices
    lines = (_NAMED.fullmatch(_plain(line)) for cue in cues for line in cue.lines)
    labels = Counter(match[1] for match in lines if match)
    if len(labels) < 2 or labels.total() < MIN_NAMED * len(cues):
        raise InputError(
            f"{log.path}: {labels.total():,} of {len(cues):,} texts begin with a name; expected speaker names, "
            "as in '<v Ann>Hello' or 'Ann: Hello'; export the transcript with speaker names"
        )
    once = {name for name, count in labels.items() if count == 1}
    return labels.keys() - (once if len(once) < RARE * labels.total() else set())


def _cues(log: ChatLog) -> list[_Cue]:
    """The texts, each with its time; a blank line ends a text, and all else between texts is left out."""
    cues, in_text = list[_Cue](), False
    for location, line in log.lines():
        text = line.strip()
        timing = _TIMING.fullmatch(text)
        in_text = bool(timing or (in_text and text))
        if timing:
            hours, minutes, seconds, fraction = timing.groups()[:4]
            whole = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)
            cues.append(_Cue(location, whole + float(f"0.{fraction or 0}"), []))
        elif in_text:
            cues[-1].lines.append(text)
    return cues


def _plain(text: str) -> str:
    """The text without tags."""
    return " ".join(unescape(_TAG.sub("", text)).split())


def _parts(lines: list[str], names: set[str]) -> Iterator[tuple[str, str]]:
    """(Speaker, text) of each part of a text; the speaker is empty if it is that of the part before."""
    for line in lines:
        first, *others = _VOICE.split(line)
        for name, text in [("", first), *zip(others[::2], others[1::2], strict=True)]:
            match = _NAMED.fullmatch(_plain(text))
            if match and not name and match[1] in names:
                yield match[1], match[2]
            else:
                yield name.strip(), _plain(text)


FORMATS = (Format("subtitles", _read, lambda sample: sample.form in SUFFIXES, suffixes=SUFFIXES),)
