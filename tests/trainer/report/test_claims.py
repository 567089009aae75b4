"""Each claim against made-up scores for which it holds, does not hold, or is not decided."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainer.report.claims import CLAIMS, write_claims
from trainer.report.page import Page
from trainer.report.plan import BOTH, CONVERSATIONS, NEIGHBORS, WORDS

REPORT = Path(__file__).resolve().parents[3] / "model_cards" / "report"
HOLDS, FAILS, OPEN = "holds", "does not hold here", "not decided at this size"
VERDICTS = {True: HOLDS, False: FAILS, None: OPEN}
TRANSFORMER = "the Transformer beats the DAN in response prediction"
LSTM = "LSTM and BiLSTM are worse than the Transformer"
CAPTIONS = "SNLI helps captions most"
NEWS = "tuning helps news most"
TENTH = "10 % of SNLI gives half of its gain or more"
SIAMESE = "Siamese CBOW beats averaged word2vec on most datasets"
NORMS = "norms of function words are smallest"
GENRES = ("captions", "forums", "news")


def fake_items(**scores: Any) -> Any:
    """Scores item by item in place of `Measurements`."""
    return SimpleNamespace(
        response_precision=scores.get, sts_scores=scores.get, sts_gold=lambda: scores["gold"],
        stsb_scores=lambda run, tuned=False: scores[f"{run}{' tuned' * tuned}"],
        stsb_gold=lambda: (scores["gold"], scores["genres"]),
    )  # fmt: skip


def check(folder: Path, values: dict[str, Any], items: Any) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Claim -> its entries in report.json; and the page."""
    page = Page(folder)
    page.values |= values
    write_claims(page, items)
    page.save()
    claims: dict[str, list[dict[str, Any]]] = {}
    for claim in json.loads((folder / "report.json").read_text())["claims"]:
        assert claim["source"] and claim["verdict"] == VERDICTS[claim["holds"]]
        claims.setdefault(claim["text"], []).append(claim)
    return claims, (folder / "README.md").read_text("utf-8")


def verdicts(claims: dict[str, list[dict[str, Any]]], claim: str) -> list[str]:
    return [each["verdict"] for each in claims[claim]]


# -- response prediction ----------------------------------------------------------------------------------------------


def table1(**scores: Any) -> dict[str, Any]:
    rows = [{"system": f"{name}, {CONVERSATIONS}", "run": name, "p_at_1": score} for name, score in scores.items()]
    return {"table1": rows}


def hits(share: float, queries: int = 1000, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).permutation(queries) < share * queries).astype(int)


@pytest.mark.parametrize(
    ("transformer", "dan", "verdict"), [(0.5, 0.4, HOLDS), (0.4, 0.5, FAILS), (0.45, 0.449, OPEN), (0.5, 0.5, OPEN)]
)
def test_p_at_1_is_compared_query_by_query(tmp_path, transformer, dan, verdict):
    ours, theirs = hits(transformer), hits(dan, seed=1)
    values = table1(Transformer=ours.mean(), DAN=theirs.mean())
    claims, page = check(tmp_path, values, fake_items(Transformer=ours, DAN=theirs))
    (claim,) = claims[TRANSFORMER]
    assert claim["verdict"] == verdict and claim["figures"] == f"P@1 {transformer:.3f} against {dan:.3f}"
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {TRANSFORMER} |")]
    assert f"| {verdict} |" in line
    half = 1.96 * np.std(ours - theirs) / np.sqrt(len(ours))  # the normal approximation
    assert claim["margin"] == pytest.approx(transformer - dan)
    assert [claim["low"], claim["high"]] == pytest.approx([claim["margin"] - half, claim["margin"] + half], abs=4e-3)


# -- STS-B ------------------------------------------------------------------------------------------------------------

PAIRS = 200
GOLD = np.random.default_rng(9).uniform(0, 5, 3 * PAIRS)
GENRE_OF_PAIR = np.repeat(GENRES, PAIRS)


