"""Suggestion on the chats of a domain by size of data: precision against coverage, and replies that differ.

    python -m tests.benchmarks.suggesting_own_data --base MODEL

adapts MODEL, which must not have seen the domains, to 300, 1,000, 3,000 and 10,000 pairs of each, and measures on
held-out messages

- coverage at thresholds that are calibrated for a precision on a thousand validation pairs, and on a tenth of the pairs
  as a user would have them, with the precision that these thresholds then have;
- sets of three replies by `diversity`: their cosine, the share of queries whose three replies have no cosine above
  `SAME`, and recall of the true reply among 100 candidates and among all replies.

Validation pairs are training pairs that no model reads. The default of `diversity` is selected on them: the largest
value that costs at most 1 % of recall, of both kinds, in most domains. Results are in `suggesting/*.json` of the
material's folder, so that an interrupted run resumes; delete a file to measure it again.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import choose_threshold
from modeling_convsim.suggestion.deduplication import drop_near_duplicates, select_diverse
from modeling_convsim.suggestion.options import DUPLICATE_COSINE
from modeling_convsim.suggestion.reply_index import FEW
from modeling_convsim.suggestion.search import exact_search
from tests.benchmarks import adapting
from tests.benchmarks.material import SIZES, Material
from tests.benchmarks.registry import DOMAINS
from trainer.command_line import parse_arguments
from trainer.preset_files import PRESETS
from trainer.training.train import train

SIZES_OF_DATA = (300, 1_000, 3_000, 10_000)
PRECISIONS = (0.5, 0.7, 0.8, 0.9)
DIVERSITIES = (0.0, 0.1, 0.2, 0.3, 0.5)
K, CANDIDATES = 3, 100
VALIDATION, TEST = 1_000, 2_000  # pairs
SAME = 0.7  # replies with this cosine or more say much the same
COST = 0.01  # of recall, that diversity may cost

Texts = tuple[list[str], list[str]]  # inputs and responses


def measure(material: Material, base: str, domain: str, pairs: int) -> dict[str, Any]:
    """The results of a domain and a number of pairs; from an earlier measurement if there is one."""
    file = material.folder / "suggesting" / f"{domain}-{pairs}.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    folder = adapting._domain(material, domain)
    rows = pq.read_table(folder / "train.parquet")
    split = len(rows) - VALIDATION
    used, validation = rows.slice(0, min(pairs, split)), _texts(rows.slice(split))
    test = pq.read_table(folder / "test.parquet")
    test = _texts(test.take(np.sort(np.random.default_rng(0).permutation(len(test))[:TEST])))
    with tempfile.TemporaryDirectory() as scratch:
        encoder = _adapt(Path(scratch), base, Dataset(used))
        index = ReplyIndex.build(encoder, _texts(used)[1])
        scores = {name: index.score_pairs(*texts) for name, texts in (("validation", validation), ("test", test))}
        few = max(len(used) // 10, 20)
        result = {
            "pairs": len(used),
            "queries": len(test[0]),
            "coverage": {
                "validation": _coverages(scores["validation"], scores["test"], VALIDATION),
                "tenth": _coverages(scores["validation"], scores["test"], few),
            },
            "diversity": {
                name: _diversities(encoder, _texts(used)[1], texts)
                for name, texts in (("validation", validation), ("test", test))
            },
        }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result), encoding="utf-8")
    return result


def _texts(pairs: Any) -> Texts:
    return pairs["input"].to_pylist(), pairs["response"].to_pylist()


def _adapt(folder: Path, base: str, rows: Dataset) -> Encoder:
    (folder / "pairs").mkdir()
    rows.to_parquet(folder / "pairs" / "train-00000-of-00001.parquet")
    words = ["--initialize_from", base, "--pairs", str(folder / "pairs"), "--output_dir", str(folder / "run")]
    words += ["--cache_dir", str(folder / "cache"), "--final_split", "dev"]
    train(parse_arguments([str(PRESETS / "adapt.yaml"), *words]))
    return Encoder.from_pretrained(folder / "run" / "model")


def _coverages(calibration: Sequence[np.ndarray], test: Sequence[np.ndarray], pairs: int) -> dict[str, Any]:
    """Precision -> coverage and precision on test, at the threshold that is chosen on the first calibration pairs."""
    entries: dict[str, Any] = {}
    for required in PRECISIONS:
        with suppress(ValueError):  # no threshold has this precision
            threshold = choose_threshold(calibration[0][:pairs], calibration[1][:pairs], required, CANDIDATES).threshold
            made = test[0] >= threshold
            precision = float(test[1][made].mean()) if made.any() else None
            entries[f"{required:g}"] = {"coverage": float(made.mean()), "precision": precision}
    return entries


def _diversities(encoder: Encoder, replies: list[str], held_out: Texts) -> dict[str, Any]:
    """Diversity -> what sets of three are like, from the replies of the index and the true ones."""
    inputs, responses = held_out
    texts = list(dict.fromkeys([*replies, *responses]))
    row_of = {text: row for row, text in enumerate(texts)}
    true = np.array([row_of[text] for text in responses])
    vectors, embeddings = encoder.encode(texts, side="response"), encoder.encode(texts)
    queries = encoder.encode(inputs, side="query")
    pools = {"all": exact_search(vectors, queries, FEW * K)[1], "100": _pools(vectors, queries, true)}
    entries: dict[str, Any] = {}
    for diversity in DIVERSITIES:
        sets = {
            name: [
                _select(rows, query, vectors, embeddings, diversity) for rows, query in zip(pool, queries, strict=True)
            ]
            for name, pool in pools.items()
        }
        full = np.stack([chosen for chosen in sets["all"] if len(chosen) == K])  # (queries, K)
        pairs = embeddings[full[:, [0, 0, 1]]] * embeddings[full[:, [1, 2, 2]]]
        cosines = pairs.sum(axis=-1)  # (queries, 3)
        entries[f"{diversity:g}"] = {
            "cosine": float(cosines.mean()),
            "distinct": float((cosines.max(axis=1) < SAME).mean()),
            **{
                f"recall_{name}": float(np.mean([row in chosen for row, chosen in zip(true, each, strict=True)]))
                for name, each in sets.items()
            },
        }
    return entries


def _pools(vectors: np.ndarray, queries: np.ndarray, true: np.ndarray) -> np.ndarray:
    """The best of each query's true reply and 99 others, sampled with seed 0: (queries, `FEW` K)."""
    samples = np.random.default_rng(0).integers(len(vectors), size=(len(queries), CANDIDATES - 1))
    pools = np.column_stack([true, samples])
    scores = np.einsum("qd,qcd->qc", queries, vectors[pools])
    return np.take_along_axis(pools, np.argsort(-scores, axis=1, kind="stable")[:, : FEW * K], axis=1)


