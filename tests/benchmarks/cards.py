"""Writes the tables and plots of README.md and model_cards/README.md, and the cards, from recorded results.

Run it with `python -m tests.benchmarks.cards`.
"""

import json
import re
import statistics
import textwrap
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from transformers import CONFIG_MAPPING, AutoConfig

from trainer.publish.model_card import render_card
from trainer.publish.provenance import example_id
from trainer.runs import Run
from trainer.settings import parse_settings

ROOT = Path(__file__).resolve().parents[2]
CARDS = ROOT / "model_cards"
BENCHMARKS = ROOT / "tests" / "benchmarks" / "results.json"
MODELS = ROOT / "tests" / "benchmarks" / "models.json"
# Runs with a card of their own, by folder; the others are lines of runs.jsonl.
WITH_CARD = ("base", "best_dan", "best_transformer", "reddit_multitask")
ENCODERS = {
    "reddit_dan": "Reddit",
    "reddit_multitask": "Reddit, SNLI",
    "best_dan": "Reddit, NLI, captions, paraphrases",
    "best_transformer": "Reddit, NLI, captions, paraphrases",
    "distilled_dan": "Reddit, NLI, captions, paraphrases; distilled",
    "base": "12 kinds of conversations; distilled",
}
MINILM, MODEL2VEC = "all-MiniLM-L6-v2", "model2vec of all-MiniLM-L6-v2"  # of models.json and of runs.jsonl
SIZES = (300, 1_000, 3_000)  # pairs of a domain
UNTRAINED = {"bm25": "BM25", "tfidf": "TF-IDF"}  # of the benchmarks `adapt_SIZE_DOMAIN_NAME`
TRAINED = {"static": "`StaticEmbedding`, from scratch", "model2vec": "model2vec of all-MiniLM-L6-v2, trained"}
MARGIN = 0.02  # which is subtracted from the P@1 of the peer `tuned`
SPEED = {
    "train_dan_128": ("train a DAN", "sentence-transformers, defaults"),
    "train_dan_128_sparse": ("train a DAN", "sentence-transformers, sparse gradients"),
    "train_transformer": ("train the paper's Transformer", "sentence-transformers"),
    "encode_dan": ("encode with a DAN", "model2vec, same size"),
    "encode_dan_minilm": ("encode with a DAN", "all-MiniLM-L6-v2"),
    "encode_transformer": ("encode with the Transformer, float32", "sentence-transformers"),
    "extract_dump": ("extract pairs from a Reddit dump", "plain Python"),
}


def read_runs() -> dict[str, dict[str, Any]]:
    """The recorded results of each run, by name."""
    lines = map(json.loads, (CARDS / "runs.jsonl").read_text(encoding="utf-8").splitlines())
    runs = {run["name"]: run for run in lines}
    runs |= {name: json.loads((CARDS / name / "results.json").read_text("utf-8")) for name in WITH_CARD}
    runs[MINILM] = {"stsb": read_models()[MINILM]["stsb"], "run": {}}
    for name in ("base", MINILM):  # measured side by side
        speed = read_models()[name]["sentences_per_second"]
        runs[name]["run"] |= {"sentences_per_second": speed, "speed_threads": 1}
    return runs


def ranked() -> dict[str, float]:
    """P@1 of the systems of the report."""
    report = json.loads((CARDS / "report" / "report.json").read_text(encoding="utf-8"))
    return {row["system"]: row["p_at_1"] for row in report["table1"]}


def encoders() -> str:
    """The table of encoders; the base's P@1 is left out, because it was measured on other queries."""
    rows = [[name, "", _share(ranked()[name]), *[""] * 5] for name in ("BM25", "TF-IDF")]
    runs = read_runs()
    for name in (MINILM, MODEL2VEC):
        rows.append([name, "", "", _share(runs[name]["stsb"]["test"]["all"]["pearson"]), *[""] * 4])
    for name, data in ENCODERS.items():
        run = runs[name]
        p_at_1 = "" if name == "base" else _share(run["response_prediction"]["p_at_1"])
        similarity = [_share(run[part]["test"]["all"]["pearson"]) for part in ("stsb", "stsb_tuned")]
        snli = _share(run["snli"]["accuracy"]) if "snli" in run else ""
        sizes = [f"{run['run']['parameters'] / 1e6:.0f}", f"{run['run']['seconds'] / 60:.0f}"]
        title = f"[`{name}`]({name})" if name in WITH_CARD else f"`{name}`"
        rows.append([title, data, p_at_1, *similarity, snli, *sizes])
    return _table(("model", "data", "P@1", "STS-B", "tuned", "SNLI", "10⁶ parameters", "minutes"), rows)


