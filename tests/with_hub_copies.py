"""Run a command on small copies of the public datasets, in place of the Hub: `make best`, `make report PLAN=tiny`.

    python -m tests.with_hub_copies make best OPTIONS="--batch_size 8 --max_steps 4 --eval_every 2"

The copies have the layouts of the originals (`tests.hub_copies`), and invented texts, each several times, with endings.
Datasets that are not on the Hub are read from local files of the same layout, named by the variable ORIGINALS. `data/`
and `runs/` of the working directory must not hold the real ones.
"""

import io
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from data_scripts.public.sts import STS_SETS
from tests.hub_copies import add_public_datasets
from tests.loopback_hub import LoopbackHub

COLORS = "red green blue black white gray brown pink gold dark pale old".split()
THINGS = "cat dog bird house car city lamp road shop train boat tree".split()
SENTENCES = [f"the {color} {thing} is here" for color in COLORS for thing in THINGS]


def write_originals(folder: Path) -> None:
    """Write invented files of the datasets that are not on the Hub, and of STS-B, whose copy has too few rows."""
    chance = random.Random(0)
    for name in ("stsb", "cqa", "talk", "nli/counterfactual-snli", "captions/multi30k"):
        (folder / name).mkdir(parents=True)
    for split, count in (("train", 60), ("dev", 40), ("test", 40)):
        lines = [
            f"main-captions\tMSRvid\t2012test\t{row:04}\t{row % 6}.0\t{chance.choice(SENTENCES)} now\t{split} {row}"
            for row in range(count)
        ]
        (folder / "stsb" / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")
        questions = [
            {"query": f"who has {split} {row // 4} ?", "candidate": chance.choice(SENTENCES), "relevant": row % 4 == 0}
            for row in range(count)
        ]
        (folder / "cqa" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    labels = ("entailment", "neutral", "contradiction")
    pairs = "".join(
        f"we know that {sentence} .\tsome say that {sentence} .\t{labels[row % 3]}\n"
        for row, sentence in enumerate(SENTENCES)
    )
    for year, names in STS_SETS.items():
        test = folder / "sts" / f"{year}-test"
        test.mkdir(parents=True)
        for name in names.values():
            prefix = "STS2016" if year == "2016" else "STS"
            sentences = [f"{chance.choice(SENTENCES)} of {name}\t{chance.choice(SENTENCES)}\n" for _ in range(20)]
            (test / f"{prefix}.input.{name}.txt").write_text("".join(sentences))
            (test / f"{prefix}.gs.{name}.txt").write_text("".join(f"{row % 6}\n" for row in range(20)))
    header = "sentence1\tsentence2\tgold_label\n"
    (folder / "nli" / "counterfactual-snli" / "original-train.tsv").write_text(header + pairs)
    for number in range(1, 6):
        captions = [f"caption {number} : {sentence}" for sentence in SENTENCES]
        (folder / "captions" / "multi30k" / f"train.{number}.en").write_text("\n".join(captions) + "\n")
    utterances = [
        {"id": f"u{row}", "root": f"u{row - row % 4}", "reply_to": f"u{row - 1}" if row % 4 else None,
         "user": f"s{row % 2}", "timestamp": row, "text": f"I say that {SENTENCES[row % len(SENTENCES)]} ."}
        for row in range(200)
    ]  # fmt: skip
    (folder / "talk" / "movie-corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in utterances))


def enlarge(hub: LoopbackHub) -> None:
    """Repeat the rows of every Parquet file, with another ending of texts and ids, so that there are enough."""
    for repository in hub.repositories.values():
        files = repository.files()
        for path, content in files.items():
            if path.endswith(".parquet"):
                files[path] = _repeat(pq.read_table(io.BytesIO(content)))
            elif path.endswith(".txt"):
                files[path] = "".join(f"in the book {sentence} .\n" for sentence in SENTENCES).encode()
            elif path == "README.md" and content.startswith(b"---"):  # without the numbers of rows
                card = yaml.safe_load(content.split(b"---")[1])
                card.pop("dataset_info", None)
                files[path] = f"---\n{yaml.safe_dump(card)}---\n".encode()


def _repeat(table: pa.Table) -> bytes:
    rows = [
        {name: _with_ending(name, value, number) for name, value in row.items()}
        for number in range(len(SENTENCES))
        for row in table.to_pylist()
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), buffer)
    return buffer.getvalue()


def _with_ending(name: str, value: Any, number: int) -> Any:
    if not number or not isinstance(value, str) or name in ("subreddit", "author", "split"):
        return value
    return f"{value}{number}" if name == "id" or name.endswith("_id") else f"{value} By the way, {SENTENCES[number]}."


def main(command: list[str]) -> int:
    """Run a command; returns its exit code."""
    if not command or command[0].startswith("-"):
        print(__doc__)
        return 0 if command in (["--help"], ["-h"]) else 2
    with tempfile.TemporaryDirectory() as temporary, LoopbackHub() as hub:
        add_public_datasets(hub)
        enlarge(hub)
        write_originals(Path(temporary, "originals"))
        environment = hub.environment(Path(temporary, "home")) | {"ORIGINALS": str(Path(temporary, "originals"))}
        return subprocess.run(command, env=os.environ | environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