def _select(
    rows: np.ndarray, query: np.ndarray, vectors: np.ndarray, embeddings: np.ndarray, diversity: float
) -> np.ndarray:
    """The rows that `ReplyIndex.suggest` would select."""
    distinct = rows[drop_near_duplicates(embeddings[rows], DUPLICATE_COSINE)]
    return distinct[select_diverse(vectors[distinct] @ query, embeddings[distinct], K, diversity)]


def format_coverage(results: dict[tuple[str, int], dict[str, Any]], calibrated_on: str) -> str:
    """Coverage, and the precision reached, by size of data: means over the domains, and the number of domains."""
    lines = ["| pairs | " + " | ".join(f"{each:g}" for each in PRECISIONS) + " |", "|---" * (len(PRECISIONS) + 1) + "|"]
    for pairs in SIZES_OF_DATA:
        cells = []
        for required in PRECISIONS:
            parts = [
                result["coverage"][calibrated_on].get(f"{required:g}")
                for (_, size), result in results.items()
                if size == pairs
            ]
            made = [part for part in parts if part and part["precision"] is not None]
            coverage = sum(part["coverage"] for part in made) / max(len(parts), 1)  # 0 where nothing is suggested
            suggested = sum(part["coverage"] for part in made)
            right = sum(part["coverage"] * part["precision"] for part in made)
            precision = f", precision {right / suggested:.2f}" if suggested else ""
            cells.append(f"{coverage:.1%} ({len(made)} of {len(parts)}{precision})")
        lines.append(f"| {pairs:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def format_domains(results: dict[tuple[str, int], dict[str, Any]]) -> str:
    """Coverage on test of each domain and size, calibrated on validation."""
    lines = []
    for (domain, pairs), result in results.items():
        cells = result["coverage"]["validation"]
        shown = [
            f"{cells[key]['coverage']:.1%} ({cells[key]['precision'] or 0:.2f})" if key in cells else "-"
            for key in (f"{p:g}" for p in PRECISIONS)
        ]
        lines.append(f"{domain:<26} {pairs:>6,} " + " ".join(f"{cell:>15}" for cell in shown))
    return "\n".join(lines)


def format_diversity(results: dict[tuple[str, int], dict[str, Any]], split: str) -> str:
    """Means over domains and sizes, by diversity, and in how many cells recall costs at most `COST`."""
    lines = ["| diversity | cosine | distinct | recall of 100 | recall of all | cost at most 1 % |", "|---" * 6 + "|"]
    parts = [result["diversity"][split] for result in results.values()]
    for diversity in DIVERSITIES:
        each = [part[f"{diversity:g}"] for part in parts]
        mean = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
        cheap = sum(_is_cheap(one, part["0"]) for one, part in zip(each, parts, strict=True))
        lines.append(
            f"| {diversity:g} | {mean['cosine']:.3f} | {mean['distinct']:.1%} | {mean['recall_100']:.4f} | "
            f"{mean['recall_all']:.4f} | {cheap} of {len(parts)} |"
        )
    return "\n".join(lines)


def _is_cheap(part: dict[str, float], without: dict[str, float]) -> bool:
    return all(part[name] >= (1 - COST) * without[name] for name in ("recall_100", "recall_all"))


def main() -> None:
    """Measure all domains and sizes, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="the model to adapt")
    parser.add_argument("--pairs", type=int, nargs="+", default=list(SIZES_OF_DATA), help="numbers of pairs")
    options = parser.parse_args()
    material = SIZES["full"]
    adapting.prepare(material)
    results = {}
    for pairs in options.pairs:
        for domain in DOMAINS:
            results[domain, pairs] = measure(material, options.base, domain, pairs)
            print(f"{domain}, {pairs:,} pairs", flush=True)
    print("\ncalibrated on 1,000 validation pairs", format_coverage(results, "validation"), sep="\n\n")
    print("\ncalibrated on a tenth of the pairs", format_coverage(results, "tenth"), sep="\n\n")
    print("\nby domain", format_domains(results), sep="\n\n")
    for split in ("validation", "test"):
        print(f"\nsets of three, {split}", format_diversity(results, split), sep="\n\n")


if __name__ == "__main__":
    main()
