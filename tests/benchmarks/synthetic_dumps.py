"""Write synthetic dumps of Reddit comments: `python -m tests.benchmarks.synthetic_dumps FOLDER --comments 2000000`.

The distributions follow four dumps of 2005 and 2006 (27,695 comments; their measurements are in parentheses); fields
and ids follow those of 2015:

- depth: 46 % reply to a submission (51 to 69 %; fewer in later years), 25 % to one of these comments (18 to 22 %),
  13 % are one level deeper (6 to 11 %), and so on;
- threads: 3.7 comments on average (2.7 to 4.0); 51 % have one (50 to 61 %), 1 % have 35 or more (21 to 43);
- fan-out: of the comments with a reply, 76 % have one (76 to 85 %), 18 % two (13 to 18 %), some have tens;
- delay of a reply: log-normal, with a median of 0.45 % of all comments (0.4 to 1.5 %);
- texts: log-normal lengths with a median of 121 characters (138 to 173), 19 % have 350 or more (21 to 29 %); word
  frequencies follow Zipf's law; 11 % hold HTML entities (4 to 6 %), 8 % links (8 to 9 %), 4 % letters outside of
  ASCII (1 to 3 %);
- 6 % are deleted or removed (11 to 17 %; fewer in later years), 1 % are by bots (0 to 0.2 %; more in later years);
- the order of a line's fields varies.

The command needs about 40 bytes of memory per comment, and a compression window of 2 GiB per process.
"""

from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard
from tqdm import tqdm

from data_scripts.command_line import ArgumentParser

ROWS = 1 << 15  # generated at a time
ORDERS = 16  # different orders of the fields in a line

NEW_THREAD, ANSWERS_SUBMISSION, LOST_PARENT = 0.25, 0.20, 0.01  # the rest replies to a comment
MEDIAN_LAG, LAG_SPREAD = 0.0045, 1.4  # of a reply: as a share of all comments, and in natural logarithms
MEDIAN_CHARACTERS, CHARACTERS_SPREAD = 121, 1.15
CHARACTERS_PER_WORD = 6.7  # with its space
DELETED, REMOVED, BOTS, SHORT, REPEATED_ID = 0.05, 0.01, 0.01, 0.03, 0.0001

WORDS, AUTHORS, SUBREDDITS = 200_000, 300_000, 5_000
FIRST_COMMENT = int("cnas8zv", 36)
FIRST_SUBMISSION = int("2qyr1a", 36)
FIRST_SECOND = 1_420_070_400  # 2015
SECONDS = 31 * 86_400  # from the first comment to the last

# The contents of JSON strings. Reddit escapes &, < and >; dumps escape other characters than ASCII as \u....
_SPECIAL = [
    *["1", "2", "10", "2014", "100%", "50,000", "3.5"] * 4,
    *[r"\n\n", r"\n\n", r"\n\n", r"\n\n&gt;", r"\n"] * 10,
    *["&amp;", "&lt;3", "&gt;", "&amp;nbsp;", "-&gt;"],
    *["http://made.example/page?id=12&amp;p=3", "https://made.example/aB3dE.jpg", "[this](http://made.example)"] * 4,
    *[r"na\u00efve", r"caf\u00e9", r"\u201cso\u201d", r"\u2014", r"\ud83d\ude00", r"\u0435\u0441\u0442\u044c"],
    *[r"\"so\"", r"\"", "/r/made", "@someone", "*so*"] * 2,
]
_SHORT = ["Thanks!", "This.", ":)", "lol", "^^^", "1999...", "What?", "100%!", "https://made.example/x", "@you yes"]
_BOT_TEXT = "I am a made up program and did this by myself. Ask those who look after this place about it."


_Field = tuple[str, pa.StringArray, str]  # the text before each value, the values, the text after each value


@dataclass(frozen=True)
class _Tree:
    """The comment that each comment replies to, as indices; each array is (comments,) int32."""

    source: np.ndarray  # the comment itself, or an earlier comment that is repeated here
    parent: np.ndarray  # the comment replied to; -1: the submission; -2: a comment that is not in the dumps
    root: np.ndarray  # the first comment of its thread


