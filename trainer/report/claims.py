"""The papers' claims, each checked against the values of the report and an interval of its margin.

A margin is above zero where the claim holds. Its 95 % interval is a paired bootstrap over the items that it was
measured on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from trainer.evaluation.bootstrap import LEVEL, bootstrap_interval, mean_interval, pearson_by_row
from trainer.report.measurements import Measurements
from trainer.report.page import Page
from trainer.report.plan import BOTH, CONVERSATIONS, NEIGHBORS

DAN, TRANSFORMER, BILSTM, LSTM = "DAN", "Transformer", "BiLSTM", "LSTM"  # in the labels of the plan
GENRES = ("captions", "forums", "news")
Values = Mapping[str, Any]
VERDICTS = {True: "holds", False: "does not hold here", None: "not decided at this size"}


class Finding(NamedTuple):
    """A claim in one comparison: its figures, its margin, and the interval of the margin."""

    figures: str
    margin: float
    interval: Sequence[float]

    @property
    def holds(self) -> bool | None:
        """Whether the claim holds; None if the interval includes zero."""
        low, high = self.interval
        return None if low <= 0 <= high else low > 0


def write_claims(page: Page, items: Measurements) -> None:
    """Write a row for each comparison, and one for each claim whose figures were not measured."""
    page.heading(2, "The papers' claims")
    page.text(
        "A claim holds where the 95 % interval of its margin, from 1,000 paired bootstrap resamples of the items that "
        "it was measured on, is above zero, and does not hold where the interval is below zero. The interval of a "
        "proportion of words is the exact one. Each system has a single seed, so the intervals cover the variation "
        "over items and not over seeds."
    )
    rows, values = [], []
    for text, source, check in CLAIMS:
        findings = list(check(page.values, items))
        for finding in findings:
            low, high = finding.interval
            verdict = VERDICTS[finding.holds]
            described = {"text": text, "source": source, "holds": finding.holds, "verdict": verdict}
            values.append({**described, "figures": finding.figures, "margin": finding.margin, "low": low, "high": high})
            rows.append([text, source, verdict, finding.figures, f"{finding.margin:+.3f} [{low:+.3f}, {high:+.3f}]"])
        if not findings:
            rows.append([text, source, "not measured", "", ""])
    page.table("claims", ["claim", "source", "", "figures", "margin"], rows, values)


# -- response prediction ----------------------------------------------------------------------------------------------


def _transformer_beats_dan(values: Values, items: Measurements) -> Iterator[Finding]:
    rows = _conversation_rows(values)
    if TRANSFORMER in rows and DAN in rows:
        ours, other = rows[TRANSFORMER], rows[DAN]
        yield _compare_p_at_1(ours, other, items, f"P@1 {ours['p_at_1']:.3f} against {other['p_at_1']:.3f}")


def _lstm_is_worse(values: Values, items: Measurements) -> Iterator[Finding]:
    rows = _conversation_rows(values)
    for encoder in (BILSTM, LSTM):
        if TRANSFORMER in rows and encoder in rows:
            ours, other = rows[TRANSFORMER], rows[encoder]
            figures = f"P@1 of the Transformer {ours['p_at_1']:.3f}, of the {encoder} {other['p_at_1']:.3f}"
            yield _compare_p_at_1(ours, other, items, figures)


def _conversation_rows(values: Values) -> dict[str, Values]:
    """Encoder -> its row of table 1, trained on conversations."""
    suffix = f", {CONVERSATIONS}"
    rows = {row["system"]: row for row in values.get("table1", [])}
    return {system.removesuffix(suffix): row for system, row in rows.items() if system.endswith(suffix)}


def _compare_p_at_1(row: Values, other: Values, items: Measurements, figures: str) -> Finding:
    gains = items.response_precision(row["run"]) - items.response_precision(other["run"])
    return Finding(figures, row["p_at_1"] - other["p_at_1"], mean_interval(gains))


# -- STS-B ------------------------------------------------------------------------------------------------------------


def _snli_helps_captions_most(values: Values, items: Measurements) -> Iterator[Finding]:
    for encoder, rows in _rows_by_encoder(values):
        without, with_snli = rows.get((CONVERSATIONS, False)), rows.get((BOTH, False))
        if without and with_snli:
            yield _compare_gains(without, with_snli, "captions", items, encoder)


def _tuning_helps_news_most(values: Values, items: Measurements) -> Iterator[Finding]:
    for encoder, rows in _rows_by_encoder(values):
        for trained_on in (CONVERSATIONS, BOTH):
            untuned, tuned = rows.get((trained_on, False)), rows.get((trained_on, True))
            if untuned and tuned:
                yield _compare_gains(untuned, tuned, "news", items, f"{encoder}, {trained_on}")


def _rows_by_encoder(values: Values) -> Iterator[tuple[str, dict[tuple[str, bool], Any]]]:
    """Encoder -> (trained on, whether tuned) -> the first such row of table 3 that is not of a variation."""
    rows: dict[str, dict[tuple[str, bool], Any]] = {}
    for row in values.get("table3", []):
        if row["system"].removesuffix(" tuned") == f"{row['encoder']}, {row['trained_on']}":
            rows.setdefault(row["encoder"], {}).setdefault((row["trained_on"], row["tuned"]), row)
    for encoder, named in rows.items():
        yield encoder, {key: row for key, row in named.items() if set(GENRES) <= row["test"].keys()}


def _compare_gains(before: Values, after: Values, genre: str, items: Measurements, label: str) -> Finding:
    """What Pearson's r of a genre gains between two rows of table 3, minus the largest gain of another, or zero."""

    def margin(gains: Values) -> Any:
        others = [gains[other] for other in GENRES if other != genre]
        return gains[genre] - np.maximum.reduce([*others, np.zeros_like(others[0])])

    gains = {each: np.float64(after["test"][each]["pearson"] - before["test"][each]["pearson"]) for each in GENRES}
    gold, genres = items.stsb_gold()
    groups = [np.flatnonzero(genres == each) for each in GENRES]
    ours, theirs = (items.stsb_scores(row["run"], row["tuned"]) for row in (after, before))

    def statistic(positions: list[np.ndarray]) -> np.ndarray:
        rows = {each: group[chosen] for each, group, chosen in zip(GENRES, groups, positions, strict=True)}
        r = {each: [pearson_by_row(scores[chosen], gold[chosen]) for scores in (ours, theirs)]
             for each, chosen in rows.items()}  # fmt: skip
        return margin({each: after - before for each, (after, before) in r.items()})

    interval = bootstrap_interval(statistic, [len(group) for group in groups])
    figures = ", ".join(f"{each} {gain:+.3f}" for each, gain in gains.items())
    return Finding(f"{label}: {figures}", float(margin(gains)), interval)


def _a_tenth_gives_most(values: Values, items: Measurements) -> Iterator[Finding]:
    """What a tenth of SNLI gains above half of what all of it gains, or the latter if that is smaller."""

    def margin(none: Any, tenth: Any, full: Any) -> Any:
        return np.minimum(full - none, tenth - none - (full - none) / 2)

    points = {point["share"]: point for point in values.get("figure8", [])}
    rows = [points[share] for share in (0.0, 0.1, 1.0) if share in points]
    for genre in ("all", "captions"):
        if len(rows) < 3 or not all(genre in row["test"] for row in rows):
            continue
        none, tenth, full = (row["test"][genre]["pearson"] for row in rows)
        gold, genres = items.stsb_gold()
        chosen = np.flatnonzero((genres == genre) | (genre == "all"))
        scores, gold = [items.stsb_scores(row["run"])[chosen] for row in rows], gold[chosen]

        def statistic(positions: list[np.ndarray], scores: Any = scores, gold: Any = gold) -> np.ndarray:
            return margin(*(pearson_by_row(each[positions[0]], gold[positions[0]]) for each in scores))

        interval = bootstrap_interval(statistic, [len(chosen)])
        figures = f"test, {genre}: without {none:.3f}, with a tenth {tenth:.3f}, with all {full:.3f}"
        yield Finding(figures, float(margin(none, tenth, full)), interval)


# -- Siamese CBOW -----------------------------------------------------------------------------------------------------


def _siamese_beats_word2vec(values: Values, items: Measurements) -> Iterator[Finding]:
    """The number of datasets on which Siamese CBOW is better than word2vec on the same texts, above half of them."""
    rows = values.get("siamese_table1", [])
    for row in (row for row in rows if row["trained_on"] == NEIGHBORS):
        for other in rows:
            if other["method"] in ("skip_gram", "cbow") and row["sources"] == other["sources"]:
                sets = row["sets"]
                better = sum(sets[key]["pearson"] > other["sets"][key]["pearson"] for key in sets)
                interval = _interval_over_datasets(row["run"], other["run"], list(sets), items)
                figures = f"`{row['run']}` against `{other['run']}`: better on {better} of {len(sets)} datasets"
                yield Finding(figures, better - len(sets) / 2, interval)


def _interval_over_datasets(run: str, other: str, sets: Sequence[str], items: Measurements) -> list[float]:
    gold, ours, theirs = items.sts_gold(), items.sts_scores(run), items.sts_scores(other)

    def statistic(positions: list[np.ndarray]) -> np.ndarray:
        is_better = [
            pearson_by_row(ours[key][rows], gold[key][rows]) > pearson_by_row(theirs[key][rows], gold[key][rows])
            for key, rows in zip(sets, positions, strict=True)
        ]
        return np.sum(is_better, axis=0) - len(sets) / 2

    return bootstrap_interval(statistic, [len(gold[key]) for key in sets])


def _function_words_have_small_norms(values: Values, items: Measurements) -> Iterator[Finding]:
    """The proportion of stop words among the words with the smallest norms, above a half and above that of all words.

    The interval is the exact one of a binomial proportion (Clopper and Pearson).
    """
    if norms := values.get("norms"):
        words, of_all = norms["smallest"], norms["stop_words"]
        stop_words, least = sum(word in ENGLISH_STOP_WORDS for word in words), max(of_all, 0.5)
        shared = sum(word in norms["paper_smallest"] for word in words)
        low, high = stats.binomtest(stop_words, len(words)).proportion_ci(LEVEL)
        figures = (
            f"of the {len(words)} words with the smallest norms {stop_words} are stop words (scikit-learn's list; "
            f"{100 * of_all:.0f} % of all compared words are), {shared} are among the paper's ten"
        )
        yield Finding(figures, stop_words / len(words) - least, [float(low) - least, float(high) - least])


# Claim, its paper and section, and what checks it: values of the report, scores item by item -> a finding for each
# comparison that they allow.
CLAIMS: tuple[tuple[str, str, Callable[[Values, Measurements], Iterator[Finding]]], ...] = (
    ("the Transformer beats the DAN in response prediction", "Yang et al., section 4.1", _transformer_beats_dan),
    ("LSTM and BiLSTM are worse than the Transformer", "Yang et al., footnote 2", _lstm_is_worse),
    ("SNLI helps captions most", "Yang et al., section 5", _snli_helps_captions_most),
    ("tuning helps news most", "Yang et al., section 5", _tuning_helps_news_most),
    ("10 % of SNLI gives half of its gain or more", "Yang et al., section 5.1", _a_tenth_gives_most),
    ("Siamese CBOW beats averaged word2vec on most datasets", "Kenter et al., section 4.1", _siamese_beats_word2vec),
    ("norms of function words are smallest", "Kenter et al., section 4.4", _function_words_have_small_norms),
)
