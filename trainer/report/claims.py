"""The papers' claims, each checked against the values of the report."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from trainer.report.labels import BILSTM, BOTH, CONVERSATIONS, DAN, LSTM, NEIGHBORS, TRANSFORMER
from trainer.report.page import Page

GENRES = ("captions", "forums", "news")

# Whether a claim holds in one comparison, and the numbers of that comparison.
Finding = tuple[bool, str]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes:
        text: the claim.
        source: paper and section.
        check: values of the report -> a finding for each comparison that they allow.
    """

    text: str
    source: str
    check: Callable[[dict[str, Any]], Iterator[Finding]]


def write_claims(page: Page) -> None:
    """Write a row for each comparison, and one for each claim whose numbers were not measured."""
    page.heading(2, "The papers' claims")
    rows, values = [], []
    for claim in CLAIMS:
        findings = list(claim.check(page.values))
        for holds, figures in findings:
            values.append({"text": claim.text, "source": claim.source, "holds": holds, "figures": figures})
            rows.append([claim.text, claim.source, "holds" if holds else "does not hold here", figures])
        if not findings:
            rows.append([claim.text, claim.source, "not measured", ""])
    page.table("claims", ["claim", "source", "", "figures"], rows, values)


def _transformer_beats_dan(values: dict[str, Any]) -> Iterator[Finding]:
    scores = _conversation_scores(values)
    if TRANSFORMER in scores and DAN in scores:
        ours, other = scores[TRANSFORMER], scores[DAN]
        yield ours > other, f"P@1 {ours:.3f} against {other:.3f}"


def _lstm_is_worse(values: dict[str, Any]) -> Iterator[Finding]:
    scores = _conversation_scores(values)
    for encoder in (BILSTM, LSTM):
        if TRANSFORMER in scores and encoder in scores:
            ours, other = scores[TRANSFORMER], scores[encoder]
            yield ours > other, f"P@1 of the Transformer {ours:.3f}, of the {encoder} {other:.3f}"


def _conversation_scores(values: dict[str, Any]) -> dict[str, float]:
    """Encoder -> P@1 of its row in table 1, trained on conversations."""
    scores = {row["system"]: row["p_at_1"] for row in values.get("table1", [])}
    suffix = f", {CONVERSATIONS}"
    return {system.removesuffix(suffix): score for system, score in scores.items() if system.endswith(suffix)}


def _snli_helps_captions_most(values: dict[str, Any]) -> Iterator[Finding]:
    for encoder, rows in _rows_by_encoder(values):
        without, with_snli = rows.get((CONVERSATIONS, False)), rows.get((BOTH, False))
        if without and with_snli:
            gains = _gains(without, with_snli)
            yield _is_largest(gains, "captions"), f"{encoder}: {_format_gains(gains)}"


def _tuning_helps_news_most(values: dict[str, Any]) -> Iterator[Finding]:
    for encoder, rows in _rows_by_encoder(values):
        for trained_on in (CONVERSATIONS, BOTH):
            untuned, tuned = rows.get((trained_on, False)), rows.get((trained_on, True))
            if untuned and tuned:
                gains = _gains(untuned, tuned)
                yield _is_largest(gains, "news"), f"{encoder}, {trained_on}: {_format_gains(gains)}"


def _rows_by_encoder(values: dict[str, Any]) -> Iterator[tuple[str, dict[tuple[str, bool], Any]]]:
    """Encoder -> (trained on, whether tuned) -> the first such row of table 3 that is not of a variation."""
    rows: dict[str, dict[tuple[str, bool], Any]] = {}
    for row in values.get("table3", []):
        if row["system"].removesuffix(" tuned") == f"{row['encoder']}, {row['trained_on']}":
            rows.setdefault(row["encoder"], {}).setdefault((row["trained_on"], row["tuned"]), row)
    yield from rows.items()


def _gains(before: Any, after: Any) -> dict[str, float]:
    """Genre -> what Pearson's r on test gains from one row of table 3 to another."""
    return {genre: after["test"][genre]["pearson"] - before["test"][genre]["pearson"] for genre in GENRES}


def _is_largest(gains: dict[str, float], genre: str) -> bool:
    return max(gains, key=gains.__getitem__) == genre and gains[genre] > 0


def _format_gains(gains: dict[str, float]) -> str:
    return ", ".join(f"{genre} {gain:+.3f}" for genre, gain in gains.items())


def _a_tenth_gives_most(values: dict[str, Any]) -> Iterator[Finding]:
    points = {point["share"]: point for point in values.get("figure8", [])}
    if {0.0, 0.1, 1.0} <= points.keys():
        for genre in ("all", "captions"):
            none, tenth, full = (points[share]["test"][genre]["pearson"] for share in (0.0, 0.1, 1.0))
            holds = full > none and tenth - none > (full - none) / 2
            yield holds, f"test, {genre}: without {none:.3f}, with a tenth {tenth:.3f}, with all {full:.3f}"


def _first_layer_attends_near(values: dict[str, Any]) -> Iterator[Finding]:
    for run, shares in values.get("attention", {}).items():
        first, last = (
            sum(distance * share for distance, share in enumerate(shares["layers"][layer])) for layer in (0, -1)
        )
        yield first < last, f"`{run}`: mean distance {first:.2f} in the first layer, {last:.2f} in the last"


def _siamese_beats_word2vec(values: dict[str, Any]) -> Iterator[Finding]:
    rows = values.get("siamese_table1", [])
    for row in (row for row in rows if row["trained_on"] == NEIGHBORS):
        for other in rows:
            if other["method"] in ("skip_gram", "cbow") and row["sources"] == other["sources"]:
                better = sum(row["sets"][key]["pearson"] > other["sets"][key]["pearson"] for key in row["sets"])
                sets = len(row["sets"])
                yield (
                    better > sets / 2,
                    f"`{row['run']}` against `{other['run']}`: better on {better} of {sets} datasets",
                )


def _function_words_have_small_norms(values: dict[str, Any]) -> Iterator[Finding]:
    if norms := values.get("norms"):
        words = norms["smallest"]
        stop_words = sum(word in ENGLISH_STOP_WORDS for word in words)
        shared = sum(word in norms["paper_smallest"] for word in words)
        figures = (
            f"of the {len(words)} words with the smallest norms {stop_words} are stop words (scikit-learn's list; "
            f"{100 * norms['stop_words']:.0f} % of all compared words are), {shared} are among the paper's ten"
        )
        yield stop_words / len(words) > max(norms["stop_words"], 0.5), figures


CLAIMS = (
    Claim("the Transformer beats the DAN in response prediction", "Yang et al., section 4.1", _transformer_beats_dan),
    Claim("LSTM and BiLSTM are worse than the Transformer", "Yang et al., footnote 2", _lstm_is_worse),
    Claim("SNLI helps captions most", "Yang et al., section 5", _snli_helps_captions_most),
    Claim("tuning helps news most", "Yang et al., section 5", _tuning_helps_news_most),
    Claim("10 % of SNLI gives most of its gain", "Yang et al., section 5.1", _a_tenth_gives_most),
    Claim(
        "attention is near in the first layer, farther in higher layers",
        "Yang et al., section 2.3",
        _first_layer_attends_near,
    ),
    Claim(
        "Siamese CBOW beats averaged word2vec on most datasets", "Kenter et al., section 4.1", _siamese_beats_word2vec
    ),
    Claim("norms of function words are smallest", "Kenter et al., section 4.4", _function_words_have_small_norms),
)
