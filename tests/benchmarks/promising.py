"""What `python -m trainer.adapt` promises, against new messages of the same domain.

Many chats of a size are drawn from a domain, in whole threads; each is adapted to. Does a
threshold for a precision of .8 keep it on fresh messages? And with the replies in random order, from which nothing can
be learned, how often does the adaptation replace the base? Runs are kept in `promising/*.json` of the material's
folder; delete a file to run it again.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from datasets import Dataset
from tqdm import tqdm

from data_scripts.__main__ import main as data_scripts
from tests.benchmarks.adapting import base_of, prepare_synthetic, read_pairs
from tests.benchmarks.material import REAL_DATA, Material
from tests.benchmarks.measuring import Benchmark, Contender, Values, bound
from trainer.adapt.adaptation import adapt
from trainer.adapt.replies import build_index
from trainer.command_line import parse_arguments
from trainer.data.dev_split import thread_numbers
from trainer.evaluation.response_prediction import contexts_of
from trainer.preset_files import PRESETS

# Of `conversations/pairs` in the real data: replies that recur, and replies that hardly do.
DOMAINS = ("taskmaster", "dailydialog")
SIZES = (170, 340, 800, 1_600)  # pairs
PROMISE = 0.8
FRESH = 5_000  # messages


def measure_promise(material: Material, pairs: int) -> Values:
    """The suggestions for fresh messages: the share of wrong ones, and the share of messages with one."""
    runs = _runs(material, pairs, shuffled=False)
    suggestions, messages = (sum(run[name] for run in runs) for name in ("suggestions", "fresh"))
    wrong = suggestions - sum(run["right"] for run in runs)
    return {
        "wrong suggestions": wrong / max(suggestions, 1),
        "coverage": suggestions / messages,
        "runs with a threshold": sum(run["threshold"] is not None for run in runs) / len(runs),
    }


def measure_shuffled(material: Material, pairs: int) -> Values:
    """The share of runs on shuffled replies that keep the adaptation."""
    runs = _runs(material, pairs, shuffled=True)
    return {"adaptations kept": sum(run["adapted"] for run in runs) / len(runs)}


def _runs(material: Material, pairs: int, shuffled: bool) -> list[dict[str, Any]]:
    count = material.promise_runs * (2 if shuffled and material.real else 1)
    domains = DOMAINS if material.real else ("synthetic",)
    runs = [(domain, number) for number in range(count) for domain in domains]
    return [
        _run(material, domain, min(pairs, material.adapt_pairs), number, shuffled)
        for domain, number in tqdm(runs, f"{pairs} pairs{', shuffled' * shuffled}", leave=False)
    ]


def _run(material: Material, domain: str, pairs: int, number: int, shuffled: bool) -> dict[str, Any]:
    file = _folder(material) / f"{domain}-{pairs}-{number}{'-shuffled' * shuffled}.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    known, fresh = _draw(Dataset(pq.read_table(_folder(material) / f"{domain}.parquet")), pairs, number)
    if shuffled:
        replies = np.array(known["response"][:], dtype=object)[np.random.default_rng(number).permutation(len(known))]
        known = known.remove_columns("response").add_column("response", replies.tolist())
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "pairs")
        data.mkdir()
        known.to_parquet(data / "train-00000-of-00001.parquet")
        words = ["--initialize_from", str(base_of(material)), "--pairs", str(data), "--output_dir", f"{folder}/run"]
        words += ["--cache_dir", f"{folder}/cache", "--final_split", "dev"]
        words += ["--max_steps", str(material.adapt_steps)] if material.adapt_steps else []
        adapted = adapt(parse_arguments([str(PRESETS / "adapt.yaml"), *words]))
        run, judge = Path(folder, "run"), adapted.judge
        index, calibration = build_index(
            run, adapted.open(run / "model"), adapted.pairs, adapted.choice, PROMISE, judge
        )
        result = {"adapted": adapted.results["adaptation"]["adapted"], "threshold": calibration.get("threshold")}
        result |= {"fresh": len(fresh), "suggestions": 0, "right": 0, "part": adapted.results["adaptation"]}
        if result["threshold"] is not None and not shuffled:
            contexts = contexts_of(fresh)
            scores, are_right = index.score_pairs(fresh["input"][:], fresh["response"][:], judge, contexts=contexts)
            is_suggested = scores >= result["threshold"]
            result |= {"suggestions": int(is_suggested.sum()), "right": int(are_right[is_suggested].sum())}
    file.write_text(json.dumps(result), encoding="utf-8")
    return result


def _draw(pairs: Dataset, count: int, number: int) -> tuple[Dataset, Dataset]:
    """Whole threads with about `count` pairs, and up to `FRESH` pairs of other threads, by the seed `number`."""
    threads = thread_numbers(pairs)
    order = np.random.default_rng(number).permutation(threads.max() + 1)
    rows = np.argsort(order[threads], kind="stable")
    end = count
    while end < len(rows) and threads[rows[end]] == threads[rows[end - 1]]:
        end += 1
    return pairs.select(rows[:end]), pairs.select(rows[end : end + FRESH])


def prepare(material: Material) -> Values:
    """Write the pairs of each domain once."""
    _folder(material).mkdir(parents=True, exist_ok=True)
    if not material.real:
        prepare_synthetic(material)
        table = read_pairs(material.pairs, "train", "test")
        pq.write_table(table.set_column(1, "response", table["input"]), _folder(material) / "synthetic.parquet")
        return {}
    for domain in DOMAINS:
        if not (file := _folder(material) / f"{domain}.parquet").is_file():
            source = REAL_DATA / "conversations" / "pairs" / f"{domain}.tsv.xz"
            with tempfile.TemporaryDirectory() as folder:
                # The command has printed its error.
                if data_scripts(["conversations", str(source), "-o", f"{folder}/pairs"]):
                    raise SystemExit(2)
                pq.write_table(read_pairs(Path(folder, "pairs"), "train", "validation", "test"), file)
    return {}


def _folder(material: Material) -> Path:
    return material.folder / "promising"


def _benchmark(what: str, unit: str, most: float, measure: Any, pairs: int) -> Benchmark:
    ours = Contender("ours", measure, {"pairs": pairs})
    return Benchmark(what, unit, 1, ours, bound(unit, most), "lower", prepare=Contender("domains", prepare))


BENCHMARKS = {
    f"adapt_promise_{size}": _benchmark(
        f"suggestions of an index for a precision of {PROMISE:.0%}, adapted to {size:,} pairs, for fresh messages",
        "wrong suggestions", 1 - PROMISE, measure_promise, size,
    ) for size in SIZES
} | {
    f"adapt_shuffled_{size}": _benchmark(
        f"adapting to {size} pairs with the replies in random order", "adaptations kept", 0.05, measure_shuffled, size
    ) for size in SIZES[:2]
}  # fmt: skip
