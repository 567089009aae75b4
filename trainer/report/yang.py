"""The tables of Yang et al. (2018): our systems next to the published rows."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from trainer.evaluation.baselines import BASELINES, LABELS
from trainer.evaluation.cqa import summarize as summarize_cqa
from trainer.evaluation.similarity import angular, cosine, encode_pairs, to_gold_scale
from trainer.report.measurements import Measurements
from trainer.report.page import Cell, Page, format_score
from trainer.report.plan import BOTH, CONVERSATIONS, NEIGHBORS, SNLI, WORDS
from trainer.report.systems import System

PAPER = "the paper:"
GENRES = ("all", "captions", "forums", "news")


def write_yang(page: Page, measurements: Measurements, published: Any) -> None:
    """Write all tables and figures that the systems and the data allow."""
    data = measurements.data
    sentence_encoders = [system for system in measurements.systems if _is_sentence_encoder(system)]
    page.heading(2, "Learning Semantic Textual Similarity from Conversations (Yang et al., 2018)")
    if "pairs" in data:
        _response_prediction(page, measurements, published["table1"])
    if "snli" in data:
        _snli(page, measurements, published["table2"])
    if "stsb" in data:
        _stsb(page, measurements, published)
        _examples(page, measurements, sentence_encoders, published["table5"])
        write_scatter(page, measurements, sentence_encoders)
    if "cqa" in data:
        _cqa(page, measurements, published["table6"])
    if "stsb" in data and (study := measurements.studies.get("snli_share")):
        write_snli_shares(page, measurements, study, published["figure8"])


def _is_sentence_encoder(system: System) -> bool:
    return system.role not in (WORDS, NEIGHBORS)


def _published_rows(table: Any, format_values: Callable[[list[float]], list[Any]]) -> list[list[Cell]]:
    return [[f"{PAPER} {name}", "", *format_values(values)] for name, values in table["rows"].items()]


def _response_prediction(page: Page, measurements: Measurements, published: Any) -> None:
    page.heading(3, "Table 1: response prediction")
    page.text(
        "The true response is ranked among 100 candidates. Our systems rank the same candidates for the same held-out "
        "inputs; brackets are 95% bootstrap intervals. The paper evaluated on other conversations."
    )
    columns = ("p_at_1", "p_at_3", "p_at_10")
    scored = [
        (system.label, system.name, measurements.scores(system, "response_prediction"))
        for system in measurements.systems
        if system.role in (CONVERSATIONS, BOTH)
    ]
    scored += [(LABELS[name], "", measurements.baseline_scores(name, "response_prediction")) for name in BASELINES]
    rows = _published_rows(published, lambda values: [value / 100 for value in values])
    values: list[dict[str, Any]] = []
    for label, run, scores in scored:
        if scores:
            rows.append([label, run, *(format_score(scores, column) for column in columns)])
            values.append({"system": label, "run": run, **scores})
    page.table("table1", ["system", "run", "P@1", "P@3", "P@10"], rows, values)


def _snli(page: Page, measurements: Measurements, published: Any) -> None:
    page.heading(3, "Table 2: SNLI")
    page.text(
        "Test accuracy. The paper trains on all of SNLI; the last column is the number of pairs that we train on.",
        "Training on SNLI alone corresponds to footnote 6 of the paper.",
    )
    rows = _published_rows(published, lambda values: [values[0] / 100, ""])
    values = []
    for system in measurements.systems:
        if system.role in (SNLI, BOTH) and (scores := measurements.scores(system, "snli")):
            pairs = system.results.get("run", {}).get("rows", {}).get("snli")
            rows.append([system.label, system.name, format_score(scores, "accuracy"), pairs])
            values.append({"system": system.label, "run": system.name, "training_pairs": pairs, **scores})
    page.table("table2", ["system", "run", "accuracy", "training pairs"], rows, values)


def _stsb(page: Page, measurements: Measurements, published: Any) -> None:
    page.heading(3, "Tables 3 and 4: the STS Benchmark")
    page.text(
        "Pearson's r with its 95% bootstrap interval / Spearman's ρ. The score is -arccos(cos). For tuned scores, the "
        "embeddings are multiplied by a matrix that is trained on STS-B's train split, with early stopping on dev."
    )
    rows: list[list[Cell]] = []
    for part in ("rows", "neural", "mixed"):
        rows += [[f"{PAPER} {name}", "", *values] for name, values in published["table3"][part].items()]
    genre_rows = [[f"{PAPER} {name}", "", *splits["test"]] for name, splits in published["table4"]["rows"].items()]
    values = []
    for system in measurements.systems:
        described = {"run": system.name, "trained_on": system.role, "encoder": system.encoder}
        if scores := measurements.scores(system, "stsb"):
            values.append({"system": system.label, **described, "tuned": False, **scores})
        if _is_sentence_encoder(system) and (scores := measurements.scores(system, "stsb_tuned")):
            values.append({"system": f"{system.label} tuned", **described, "tuned": True, **scores})
    for value in values:
        label = [value["system"], value["run"]]
        rows.append([*label, *(_correlations(value[split]["all"]) for split in ("dev", "test"))])
        genre_rows.append([*label, *(_correlations(value["test"].get(genre)) for genre in GENRES)])
    page.table("table3", ["system", "run", "dev", "test"], rows, values)
    page.text("Test results by genre; report.json also has the dev results.")
    page.table("table4", ["system", "run", *GENRES], genre_rows)


def _correlations(scores: Any) -> str:
    return format_score(scores, "pearson", "spearman")


def _examples(page: Page, measurements: Measurements, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Table 5: example pairs")
    page.text("The score -arccos(cos), between -pi and 0, of the sentence pairs in the paper's table 5.")
    pairs = published["rows"]
    first, second = ([pair[side] for pair in pairs] for side in ("sentence1", "sentence2"))

    def measure(system: System) -> list[float]:
        return angular(cosine(*encode_pairs(measurements.encoder(system), first, second))).tolist()

    columns = {system.name: measurements.cached(system, "table5", partial(measure, system)) for system in systems}
    rows = [
        [f"{pair['sentence1']} / {pair['sentence2']}", f"{pair['label']:.1f}", pair["score"], *scores]
        for pair, *scores in zip(pairs, *columns.values(), strict=True)
    ]
    page.table("table5", ["pair", "label", PAPER.rstrip(":"), *columns], rows, columns)


def _cqa(page: Page, measurements: Measurements, published: Any) -> None:
    page.heading(3, "Table 6: community question answering")
    page.text(
        "MAP on SemEval CQA, subtask B. To check our scorer, compare the last row with the published MAP of the search "
        "engine's order: 41.85 on test 2017 and 71.35 on dev 2016."
    )
    rows = _published_rows(published, lambda values: ["", values[0] / 100])
    scored = [(system.label, system.name, measurements.scores(system, "cqa") or {}) for system in measurements.systems]
    scored.append((LABELS["bm25"], "", measurements.baseline_scores("bm25", "cqa")))
    scored.append(("search engine's order", "", _score_search_engine(measurements.data["cqa"])))
    values = []
    for label, run, scores in scored:
        rows.append([label, run, *(format_score(scores.get(split), "map") for split in ("dev", "test2017"))])
        values.append({"system": label, "run": run, **scores})
    page.table("table6", ["system", "run", "dev", "test 2017"], rows, values)


def _score_search_engine(cqa: Any) -> dict[str, Any]:
    """MAP of the order in which the search engine found the candidates, by split."""
    scores = {}
    for name, split in (("dev", "validation"), ("test2017", "test2017")):
        if split in cqa and None not in cqa[split]["rank"]:
            candidates = cqa[split]
            scores[name] = summarize_cqa(-np.asarray(candidates["rank"], dtype=np.float64), candidates)
    return scores


def write_scatter(page: Page, measurements: Measurements, systems: Sequence[System]) -> None:
    """Figure 7: predicted against gold scores of STS-B test, a panel for each system."""
    stsb = measurements.data["stsb"]
    if "test" not in stsb or not systems:
        return
    page.heading(3, "Figure 7: predicted and gold scores")
    gold = np.asarray(stsb["test"]["score"])
    columns = min(3, len(systems))
    rows = -(-len(systems) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.6 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for panel, system in zip(panels, systems, strict=False):
        predicted = to_gold_scale(measurements.stsb_scores(system))
        density = panel.hexbin(gold, predicted, gridsize=28, cmap="viridis", mincnt=1)
        figure.colorbar(density, ax=panel, label="pairs")
        panel.set_title(f"{system.label}\nr = {np.corrcoef(predicted, gold)[0, 1]:.3f}", fontsize=9)
        panel.set_xlabel("gold")
        panel.set_ylabel("predicted")
    for panel in panels[len(systems) :]:
        panel.axis("off")
    page.plot("figure7", figure, "STS-B test: predicted score, 5 (1 - arccos(cos) / pi), against gold score")


def write_snli_shares(
    page: Page, measurements: Measurements, study: Sequence[tuple[str, System]], published: Any
) -> None:
    """Figure 8: STS-B against the share of SNLI that the model was trained on."""
    page.heading(3, "Figure 8: effect of the share of SNLI")
    page.text(
        f"Each run trains the encoder (`{study[0][1].settings['model_type']}`) for the same number of steps on a share "
        "of the available SNLI training pairs.",
        f"In the paper, r on captions is around {published['captions_at_10']} with 10% of SNLI; the curves flatten "
        f"after {published['flat_from']}%.",
    )
    values: list[dict[str, Any]] = []
    for share, system in sorted(((float(value), system) for value, system in study), key=itemgetter(0)):
        if scores := measurements.scores(system, "stsb"):
            pairs = system.results.get("run", {}).get("rows", {}).get("snli", 0)
            values.append({"share": share, "run": system.name, "training_pairs": pairs, **scores})
    curves = {
        f"{split} {genre}".removesuffix(" all"): [value[split][genre]["pearson"] for value in values]
        for split in ("dev", "test")
        for genre in ("all", "captions")
    }
    shares, pairs = ([value[key] for value in values] for key in ("share", "training_pairs"))
    rows = [list(row) for row in zip(shares, pairs, *curves.values(), strict=True)]
    page.table("figure8", ["share", "pairs", *curves], rows, values)
    figure = Figure(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    for name, curve in curves.items():
        panel.plot(shares, curve, "o-", label=name)
    panel.set_xlabel("share of the SNLI training pairs")
    panel.set_ylabel("Pearson's r on STS-B, untuned")
    panel.legend()
    page.plot("figure8", figure, "Pearson's r against the share of SNLI used for training")
