"""The papers' claims, each held against the report's own numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from trainer.report.page import Page
from trainer.report.systems import BOTH, CONVERSATIONS, NEIGHBOURS

GENRES = ("captions", "forums", "news")


@dataclass(frozen=True)
class Claim:
    """What a paper says, where, whether it holds here, and the figures that say so."""

    text: str
    source: str
    holds: bool
    figures: str


def write(page: Page) -> None:
    """A line a claim; one whose figures were not measured says so."""
    page.heading(2, "The papers' claims")
    rows, numbers = [], []
    for text, source, judge in CLAIMS:
        found = list(judge(page.numbers))
        numbers += [vars(Claim(text, source, holds, figures)) for holds, figures in found]
        for holds, figures in found:
            rows.append([text, source, "holds" if holds else "does not hold here", figures])
        if not found:
            rows.append([text, source, "not measured", ""])
    page.table("claims", ["claim", "source", "", "figures"], rows, numbers)


Finding = tuple[bool, str]


def _transformer_beats_dan(numbers: dict[str, Any]) -> Iterator[Finding]:
    rows = {row["system"]: row["p_at_1"] for row in numbers.get("table1", [])}
    ours, other = (rows.get(f"{encoder}, {CONVERSATIONS}") for encoder in ("Transformer", "DAN"))
    if ours is not None and other is not None:
        yield ours > other, f"P@1 {ours:.3f} against {other:.3f}"


def _lstm_is_worse(numbers: dict[str, Any]) -> Iterator[Finding]:
    rows = {row["system"]: row["p_at_1"] for row in numbers.get("table1", [])}
    ours = rows.get(f"Transformer, {CONVERSATIONS}")
    for encoder in ("BiLSTM", "LSTM"):
        other = rows.get(f"{encoder}, {CONVERSATIONS}")
        if ours is not None and other is not None:
            yield ours > other, f"P@1 of the Transformer {ours:.3f}, of the {encoder} {other:.3f}"


def _snli_helps_captions_most(numbers: dict[str, Any]) -> Iterator[Finding]:
    for encoder, rows in _by_encoder(numbers):
        plain, both = rows.get((CONVERSATIONS, False)), rows.get((BOTH, False))
        if plain and both:
            gains = {genre: _test(both, genre) - _test(plain, genre) for genre in GENRES}
            holds = max(gains, key=gains.__getitem__) == "captions" and gains["captions"] > 0
            yield holds, f"{encoder}: {_signed(gains)}"


def _tuning_helps_news_most(numbers: dict[str, Any]) -> Iterator[Finding]:
    for encoder, rows in _by_encoder(numbers):
        for trained_on in (CONVERSATIONS, BOTH):
            plain, tuned = rows.get((trained_on, False)), rows.get((trained_on, True))
            if plain and tuned:
                gains = {genre: _test(tuned, genre) - _test(plain, genre) for genre in GENRES}
                holds = max(gains, key=gains.__getitem__) == "news" and gains["news"] > 0
                yield holds, f"{encoder}, {trained_on}: {_signed(gains)}"


def _by_encoder(numbers: dict[str, Any]) -> Iterator[tuple[str, dict[tuple[str, bool], Any]]]:
    """Encoder -> (what it was trained on, whether tuned) -> the first such row of table 3 that is no variation."""
    found: dict[str, dict[tuple[str, bool], Any]] = {}
    for row in numbers.get("table3", []):
        if row["system"].removesuffix(" tuned") == f"{row['encoder']}, {row['trained_on']}":
            found.setdefault(row["encoder"], {}).setdefault((row["trained_on"], row["tuned"]), row)
    yield from found.items()


def _test(row: Any, genre: str) -> float:
    return row["test"][genre]["pearson"]


def _signed(gains: dict[str, float]) -> str:
    return ", ".join(f"{name} {gain:+.3f}" for name, gain in gains.items())


def _a_tenth_gives_most(numbers: dict[str, Any]) -> Iterator[Finding]:
    points = {point["share"]: point for point in numbers.get("figure8", [])}
    if {0.0, 0.1, 1.0} <= points.keys():
        for genre in ("all", "captions"):
            none, tenth, whole = (points[share]["test"][genre]["pearson"] for share in (0.0, 0.1, 1.0))
            holds = whole > none and tenth - none > (whole - none) / 2
            yield holds, f"test, {genre}: without {none:.3f}, with a tenth {tenth:.3f}, with all {whole:.3f}"


def _first_layer_looks_near(numbers: dict[str, Any]) -> Iterator[Finding]:
    for run, found in numbers.get("attention", {}).items():
        first, last = (sum(place * share for place, share in enumerate(found["layers"][layer])) for layer in (0, -1))
        yield first < last, f"`{run}`: mean distance {first:.2f} in the first layer, {last:.2f} in the last"


def _siamese_beats_word2vec(numbers: dict[str, Any]) -> Iterator[Finding]:
    rows = numbers.get("siamese_table1", [])
    for row in rows:
        for other in rows:
            same_texts = row["sources"] == other["sources"]
            if row["trained_on"] == NEIGHBOURS and other["method"] in ("skip_gram", "cbow") and same_texts:
                better = sum(row["sets"][key]["pearson"] > other["sets"][key]["pearson"] for key in row["sets"])
                of = len(row["sets"])
                yield better > of / 2, f"`{row['run']}` against `{other['run']}`: better on {better} of {of} sets"


def _function_words_are_short(numbers: dict[str, Any]) -> Iterator[Finding]:
    if found := numbers.get("norms"):
        count = sum(word in ENGLISH_STOP_WORDS for word in found["smallest"])
        shared = sum(word in found["paper_smallest"] for word in found["smallest"])
        holds = count / len(found["smallest"]) > max(found["stop_words"], 0.5)
        share = f"{100 * found['stop_words']:.0f} %"
        figures = (
            f"of the {len(found['smallest'])} shortest {count} are stop words (scikit-learn's; of all compared {share})"
        )
        yield holds, f"{figures}, {shared} are among the paper's ten"


CLAIMS: tuple[tuple[str, str, Callable[[dict[str, Any]], Iterator[Finding]]], ...] = (
    ("the Transformer beats the DAN in response prediction", "Yang et al., section 4.1", _transformer_beats_dan),
    ("LSTM and BiLSTM are worse than the Transformer", "Yang et al., footnote 2", _lstm_is_worse),
    ("SNLI helps captions most", "Yang et al., section 5", _snli_helps_captions_most),
    ("tuning helps news most", "Yang et al., section 5", _tuning_helps_news_most),
    ("10 % of SNLI gives most of its gain", "Yang et al., section 5.1", _a_tenth_gives_most),
    (
        "attention is near in the first layer, further in higher ones",
        "Yang et al., section 2.3",
        _first_layer_looks_near,
    ),
    ("Siamese CBOW beats averaged word2vec on most sets", "Kenter et al., section 4.1", _siamese_beats_word2vec),
    ("norms of function words are smallest", "Kenter et al., section 4.4", _function_words_are_short),
)
