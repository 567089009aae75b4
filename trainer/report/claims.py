"""The papers' claims, each checked against the values of the report and an interval of its margin."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.report import margins
from trainer.report.item_scores import ItemScores
from trainer.report.labels import BILSTM, BOTH, CONVERSATIONS, DAN, LSTM, NEIGHBORS, TRANSFORMER
from trainer.report.margins import GENRES, Margin
from trainer.report.page import Page

# The margin of a claim in one comparison, and the figures of that comparison.
Finding = tuple[Margin, str]
Values = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes:
        text: the claim.
        source: paper and section.
        check: values of the report, scores item by item -> a finding for each comparison that they allow.
    """

    text: str
    source: str
    check: Callable[[Values, ItemScores | None], Iterator[Finding]]


def write_claims(page: Page, items: ItemScores | None) -> None:
    """Write a row for each comparison, and one for each claim whose figures were not measured.

    Without `items`, as for the values of an earlier report, most margins have no interval.
    """
    page.heading(2, "The papers' claims")
    page.text(
        "A claim holds where the 95 % interval of its margin, from 1,000 paired bootstrap resamples of the items that "
        "it was measured on, is above zero, and does not hold where the interval is below zero. The interval of a "
        "proportion of words is the exact one. Where only the intervals of two systems were stored, these decide if "
        "they do not overlap. Each system has a single seed, so the intervals cover the variation over items and not "
        "over seeds."
    )
    rows, values = [], []
    for claim in CLAIMS:
        findings = list(claim.check(page.values, items))
        for margin, figures in findings:
            described = {"text": claim.text, "source": claim.source, "holds": margin.holds, "verdict": margin.verdict}
            values.append({**described, "figures": figures, **margin._asdict()})
            rows.append([claim.text, claim.source, margin.verdict, figures, margin.interval])
        if not findings:
            rows.append([claim.text, claim.source, "not measured", "", ""])
    page.table("claims", ["claim", "source", "", "figures", "margin"], rows, values)


def _transformer_beats_dan(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    rows = _conversation_rows(values)
    if TRANSFORMER in rows and DAN in rows:
        ours, other = rows[TRANSFORMER], rows[DAN]
        yield margins.of_p_at_1(ours, other, items), f"P@1 {ours['p_at_1']:.3f} against {other['p_at_1']:.3f}"


def _lstm_is_worse(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    rows = _conversation_rows(values)
    for encoder in (BILSTM, LSTM):
        if TRANSFORMER in rows and encoder in rows:
            ours, other = rows[TRANSFORMER], rows[encoder]
            figures = f"P@1 of the Transformer {ours['p_at_1']:.3f}, of the {encoder} {other['p_at_1']:.3f}"
            yield margins.of_p_at_1(ours, other, items), figures


def _conversation_rows(values: Values) -> dict[str, Mapping[str, Any]]:
    """Encoder -> its row of table 1, trained on conversations."""
    suffix = f", {CONVERSATIONS}"
    rows = {row["system"]: row for row in values.get("table1", [])}
    return {system.removesuffix(suffix): row for system, row in rows.items() if system.endswith(suffix)}


def _snli_helps_captions_most(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    for encoder, rows in _rows_by_encoder(values):
        without, with_snli = rows.get((CONVERSATIONS, False)), rows.get((BOTH, False))
        if without and with_snli:
            margin = margins.of_largest_gain(without, with_snli, "captions", items)
            yield margin, f"{encoder}: {_format_gains(without, with_snli)}"


def _tuning_helps_news_most(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    for encoder, rows in _rows_by_encoder(values):
        for trained_on in (CONVERSATIONS, BOTH):
            untuned, tuned = rows.get((trained_on, False)), rows.get((trained_on, True))
            if untuned and tuned:
                margin = margins.of_largest_gain(untuned, tuned, "news", items)
                yield margin, f"{encoder}, {trained_on}: {_format_gains(untuned, tuned)}"


def _rows_by_encoder(values: Values) -> Iterator[tuple[str, dict[tuple[str, bool], Any]]]:
    """Encoder -> (trained on, whether tuned) -> the first such row of table 3 that is not of a variation."""
    rows: dict[str, dict[tuple[str, bool], Any]] = {}
    for row in values.get("table3", []):
        if row["system"].removesuffix(" tuned") == f"{row['encoder']}, {row['trained_on']}":
            rows.setdefault(row["encoder"], {}).setdefault((row["trained_on"], row["tuned"]), row)
    for encoder, named in rows.items():
        yield encoder, {key: row for key, row in named.items() if set(GENRES) <= row["test"].keys()}


def _format_gains(before: Any, after: Any) -> str:
    gains = {genre: after["test"][genre]["pearson"] - before["test"][genre]["pearson"] for genre in GENRES}
    return ", ".join(f"{genre} {gain:+.3f}" for genre, gain in gains.items())


def _a_tenth_gives_most(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    points = {point["share"]: point for point in values.get("figure8", [])}
    if {0.0, 0.1, 1.0} <= points.keys():
        for genre in ("all", "captions"):
            rows = [points[share] for share in (0.0, 0.1, 1.0)]
            if all(genre in row["test"] for row in rows):
                none, tenth, full = (row["test"][genre]["pearson"] for row in rows)
                figures = f"test, {genre}: without {none:.3f}, with a tenth {tenth:.3f}, with all {full:.3f}"
                yield margins.of_tenth(rows, genre, items), figures


def _first_layer_attends_near(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    for run, shares in values.get("attention", {}).items():
        first, last = (
            sum(distance * share for distance, share in enumerate(shares["layers"][layer])) for layer in (0, -1)
        )
        margin = margins.of_attention(run, first, last, items)
        yield margin, f"`{run}`: mean distance {first:.2f} in the first layer, {last:.2f} in the last"


def _siamese_beats_word2vec(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    rows = values.get("siamese_table1", [])
    for row in (row for row in rows if row["trained_on"] == NEIGHBORS):
        for other in rows:
            if other["method"] in ("skip_gram", "cbow") and row["sources"] == other["sources"]:
                better = sum(row["sets"][key]["pearson"] > other["sets"][key]["pearson"] for key in row["sets"])
                figures = f"`{row['run']}` against `{other['run']}`: better on {better} of {len(row['sets'])} datasets"
                yield margins.of_datasets(row, other, items), figures


def _function_words_have_small_norms(values: Values, items: ItemScores | None) -> Iterator[Finding]:
    if norms := values.get("norms"):
        words = norms["smallest"]
        stop_words = margins.count_stop_words(words)
        shared = sum(word in norms["paper_smallest"] for word in words)
        figures = (
            f"of the {len(words)} words with the smallest norms {stop_words} are stop words (scikit-learn's list; "
            f"{100 * norms['stop_words']:.0f} % of all compared words are), {shared} are among the paper's ten"
        )
        yield margins.of_stop_words(words, norms["stop_words"]), figures


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
