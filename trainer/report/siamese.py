"""The tables of Siamese CBOW (Kenter et al., 2016): our systems next to the published rows."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from modeling_convsim.modeling_averaging import AveragingModel
from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation
from trainer.evaluation.similarity import cosine
from trainer.report.measurements import Measurements
from trainer.report.page import Cell, Page
from trainer.report.plan import BOTH, CONVERSATIONS, NEIGHBORS, WORDS
from trainer.report.systems import System

SIGNIFICANT = 0.0001  # section 3.3
DAGGER = "†"
MIN_POINTS = 5  # of a curve
MARKERS = "osD^vX"
LINE_STYLES = ("-", "--", ":")
COMMON_WORDS = 1_000  # the most frequent words, whose norms are compared
LISTED_WORDS = 10

Correlations = Mapping[str, Mapping[str, float]]  # "YEAR NAME" of a dataset -> "pearson", "spearman"


def write_siamese(page: Page, measurements: Measurements, published: Any) -> None:
    """Write all tables and figures that the systems and the data allow."""
    if "sts" not in measurements.data:
        return
    page.heading(2, "Siamese CBOW (Kenter et al., 2016)")
    known = [f"{year} {name}" for year, names in published["table1"]["sets"].items() for name in names]
    sets = [key for key in known if key in measurements.sts_gold()]
    if missing := [key for key in known if key not in sets]:
        page.text(f"Results cover {len(sets)} of the paper's {len(known)} datasets; missing: {', '.join(missing)}.")
    systems = measurements.systems
    averages = [system for system in systems if system.role == NEIGHBORS]
    averages += [system for system in systems if system.role == WORDS]
    encoders = [system for system in systems if system.role in (CONVERSATIONS, BOTH) and system.is_plain]
    correlations = {each.name: _correlate(measurements, each, sets) for each in [*averages, *encoders]}
    _table1(page, measurements, averages, encoders, correlations)
    _published_table1(page, averages, correlations, sets, published)
    write_curves(page, averages, sets)
    for setting, study in measurements.studies.items():
        if setting == "learning_rate":
            write_learning_rates(page, study)
        elif setting == "negatives" or setting.endswith("embedding_size"):
            runs = sorted(study, key=lambda run: float(run[0]))
            pearson = {
                value: {key: each["pearson"] for key, each in _correlate(measurements, system, sets).items()}
                for value, system in runs
            }
            figure = ("figure3", "negative examples") if setting == "negatives" else ("figure4", "dimensions")
            write_set_scores(page, *figure, pearson)
    _times(page, measurements, [*averages, *encoders], published["table3"])
    write_word_norms(page, measurements, averages, published["words"])


def _correlate(measurements: Measurements, system: System, sets: Sequence[str]) -> dict[str, dict[str, float]]:
    """Pearson's and Spearman's r of a system's cosines with the gold scores of each dataset."""
    scores, gold = measurements.sts_scores(system), measurements.sts_gold()
    return {key: sts_correlation(scores[key], gold[key]) for key in sets}


def _table1(
    page: Page, measurements: Measurements, averages: Sequence[System], encoders: Sequence[System],
    correlations: Mapping[str, Correlations],
) -> None:  # fmt: skip
    """A table for each collection of training texts, and one for encoders trained on conversations."""
    page.heading(3, "Table 1: the SemEval datasets")
    page.text(
        "Pearson's r (Spearman's ρ in parentheses) of the cosine with the gold scores. No system is trained on these "
        "datasets. The best Pearson's r in each row is bold."
    )
    page.values["siamese_table1"] = []
    references = [system for system in averages if system.method == "cbow"]
    for sources in dict.fromkeys(system.sources for system in averages):
        group = [system for system in averages if system.sources == sources]
        page.text(f"**Word vectors trained on: {sources}**")
        reference = next((system for system in references if system.sources == sources), None)
        _set_table(page, measurements, group, reference, correlations)
    if encoders:
        page.text("**Encoders trained on conversations**")
        _set_table(page, measurements, encoders, next(iter(references), None), correlations)


def wilcoxon(scores: np.ndarray, others: np.ndarray) -> float:
    """p of the two-sided signed-rank test on the scores (pairs,) of two systems; 1 if all scores are equal."""
    return 1.0 if np.array_equal(scores, others) else float(stats.wilcoxon(scores, others).pvalue)