def row(run: str, trained_on: str, tuned: bool, noise: tuple[float, float, float], **changes: Any) -> tuple[Any, Any]:
    """A row of table 3 and the scores of its pairs: gold with noise in each genre."""
    spread = np.repeat(noise, PAIRS)
    scores = GOLD + spread * np.random.default_rng(3).normal(size=len(GOLD))
    by_genre = {
        genre: np.corrcoef(scores[rows], GOLD[rows])[0, 1] for genre in GENRES for rows in [genre == GENRE_OF_PAIR]
    }
    test = {genre: {"pearson": float(score)} for genre, score in by_genre.items()}
    encoder = changes.pop("encoder", "DAN")
    label = f"{encoder}, {trained_on}{' tuned' if tuned else ''}"
    each = {"system": label, "run": run, "encoder": encoder, "trained_on": trained_on, "tuned": tuned, "test": test}
    return each | changes, scores


def check_table3(folder: Path, *rows: tuple[Any, Any]) -> dict[str, list[dict[str, Any]]]:
    scores = {f"{each['run']}{' tuned' * each['tuned']}": values for each, values in rows}
    items = fake_items(gold=GOLD, genres=GENRE_OF_PAIR, **scores)
    return check(folder, {"table3": [each for each, _ in rows]}, items)[0]


BEFORE = (3.0, 3.0, 3.0)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [((0.5, 2.8, 2.8), HOLDS), ((2.8, 0.5, 3.0), FAILS), ((3.3, 6.0, 6.0), FAILS), ((1.5, 1.55, 3.0), OPEN)],
    ids=["captions gain most", "forums gain most", "all lose, captions least", "captions and forums gain the same"],
)
def test_snli_helps_captions_most_where_their_gain_exceeds_zero_and_the_others(tmp_path, after, verdict):
    before, both = row("a", CONVERSATIONS, False, BEFORE), row("b", BOTH, False, after)
    claims = check_table3(tmp_path, before, both)
    assert verdicts(claims, CAPTIONS) == [verdict] and NEWS not in claims
    gains = {genre: both[0]["test"][genre]["pearson"] - before[0]["test"][genre]["pearson"] for genre in GENRES}
    (claim,) = claims[CAPTIONS]
    assert claim["margin"] == pytest.approx(gains["captions"] - max(0, gains["forums"], gains["news"]))
    assert claim["figures"].startswith(f"DAN: captions {gains['captions']:+.3f}, forums {gains['forums']:+.3f}")


def test_tuning_helps_news_most_is_checked_for_each_encoder_and_training(tmp_path):
    claims = check_table3(
        tmp_path,
        row("a", CONVERSATIONS, False, BEFORE), row("a", CONVERSATIONS, True, (3.0, 3.0, 0.5)),
        row("b", BOTH, False, BEFORE, encoder="BiLSTM"), row("b", BOTH, True, (0.5, 3.0, 3.0), encoder="BiLSTM"),
    )  # fmt: skip
    assert verdicts(claims, NEWS) == [HOLDS, FAILS] and CAPTIONS not in claims
    figures = [claim["figures"] for claim in claims[NEWS]]
    assert figures[0].startswith(f"DAN, {CONVERSATIONS}: ") and figures[1].startswith(f"BiLSTM, {BOTH}: ")


@pytest.mark.parametrize(
    ("tenth", "full", "verdict"),
    [(1.2, 1.0, HOLDS), (2.8, 1.0, FAILS), (3.0, 4.0, FAILS), (1.0, 1.2, HOLDS), (3.0, 3.0, OPEN)],
)
def test_a_tenth_gives_most_where_it_has_over_half_of_a_positive_gain(tmp_path, tenth, full, verdict):
    noise = {"0": 3.0, "0.1": tenth, "0.5": 0.1, "1": full}
    points, scores = [], {}
    for share, spread in noise.items():
        each, scores[share] = row(share, CONVERSATIONS, False, (spread, spread, spread))
        everything = {"pearson": float(np.corrcoef(scores[share], GOLD)[0, 1])}
        points.append({"share": float(share), "run": share, "test": each["test"] | {"all": everything}})
    items = fake_items(gold=GOLD, genres=GENRE_OF_PAIR, **scores)
    claims, _ = check(tmp_path, {"figure8": points}, items)
    assert verdicts(claims, TENTH) == [verdict, verdict]
    assert claims[TENTH][0]["figures"].startswith(f"test, all: without {points[0]['test']['all']['pearson']:.3f}")
    assert check(tmp_path, {"figure8": points[1:]}, items)[1].count("not measured") == len(CLAIMS)  # without a base run


