"""Writes the tables and the plot of model_cards/README.md from recorded results: `python -m tests.benchmarks.cards`."""

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
CARDS = ROOT / "model_cards"
BENCHMARKS = ROOT / "tests" / "benchmarks" / "results.json"
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
SIZES = (300, 1_000, 3_000, 10_000)  # pairs of a domain; those that were measured are shown
UNTRAINED = {"bm25": "BM25", "tfidf": "TF-IDF"}  # of the benchmarks `adapt_SIZE_DOMAIN_NAME`
TRAINED = {"static": "`StaticEmbedding`, from scratch", "model2vec": "model2vec of all-MiniLM-L6-v2, trained"}
MARGIN = 0.02  # which is subtracted from the P@1 of the peer `tuned`
SPEED = {
    "train_dan_128": ("train a DAN", "sentence-transformers, defaults"),
    "train_dan_128_sparse": ("train a DAN", "sentence-transformers, sparse gradients"),
    "train_transformer": ("train the paper's Transformer", "sentence-transformers"),
    "encode_dan": ("encode with a DAN", "model2vec, the same size"),
    "encode_dan_minilm": ("encode with a DAN", "all-MiniLM-L6-v2"),
    "encode_transformer": ("encode with the Transformer", "sentence-transformers"),
    "extract_dump": ("turn a Reddit dump into pairs", "plain Python"),
}


def read_runs() -> dict[str, dict[str, Any]]:
    """The recorded results of each run, by name."""
    lines = map(json.loads, (CARDS / "runs.jsonl").read_text(encoding="utf-8").splitlines())
    runs = {run["name"]: run for run in lines}
    return runs | {name: json.loads((CARDS / name / "results.json").read_text("utf-8")) for name in WITH_CARD}


def encoders() -> str:
    """The table of encoders; the base's P@1 is left out, because it was measured on other queries."""
    report = json.loads((CARDS / "report" / "report.json").read_text(encoding="utf-8"))
    ranked = {row["system"]: row["p_at_1"] for row in report["table1"]}
    rows = [[name, "", _share(ranked[name]), *[""] * 5] for name in ("BM25", "TF-IDF")]
    runs = read_runs()
    for name, data in ENCODERS.items():
        run = runs[name]
        p_at_1 = "" if name == "base" else _share(run["response_prediction"]["p_at_1"])
        similarity = [_share(run[part]["test"]["all"]["pearson"]) for part in ("stsb", "stsb_tuned")]
        snli = _share(run["snli"]["accuracy"]) if "snli" in run else ""
        sizes = [f"{run['run']['parameters'] / 1e6:.0f}", f"{run['run']['seconds'] / 60:.0f}"]
        title = f"[`{name}`]({name})" if name in WITH_CARD else f"`{name}`"
        rows.append([title, data, p_at_1, *similarity, snli, *sizes])
    return _table(("model", "data", "P@1", "STS-B", "tuned", "SNLI", "10⁶ parameters", "minutes"), rows)


def own_chats() -> str:
    """The table of adapting: the mean of P@1 over the domains, by the number of pairs of a domain."""
    results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))
    sizes = [size for size in SIZES if f"adapt_{size}_tuned" in results]

    def untrained(title: str, peer: str) -> list[str]:
        domains = [entry["peer"] for name, entry in results.items() if re.fullmatch(rf"adapt_300_\w+_{peer}", name)]
        return [title, _share(statistics.fmean(domains)), *[""] * len(sizes)]

    def trained(title: str, peer: str, key: str = "peer", added: float = 0) -> list[str]:
        return [title, "", *(_share(results[f"adapt_{size}_{peer}"][key] + added) for size in sizes)]

    def gain(size: int) -> str:
        entry = results[f"adapt_{size}_minilm"]
        low, high = (f"{value:+.3f}" for value in entry["interval"])
        return f"{entry['ours'] - entry['peer']:+.3f} [{low}, {high}]"

    rows = [untrained(title, peer) for peer, title in UNTRAINED.items()]
    rows += [trained(title, peer) for peer, title in TRAINED.items()]
    rows.append(["all-MiniLM-L6-v2", _share(results["adapt_300_minilm"]["peer"]), *[""] * len(sizes)])
    rows.append(trained("all-MiniLM-L6-v2, fine-tuned", "tuned", added=MARGIN))
    rows.append(untrained("the base", "base"))
    rows.append(trained("**the base, adapted**", "minilm", key="ours"))
    rows.append(["minus all-MiniLM-L6-v2", "", *map(gain, sizes)])
    return _table(("", "untrained", *(f"{size:,} pairs" for size in sizes)), rows)


def earlier_turns() -> str:
    """The table of earlier turns: P@1 with them, and what they add."""
    results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))
    sizes = [size for size in SIZES if f"adapt_context_{size}_ours" in results]

    def row(title: str, system: str, key: str) -> list[str]:
        entries = [results.get(f"adapt_context_{size}_{system}") for size in sizes]
        return [title, *(_share(entry[key]) if entry else "" for entry in entries)]

    def gain(size: int) -> str:
        entry = results[f"adapt_context_{size}_ours"]
        low, high = (f"{value:+.3f}" for value in entry["interval"])
        return f"{entry['ours'] - entry['peer']:+.3f} [{low}, {high}]"

    rows = [row("BM25", "bm25", "peer"), row("all-MiniLM-L6-v2", "minilm", "peer"), row("the base", "base", "ours")]
    rows += [row("**the base, adapted**", "ours", "ours"), ["minus the same without", *map(gain, sizes)]]
    return _table(("with earlier turns", *(f"{size:,} pairs" for size in sizes)), rows)


def speed() -> str:
    """The table of speeds."""
    results = json.loads(BENCHMARKS.read_text(encoding="utf-8"))
    rows = [
        [what, entry["unit"], f"{entry['ours']:,.0f}", peer, f"{entry['peer']:,.0f}", f"{entry['ratio']:.3g}"]
        for name, (what, peer) in SPEED.items()
        if (entry := results.get(name))
    ]
    return _table(("task", "unit", "convsim", "peer", "its value", "ratio"), rows)


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
    """Write the plot, and replace each table by the one with the same head."""
    plot().savefig(CARDS / "encoders.png", dpi=120)
    page = CARDS / "README.md"
    text = page.read_text(encoding="utf-8")
    for table in (encoders(), own_chats(), earlier_turns(), speed()):
        head = re.escape(" | ".join(table.split(" | ")[:2]))  # the first two columns
        text, replaced = re.subn(rf"^{head}.*\n(?:\|.*\n)*", lambda _, new=table: new, text, flags=re.M)
        assert replaced == 1, f"{page}: no table that begins with {head}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