def _set_table(
    page: Page, measurements: Measurements, systems: Sequence[System], reference: System | None,
    correlations: Mapping[str, Correlations],
) -> None:  # fmt: skip
    """A row for each dataset and for the means, a column for each system; a mark where it differs from `reference`."""
    p_values: dict[str, dict[str, float]] = {}
    sets = list(correlations[systems[0].name])
    if reference:
        page.text(
            f"{DAGGER}: the scores differ significantly from those of `{reference.name}` (Wilcoxon's signed-rank test, "
            f"p < {SIGNIFICANT:g})."
        )
        theirs = measurements.sts_scores(reference)
        for system in (system for system in systems if system is not reference):
            ours = measurements.sts_scores(system)
            p_values[system.name] = {key: wilcoxon(ours[key], theirs[key]) for key in sets}
    rows: list[list[Cell]] = []
    for key in sets:
        best = max(correlations[system.name][key]["pearson"] for system in systems)
        rows.append([key, *(
            _format_set_cell(correlations[system.name][key], best, p_values.get(system.name, {}).get(key, 1))
            for system in systems
        )])  # fmt: skip
    for year in [*dict.fromkeys(key.split()[0] for key in sets), "all"]:
        keys = [key for key in sets if year in (key.split()[0], "all")]
        means = [_format_mean([correlations[system.name][key] for key in keys]) for system in systems]
        rows.append([f"*mean of {year}*", *means])
    values = [
        {
            "system": system.label,
            "run": system.name,
            "trained_on": system.role,
            "method": system.method or None,
            "sources": system.sources,
            "sets": correlations[system.name],
            "p": p_values.get(system.name, {}),
        }
        for system in systems
    ]
    columns = ["dataset", *(f"{system.label}, `{system.name}`" for system in systems)]
    page.table("siamese_table1", columns, rows, [*page.values["siamese_table1"], *values])


def _format_set_cell(scores: Mapping[str, float], best: float, p: float) -> str:
    pearson = f"{scores['pearson']:.4f}"
    pearson = f"**{pearson}**" if scores["pearson"] == best else pearson
    return f"{pearson}{DAGGER if p < SIGNIFICANT else ''} ({scores['spearman']:.4f})"


def _format_mean(scores: Sequence[Mapping[str, float]]) -> str:
    pearson, spearman = (np.mean([each[name] for each in scores]) for name in ("pearson", "spearman"))
    return f"{pearson:.4f} ({spearman:.4f})"


def _published_table1(
    page: Page, systems: Sequence[System], correlations: Mapping[str, Correlations], sets: Sequence[str],
    published: Any,
) -> None:  # fmt: skip
    """Pearson's r of the published systems, each next to our first one from the first collection of texts."""
    table1, table2 = published["table1"], published["table2"]
    ours: dict[str | None, System] = {}
    for system in (system for system in systems if system.sources == systems[0].sources):
        ours.setdefault("siamese_cbow" if system.role == NEIGHBORS else system.method, system)
    columns: dict[str, list[float | None]] = {}
    keys = [key.split() for key in sets]
    for index, (kind, name) in enumerate(zip(table1["systems"], table1["system_names"], strict=True)):
        columns[f"the paper: {name}"] = [table1["sets"][year][each]["pearson"][index] for year, each in keys]
        if counterpart := ours.get(kind):
            columns[f"ours: {name}"] = [correlations[counterpart.name][key]["pearson"] for key in sets]
    columns[f"the paper (table 2): {table2['system_names'][0]}"] = [
        table2["sets"].get(year, {}).get(each, {}).get("pearson", [None])[0] for year, each in keys
    ]
    page.text(
        "Our Pearson's r next to the published results; the paper trains on 74 million sentences. For skip-thought and "
        "FastSent, there are only published results. The published results for 2015 look as if blank lines in the gold "
        "files had shifted the scores after them."
    )
    rows: list[list[Cell]] = [[key, *values] for key, *values in zip(sets, *columns.values(), strict=True)]
    page.table("siamese_published", ["dataset", *columns], rows, columns)