def models() -> str:
    """The table of models that can be downloaded or installed."""
    rows = [
        [
            title(name),
            f"{model['bytes'] / 1e6:,.0f}",
            f"{model['sentences_per_second']:,.0f}",
            *(_share(model["stsb"]["test"]["all"][metric]) for metric in ("pearson", "spearman")),
            _share(model["response_prediction"]["p_at_1"]),
            _share(model["cqa"]["test2017"]["map"]),
        ]
        for name, model in read_models().items()
    ]
    return _table(("model", "MB", "sentences/s, one thread", "STS-B r", "ρ", "P@1, Reddit", "CQA MAP"), rows)


def read_models() -> dict[str, dict[str, Any]]:
    """The results of `tests.benchmarks.models`, by name."""
    return dict(json.loads(MODELS.read_text(encoding="utf-8"))["models"])


def title(name: str) -> str:
    """The name of a model in a table."""
    return f"[`{name}`](model_cards/{name}/README.md)" if name in WITH_CARD else name


def own_chats() -> str:
    """The table of adapting: the mean of P@1 over the domains, by the number of pairs of a domain."""
    results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))

    def untrained(title: str, peer: str) -> list[str]:
        domains = [entry["peer"] for name, entry in results.items() if re.fullmatch(rf"adapt_300_\w+_{peer}", name)]
        return [title, _share(statistics.fmean(domains)), *[""] * len(SIZES)]

    def trained(title: str, peer: str, key: str = "peer", added: float = 0) -> list[str]:
        return [title, "", *(_share(results[f"adapt_{size}_{peer}"][key] + added) for size in SIZES)]

    rows = [untrained(title, peer) for peer, title in UNTRAINED.items()]
    rows += [trained(title, peer) for peer, title in TRAINED.items()]
    rows.append(["all-MiniLM-L6-v2", _share(results["adapt_300_minilm"]["peer"]), *[""] * len(SIZES)])
    rows.append(trained("all-MiniLM-L6-v2, fine-tuned", "tuned", added=MARGIN))
    rows.append(untrained("the base", "base"))
    rows.append(trained("**the base, adapted**", "minilm", key="ours"))
    rows.append(["difference from all-MiniLM-L6-v2", "", *(_gain(results[f"adapt_{size}_minilm"]) for size in SIZES)])
    return _table(("", "untrained", *(f"{size:,} pairs" for size in SIZES)), rows)


def earlier_turns() -> str:
    """The table of earlier turns: P@1 with them, and what they add."""
    results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))

    def row(title: str, system: str, key: str) -> list[str]:
        return [title, *(_share(results[f"adapt_context_{size}_{system}"][key]) for size in SIZES)]

    rows = [row("BM25", "bm25", "peer"), row("all-MiniLM-L6-v2", "minilm", "peer"), row("the base", "base", "ours")]
    rows.append(row("**the base, adapted**", "ours", "ours"))
    rows.append(["difference from no earlier turns", *(_gain(results[f"adapt_context_{size}_ours"]) for size in SIZES)])
    return _table(("with earlier turns", *(f"{size:,} pairs" for size in SIZES)), rows)


def _gain(entry: dict[str, Any]) -> str:
    """Our value minus the peer's, with its interval."""
    low, high = (f"{value:+.3f}" for value in entry["interval"])
    return f"{entry['ours'] - entry['peer']:+.3f} [{low}, {high}]"


def speed() -> str:
    """The table of speeds."""
    results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))
    rows = [
        [what, entry["unit"], f"{entry['ours']:,.0f}", peer, f"{entry['peer']:,.0f}", f"{entry['ratio']:.3g}"]
        for name, (what, peer) in SPEED.items()
        if (entry := results.get(name))
    ]
    return _table(("task", "unit", "convsim", "peer", "its value", "ratio"), rows)


def plot(model: str = "") -> Figure:
    """Quality against speed: of all our encoders or `model`, after their training, and of others, in benchmarks."""
    figure = Figure(figsize=(6, 3) if model else (8, 4.5), layout="constrained")
    panel = figure.subplots()
    runs = read_runs()
    benchmarks = json.loads(BENCHMARKS.read_text(encoding="utf-8"))
    speeds = {name: runs[name]["run"]["sentences_per_second"] for name in (MINILM, *ENCODERS)}
    speeds[MODEL2VEC] = benchmarks["encode_dan"]["peer"]
    threads = {name: runs[name]["run"]["speed_threads"] for name in ENCODERS if model in ("", name)}
    for label, marker, names in (
        ("others, 1 CPU thread", "sC1", [MINILM]),
        ("others, 2 CPU threads, longer texts", "sC3", [MODEL2VEC]),
        ("convsim, 1 CPU thread", "oC0", [name for name in threads if threads[name] == 1]),
        ("convsim, 2 CPU threads", "oC2", [name for name in threads if threads[name] == 2]),
    ):
        points = [(speeds[name], runs[name]["stsb"]["test"]["all"]["pearson"]) for name in names]
        if points:
            panel.plot(*zip(*points, strict=True), marker, label=label)
        for name, point in zip(names, points, strict=True):
            title = name.replace(" of ", " of\n")
            panel.annotate(title, point, xytext=(6, -3), textcoords="offset points", fontsize=8)
    panel.set_xscale("log")
    panel.set_xlim(50, 1e6)
    panel.margins(y=0.1)
    panel.set_xlabel("sentences per second, float32")
    panel.set_ylabel("Pearson's r, STS-B test")
    panel.legend(loc="lower left")
    return figure


