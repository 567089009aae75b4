"""Yang et al. (2018), table by table: our systems beside the published rows."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.cqa import summarize
from trainer.evaluation.evaluators import evaluate_baseline
from trainer.evaluation.similarity import angular, cosine, encode_pairs, to_gold_scale
from trainer.evaluation.sts_statistics import snli_overlap
from trainer.report.attention import attention_by_distance, uniform_by_distance
from trainer.report.page import Cell, Page, score
from trainer.report.systems import NEIGHBOURS, WORDS, Judge, Study, System

PAPER = "the paper:"
GENRES = ("all", "captions", "forums", "news")
DISTANCES = ("0", "1", "2", "3-4", "5-8", "9 or more")


def write(page: Page, judge: Judge, systems: Sequence[System], studies: Sequence[Study], published: Any) -> None:
    """All tables and figures that the systems and the data allow."""
    data = judge.data
    page.heading(2, "Learning Semantic Textual Similarity from Conversations (Yang et al., 2018)")
    if data.pairs is not None:
        _response_prediction(page, judge, systems, published["table1"])
    if data.snli is not None:
        _snli(page, judge, systems, published["table2"])
    if data.stsb is not None:
        _stsb(page, judge, systems, published)
        _examples(page, judge, [system for system in systems if _is_sentence_encoder(system)], published["table5"])
        _scatter(page, judge, [system for system in systems if _is_sentence_encoder(system)])
    if data.cqa is not None:
        _cqa(page, judge, systems, published["table6"])
    if data.stsb is not None:
        _snli_shares(page, judge, [study for study in studies if study.key == "snli_share"], published["figure8"])
        _attention(page, judge, [system for system in systems if system.encoder == "Transformer"])
        if data.snli is not None:
            _overlap(page, judge, published["snli_overlap"])


def _is_sentence_encoder(system: System) -> bool:
    return system.trained_on not in (WORDS, NEIGHBOURS)


def _response_prediction(page: Page, judge: Judge, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Table 1: response prediction")
    page.text(
        "The true response among 100. Ours: the same held-out inputs and candidates for every system, with 95 % "
        "bootstrap intervals; the paper's are of other conversations."
    )
    columns = ("p_at_1", "p_at_3", "p_at_10")
    rows = _published_rows(published, lambda values: [value / 100 for value in values])
    numbers: list[dict[str, Any]] = []
    found = []
    for system in systems:
        if not system.settings or system.settings.get("tasks", {}).get("response_prediction"):
            found.append((system.label, system.name, judge.scores(system, "response_prediction")))
    for name in BASELINES:
        found.append(("BM25" if name == "bm25" else "TF-IDF", "", _baseline(judge, name, "response_prediction")))
    for label, run, scores in found:
        if scores:
            rows.append([label, run, *(score(scores, column) for column in columns)])
            numbers.append({"system": label, "run": run, **scores})
    page.table("table1", ["system", "run", "P@1", "P@3", "P@10"], rows, numbers)


def _baseline(judge: Judge, name: str, task: str) -> Any:
    def measure() -> Any:
        return evaluate_baseline(name, vars(judge.data), "both", [task], intervals=True)[task]

    return judge.keep(None, f"{name} {task}", measure)


def _published_rows(table: Any, shown: Callable[[list[float]], list[Any]] = list) -> list[list[Cell]]:
    return [[f"{PAPER} {name}", "", *shown(values)] for name, values in table["rows"].items()]


def _snli(page: Page, judge: Judge, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Table 2: SNLI")
    page.text(
        "Accuracy on test. The paper trains on all of SNLI; our training pairs are as many as the table says.",
        "SNLI alone is footnote 6.",
    )
    rows = _published_rows(published, lambda values: [values[0] / 100, ""])
    numbers = []
    for system in systems:
        trains = {**system.settings.get("tasks", {}), **system.settings.get("late_tasks", {})}.get("snli")
        if trains and (scores := judge.scores(system, "snli")):
            pairs = system.results.get("run", {}).get("rows", {}).get("snli")
            rows.append([system.label, system.name, score(scores, "accuracy"), pairs])
            numbers.append({"system": system.label, "run": system.name, "training_pairs": pairs, **scores})
    page.table("table2", ["system", "run", "accuracy", "training pairs"], rows, numbers)


def _stsb(page: Page, judge: Judge, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Tables 3 and 4: the STS Benchmark")
    page.text(
        "Pearson's r with its 95 % bootstrap interval / Spearman's. Untuned is -arccos(cos), tuned the same after one "
        "matrix that is trained on STS-B's train and stopped on dev."
    )
    rows: list[list[Cell]] = []
    for part in ("rows", "neural", "mixed"):
        rows += [[f"{PAPER} {name}", "", *values] for name, values in published["table3"][part].items()]
    numbers, genres = [], []
    for name, splits in published["table4"]["rows"].items():
        genres.append([f"{PAPER} {name}", "", *splits["test"]])
    for system in systems:
        for task, tuned in (("stsb", ""), ("stsb_tuned", " tuned")):
            scores = judge.scores(system, task) if _is_sentence_encoder(system) or not tuned else None
            if not scores:
                continue
            label = f"{system.label}{tuned}"
            rows.append([label, system.name, *(score(scores[split]["all"], "pearson", "spearman")
                                               for split in ("dev", "test"))])  # fmt: skip
            genres.append([label, system.name, *(score(scores["test"].get(genre), "pearson", "spearman")
                                                 for genre in GENRES)])  # fmt: skip
            numbers.append({"system": label, "run": system.name, "trained_on": system.trained_on,
                            "encoder": system.encoder, "tuned": bool(tuned), **scores})  # fmt: skip
    page.table("table3", ["system", "run", "dev", "test"], rows, numbers)
    page.text("By genre, on test; report.json has dev too.")
    page.table("table4", ["system", "run", *GENRES], genres)


def _examples(page: Page, judge: Judge, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Table 5: four pairs")
    page.text("-arccos(cos), 0 to -pi. The sentences are those of the paper's table 5.")
    pairs = published["rows"]
    first, second = ([pair[side] for pair in pairs] for side in ("sentence1", "sentence2"))
    columns = {}
    for system in systems:

        def measure(system: System = system) -> list[float]:
            return angular(cosine(*encode_pairs(judge.encoder(system), first, second))).tolist()

        columns[system.name] = judge.keep(system, "table5", measure)
    rows = [
        [f"{pair['sentence1']} / {pair['sentence2']}", f"{pair['label']:.1f}", pair["score"], *scores]
        for pair, *scores in zip(pairs, *columns.values(), strict=True)
    ]
    page.table("table5", ["pair", "label", PAPER.rstrip(":"), *columns], rows, columns)


def _scatter(page: Page, judge: Judge, systems: Sequence[System]) -> None:
    assert judge.data.stsb is not None
    if "test" not in judge.data.stsb or not systems:
        return
    page.heading(3, "Figure 7: predicted and gold scores")
    gold = np.asarray(judge.data.stsb["test"]["score"])
    across = min(3, len(systems))
    down = -(-len(systems) // across)
    figure = Figure(figsize=(4.2 * across, 3.6 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True).ravel()
    for panel, system in zip(panels, systems, strict=False):
        predicted = to_gold_scale(judge.stsb_angles(system, "test"))
        drawn = panel.hexbin(gold, predicted, gridsize=28, cmap="viridis", mincnt=1)
        figure.colorbar(drawn, ax=panel, label="pairs")
        panel.set_title(f"{system.label}\nr = {np.corrcoef(predicted, gold)[0, 1]:.3f}", fontsize=9)
        panel.set_xlabel("gold")
        panel.set_ylabel("predicted")
    for panel in panels[len(systems) :]:
        panel.axis("off")
    page.plot("figure7", figure, "STS-B test: 5 (1 - arccos(cos) / pi) against people's scores, with density")


def _cqa(page: Page, judge: Judge, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Table 6: community question answering")
    page.text(
        "MAP on SemEval CQA, subtask B. The search engine's order is published as 41.85 on test 2017 and 71.35 on dev "
        "of 2016: a check of the scorer."
    )
    rows: list[list[Cell]] = [
        [f"{PAPER} {name}", "", "", values[0] / 100] for name, values in published["rows"].items()
    ]
    found = [(system.label, system.name, judge.scores(system, "cqa") or {}) for system in systems]
    found += [("BM25", "", _baseline(judge, "bm25", "cqa")), ("search engine's order", "", _search_engine(judge))]
    numbers = []
    for label, run, scores in found:
        rows.append([label, run, *(score(scores.get(split), "map") for split in ("dev", "test2017"))])
        numbers.append({"system": label, "run": run, **scores})
    page.table("table6", ["system", "run", "dev", "test 2017"], rows, numbers)


def _search_engine(judge: Judge) -> dict[str, Any]:
    splits = judge.data.cqa or {}
    found = {}
    for name, split in (("dev", "validation"), ("test2017", "test2017")):
        if split in splits and None not in splits[split]["rank"]:
            rows = splits[split]
            found[name] = summarize(-np.asarray(rows["rank"], dtype=np.float64), rows)
    return found


def _snli_shares(page: Page, judge: Judge, studies: Sequence[Study], published: Any) -> None:
    for study in studies:
        page.heading(3, "Figure 8: how much of SNLI")
        page.text(
            f"{study.runs[0][1].encoder}; shares of the SNLI training pairs that were to hand, the steps the same.",
            f"The paper: {published['captions_at_10']} on captions with 10 %, flat from {published['flat_from']} %.",
        )
        points = sorted((float(value), system) for value, system in study.runs)
        numbers: list[dict[str, Any]] = []
        for share, system in points:
            if scores := judge.scores(system, "stsb"):
                pairs = system.results.get("run", {}).get("rows", {}).get("snli", 0)
                numbers.append({"share": share, "training_pairs": pairs, **scores})
        rows = [
            [point["share"], point["training_pairs"],
             *(point[split][genre]["pearson"] for split in ("dev", "test") for genre in ("all", "captions"))]
            for point in numbers
        ]  # fmt: skip
        columns = ["share", "pairs", "dev", "dev captions", "test", "test captions"]
        page.table("figure8", columns, rows, numbers)
        figure = Figure(figsize=(6, 4), layout="constrained")
        panel = figure.subplots()
        for column, name in enumerate(columns[2:], start=2):
            panel.plot([row[0] for row in rows], [row[column] for row in rows], "o-", label=name)
        panel.set_xlabel("share of the SNLI training pairs")
        panel.set_ylabel("Pearson's r on STS-B, untuned")
        panel.legend()
        page.plot("figure8", figure, "Pearson's r against the share of SNLI that is used")


def _attention(page: Page, judge: Judge, systems: Sequence[System]) -> None:
    assert judge.data.stsb is not None
    if not systems:
        return
    page.heading(3, "What attention looks at")
    page.text(
        "Share of a layer's attention that goes to words so far away, mean over heads and words of the sentences of "
        "STS-B dev, and its mean distance; uniform is the same share for all words of a sentence. The paper saw near "
        "words in the first layer, further ones in higher ones."
    )
    pairs = judge.data.stsb["validation"]
    sentences = list(dict.fromkeys([*pairs["sentence1"], *pairs["sentence2"]]))
    rows: list[list[Cell]] = []
    numbers: dict[str, Any] = {}
    for system in systems:

        def measure(shares: Callable[..., Any], system: System = system) -> Any:
            return shares(judge.encoder(system), sentences)

        layers = judge.keep(system, "attention", partial(measure, attention_by_distance))
        uniform = judge.keep(system, "attention_uniform", partial(measure, uniform_by_distance))
        numbers[system.name] = {"layers": layers, "uniform": uniform}
        for number, shares in enumerate(layers, start=1):
            rows.append([system.label, system.name, str(number), *_binned(shares)])
        rows.append([system.label, system.name, "uniform", *_binned(uniform)])
    page.table("attention", ["system", "run", "layer", *DISTANCES, "mean distance"], rows, numbers)


def _binned(shares: list[float]) -> list[float]:
    ends = [0, 1, 2, 3, 5, 9, len(shares)]
    bins = [sum(shares[start:end]) for start, end in pairwise(ends)]
    return [*bins, sum(distance * share for distance, share in enumerate(shares))]


def _overlap(page: Page, judge: Judge, published: Any) -> None:
    assert judge.data.stsb is not None and judge.data.snli is not None
    if "train" not in judge.data.snli:
        return
    page.heading(3, "Footnote 9: STS-B pairs that are SNLI training pairs")
    train = judge.data.snli["train"]
    found = snli_overlap(judge.data.stsb, train)
    page.text(f"Among {len(train):,} SNLI training pairs; the paper, among 550,152: the first column.")
    rows: list[list[Cell]] = [
        [name, published["pairs"][name], part["pairs"], part["sentences"], part["of"]] for name, part in found.items()
    ]
    page.table("overlap", ["split", f"{PAPER} pairs", "pairs", "pairs with a sentence in SNLI", "of"], rows,
               {"training_pairs": len(train), **found})  # fmt: skip
