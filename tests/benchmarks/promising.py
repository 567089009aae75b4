"""How often `python -m trainer.adapt` replaces the base if nothing can be learned: the replies are in random order.

Many chats of a size are drawn from a domain, in whole threads; each is adapted to. Runs are kept in `promising/*.json`
of the material's folder; delete a file to run it again.
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
from tests.benchmarks.adapting import adapt_to, base_of, prepare_synthetic, read_pairs
from tests.benchmarks.material import REAL_DATA, Material
from tests.benchmarks.measuring import Benchmark, Contender, Values, bound
from trainer.data.datasets import thread_numbers

# Of `conversations/pairs` in the real data: replies that recur, and replies that hardly do.
DOMAINS = ("taskmaster", "dailydialog")
SIZES = (170, 340)  # pairs


def measure_shuffled(material: Material, pairs: int) -> Values:
    """The share of runs on shuffled replies that keep the adaptation."""
    count = material.promise_runs * (2 if material.real else 1)
    domains = DOMAINS if material.real else ("synthetic",)
    runs = [
        _run(material, domain, min(pairs, material.adapt_pairs), number)
        for domain, number in tqdm([(each, n) for n in range(count) for each in domains], f"{pairs} pairs", leave=False)
    ]
    return {"adaptations kept": sum(run["adapted"] for run in runs) / len(runs)}


def _run(material: Material, domain: str, pairs: int, number: int) -> dict[str, Any]:
    file = _folder(material) / f"{domain}-{pairs}-{number}-shuffled.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    known = _draw(Dataset(pq.read_table(_folder(material) / f"{domain}.parquet")), pairs, number)
    replies = np.array(known["response"][:], dtype=object)[np.random.default_rng(number).permutation(len(known))]
    known = known.remove_columns("response").add_column("response", replies.tolist())
    with tempfile.TemporaryDirectory() as folder:
        part = adapt_to(material, Path(folder), known, base_of(material)).results["adaptation"]
    result = {"adapted": part["adapted"], "part": part}
    file.write_text(json.dumps(result), encoding="utf-8")
    return result


def _draw(pairs: Dataset, count: int, number: int) -> Dataset:
    """Whole threads with about `count` pairs, by the seed `number`."""
    threads = thread_numbers(pairs)
    order = np.random.default_rng(number).permutation(threads.max() + 1)
    rows = np.argsort(order[threads], kind="stable")
    end = count
    while end < len(rows) and threads[rows[end]] == threads[rows[end - 1]]:
        end += 1
    return pairs.select(rows[:end])


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


BENCHMARKS = {
    f"adapt_shuffled_{size}": Benchmark(
        f"adapting to {size} pairs with the replies in random order", "adaptations kept", 1,
        Contender("ours", measure_shuffled, {"pairs": size}), bound("adaptations kept", 0.05), "lower",
        prepare=Contender("domains", prepare),
    ) for size in SIZES
}  # fmt: skip