def plot_models() -> Figure:
    """P@1 against speed of the models that can be downloaded or installed."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    panel = figure.subplots()
    for name, model in read_models().items():
        point = model["sentences_per_second"], model["response_prediction"]["p_at_1"]
        low, high = model["response_prediction"]["p_at_1_interval"]
        panel.errorbar(
            *point, [[point[1] - low], [high - point[1]]], fmt="o", color="C0" if name in WITH_CARD else "C1"
        )
        panel.annotate(name.partition(",")[0], point, xytext=(7, -3), textcoords="offset points", fontsize=8)
    panel.set_xscale("log")
    panel.set_xlim(30, 1e6)
    panel.margins(y=0.2)
    panel.set_xlabel("sentences per second, 1 CPU thread")
    panel.set_ylabel("P@1, replies on Reddit")
    return figure


def plot_curve() -> Figure:
    """Scores on test of reddit_dan, retrained on more and more conversation pairs, and published scores."""
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    panel = figure.subplots()
    runs = sorted((run for run in read_runs().values() if "training_pairs" in run), key=itemgetter("training_pairs"))
    for label, part, name, color in (
        ("STS-B, Pearson's r", lambda run: run["stsb"]["test"]["all"], "pearson", "C1"),
        ("P@1, replies on Reddit", lambda run: run["response_prediction"], "p_at_1", "C0"),
    ):
        for run in runs:
            value, (low, high) = part(run)[name], part(run)[f"{name}_interval"]
            marker = "s" if "pairs" in run["preset"] else "o"
            errors = [[value - low], [high - value]]
            panel.errorbar(run["training_pairs"], value, errors, fmt=f"{marker}{color}", capsize=2)
        line = [(run["training_pairs"], part(run)[name]) for run in runs if "pairs" not in run["preset"]]
        panel.plot(*zip(*line, strict=True), color, label=label)
    panel.plot(6e8, 0.561, "*k", label="Yang et al. (2018), DAN: P@1")
    panel.axhline(0.613, color="k", linestyle=":", label="PolyAI (2019), n-grams, its own Reddit data: P@1")
    panel.axhline(ranked()["BM25"], color="C0", linestyle=":", label="BM25: P@1")
    panel.plot([], [], "sk", label="with 11 other kinds of conversations")
    panel.set_xscale("log")
    panel.set_xlabel("conversation pairs to train on")
    panel.legend(fontsize=8, loc="lower right")
    return figure


def plot_pairs() -> Figure:
    """P@1 on own chats against the number of pairs, with earlier turns."""
    results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    panel = figure.subplots()
    lines = {
        "all-MiniLM-L6-v2, adapted, and the base": ("adapt_both_{}_minilm_context", "ours"),
        "all-MiniLM-L6-v2, adapted": ("adapt_frozen_{}_minilm_context", "ours"),
        "all-MiniLM-L6-v2": ("adapt_context_{}_minilm", "peer"),
        "the base, adapted": ("adapt_context_{}_ours", "ours"),
        "the base": ("adapt_context_{}_base", "ours"),
        "BM25": ("adapt_context_{}_bm25", "peer"),
    }
    for label, (key, side) in lines.items():
        points = [(size, results[key.format(size)][side]) for size in SIZES]
        panel.plot(*zip(*points, strict=True), marker="o", label=label)
    panel.set_xscale("log")
    panel.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("pairs to adapt to")
    panel.set_ylabel("P@1, mean of four domains")
    panel.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_path() -> Figure:
    """The way from an export to a suggestion."""
    figure = Figure(figsize=(8, 1.3))
    panel = figure.add_axes((0, 0, 1, 1))
    panel.axis((0, 8, 0, 1.3))
    panel.axis("off")
    boxes = {
        "export": "table, WhatsApp,\nSlack, mail, …",
        "pairs": "messages and\ntheir replies",
        "model and index": "adapted, compared,\ncalibrated",
        "suggestions": "on a page, or\nfor a program",
    }
    for number, (name, text) in enumerate(boxes.items()):
        left = 0.05 + 2.13 * number
        panel.add_patch(
            FancyBboxPatch((left + 0.06, 0.26), 1.4, 0.78, boxstyle="round,pad=0.06", fc="#e8f0fe", ec="C0")
        )
        panel.text(left + 0.76, 0.88, name, ha="center", va="center", weight="bold")
        panel.text(left + 0.76, 0.48, text, ha="center", va="center", fontsize=9)
    for number, command in enumerate(("adapt", "adapt", "demo")):
        start = 1.59 + 2.13 * number
        panel.annotate("", (start + 0.52, 0.65), (start, 0.65), arrowprops={"arrowstyle": "->"})
        panel.text(start + 0.26, 0.78, command, ha="center", fontsize=8, family="monospace")
    return figure


def card(name: str) -> str:
    """The card of a folder of model_cards, from its results and settings."""
    folder = CARDS / name
    if name == "base":
        settings, config = Run(folder).settings, AutoConfig.from_pretrained(folder)
        model_id, about = f"model_cards/{name}", ""
    else:
        settings = asdict(parse_settings([str(folder / "preset.yaml")]))
        config = CONFIG_MAPPING[f"convsim_{settings['model_type']}"](**settings["model_config"])
        model_id = example_id(folder)
        start = settings["initialize_from"]
        about = (
            f"This folder contains results and settings, but no weights. To run the examples below, first train the "
            f"model{f' from {start}' if start else ''} with `convsim train model_cards/{name}/preset.yaml`, which uses "
            f"the datasets named in preset.yaml ({ENCODERS[name]})."
        )
    with chdir(folder):  # datasets in the current folder have no part in the card
        return str(render_card(folder, read_runs()[name], settings, config, model_id, about, beside(name)))


def beside(name: str) -> str:
    """What the card of a model says of it beside others."""
    text = (
        "Speeds were measured on short sentences, except that of model2vec: `make bench` measures it on longer texts "
        "and with a larger vocabulary, so compare only its order of magnitude."
    )
    if name == "base":
        results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))
        size = SIZES[-1]
        domains = [entry["peer"] for key, entry in results.items() if re.fullmatch(r"adapt_300_\w+_base", key)]
        adapted, model2vec = results[f"adapt_{size}_minilm"], results[f"adapt_{size}_model2vec"]
        text += (
            "\n\nOn four kinds of conversations that are not in its training data, it ranks the true reply first "
            f"among up to 100 for {_share(statistics.fmean(domains))} of the messages; all-MiniLM-L6-v2 does so for "
            f"{_share(adapted['peer'])}. Adapted to {size:,} pairs of each kind, it reaches {_share(adapted['ours'])}; "
            f"a static model distilled from all-MiniLM-L6-v2 with model2vec and trained on the same pairs reaches "
            f"{_share(model2vec['peer'])}. For such conversations, choose all-MiniLM-L6-v2 if it is fast enough, or "
            "model2vec if neither torch nor ONNX Runtime can be installed. `convsim adapt` adapts this model to your "
            "own chats and compares it with all-MiniLM-L6-v2."
        )
    paragraphs = [textwrap.fill(paragraph, 100) for paragraph in text.split("\n\n")]
    return "\n\n".join(["![STS-B against sentences per second](speed.png)", *paragraphs])


def _share(value: float) -> str:
    """A score between 0 and 1, as in the papers."""
    return f"{value:.3f}".removeprefix("0")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def replace_tables(page: Path, *tables: str) -> None:
    """Replace each table of a page by the one whose first two columns have the same heads."""
    text = page.read_text(encoding="utf-8")
    for table in tables:
        head = re.escape(" | ".join(table.split(" | ")[:2]))
        text, replaced = re.subn(rf"^{head}.*\n(?:\|.*\n)*", lambda _, new=table: new, text, flags=re.M)
        assert replaced == 1, f"{page}: no table that begins with {head}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Write the plots and the cards, and replace the tables of the pages."""
    plots = {
        "encoders": plot(),
        "models": plot_models(),
        "pairs": plot_pairs(),
        "curve": plot_curve(),
        "path": draw_path(),
    }
    for name, figure in plots.items():
        figure.savefig(CARDS / f"{name}.png", dpi=120)
    for name in WITH_CARD:
        plot(name).savefig(CARDS / name / "speed.png", dpi=120)
        (CARDS / name / "README.md").write_text(card(name), encoding="utf-8")
    replace_tables(ROOT / "README.md", models())
    replace_tables(CARDS / "README.md", encoders(), own_chats(), earlier_turns(), speed())


if __name__ == "__main__":
    main()
