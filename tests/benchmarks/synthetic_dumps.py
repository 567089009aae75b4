"""Synthetic dumps of Reddit comments, distributed as four dumps of 2005 and 2006 (27,695 comments; in parentheses).

- 46 % reply to a submission (51 to 69 %; fewer in later years); a reply follows after 0.45 % of a dump's comments in
  the median (0.4 to 1.5 %), and some comments have tens of replies;
- texts: log-normal lengths with a median of 121 characters (138 to 173); words by Zipf's law; some with HTML entities,
  links, quotes and letters outside of ASCII;
- 6 % are deleted or removed (11 to 17 %; fewer in later years), 1 % are by bots (0 to 0.2 %; more in later years);
- one line in ten thousand repeats an earlier id, the order of a line's fields varies, and in every other file
  created_utc is a string.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

FILES, ROWS = 4, 10_000  # rows that are generated together
WORDS, AUTHORS, SUBREDDITS = 200_000, 300_000, 5_000
FIRST_SECOND, SECONDS = 1_420_070_400, 31 * 86_400  # January 2015
NEW_THREAD, ANSWERS_SUBMISSION, LOST_PARENT = 0.25, 0.20, 0.01  # the rest replies to a comment
DELETED, REMOVED, BOT, SHORT, REPEATED = 0.05, 0.01, 0.01, 0.03, 0.0001
SPECIAL = [
    "1", "2014", "100%", "50,000", "\n\n", "\n\n", "\n\n", "\n\n&gt;", "&amp;", "&lt;3", "-&gt;", '"so"', "/r/made",
    "http://made.example/page?id=12&amp;p=3", "https://made.example/a.jpg", "[this](http://made.example)", "*so*",
    "naïve", "café", "“so”", "—", "😀", "есть", "@someone",
]  # fmt: skip
SHORT_TEXTS = ["Thanks!", "This.", ":)", "lol", "^^^", "1999...", "What?", "https://made.example/x", "@you yes"]
CONSTANT: dict[str, Any] = {
    "subreddit_id": "t5_2qh1i", "author_flair_text": None, "author_flair_css_class": None, "downs": 0, "edited": False,
    "gilded": 0, "distinguished": None, "controversiality": 0, "archived": False, "score_hidden": False,
}  # fmt: skip


def make_dumps(folder: Path, comments: int) -> None:
    """Write dumps RC_2015-01.zst and so on with `comments` lines in total; the same each time."""
    folder.mkdir(parents=True)
    for month in range(FILES):
        _write(folder, month, comments // FILES)


def _write(folder: Path, month: int, comments: int) -> None:
    generator = np.random.default_rng(month)
    thread_of = np.empty(comments, np.int64)
    # A window of 2 GiB, as in Pushshift's dumps. The compression level does not affect the benchmarks, so it is low.
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=31)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with (folder / f"RC_2015-{month + 1:02}.zst").open("wb") as stream:
        for start in range(0, comments, ROWS):
            lines = _make_lines(generator, thread_of, range(start, min(start + ROWS, comments)), month)
            stream.write(compressor.compress("".join(lines).encode()))
        stream.write(compressor.flush())


def _make_lines(generator: np.random.Generator, thread_of: np.ndarray, rows: range, month: int) -> list[str]:
    texts = _make_texts(generator, len(rows))
    lags = np.exp(generator.standard_normal(len(rows)) * 1.4) * max(0.0045 * len(thread_of), 2)
    kinds, chances = generator.random(len(rows)), generator.random(len(rows))
    authors = by_zipf(AUTHORS, generator, len(rows)).tolist()
    lines = []
    for row, text, lag, kind, chance, author in zip(rows, texts, lags, kinds, chances, authors, strict=True):
        parent = row - 1 - int(lag)
        if chance < 0.1:
            parent &= ~63  # some comments get many replies
        is_new = parent < 0 or kind < NEW_THREAD
        thread_of[row] = row if is_new else thread_of[parent]
        thread = _base36(2_000_000_000 + month * 10**7 + int(thread_of[row]))
        if is_new or kind < NEW_THREAD + ANSWERS_SUBMISSION:
            parent_id = f"t3_{thread}"
        else:
            number = row if kind > 1 - LOST_PARENT else parent  # of odd numbers, there are no comments
            parent_id = f"t1_{_comment_id(month, number, is_lost=number == row)}"
        name = f"{word(author)}{author % 1000}" if author % 3 else f"The_{word(author)}"
        if chance > 1 - DELETED:
            name, text = "[deleted]", "[deleted]"
        elif chance > 1 - DELETED - REMOVED:
            text = "[removed]"
        elif chance > 1 - DELETED - REMOVED - BOT:
            name = f"{word(author)}_bot"
        comment = _comment_id(month, row if row % round(1 / REPEATED) else row // 2)
        second = FIRST_SECOND + month * SECONDS + row * SECONDS // len(thread_of)
        created = second if month % 2 else str(second)
        fields = CONSTANT | {
            "id": comment, "name": f"t1_{comment}", "parent_id": parent_id, "link_id": f"t3_{thread}", "author": name,
            "body": text, "subreddit": word(int(thread_of[row]) * 2_654_435_761 % SUBREDDITS), "score": row % 50 + 1,
            "ups": row % 50 + 1, "retrieved_on": second + 5_000_000, "created_utc": created,
        }  # fmt: skip
        names = list(fields)
        turn = row % len(names)
        lines.append(json.dumps({name: fields[name] for name in names[turn:] + names[:turn]}) + "\n")
    return lines


def _make_texts(generator: np.random.Generator, count: int) -> list[str]:
    characters = 121 * np.exp(generator.standard_normal(count) * 1.15)
    ends = np.cumsum(np.clip(characters / 6.7, 1, 1800).astype(int))  # words, with their space
    words = [word(rank) for rank in by_zipf(WORDS, generator, int(ends[-1])).tolist()]
    for place in np.flatnonzero(generator.random(len(words)) < 0.025).tolist():
        words[place] = SPECIAL[place % len(SPECIAL)]
    for place in np.flatnonzero(generator.random(len(words)) < 0.12).tolist():
        words[place] += ",."[place % 2]
    texts = [" ".join(words[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    for row in np.flatnonzero(generator.random(count) < SHORT).tolist():
        texts[row] = SHORT_TEXTS[row % len(SHORT_TEXTS)]
    return texts


def by_zipf(size: int, generator: np.random.Generator, count: int) -> np.ndarray:
    """Ranks below `size`, whose frequencies follow Zipf's law."""
    return np.minimum(np.exp(generator.random(count) * np.log(size)).astype(np.int64), size) - 1


def word(rank: int) -> str:
    """A distinct word of letters for each rank; frequent ones are short."""
    syllables = ""
    while True:
        rank, syllable = divmod(rank, 90)
        syllables += "bdfgklmnprstvwzhcj"[syllable // 5] + "aeiou"[syllable % 5]
        if not rank:
            return syllables
        rank -= 1


def _comment_id(month: int, row: int, is_lost: bool = False) -> str:
    return _base36(30_000_000_000 + month * 10**9 + 2 * row + is_lost)


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits
