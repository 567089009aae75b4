"""Each claim against made-up figures for which it holds, for which it does not, and without figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainer.report.claims import CLAIMS, write_claims
from trainer.report.labels import BOTH, CONVERSATIONS, NEIGHBORS, WORDS
from trainer.report.page import Page


def check(folder: Path, values: dict[str, Any]) -> tuple[dict[str, list[tuple[bool, str]]], str]:
    """Claim -> (whether it holds, its figures) for each comparison; and the page."""
    page = Page(folder)
    page.values |= values
    write_claims(page)
    page.save()
    claims: dict[str, list[tuple[bool, str]]] = {}
    for claim in json.loads((folder / "report.json").read_text())["claims"]:
        assert claim["source"]
        claims.setdefault(claim["text"], []).append((claim["holds"], claim["figures"]))
    return claims, (folder / "README.md").read_text("utf-8")


def table1(**scores: float) -> dict[str, Any]:
    return {"table1": [{"system": f"{name}, {CONVERSATIONS}", "p_at_1": score} for name, score in scores.items()]}


TRANSFORMER = "the Transformer beats the DAN in response prediction"
LSTM = "LSTM and BiLSTM are worse than the Transformer"
CAPTIONS = "SNLI helps captions most"
NEWS = "tuning helps news most"
TENTH = "10 % of SNLI gives most of its gain"
ATTENTION = "attention is near in the first layer, farther in higher layers"
SIAMESE = "Siamese CBOW beats averaged word2vec on most datasets"
NORMS = "norms of function words are smallest"


@pytest.mark.parametrize(("transformer", "dan", "holds"), [(0.5, 0.4, True), (0.4, 0.5, False), (0.5, 0.5, False)])
def test_the_transformer_beats_the_dan_where_its_p_at_1_is_higher(tmp_path, transformer, dan, holds):
    claims, page = check(tmp_path, table1(Transformer=transformer, DAN=dan))
    assert claims == {TRANSFORMER: [(holds, f"P@1 {transformer:.3f} against {dan:.3f}")]}
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {TRANSFORMER} |")]
    assert ("| holds |" if holds else "| does not hold here |") in line and f"{transformer:.3f}" in line


def test_each_kind_of_lstm_is_compared_with_the_transformer(tmp_path):
    claims, _ = check(tmp_path, table1(Transformer=0.5, BiLSTM=0.6, LSTM=0.1))
    assert [holds for holds, _ in claims[LSTM]] == [False, True]
    assert "0.600" in claims[LSTM][0][1] and "0.100" in claims[LSTM][1][1]


def row(trained_on: str, tuned: bool, captions: float, forums: float, news: float, **changes: Any) -> dict[str, Any]:
    encoder = changes.pop("encoder", "DAN")
    scores = {"captions": captions, "forums": forums, "news": news}
    label = f"{encoder}, {trained_on}{' tuned' if tuned else ''}"
    return {
        "system": label, "encoder": encoder, "trained_on": trained_on, "tuned": tuned,
        "dev": {genre: {"pearson": 0.0} for genre in scores},
        "test": {genre: {"pearson": score} for genre, score in scores.items()},
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("both", "holds"),
    [((0.8, 0.55, 0.5), True), ((0.7, 0.65, 0.5), False), ((0.55, 0.3, 0.3), False)],
    ids=["captions gain most", "forums gain most", "all lose, captions least"],
)
def test_snli_helps_captions_most_where_their_gain_is_the_largest_and_positive(tmp_path, both, holds):
    rows = [row(CONVERSATIONS, False, 0.6, 0.5, 0.45), row(BOTH, False, *both)]
    claims, _ = check(tmp_path, {"table3": rows})
    assert [each for each, _ in claims[CAPTIONS]] == [holds] and NEWS not in claims
    assert f"DAN: captions {both[0] - 0.6:+.3f}, forums {both[1] - 0.5:+.3f}" in claims[CAPTIONS][0][1]


@pytest.mark.parametrize(("tuned", "holds"), [((0.6, 0.5, 0.5), True), ((0.7, 0.5, 0.5), False)])
def test_tuning_helps_news_most_is_checked_for_each_encoder_and_training(tmp_path, tuned, holds):
    rows = [row(CONVERSATIONS, False, 0.6, 0.5, 0.45), row(CONVERSATIONS, True, *tuned)]
    rows += [row(BOTH, False, 0.1, 0.1, 0.1, encoder="BiLSTM"), row(BOTH, True, 0.2, 0.2, 0.3, encoder="BiLSTM")]
    claims, _ = check(tmp_path, {"table3": rows})
    assert [each for each, _ in claims[NEWS]] == [holds, True] and CAPTIONS not in claims
    assert claims[NEWS][0][1].startswith("DAN, conversations: ") and claims[NEWS][1][1].startswith(f"BiLSTM, {BOTH}: ")


def test_variations_of_a_model_are_not_compared(tmp_path):
    rows = [row(CONVERSATIONS, False, 0.6, 0.5, 0.45), row(BOTH, False, 0.8, 0.5, 0.45)]
    variation = f"DAN, {CONVERSATIONS}, input network"
    claims, _ = check(tmp_path, {"table3": [row(CONVERSATIONS, False, 0.9, 0, 0, system=variation), *rows]})
    assert claims[CAPTIONS] == [(True, "DAN: captions +0.200, forums +0.000, news +0.000")]


@pytest.mark.parametrize(
    ("tenth", "full", "holds"), [(0.56, 0.6, True), (0.54, 0.6, False), (0.5, 0.4, False), (0.7, 0.6, True)]
)
def test_a_tenth_gives_most_where_it_has_over_half_of_a_positive_gain(tmp_path, tenth, full, holds):
    points = [
        {"share": share, "test": {"all": {"pearson": score}, "captions": {"pearson": 0.5 + share}}}
        for share, score in ((0.0, 0.5), (0.1, tenth), (0.5, 0.9), (1.0, full))
    ]
    claims, _ = check(tmp_path, {"figure8": points})
    # On captions, each tenth of SNLI gives a tenth of the gain.
    assert [each for each, _ in claims[TENTH]] == [holds, False]
    assert f"without 0.500, with a tenth {tenth:.3f}, with all {full:.3f}" in claims[TENTH][0][1]


def test_a_tenth_is_not_checked_without_the_run_without_snli(tmp_path):
    points = [
        {"share": share, "test": {"all": {"pearson": 0.5}, "captions": {"pearson": 0.5}}} for share in (0.1, 0.5, 1.0)
    ]
    assert check(tmp_path, {"figure8": points})[0] == {}


def sets(trained_on: str, method: str | None, sources: str, *scores: float) -> dict[str, Any]:
    run = f"{method or trained_on} of {sources}"
    named = {f"201{year} x": {"pearson": score} for year, score in enumerate(scores)}
    system = f"{'Siamese CBOW' if trained_on == NEIGHBORS else 'word2vec'} ({sources})"
    return {"system": system, "run": run, "trained_on": trained_on, "method": method, "sources": sources, "sets": named}


@pytest.mark.parametrize(
    ("ours", "holds", "better"),
    [((0.5, 0.5, 0.1), True, "2 of 3"), ((0.5, 0.1, 0.1), False, "1 of 3"), ((0.3, 0.3, 0.3), False, "0 of 3")],
)
def test_siamese_cbow_beats_word2vec_of_the_same_texts_where_it_is_better_on_over_half_of_the_datasets(
    tmp_path, ours, holds, better
):
    rows = [
        sets(NEIGHBORS, None, "books", *ours),
        sets(WORDS, "cbow", "books", 0.3, 0.3, 0.3),
        sets(WORDS, "sif", "books", 0.9, 0.9, 0.9),
    ]
    claims, _ = check(tmp_path, {"siamese_table1": rows})
    assert [each for each, _ in claims[SIAMESE]] == [holds] and f"better on {better} datasets" in claims[SIAMESE][0][1]


def test_siamese_cbow_is_compared_with_both_kinds_of_word2vec(tmp_path):
    rows = [
        sets(NEIGHBORS, None, "books", 0.5),
        sets(WORDS, "cbow", "books", 0.4),
        sets(WORDS, "skip_gram", "books", 0.6),
    ]
    claims, _ = check(tmp_path, {"siamese_table1": rows})
    assert [each for each, _ in claims[SIAMESE]] == [True, False]


def test_siamese_cbow_is_not_compared_with_word2vec_of_other_texts(tmp_path):
    rows = [sets(NEIGHBORS, None, "books", 0.5), sets(WORDS, "cbow", "reddit", 0.4)]
    assert SIAMESE not in check(tmp_path, {"siamese_table1": rows})[0]


@pytest.mark.parametrize(
    ("ours", "stop_words", "holds", "count"),
    [
        ("to of the a horse king", 0.2, True, 4),
        ("to of horse king ship sea", 0.2, False, 2),
        ("to of the a horse king", 0.7, False, 4),  # no more than among all words
    ],
)
def test_function_words_have_small_norms_where_most_of_the_smallest_are_stop_words(
    tmp_path, ours, stop_words, holds, count
):
    norms = {"smallest": ours.split(), "largest": [], "paper_smallest": ["to", "in"], "stop_words": stop_words}
    claims, _ = check(tmp_path, {"norms": norms})
    ((each, figures),) = claims[NORMS]
    assert each == holds
    assert figures.startswith(f"of the 6 words with the smallest norms {count} are stop words") and figures.endswith(
        "1 are among the paper's ten"
    )
    assert f"{100 * stop_words:.0f} %" in figures


def test_every_claim_without_numbers_is_marked_as_not_measured(tmp_path):
    claims, page = check(tmp_path, {})
    assert claims == {}
    every = (TRANSFORMER, LSTM, CAPTIONS, NEWS, TENTH, ATTENTION, SIAMESE, NORMS)
    for claim in every:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {claim} |")]
        assert "| not measured |" in line and ("Yang et al." in line or "Kenter et al." in line)
    assert page.count("not measured") == len(CLAIMS) == len(every)


@pytest.mark.parametrize(("first", "last", "holds"), [([0.5, 0.5], [0.2, 0.8], True), ([0.2, 0.8], [0.5, 0.5], False)])
def test_the_first_layer_attends_near_where_its_mean_distance_is_smaller(tmp_path, first, last, holds):
    claims, _ = check(tmp_path, {"attention": {"small": {"layers": [first, [0.0, 1.0], last], "uniform": [0.5, 0.5]}}})
    assert claims[ATTENTION] == [
        (holds, f"`small`: mean distance {first[1]:.2f} in the first layer, {last[1]:.2f} in the last")
    ]