# -- Siamese CBOW -----------------------------------------------------------------------------------------------------


def sets(trained_on: str, method: str | None, sources: str, noise: list[float]) -> tuple[Any, Any]:
    """A row of Siamese CBOW's table 1 and the scores of its pairs, on as many datasets as `noise` has values."""
    run = f"{method or trained_on} of {sources}"
    random = np.random.default_rng(len(run))
    scores = {f"201{n} x": GOLD + spread * random.normal(size=len(GOLD)) for n, spread in enumerate(noise)}
    named = {key: {"pearson": float(np.corrcoef(each, GOLD)[0, 1])} for key, each in scores.items()}
    return {"run": run, "trained_on": trained_on, "method": method, "sources": sources, "sets": named}, scores


def check_sets(folder: Path, *rows: tuple[Any, Any]) -> dict[str, list[dict[str, Any]]]:
    items = fake_items(gold={key: GOLD for key in rows[0][1]}, **{each["run"]: scores for each, scores in rows})
    return check(folder, {"siamese_table1": [each for each, _ in rows]}, items)[0]


@pytest.mark.parametrize(
    ("ours", "verdict", "better"),
    [([1, 1, 9], HOLDS, "2 of 3"), ([1, 9, 9], FAILS, "1 of 3"), ([1, 9, 3.0], OPEN, "of 3")],
)
def test_siamese_cbow_beats_word2vec_where_it_is_better_on_over_half_of_the_datasets(tmp_path, ours, verdict, better):
    claims = check_sets(
        tmp_path,
        sets(NEIGHBORS, None, "books", ours),
        sets(WORDS, "cbow", "books", [3.0, 3.0, 3.0]),
        sets(WORDS, "sif", "books", [0.1, 0.1, 0.1]),  # neither of the two kinds of word2vec
        sets(WORDS, "cbow", "reddit", [0.1, 0.1, 0.1]),  # from other texts
    )
    assert verdicts(claims, SIAMESE) == [verdict] and f"{better} datasets" in claims[SIAMESE][0]["figures"]


@pytest.mark.parametrize(
    ("words", "of_all", "verdict", "count"),
    [
        ("to of the a in on at for that and", 0.2, HOLDS, 10),
        ("to of the a horse king", 0.2, OPEN, 4),
        ("horse king ship sea whale wind sail mast", 0.2, FAILS, 0),
        ("to of the a in on", 0.7, OPEN, 6),  # hardly more than among all words
    ],
)
def test_function_words_have_small_norms_by_the_exact_interval_of_a_proportion(tmp_path, words, of_all, verdict, count):
    norms = {"smallest": words.split(), "largest": [], "paper_smallest": ["to", "in"], "stop_words": of_all}
    claims, _ = check(tmp_path, {"norms": norms}, fake_items())
    (claim,) = claims[NORMS]
    assert claim["verdict"] == verdict
    assert f"norms {count} are stop words" in claim["figures"] and f"{100 * of_all:.0f} %" in claim["figures"]
    if count == 10:  # none of ten fails: the lower end is 0.025 to the power of a tenth
        assert claim["low"] == pytest.approx(0.025**0.1 - 0.5)


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_committed_report_has_every_claim():
    stored = json.loads((REPORT / "report.json").read_text("utf-8"))["claims"]
    assert [(text, source) for text, source, _ in CLAIMS] == list(
        dict.fromkeys((c["text"], c["source"]) for c in stored)
    )