def _times(page: Page, measurements: Measurements, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Table 3: encoding time")
    sets = [rows for names in measurements.data["sts"].values() for rows in names.values()]
    pairs = [pair for rows in sets for pair in zip(rows["sentence1"], rows["sentence2"], strict=True)]
    page.text(
        f"Time to encode and compare {len(pairs):,} pairs (all scored pairs in the data), one pair at a time, without "
        f"loading the model. The paper's times are for {published['pairs']:,} pairs on another machine."
    )
    rows: list[list[Cell]] = [
        [f"the paper: {name}", "", f"{values[0]:.1f}", f"{1000 * values[1]:.1f}"]
        for name, values in published["rows"].items()
    ]

    def measure(system: System) -> float:
        encoder = measurements.encoder(system)
        started = time.perf_counter()
        for pair in pairs:
            vectors = encoder.encode(pair)
            cosine(vectors[:1], vectors[1:])
        return time.perf_counter() - started

    kinds: dict[str, System] = {}  # the first system of each kind
    for system in systems:
        kinds.setdefault(system.role if system.role in (WORDS, NEIGHBORS) else system.encoder, system)
    values = {}
    for system in kinds.values():
        seconds = measurements.cached(system, "seconds_one_by_one", partial(measure, system))
        values[system.name] = seconds
        rows.append([system.label, system.name, f"{seconds:.1f}", f"{1000 * seconds / len(pairs):.2f}"])
    page.table("siamese_table3", ["system", "run", "all pairs (s)", "one pair (ms)"], rows, values)


# -- figures ----------------------------------------------------------------------------------------------------------


def write_curves(page: Page, systems: Sequence[System], sets: Sequence[str]) -> None:
    """Figure 2: Pearson's r on each dataset during training, of the first run that was evaluated often enough."""
    for system in systems:
        points = [row for row in system.metrics if "sts" in row.get("dev", {})]
        if system.role == NEIGHBORS and len(points) >= MIN_POINTS:
            break
    else:
        return
    seen = [row["step"] * system.settings["batch_size"] for row in points]
    curves = {
        key: [row["dev"]["sts"][year][name]["pearson"] for row in points]
        for key, (year, name) in ((key, key.split()) for key in sets)
    }
    page.heading(3, f"Figure 2: Pearson's r during training, `{system.name}`")
    page.values["figure2"] = {"run": system.name, "seen": seen, "curves": curves}
    figure = Figure(figsize=(8, 5), layout="constrained")
    panel = figure.subplots()
    for number, (name, curve) in enumerate(curves.items()):
        panel.plot(seen, curve, LINE_STYLES[number // 10], color=f"C{number % 10}", label=name, linewidth=1.2)
    panel.set_xlabel("sentences seen")
    panel.set_ylabel("Pearson's r")
    panel.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    epochs = system.settings.get("epochs") or 1
    page.plot("figure2", figure, f"Pearson's r on each dataset during {epochs} epochs")


def write_set_scores(page: Page, name: str, title: str, pearson: Mapping[str, Mapping[str, float]]) -> None:
    """A figure such as `figure3`: Pearson's r on each dataset for each value of a setting.

    Args:
        page: the page.
        name: the figure.
        title: what the setting counts.
        pearson: value of the setting -> dataset -> Pearson's r.
    """
    page.heading(3, f"Figure {name[-1]}: {title}")
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    panel = figure.subplots()
    sets = list(next(iter(pearson.values())))
    for number, (value, scores) in enumerate(pearson.items()):
        panel.plot(list(scores.values()), MARKERS[number % len(MARKERS)], label=value, markersize=5)
    panel.set_xticks(range(len(sets)), sets, rotation=60, ha="right", fontsize=7)
    panel.set_ylabel("Pearson's r")
    panel.grid(axis="x", linewidth=0.3)
    panel.legend(title=title, fontsize=7)
    page.plot(name, figure, f"Pearson's r on each dataset by number of {title}")
    rows: list[list[Cell]] = [[value, float(np.mean(list(scores.values())))] for value, scores in pearson.items()]
    page.table(name, [title, "mean Pearson's r over the datasets"], rows, pearson)


def write_learning_rates(page: Page, study: Sequence[tuple[str, System]]) -> None:
    """A table of the training loss by learning rate."""
    page.heading(3, "The learning rate")
    page.text(
        "The paper selects its learning rate, 0.0001, by the training loss (section 3.4), and so do we. The table "
        "shows the mean loss over the last tenth of training. With fewer sentences, a higher learning rate is needed."
    )
    rows: list[list[Cell]] = []
    values = {}
    for value, system in sorted(study, key=lambda run: float(run[0])):
        losses = [
            next(loss for name, loss in row.items() if name.endswith("/loss"))
            for row in system.metrics
            if "dev" not in row
        ]
        values[value] = float(np.mean(losses[-max(1, len(losses) // 10) :]))
        rows.append([value, f"{values[value]:.4f}"])
    page.table("learning_rate", ["learning rate", "training loss"], rows, values)


# -- section 4.4: norms of words --------------------------------------------------------------------------------------


def write_word_norms(page: Page, measurements: Measurements, systems: Sequence[System], published: Any) -> None:
    """The words of Siamese CBOW with the smallest and the largest norms; nothing without Siamese CBOW."""
    system = next((each for each in systems if each.role == NEIGHBORS), None)
    if system is None:
        return
    page.heading(3, "Section 4.4: word norms")
    norms = measurements.cached(system, "norms_of_words", lambda: _measure_norms(measurements.encoder(system)))
    page.text(f"Words with the smallest and largest norms among the {COMMON_WORDS:,} most frequent, `{system.name}`:")
    rows: list[list[Cell]] = [
        [kind, ", ".join(norms[kind]), ", ".join(published[f"{kind}_norms"])] for kind in ("smallest", "largest")
    ]
    page.table("norms", ["norm", "ours", "the paper"], rows, norms)


def _measure_norms(encoder: Any) -> dict[str, list[str]]:
    """The words with the `smallest` and the `largest` norms.

    Words have ids in the order of their frequency. Special tokens and words without a vector are left out.
    """
    matrix = cast(AveragingModel, encoder.model).encoder_weight("embed_tokens")  # (words, dimensions)
    words = {index: word for word, index in encoder.tokenizer.vocabulary.items()}
    special = encoder.tokenizer.special_ids
    ids = [index for index in range(len(matrix)) if index not in special and matrix[index].any()]
    common = [index for index in ids if words[index].isalpha()][:COMMON_WORDS]
    order = np.argsort(np.linalg.norm(matrix[common], axis=1), kind="stable")
    by_norm = [words[common[index]] for index in order]
    return {"smallest": by_norm[:LISTED_WORDS], "largest": by_norm[-LISTED_WORDS:]}