def _grow(comments: int, seed: int) -> _Tree:
    generator = np.random.default_rng([seed, 0])
    position = np.arange(comments, dtype=np.int32)
    lag = np.exp(generator.standard_normal(comments, np.float32) * np.float32(LAG_SPREAD))
    lag = (lag * np.float32(max(MEDIAN_LAG * comments, 2))).astype(np.int32) + 1
    answered = np.where(lag <= position, position - lag, -1)
    # Some comments get many replies: one in 64, and one in 4,096 still more.
    popular = generator.random(comments, np.float32)
    answered[popular < 0.1] &= ~63
    answered[popular < 0.01] &= ~4095
    answered = np.minimum(answered, position - 1)
    del lag, popular
    uniform = generator.random(comments, np.float32)
    fresh = (answered < 0) | (uniform < NEW_THREAD + LOST_PARENT)
    # Pointer doubling: each iteration doubles the distance to the ancestor.
    root = np.where(fresh, position, answered)
    while True:
        next_root = root[root]
        if np.array_equal(next_root, root):
            break
        root = next_root
    parent = np.where(fresh | (uniform < NEW_THREAD + LOST_PARENT + ANSWERS_SUBMISSION), np.int32(-1), answered)
    parent[uniform < LOST_PARENT] = -2
    repeated = np.flatnonzero(generator.random(comments, np.float32) < REPEATED_ID)
    source = position
    source[repeated] = generator.random(len(repeated)) * repeated
    return _Tree(source, parent, root)


def _by_zipf(size: int) -> np.ndarray:
    """Ranks below `size` as a table to sample from; their frequencies follow Zipf's law."""
    cumulative = np.cumsum(1 / np.arange(1, size + 1))
    quantiles = (np.arange(1 << 22) + 0.5) / (1 << 22)
    return np.searchsorted(cumulative, quantiles * cumulative[-1]).astype(np.int32)


