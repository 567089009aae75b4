"""The tables of Siamese CBOW (Kenter et al., 2016): our systems beside the published rows."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation
from trainer.evaluation.similarity import cosine
from trainer.evaluation.sts_statistics import sts_set_statistics, wilcoxon
from trainer.report.labels import BOTH, CONVERSATIONS, NEIGHBORS, WORDS
from trainer.report.measurements import Measurements
from trainer.report.page import Cell, Page
from trainer.report.siamese_figures import write_curves, write_learning_rates, write_set_scores
from trainer.report.systems import Sweep, System
from trainer.report.word_norms import write_word_norms

SIGNIFICANT = 0.0001  # section 3.3
DAGGER = "†"

SetKey = tuple[str, str]  # year, name
Correlations = Mapping[SetKey, Mapping[str, float]]  # dataset -> "pearson", "spearman"


def write_siamese(
    page: Page, measurements: Measurements, systems: Sequence[System], sweeps: Sequence[Sweep], published: Any
) -> None:
    """Write all tables and figures that the systems and the data allow."""
    if "sts" not in measurements.data:
        return
    page.heading(2, "Siamese CBOW (Kenter et al., 2016)")
    sets = _find_sets(page, measurements, published["table1"])
    averages = [system for system in systems if system.trained_on == NEIGHBORS]
    averages += [system for system in systems if system.trained_on == WORDS]
    encoders = [system for system in systems if system.trained_on in (CONVERSATIONS, BOTH) and system.is_plain]
    correlations = {system.name: correlate_with_gold(measurements, system, sets) for system in [*averages, *encoders]}
    _table1(page, measurements, averages, encoders, correlations, sets)
    _published_table1(page, averages, correlations, sets, published)
    _set_statistics(page, measurements, sets, published["sets"])
    write_curves(page, averages, sets)
    for sweep in sweeps:
        _sweep(page, measurements, sweep, sets)
    _times(page, measurements, [*averages, *encoders], published["table3"])
    write_word_norms(page, measurements, averages, published["words"])


def _find_sets(page: Page, measurements: Measurements, published: Any) -> list[SetKey]:
    """The paper's datasets that are in the data; the page names the missing ones."""
    sets = [(year, name) for year, names in published["sets"].items() for name in names]
    available = [(year, name) for year, name in sets if name in measurements.data["sts"].get(year, {})]
    if missing := [f"{year} {name}" for year, name in sets if (year, name) not in available]:
        page.text(f"{len(available)} of the paper's {len(sets)} datasets; missing: {', '.join(missing)}.")
    return available


def correlate_with_gold(
    measurements: Measurements, system: System, sets: Sequence[SetKey]
) -> dict[SetKey, dict[str, float]]:
    """Pearson's and Spearman's r of a system's cosines with the gold scores of each dataset."""
    scores = measurements.sts_scores(system)
    return {
        (year, name): sts_correlation(scores[year, name], np.asarray(measurements.data["sts"][year][name]["score"]))
        for year, name in sets
    }


def _table1(
    page: Page, measurements: Measurements, averages: Sequence[System], encoders: Sequence[System],
    correlations: Mapping[str, Correlations], sets: Sequence[SetKey],
) -> None:  # fmt: skip
    """A table for each collection of training texts, and one for encoders of conversations."""
    page.heading(3, "Table 1: the SemEval datasets")
    page.text(
        "Pearson's r (Spearman's) of the cosine with the gold scores. No system is trained on these datasets. The "
        "best Pearson's r of a row is bold."
    )
    page.values["siamese_table1"] = []
    references = [system for system in averages if system.method == "cbow"]
    for sources in dict.fromkeys(system.sources for system in averages):
        group = [system for system in averages if system.sources == sources]
        reference = next((system for system in references if system.sources == sources), None)
        page.text(f"**From the same texts: {sources}**")
        _set_table(page, group, correlations, sets, _test_differences(page, measurements, group, reference, sets))
    if encoders:
        page.text("**Encoders of conversations**")
        reference = next(iter(references), None)
        p_values = _test_differences(page, measurements, encoders, reference, sets)
        _set_table(page, encoders, correlations, sets, p_values)


