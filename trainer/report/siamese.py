"""Siamese CBOW (Kenter et al., 2016), table by table: our systems beside the published rows."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from modeling_convsim import ConvSimForMultitask
from modeling_convsim.encoding import Encoder
from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation
from trainer.evaluation.similarity import cosine
from trainer.evaluation.sts_statistics import sts_set_statistics, wilcoxon
from trainer.report.page import Cell, Page
from trainer.report.systems import BOTH, CONVERSATIONS, NEIGHBOURS, WORDS, Judge, Study, System

SIGNIFICANT = 0.0001  # section 3.3
DAGGER = "†"
COMMON = 1_000  # most frequent words, among which norms are compared
KNOWN = 20_000  # most frequent words, among which neighbours are looked for

SetKey = tuple[str, str]


def write(page: Page, judge: Judge, systems: Sequence[System], studies: Sequence[Study], published: Any) -> None:
    """All tables and figures that the systems and the data allow."""
    if judge.data.sts is None:
        return
    page.heading(2, "Siamese CBOW (Kenter et al., 2016)")
    sets = [(year, name) for year, names in published["table1"]["sets"].items() for name in names]
    there = [key for key in sets if key[1] in judge.data.sts.get(key[0], {})]
    if missing := [" ".join(key) for key in sets if key not in there]:
        page.text(f"{len(there)} of the paper's {len(sets)} sets: {', '.join(missing)} is not there.")
    neighbours = [system for system in systems if system.trained_on == NEIGHBOURS]
    compared = [*neighbours, *(system for system in systems if system.trained_on == WORDS)]
    encoders = [system for system in systems if system.trained_on in (CONVERSATIONS, BOTH) and system.is_plain]
    results = {system.name: _correlations(judge, system, there) for system in [*compared, *encoders]}
    page.heading(3, "Table 1: the SemEval sets")
    page.text("Pearson's r (Spearman's) of the cosine with people's scores. Nothing is trained on the sets.")
    references = [system for system in compared if system.method == "cbow"]
    page.numbers["siamese_table1"] = []
    for sources in dict.fromkeys(system.sources for system in compared):
        group = [system for system in compared if system.sources == sources]
        reference = next((system for system in references if system.sources == sources), None)
        page.text(f"**From the same texts: {sources}**")
        _table1(page, judge, group, results, reference, there)
    if encoders:
        page.text("**Encoders of conversations**")
        _table1(page, judge, encoders, results, next(iter(references), None), there)
    _beside_published(page, compared, results, there, published)
    _sets(page, judge, there, published["sets"])
    _during_training(page, compared, there)
    for study in studies:
        if study.key == "negatives":
            _by_setting(page, judge, study, there, "figure3", "negative examples")
        if study.key.endswith("embedding_size"):
            _by_setting(page, judge, study, there, "figure4", "dimensions")
        if study.key == "learning_rate":
            _rates(page, study)
    _times(page, judge, [*compared, *encoders], published["table3"])
    _words(page, judge, compared, published["words"])


def _correlations(judge: Judge, system: System, sets: Sequence[SetKey]) -> dict[SetKey, dict[str, float]]:
    assert judge.data.sts is not None
    scores = judge.sts_scores(system)
    return {
        (year, name): sts_correlation(scores[year, name], np.asarray(judge.data.sts[year][name]["score"]))
        for year, name in sets
    }


def _table1(
    page: Page, judge: Judge, systems: Sequence[System], results: Mapping[str, Mapping[SetKey, Mapping[str, float]]],
    reference: System | None, sets: Sequence[SetKey],
) -> None:  # fmt: skip
    if reference:
        page.text(
            f"{DAGGER}: other scores than `{reference.name}`, by Wilcoxon's signed-rank test, p < {SIGNIFICANT:g}."
        )
    p_values: dict[str, dict[SetKey, float]] = {}
    if reference:
        theirs = judge.sts_scores(reference)
        for system in systems:
            if system is not reference:
                ours = judge.sts_scores(system)
                p_values[system.name] = {key: wilcoxon(ours[key], theirs[key]) for key in sets}
    rows: list[list[Cell]] = []
    for key in sets:
        best = max(results[system.name][key]["pearson"] for system in systems)
        cells = []
        for system in systems:
            found = results[system.name][key]
            text = f"{found['pearson']:.4f}"
            text = f"**{text}**" if found["pearson"] == best else text
            mark = DAGGER if p_values.get(system.name, {}).get(key, 1) < SIGNIFICANT else ""
            cells.append(f"{text}{mark} ({found['spearman']:.4f})")
        rows.append([" ".join(key), *cells])
    for year in [*dict.fromkeys(year for year, _ in sets), None]:
        keys = [key for key in sets if year in (key[0], None)]
        means = [
            " ".join(form.format(np.mean([results[system.name][key][name] for key in keys]))
                     for form, name in (("{:.4f}", "pearson"), ("({:.4f})", "spearman")))
            for system in systems
        ]  # fmt: skip
        rows.append([f"*mean of {year or 'all'}*", *means])
    numbers = [
        {
            "system": system.label,
            "run": system.name,
            "trained_on": system.trained_on,
            "method": system.method,
            "sources": system.sources,
            "sets": {" ".join(key): values for key, values in results[system.name].items()},
            "p": {" ".join(key): value for key, value in p_values.get(system.name, {}).items()},
        }
        for system in systems
    ]
    columns = ["set", *(f"{system.label}, `{system.name}`" for system in systems)]
    page.table("siamese_table1", columns, rows, [*page.numbers["siamese_table1"], *numbers])


def _beside_published(
    page: Page, systems: Sequence[System], results: Mapping[str, Mapping[SetKey, Mapping[str, float]]],
    sets: Sequence[SetKey], published: Any,
) -> None:  # fmt: skip
    table1, table2 = published["table1"], published["table2"]
    first = next(iter(systems), None)
    same_texts = [system for system in systems if first and system.sources == first.sources]
    ours = {
        "skip_gram": next((system for system in same_texts if system.method == "skip_gram"), None),
        "cbow": next((system for system in same_texts if system.method == "cbow"), None),
        "siamese_cbow": next((system for system in same_texts if system.trained_on == NEIGHBOURS), None),
    }
    columns, cells = ["set"], []
    for place, (kind, name) in enumerate(zip(table1["systems"], table1["system_names"], strict=True)):
        columns.append(f"the paper: {name}")
        cells.append([table1["sets"][year][each]["pearson"][place] for year, each in sets])
        if system := ours.get(kind):
            columns.append(f"ours: {name}")
            cells.append([results[system.name][key]["pearson"] for key in sets])
    columns.append(f"the paper (table 2): {table2['system_names'][0]}")
    cells.append([table2["sets"].get(year, {}).get(each, {}).get("pearson", [None])[0] for year, each in sets])
    page.text(
        "Pearson's r beside the published figures, which are from 74 million sentences; skip-thought and FastSent are "
        "published only. Those of 2015 look as if blank gold lines had shifted what follows."
    )
    rows: list[list[Cell]] = [[" ".join(key), *values] for key, *values in zip(sets, *cells, strict=True)]
    page.table("siamese_published", columns, rows, {column: list(values) for column, values in
                                                   zip(columns[1:], cells, strict=True)})  # fmt: skip


def _sets(page: Page, judge: Judge, sets: Sequence[SetKey], published: Any) -> None:
    assert judge.data.sts is not None
    page.heading(3, "The sets")
    page.text(
        "Words of a sentence, and lexical overlap: the share of two sentences' distinct words that both have (Jaccard)."
        " Scored pairs only; the paper's overlaps count unscored ones, and its definition is not told."
    )
    found = sts_set_statistics(judge.data.sts)
    rows: list[list[Cell]] = []
    for year, name in sets:
        part = found[year][name]
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
    columns = ["set", "pairs", "words", "the paper", "overlap", "the paper"]
    page.table("sets", columns, rows, {f"{year} {name}": found[year][name] for year, name in sets})


def _during_training(page: Page, systems: Sequence[System], sets: Sequence[SetKey]) -> None:
    for system in systems:
        points = [row for row in system.metrics if "sts" in row.get("dev", {})]
        if system.trained_on != NEIGHBOURS or len(points) < 5:
            continue
        page.heading(3, f"Figure 2: during training, `{system.name}`")
        seen = [row["step"] * system.settings["batch_size"] for row in points]
        figure = Figure(figsize=(8, 5), layout="constrained")
        panel = figure.subplots()
        curves = {}
        for number, (year, name) in enumerate(sets):
            curve = [row["dev"]["sts"][year][name]["pearson"] for row in points]
            curves[f"{year} {name}"] = curve
            style = ("-", "--", ":")[number // 10]
            panel.plot(seen, curve, style, color=f"C{number % 10}", label=f"{year} {name}", linewidth=1.2)
        panel.set_xlabel("sentences seen")
        panel.set_ylabel("Pearson's r")
        panel.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
        page.numbers["figure2"] = {"run": system.name, "seen": seen, "curves": curves}
        epochs = system.settings.get("epochs") or 1
        page.plot("figure2", figure, f"Pearson's r on each set during {epochs} epochs")
        return  # one such run is enough


def _by_setting(page: Page, judge: Judge, study: Study, sets: Sequence[SetKey], name: str, what: str) -> None:
    runs = sorted(study.runs, key=lambda run: float(run[0]))
    page.heading(3, f"Figure {name[-1]}: {what}")
    found = {value: _correlations(judge, system, sets) for value, system in runs}
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    panel = figure.subplots()
    for number, (value, results) in enumerate(found.items()):
        panel.plot([results[key]["pearson"] for key in sets], "osD^vX"[number % 6], label=f"{value}", markersize=5)
    panel.set_xticks(range(len(sets)), [" ".join(key) for key in sets], rotation=60, ha="right", fontsize=7)
    panel.set_ylabel("Pearson's r")
    panel.grid(axis="x", linewidth=0.3)
    panel.legend(title=what, fontsize=7)
    page.plot(name, figure, f"Pearson's r on each set by the number of {what}")
    rows: list[list[Cell]] = [
        [value, float(np.mean([results[key]["pearson"] for key in sets]))] for value, results in found.items()
    ]
    numbers = {value: {" ".join(key): results[key]["pearson"] for key in sets} for value, results in found.items()}
    page.table(name, [what, "mean Pearson's r of the sets"], rows, numbers)


def _rates(page: Page, study: Study) -> None:
    page.heading(3, "The learning rate")
    page.text(
        "The paper took its rate, 0.0001, for the loss on the training data (section 3.4); so does this table, whose "
        "loss is the mean of the last tenth of an epoch. A corpus of fewer sentences wants a higher one."
    )
    rows: list[list[Cell]] = []
    numbers = {}
    for value, system in sorted(study.runs, key=lambda run: float(run[0])):
        losses = [next(v for k, v in row.items() if k.endswith("/loss")) for row in system.metrics if "dev" not in row]
        numbers[value] = float(np.mean(losses[-max(1, len(losses) // 10) :]))
        rows.append([value, f"{numbers[value]:.4f}"])
    page.table("learning_rate", ["learning rate", "training loss"], rows, numbers)


def _times(page: Page, judge: Judge, systems: Sequence[System], published: Any) -> None:
    assert judge.data.sts is not None
    page.heading(3, "Table 3: time")
    first, second = (
        [text for names in judge.data.sts.values() for pairs in names.values() for text in pairs[side]]
        for side in ("sentence1", "sentence2")
    )
    page.text(
        f"Seconds for {len(first):,} pairs (all scored ones that are there), one pair at a time, loading apart; the "
        f"paper's are for {published['pairs']:,} pairs on another machine."
    )
    rows: list[list[Cell]] = [
        [f"the paper: {name}", "", f"{values[0]:.1f}", f"{1000 * values[1]:.1f}"]
        for name, values in published["rows"].items()
    ]
    numbers = {}
    kinds: set[str] = set()
    for system in systems:
        kind = system.trained_on if system.trained_on in (WORDS, NEIGHBOURS) else system.encoder
        if kind in kinds or system.method == "pv_dbow":
            continue
        kinds.add(kind)

        def measure(system: System = system) -> float:
            encoder = judge.encoder(system)
            started = time.perf_counter()
            for pair in zip(first, second, strict=True):
                vectors = encoder.encode(pair)
                cosine(vectors[:1], vectors[1:])
            return time.perf_counter() - started

        seconds = judge.keep(system, "seconds_one_by_one", measure)
        numbers[system.name] = seconds
        rows.append([system.label, system.name, f"{seconds:.1f}", f"{1000 * seconds / len(first):.2f}"])
    page.table("siamese_table3", ["system", "run", "all pairs, s", "one pair, ms"], rows, numbers)


def word_vectors(encoder: Encoder) -> tuple[list[str], np.ndarray]:
    """The words of an encoder, most frequent first as its tokenizer has them, and their vectors (words, size)."""
    model = encoder.model.encoder if isinstance(encoder.model, ConvSimForMultitask) else encoder.model
    table = model.get_parameter("embed_tokens.weight").detach().float().numpy()
    special = set(encoder.tokenizer.all_special_ids)
    ids = [index for index in range(len(table)) if index not in special and table[index].any()]
    return cast(list[str], encoder.tokenizer.convert_ids_to_tokens(ids)), table[ids]


def _words(page: Page, judge: Judge, systems: Sequence[System], published: Any) -> None:
    ours = next((s for s in systems if s.trained_on == NEIGHBOURS and s.encoder == "averages"), None)
    if ours is None:
        return
    page.heading(3, "Section 4.4: norms and neighbours of words")

    def norms() -> dict[str, Any]:
        words, vectors = word_vectors(judge.encoder(ours))  # type: ignore[arg-type]
        common = [index for index, word in enumerate(words) if word.isalpha()][:COMMON]
        order = np.argsort(np.linalg.norm(vectors[common], axis=1), kind="stable")
        named = [words[common[index]] for index in order]
        share = sum(word in ENGLISH_STOP_WORDS for word in named) / len(named)
        return {"smallest": named[:10], "largest": named[-10:], "stop_words": share}

    found = {**judge.keep(ours, "norms_of_words", norms), "paper_smallest": published["smallest_norms"]}
    page.text(f"Of the {COMMON:,} most frequent words, `{ours.name}`:")
    page.table("norms", ["norm", "ours", "the paper"], [
        ["smallest", ", ".join(found["smallest"]), ", ".join(published["smallest_norms"])],
        ["largest", ", ".join(found["largest"]), ", ".join(published["largest_norms"])],
    ], found)  # fmt: skip
    least = published["similarity_above"]
    compared = [ours]
    compared += [each for each in systems if each.method in ("skip_gram", "cbow") and each.sources == ours.sources]
    rows: list[list[Cell]] = []
    numbers: dict[str, dict[str, list[str]]] = {}
    for word, told in published["neighbours"].items():
        for system in compared:

            def near(system: System = system, word: str = word) -> list[str]:
                words, vectors = word_vectors(judge.encoder(system))  # type: ignore[arg-type]
                words, vectors = words[:KNOWN], vectors[:KNOWN]
                if word not in words:
                    return []
                unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
                cosines = unit @ unit[words.index(word)]
                order = [index for index in np.argsort(-cosines, kind="stable") if words[index] != word]
                return [f"{words[index]} {cosines[index]:.2f}" for index in order if cosines[index] > least][:10]

            found_near = judge.keep(system, f"near {word}", near)
            numbers.setdefault(word, {})[system.name] = found_near
            rows.append([word, system.label, ", ".join(found_near) or "none"])
        rows += [[word, f"the paper: {name}", ", ".join(words)] for name, words in told.items()]
    page.text(f"Words with a cosine above {least:g}, the ten nearest at most:")
    page.table("neighbours", ["word", "system", "neighbours"], rows, numbers)
