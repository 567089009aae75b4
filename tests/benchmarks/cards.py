"""The tables and the plot of model_cards/README.md, from recorded results: `python -m tests.benchmarks.cards`.

The command writes the plot and prints the tables, which tests/model_cards/test_results.py compares with the document.
"""

import json
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from tests.benchmarks.material import ROOT
from tests.benchmarks.report import HERE, read_results

CARDS = ROOT / "model_cards"
# Runs with a card of their own, by folder; the others are lines of runs.jsonl.
WITH_CARD = ("base", "best_dan", "best_transformer", "reddit_multitask")
ENCODERS = {
    "reddit_dan": "Reddit",
    "reddit_multitask": "Reddit, SNLI",
    "best_dan": "Reddit, NLI, captions, paraphrases",
    "best_transformer": "the same",
    "distilled_dan": "the same, and a teacher",
    "base": "conversations of 12 kinds, and a teacher",
}
SIZES = (300, 1_000, 3_000, 10_000)  # pairs of a domain
PEERS = {
    "BM25": "BM25",
    "TF-IDF": "TF-IDF",
    "StaticEmbedding, trained from scratch in sentence-transformers": "`StaticEmbedding`, from scratch",
    "all-MiniLM-L6-v2, distilled by model2vec and trained by its pairwise trainer": "model2vec, trained",
    "all-MiniLM-L6-v2": "all-MiniLM-L6-v2",
    "all-MiniLM-L6-v2, fine-tuned for one epoch in sentence-transformers": "all-MiniLM-L6-v2, fine-tuned",
    "the base as it is": "the base",
}
UNTRAINED = ("BM25", "TF-IDF", "all-MiniLM-L6-v2", "the base as it is")
SPARSE = (
    "sentence-transformers trainer, StaticEmbedding + MultipleNegativesRankingLoss, sparse gradients, Adagrad, "
    "without the gradient norm"
)
# Benchmark, what it measures, the peer's name in the table, and its key in `beside` if it is not the benchmark's peer.
SPEED = (
    ("train_dan_128", "train a DAN", "sentence-transformers, defaults", ""),
    ("train_dan_128", "train a DAN", "sentence-transformers, sparse Adagrad", SPARSE),
    ("train_transformer", "train the paper's Transformer", "sentence-transformers", ""),
    ("encode_dan", "encode with a DAN", "model2vec, the same size", ""),
    ("encode_dan_minilm", "encode with a DAN", "all-MiniLM-L6-v2", ""),
    ("encode_transformer", "encode with the Transformer", "sentence-transformers", ""),
    ("encode_one", "encode one text", "sentence-transformers", "sentence-transformers encode, same folder"),
    ("extract_dump", "turn a Reddit dump into pairs", "plain Python", ""),
)


def read_runs() -> dict[str, dict[str, Any]]:
    """The recorded results of each run, by name."""
    lines = map(json.loads, (CARDS / "runs.jsonl").read_text(encoding="utf-8").splitlines())
    runs = {run["name"]: run for run in lines}
    return runs | {name: json.loads((CARDS / name / "results.json").read_text("utf-8")) for name in WITH_CARD}


def encoders() -> str:
    """The table of encoders; the base's P@1 is left out, because it was measured on other queries."""
    report = json.loads((CARDS / "report" / "report.json").read_text(encoding="utf-8"))
    rows = [
        [row["system"], "", _share(row["p_at_1"]), *[""] * 5]
        for row in report["table1"]
        if row["system"] in ("BM25", "TF-IDF")
    ]
    runs = read_runs()
    for name, data in ENCODERS.items():
        run = runs[name]
        title = f"[`{name}`]({name})" if name in WITH_CARD else f"`{name}`"
        rows.append(
            [
                title,
                data,
                "" if name == "base" else _share(run["response_prediction"]["p_at_1"]),
                *(_share(run[part]["test"]["all"]["pearson"]) for part in ("stsb", "stsb_tuned")),
                _share(run["snli"]["accuracy"]) if "snli" in run else "",
                f"{run['run']['parameters'] / 1e6:.0f}",
                f"{run['run']['seconds'] / 60:.0f}",
            ]
        )
    heads = ("model", "data", "P@1", "STS-B", "tuned", "SNLI", "10⁶ parameters", "minutes")
    return _table(heads, rows)


def own_chats() -> str:
    """The table of adapting: the mean of P@1 over six domains, by the number of pairs of a domain."""
    results = read_results(HERE)
    entries = [results[f"adapt_{size}_minilm"] for size in SIZES]
    rows = []
    for peer, title in PEERS.items():
        values = [entry["peer"] if peer == entry["peer_name"] else entry["beside"][peer] for entry in entries]
        rows.append([title, _share(values[0]), *[""] * 4] if peer in UNTRAINED else [title, "", *map(_share, values)])
    rows.append(["**the base, adapted**", "", *(_share(entry["ours"]) for entry in entries)])
    return _table(("", "untrained", *(f"{size:,} pairs" for size in SIZES)), rows)


def speed() -> str:
    """The table of speeds; the last column is how many times faster we are."""
    results = read_results(HERE)
    rows = []
    for name, what, peer, beside in SPEED:
        entry = results[name]
        ours, theirs = entry["ours"], entry["beside"][beside] if beside else entry["peer"]
        times = ours / theirs if entry["better"] == "higher" else theirs / ours
        rows.append([what, entry["unit"], f"{ours:,.{2 * (ours < 1)}f}", peer, f"{theirs:,.{2 * (theirs < 1)}f}"])
        rows[-1].append(f"{times:.1f}" if times < 100 else f"{times:.0f}")
    return _table(("task", "unit", "convsim", "peer", "its value", "times faster"), rows)


def plot() -> Figure:
    """Quality against speed of the encoders, as `Encoder` ran them after their training."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    panel = figure.subplots()
    runs = read_runs()
    for threads, fill in ((1, "full"), (2, "none")):
        chosen = [name for name in ENCODERS if runs[name]["run"]["speed_threads"] == threads]
        speeds = [runs[name]["run"]["sentences_per_second"] for name in chosen]
        scores = [runs[name]["stsb"]["test"]["all"]["pearson"] for name in chosen]
        label = f"{threads} CPU thread{'s' * (threads > 1)}"
        panel.plot(speeds, scores, "o", color="C0", fillstyle=fill, label=label)
        for name, x, y in zip(chosen, speeds, scores, strict=True):
            panel.annotate(name, (x, y), xytext=(6, -3), textcoords="offset points", fontsize=8)
    panel.set_xscale("log")
    panel.margins(x=0.18, y=0.1)
    panel.set_xlabel("sentences per second, float32")
    panel.set_ylabel("Pearson's r, STS Benchmark test")
    panel.legend(loc="lower left")
    return figure


def _share(value: float) -> str:
    """A score between 0 and 1, as in the papers."""
    return f"{value:.3f}".removeprefix("0")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def main() -> None:
    """Write the plot, and print the tables."""
    plot().savefig(CARDS / "encoders.png", dpi=120)
    print(encoders(), own_chats(), speed(), sep="\n")


if __name__ == "__main__":
    main()