def _test_differences(
    page: Page, measurements: Measurements, systems: Sequence[System], reference: System | None, sets: Sequence[SetKey]
) -> dict[str, dict[SetKey, float]]:
    """System -> p of each dataset, by Wilcoxon's test against a reference system; the page explains the mark."""
    if reference is None:
        return {}
    page.text(
        f"{DAGGER}: the scores differ from those of `{reference.name}` by Wilcoxon's signed-rank test, "
        f"p < {SIGNIFICANT:g}."
    )
    theirs = measurements.sts_scores(reference)
    p_values = {}
    for system in systems:
        if system is not reference:
            ours = measurements.sts_scores(system)
            p_values[system.name] = {key: wilcoxon(ours[key], theirs[key]) for key in sets}
    return p_values


def _set_table(
    page: Page, systems: Sequence[System], correlations: Mapping[str, Correlations], sets: Sequence[SetKey],
    p_values: Mapping[str, Mapping[SetKey, float]],
) -> None:  # fmt: skip
    """A row for each dataset and for the means, a column for each system."""
    rows: list[list[Cell]] = []
    for key in sets:
        best = max(correlations[system.name][key]["pearson"] for system in systems)
        cells = [
            _format_set_cell(correlations[system.name][key], best, p_values.get(system.name, {}).get(key, 1))
            for system in systems
        ]
        rows.append([" ".join(key), *cells])
    for year in [*dict.fromkeys(year for year, _ in sets), None]:
        keys = [key for key in sets if year in (key[0], None)]
        means = [_format_mean([correlations[system.name][key] for key in keys]) for system in systems]
        rows.append([f"*mean of {year or 'all'}*", *means])
    values = [
        {
            "system": system.label,
            "run": system.name,
            "trained_on": system.trained_on,
            "method": system.method,
            "sources": system.sources,
            "sets": {" ".join(key): scores for key, scores in correlations[system.name].items()},
            "p": {" ".join(key): p for key, p in p_values.get(system.name, {}).items()},
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
    page: Page, systems: Sequence[System], correlations: Mapping[str, Correlations], sets: Sequence[SetKey],
    published: Any,
) -> None:  # fmt: skip
    """Pearson's r of the published systems, each beside ours from the first collection of texts."""
    table1, table2 = published["table1"], published["table2"]
    ours = _our_counterparts(systems)
    columns: dict[str, list[float | None]] = {}
    for index, (kind, name) in enumerate(zip(table1["systems"], table1["system_names"], strict=True)):
        columns[f"the paper: {name}"] = [table1["sets"][year][each]["pearson"][index] for year, each in sets]
        if system := ours.get(kind):
            columns[f"ours: {name}"] = [correlations[system.name][key]["pearson"] for key in sets]
    columns[f"the paper (table 2): {table2['system_names'][0]}"] = [
        table2["sets"].get(year, {}).get(each, {}).get("pearson", [None])[0] for year, each in sets
    ]
    page.text(
        "Pearson's r beside the published results, which are from 74 million sentences. Skip-thought and FastSent have "
        "published results only. The published results of 2015 look as if blank gold lines had shifted the lines after "
        "them."
    )
    rows: list[list[Cell]] = [[" ".join(key), *values] for key, *values in zip(sets, *columns.values(), strict=True)]
    page.table("siamese_published", ["dataset", *columns], rows, columns)


def _our_counterparts(systems: Sequence[System]) -> dict[str, System]:
    """Published system -> our first one from the same texts as the first of `systems`."""
    same_texts = [system for system in systems if system.sources == systems[0].sources]
    counterparts: dict[str, System] = {}
    for system in same_texts:
        if system.method in ("skip_gram", "cbow"):
            counterparts.setdefault(system.method, system)
        elif system.trained_on == NEIGHBORS:
            counterparts.setdefault("siamese_cbow", system)
    return counterparts


def _set_statistics(page: Page, measurements: Measurements, sets: Sequence[SetKey], published: Any) -> None:
    page.heading(3, "Statistics of the datasets")
    page.text(
        "Words in a sentence, and lexical overlap: the Jaccard index of the distinct words of two sentences. Only "
        "scored pairs count here; the paper's overlaps include unscored pairs, and the paper does not define overlap."
    )
    statistics = sts_set_statistics(measurements.data["sts"])
    rows: list[list[Cell]] = []
    for year, name in sets:
        part = statistics[year][name]
        length, overlap = (published[kind].get(year, {}).get(name) for kind in ("length", "overlap"))
        rows.append(
            [
                f"{year} {name}",
                int(part["pairs"]),
                f"{part['length']:.2f} ± {part['length_deviation']:.2f}",
                f"{length:.2f}" if length else "",
                f"{100 * part['overlap']:.0f} %",
                f"{overlap} %" if overlap else "",
            ]
        )
    columns = ["dataset", "pairs", "words", "the paper", "overlap", "the paper"]
    page.table("sets", columns, rows, {f"{year} {name}": statistics[year][name] for year, name in sets})


def _sweep(page: Page, measurements: Measurements, sweep: Sweep, sets: Sequence[SetKey]) -> None:
    """The figure or table of a sweep over a setting of the paper."""
    if sweep.setting == "learning_rate":
        write_learning_rates(page, sweep)
        return
    if sweep.setting == "negatives":
        figure, title = "figure3", "negative examples"
    elif sweep.setting.endswith("embedding_size"):
        figure, title = "figure4", "dimensions"
    else:
        return
    runs = sorted(sweep.runs, key=lambda run: float(run[0]))
    pearson = {
        value: {" ".join(key): scores["pearson"] for key, scores in
                correlate_with_gold(measurements, system, sets).items()}
        for value, system in runs
    }  # fmt: skip
    write_set_scores(page, figure, title, pearson)


def _times(page: Page, measurements: Measurements, systems: Sequence[System], published: Any) -> None:
    page.heading(3, "Table 3: time")
    first, second = (
        [text for names in measurements.data["sts"].values() for pairs in names.values() for text in pairs[side]]
        for side in ("sentence1", "sentence2")
    )
    page.text(
        f"Seconds for {len(first):,} pairs (all scored pairs in the data), one pair at a time, without loading. The "
        f"paper's times are for {published['pairs']:,} pairs on another machine."
    )
    rows: list[list[Cell]] = [
        [f"the paper: {name}", "", f"{values[0]:.1f}", f"{1000 * values[1]:.1f}"]
        for name, values in published["rows"].items()
    ]
    values = {}
    for system in _one_of_each_kind(systems):
        measure = partial(_time_pairs, measurements, system, list(zip(first, second, strict=True)))
        seconds = measurements.cached(system, "seconds_one_by_one", measure)
        values[system.name] = seconds
        rows.append([system.label, system.name, f"{seconds:.1f}", f"{1000 * seconds / len(first):.2f}"])
    page.table("siamese_table3", ["system", "run", "all pairs, s", "one pair, ms"], rows, values)


def _one_of_each_kind(systems: Sequence[System]) -> list[System]:
    """The first system of each kind; PV-DBOW is in no table of times."""
    kinds: dict[str, System] = {}
    for system in systems:
        if system.method != "pv_dbow":
            kinds.setdefault(system.trained_on if system.trained_on in (WORDS, NEIGHBORS) else system.encoder, system)
    return list(kinds.values())


def _time_pairs(measurements: Measurements, system: System, pairs: Sequence[tuple[str, str]]) -> float:
    encoder = measurements.encoder(system)
    started = time.perf_counter()
    for pair in pairs:
        vectors = encoder.encode(pair)
        cosine(vectors[:1], vectors[1:])
    return time.perf_counter() - started