def _names(count: int, generator: np.random.Generator) -> list[str]:
    """Distinct synthetic words, the first ones short."""
    syllables = np.array([a + b for a in [*"bdfgklmnprstvw", "th", "st"] for b in [*"aeiou", "ar", "en"]])
    names: dict[str, None] = {}
    while len(names) < count:
        longest = 1 + int(np.log10(len(names) + 1) * 0.8)
        for word in syllables[generator.integers(len(syllables), size=(count // 4 + 100, longest))]:
            names.setdefault("".join(word))
            if np.log10(len(names) + 1) * 0.8 >= longest:
                break
    return list(names)[:count]


def _base36(numbers: np.ndarray, digits: int) -> pa.StringArray:
    signs = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", np.uint8)
    powers = 36 ** np.arange(digits - 1, -1, -1)
    data = signs[numbers[:, None] // powers % 36]
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * digits
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(data))


class _Lines:
    """Generates the lines of comments, `ROWS` at a time."""

    def __init__(self, comments: int, seed: int) -> None:
        self.comments, self.seed, self.tree = comments, seed, _grow(comments, seed)
        generator = np.random.default_rng([seed, 1])
        words = _names(WORDS, generator)
        forms = [f"{word}{end} " for end in ("", ",", ".") for word in words] + [f"{word} " for word in _SPECIAL]
        self.words, self.word_ranks = pa.array(forms), _by_zipf(WORDS)
        names = [f"{name}{number % 1000}" if number % 3 else name for number, name in enumerate(words)]
        self.authors = pa.array(names + [f"The_{name}" for name in words[: AUTHORS - WORDS]])
        self.author_ranks = _by_zipf(AUTHORS)
        self.bots = pa.array([f"{word}_bot" for word in words[:100]] + [f"{word.title()}Bot" for word in words[:100]])
        self.subreddits, self.subreddit_ranks = pa.array(words[100 : 100 + SUBREDDITS]), _by_zipf(SUBREDDITS)

    def make(self, first: int, end: int, quoted: bool) -> memoryview:
        """Generate the lines of comments `first` to `end`; `quoted`: created_utc is a string of digits."""
        # Lines with the same order of fields are generated together, then sorted back.
        rows = np.concatenate([np.arange(first + order, end, ORDERS) for order in range(ORDERS)])
        generator = np.random.default_rng([self.seed, 2, first])
        fields = self._fields(rows, generator, quoted)
        parts, at = [], 0
        for order in range(ORDERS):
            size = len(range(first + order, end, ORDERS))
            shuffled = np.random.default_rng([self.seed, 3, order]).permutation(len(fields))
            pieces: list[pa.StringArray | str] = ["{"]
            for place, index in enumerate(shuffled):
                before, values, after = fields[index]
                pieces += ["," * (place > 0) + before, values.slice(at, size), after]
            parts.append(pc.binary_join_element_wise(*pieces, "}\n", ""))
            at += size
        lines = pa.concat_arrays(parts).take(pa.array(np.argsort(rows)))
        return memoryview(lines.buffers()[2])

    def _fields(self, rows: np.ndarray, generator: np.random.Generator, quoted: bool) -> list[_Field]:
        """Generate the fields of the comments with the indices `rows`."""
        count = len(rows)
        source = self.tree.source[rows]
        parent, root = self.tree.parent[source], self.tree.root[source]
        outcome = np.searchsorted(np.cumsum([DELETED, REMOVED, BOTS]), generator.random(count), side="right")
        deleted, removed, bot = (pa.array(outcome == number) for number in range(3))
        authors = self.authors.take(pa.array(self._draw(self.author_ranks, count, generator)))
        authors = pc.if_else(bot, self.bots.take(pa.array(generator.integers(len(self.bots), size=count))), authors)
        authors = pc.if_else(deleted, "[deleted]", authors)
        body = pc.if_else(bot, _BOT_TEXT, self._bodies(count, generator))
        body = pc.if_else(removed, "[removed]", body)
        body = pc.if_else(deleted, "[deleted]", body)

        ids = _base36(_comment_number(source), 7)
        links = _base36(FIRST_SUBMISSION + root.astype(np.int64), 6)
        lost = _comment_number(source) // 4 * 4 + 3
        comments = _base36(np.where(parent == -2, lost, _comment_number(np.maximum(parent, 0))), 7)
        to_submission = pa.array(parent == -1)
        parents = pc.binary_join_element_wise(
            pc.if_else(to_submission, "t3_", "t1_"), pc.if_else(to_submission, links, comments), ""
        )
        subreddit = self.subreddit_ranks[root.astype(np.int64) * 2_654_435_761 % len(self.subreddit_ranks)]
        created = FIRST_SECOND + source.astype(np.int64) * SECONDS // self.comments
        score = np.minimum(generator.pareto(1.2, count), 5000).astype(np.int32) + 1
        score = np.where(generator.random(count) < 0.06, -score % 50 - 50, score)
        flair = generator.random(count) < 0.15
        flair_text = pc.binary_join_element_wise('"', authors, ' of old"', "")
        edited = generator.random(count) < 0.03

        def text(values: np.ndarray) -> pa.StringArray:
            return pc.cast(pa.array(values), pa.string())

        def either(condition: np.ndarray, value: pa.StringArray | str, other: str) -> pa.StringArray:
            return pc.if_else(pa.array(condition), value, other)

        def constant(value: str) -> pa.StringArray:
            return pa.repeat(pa.scalar(value), count)

        quote = '"' if quoted else ""
        return [
            ('"subreddit_id":"t5_', _base36(subreddit.astype(np.int64) + 36**4 * 2, 5), '"'),
            ('"parent_id":"', parents, '"'),
            ('"link_id":"t3_', links, '"'),
            ('"id":"', ids, '"'),
            ('"name":"t1_', ids, '"'),
            ('"author":"', authors, '"'),
            ('"author_flair_text":', either(flair, flair_text, "null"), ""),
            ('"author_flair_css_class":', either(flair, '"old"', "null"), ""),
            ('"body":"', body, '"'),
            ('"score":', text(score), ""),
            ('"ups":', text(score), ""),
            ('"downs":', constant("0"), ""),
            (f'"created_utc":{quote}', text(created), quote),
            ('"retrieved_on":', text(created + 5_000_000), ""),
            ('"edited":', either(edited, text(created + 900), "false"), ""),
            ('"gilded":', either(generator.random(count) < 0.001, "1", "0"), ""),
            ('"distinguished":', either(generator.random(count) < 0.005, '"moderator"', "null"), ""),
            ('"controversiality":', either(generator.random(count) < 0.02, "1", "0"), ""),
            ('"archived":', constant("false"), ""),
            ('"score_hidden":', constant("false"), ""),
            ('"subreddit":"', self.subreddits.take(pa.array(subreddit)), '"'),
        ]

    def _draw(self, table: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
        return table[generator.integers(len(table), size=count, dtype=np.int32)]

    def _bodies(self, count: int, generator: np.random.Generator) -> pa.StringArray:
        characters = MEDIAN_CHARACTERS * np.exp(generator.standard_normal(count) * CHARACTERS_SPREAD)
        lengths = np.clip(characters / CHARACTERS_PER_WORD, 1, 1800).astype(np.int32)
        ends = np.cumsum(lengths)
        total = int(ends[-1])
        words = self._draw(self.word_ranks, total, generator)
        kind = generator.integers(1 << 16, size=total, dtype=np.uint16)
        words += WORDS * ((kind < 4000).astype(np.int32) + (kind < 8000))  # 6 % with a comma, 6 % with a period
        special = np.flatnonzero(kind > 63_900)  # 2.5 %
        words[special] = 3 * WORDS + generator.integers(len(_SPECIAL), size=len(special), dtype=np.int32)
        text = self.words.take(pa.array(words))
        # Words are contiguous in memory, so a body is the span from its first word to its last.
        offsets = np.frombuffer(text.buffers()[1], np.int32)[np.concatenate([[0], ends])]
        bodies = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), text.buffers()[2])
        short = pa.array(_SHORT).take(pa.array(generator.integers(len(_SHORT), size=count)))
        return pc.if_else(pa.array(generator.random(count) < SHORT), short, pc.ascii_rtrim_whitespace(bodies))


def _comment_number(index: np.ndarray) -> np.ndarray:
    """Ids increase with the index, in uneven steps; ids that are 3 above a multiple of 4 are not in the dumps."""
    index = index.astype(np.int64)
    return FIRST_COMMENT // 4 * 4 + 4 * index + index * 2_654_435_761 % (1 << 32) % 3


_lines: _Lines  # shared with the processes that write


def _write(file: Path, first: int, end: int, quoted: bool) -> None:
    # A window of 2 GiB, as in Pushshift's dumps. The compression level does not affect the benchmarks, so it is low.
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=31)
    compressor = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    with file.open("wb") as stream:
        for start in range(first, end, ROWS):
            stream.write(compressor.compress(_lines.make(start, min(start + ROWS, end), quoted)))
        stream.write(compressor.flush())


def make_dumps(folder: Path, comments: int, files: int = 4, seed: int = 0, processes: int = 2) -> list[Path]:
    """Write dumps RC_2015-01.zst and so on with `comments` lines in total; equal arguments give equal lines.

    One line in ten thousand repeats an earlier id. In every other file created_utc is a string of digits.

    Returns:
        The files; their numbers of comments differ by at most one.
    """
    global _lines
    _lines = _Lines(comments, seed)
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [comments * number // files for number in range(files + 1)]
    parts = [
        (folder / f"RC_{2015 + number // 12}-{number % 12 + 1:02}.zst", first, end, number % 2 == 0)
        for number, (first, end) in enumerate(pairwise(bounds))
    ]
    with ProcessPoolExecutor(processes, get_context("fork")) as executor:  # forked processes share `_lines`
        list(tqdm(executor.map(_write, *zip(*parts, strict=True)), total=len(parts), desc="make dumps", unit=" files"))
    return [file for file, *_ in parts]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(
        prog="python -m tests.benchmarks.synthetic_dumps",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the dumps")
    parser.add_argument("--comments", type=int, default=2_000_000, help="(default: %(default)s)")
    parser.add_argument("--files", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    for file in make_dumps(options.folder, options.comments, options.files, options.seed, options.processes):
        print(f"{file} {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
