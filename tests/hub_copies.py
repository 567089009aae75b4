"""Small copies of public datasets for `LoopbackHub`, with the configurations, splits and columns of the originals.

The sentences are our own. The layout of each was taken from its card or its code on the Hub.
"""

import gzip
import io
import json
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Features, Image, List, Value
from datasets.info import DatasetInfo, DatasetInfosDict
from datasets.splits import SplitDict, SplitInfo
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCardData

from tests.loopback_hub import LoopbackHub

TEXT = Value("string")
NLI_LABEL = ClassLabel(names=["entailment", "neutral", "contradiction"])
CONVERTED = "refs/convert/parquet"  # the branch with the Hub's own Parquet copy
IMAGE_BYTES = 1_000_000  # of each image of nlphuji/flickr30k

Columns = dict[str, list[Any]]

NLI: Columns = {
    "premise": ["A baker carries three loaves.", "Two girls row a boat.", "An old man feeds the pigeons."],
    "hypothesis": ["Somebody carries bread.", "The girls are sisters.", "The man is asleep."],
    "label": [0, 1, 2],
}
JANUARY = ["Which tea do you like most?", "I like green tea the most.", "Green tea keeps me awake."]
FEBRUARY = ["Do you drink it with milk?", "No, milk spoils the taste."]
# Two images: captions that follow each other are pairs, and so are the last one and the first one.
IMAGES = [
    ["A dog leaps over a log.", "A brown dog jumps.", "The dog is in the air."],
    ["Two men fix a roof.", "Workers repair a house.", "Men stand on a roof."],
]
CAPTION_PAIRS: Columns = {
    "caption1": [caption for captions in IMAGES for caption in captions],
    "caption2": [caption for captions in IMAGES for caption in (*captions[1:], captions[0])],
}


def _split_files(folder: str, splits: dict[str, Columns], features: Features) -> dict[str, bytes]:
    return {
        f"{folder}/{split}-00000-of-00001.parquet": _parquet(columns, features.arrow_schema)
        for split, columns in splits.items()
    }


def _parquet(columns: Columns, schema: pa.Schema, row_group_size: int = 1000) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), buffer, row_group_size=row_group_size)
    return buffer.getvalue()


def _lines(columns: Columns) -> bytes:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode())


def _card(configs: dict[str, tuple[Features, dict[str, Columns]]], folder: str = "") -> bytes:
    """The metadata that `Dataset.push_to_hub` writes: the features and the files of each split."""
    data = DatasetCardData()
    DatasetInfosDict({name: _info(name, *config) for name, config in configs.items()}).to_dataset_card_data(data)
    files = {
        name: {"data_files": [{"split": split, "path": f"{folder or name}/{split}-*"} for split in splits]}
        for name, (_, splits) in configs.items()
    }
    MetadataConfigs(files).to_dataset_card_data(data)
    return f"---\n{data}\n---\n".encode()


def _info(name: str, features: Features, splits: dict[str, Columns]) -> DatasetInfo:
    sizes = {split: len(next(iter(columns.values()))) for split, columns in splits.items()}
    infos = SplitDict({split: SplitInfo(split, num_bytes=100, num_examples=size) for split, size in sizes.items()})
    return DatasetInfo(config_name=name, features=features, splits=infos, download_size=100, dataset_size=100)


def _dataset(configs: dict[str, tuple[Features, dict[str, Columns]]], folder: str = "") -> dict[str, bytes]:
    """The files of a dataset that was pushed with `Dataset.push_to_hub`, a folder for each configuration."""
    files = {"README.md": _card(configs, folder)}
    for name, (features, splits) in configs.items():
        files |= _split_files(folder or name, splits, features)
    return files


def _texts(*names: str) -> Features:
    return Features({name: TEXT for name in names})


def of_split(split: str, columns: Columns) -> Columns:
    """The rows of a split: its texts end with its name, except in train, so that no split has a sentence of another."""
    ending = "" if split == "train" else f" ({split})"
    return {
        name: [f"{value}{ending}" if isinstance(value, str) else value for value in values]
        for name, values in columns.items()
    }


def _splits(names: tuple[str, ...], columns: Columns) -> dict[str, Columns]:
    return {name: of_split(name, columns) for name in names}


def _nli_files() -> dict[str, dict[str, bytes]]:
    unlabeled = {name: [*values, values[0]] for name, values in NLI.items()} | {"label": [0, 1, 2, -1]}
    features = Features({"premise": TEXT, "hypothesis": TEXT, "label": NLI_LABEL})
    scored = Features({"sentence1": TEXT, "sentence2": TEXT, "score": Value("float64")})
    scores: Columns = {"sentence1": NLI["premise"], "sentence2": NLI["hypothesis"], "score": [1.0, 0.5, 0.0]}
    pairs: Columns = {"anchor": NLI["premise"][:1], "positive": NLI["hypothesis"][:1]}
    triplets = pairs | {"negative": ["Nobody carries anything."]}
    splits = ("train", "dev", "test")
    parses = [f"{text}_{parse}" for text in ("premise", "hypothesis") for parse in ("binary_parse", "parse")]
    multi = Features(
        {"promptID": Value("int32"), "pairID": TEXT}
        | {name: TEXT for name in ("premise", *parses[:2], "hypothesis", *parses[2:], "genre")}
        | {"label": NLI_LABEL}
    )
    multi_rows = NLI | {name: ["( )"] * 3 for name in (*parses, "pairID", "genre")} | {"promptID": [1, 2, 3]}
    return {
        "sentence-transformers/all-nli": _dataset(
            {
                "pair": (_texts("anchor", "positive"), _splits(splits, pairs)),
                "pair-class": (features, _splits(splits, NLI)),
                "pair-score": (scored, _splits(splits, scores)),
                "triplet": (_texts("anchor", "positive", "negative"), _splits(splits, triplets)),
            }
        ),
        "stanfordnlp/snli": _dataset({"plain_text": (features, _splits(("test", "validation", "train"), unlabeled))}),
        "nyu-mll/multi_nli": _dataset(
            {"default": (multi, _splits(("train", "validation_matched", "validation_mismatched"), multi_rows))}, "data"
        ),
    }


def _paraphrase_files() -> dict[str, dict[str, bytes]]:
    duplicates = {"anchor": ["How do I boil rice?"], "positive": ["What is the way to boil rice?"]}
    rated = {
        "sentence1": ["How do I boil rice?", "Where is Oslo?"],
        "sentence2": ["What is the way to boil rice?", "Where can I buy skis?"],
        "label": [1, 0],
    }
    rated_features = Features(
        {"sentence1": TEXT, "sentence2": TEXT, "label": ClassLabel(names=["different", "duplicate"])}
    )
    negatives = duplicates | {"negative": ["How do I sow rice?"]}
    simplified = {"text": ["The vessel, which was old, sank in 1801 ."], "simplified": ["The old ship sank in 1801 ."]}
    posts = {part: (f"{part}1", f"{part}2") for part in ("title", "body", "post")}
    parallel = {"english": ["The tea is cold."], "non_english": ["Der Tee ist kalt."]}
    quora = {
        "pair": (_texts("anchor", "positive"), {"train": duplicates}),
        "pair-class": (rated_features, {"train": rated}),
        **{
            name: (_texts("anchor", "positive", "negative"), {"train": negatives})
            for name in ("triplet", "triplet-all")
        },
    }
    return {
        "sentence-transformers/quora-duplicates": _dataset(quora),
        "sentence-transformers/wikianswers-duplicates": _dataset(
            {"pair": (_texts("anchor", "positive"), {"train": duplicates})}
        ),
        "sentence-transformers/stackexchange-duplicates": _dataset(
            {
                f"{part}-{part}-pair": (
                    _texts(*columns),
                    {"train": {columns[0]: ["Merge two lists"], columns[1]: ["How can lists be merged?"]}},
                )
                for part, columns in posts.items()
            }
        ),
        "sentence-transformers/simple-wiki": _dataset({"pair": (_texts("text", "simplified"), {"train": simplified})}),
        "sentence-transformers/altlex": _dataset({"pair": (_texts("text", "simplified"), {"train": simplified})}),
        "sentence-transformers/parallel-sentences-tatoeba": _dataset(
            {
                f"en-{language}": (_texts("english", "non_english"), _splits(("train", "dev"), parallel))
                for language in ("de", "fr")
            }
        ),
    }


def _sts_files() -> dict[str, dict[str, bytes]]:
    pair = {
        "score": [5.0, 1.5],
        "sentence1": ["A cat naps.", "A man sings."],
        "sentence2": ["A cat sleeps.", "A car stops."],
    }
    origin = {"dataset": ["MSRvid"] * 2, "year": ["2012test"] * 2, "sid": ["1", "2"]}
    benchmark = {
        name: {"split": [value] * 2, "genre": ["main-captions", "main-news"], **origin, **pair}
        for name, value in (("train", "train"), ("validation", "dev"), ("test", "test"))
    }
    # These have no configurations in their cards, and their files are JSON lines.
    card = b"---\nlanguage:\n- en\n---\n"
    files = {"mteb/stsbenchmark-sts": {f"{name}.jsonl.gz": _lines(columns) for name, columns in benchmark.items()}}
    for year in range(12, 17):
        splits = ("train", "test") if year == 12 else ("test",)
        files[f"mteb/sts{year}-sts"] = {f"{split}.jsonl.gz": _lines({"split": [split] * 2, **pair}) for split in splits}
    return {name: {"README.md": card, **lines} for name, lines in files.items()}


def _caption_files() -> dict[str, dict[str, bytes]]:
    pairs = {"pair": (_texts("caption1", "caption2"), {"train": CAPTION_PAIRS})}
    return {f"sentence-transformers/{name}-captions": _dataset(pairs) for name in ("flickr30k", "coco")}


def _flickr_parquet() -> bytes:
    """The Hub's own copy of nlphuji/flickr30k: one split, and a column with the real split of each image."""
    sampler = random.Random(0)
    features = Features(
        {
            "image": Image(),
            "caption": List(TEXT),
            "sentids": List(TEXT),
            "split": TEXT,
            "img_id": TEXT,
            "filename": TEXT,
        }
    )
    captions = [[f"{caption} ({number})" for caption in IMAGES[number % 2]] for number in range(4)]
    rows: Columns = {
        "image": [{"bytes": sampler.randbytes(IMAGE_BYTES), "path": None} for _ in captions],
        "caption": captions,
        "sentids": [[str(number)] for number in range(4)],
        "split": ["train", "val", "test", "train"],
        "img_id": [str(number) for number in range(4)],
        "filename": [f"{number}.jpg" for number in range(4)],
    }
    return _parquet(rows, features.arrow_schema, row_group_size=1)


def _gooaq_files() -> dict[str, bytes]:
    rows = {
        "question": ["how long does bread keep?", "who paints bridges?", "how deep is a well?"],
        "answer": ["Bread keeps for a few days.", "Painters who like heights do it.", "As deep as its water."],
    }
    return _dataset({"pair": (_texts("question", "answer"), {"train": rows})})


def _comments(month: int, texts: list[str]) -> Columns:
    """A thread: each comment answers the one before it, and the first answers the submission."""
    ids = [f"c{month}{number}" for number in range(len(texts))]
    return {
        "id": ids,
        "author": [f"author{number}" for number in range(len(texts))],
        "subreddit": ["tea"] * len(texts),
        "body": texts,
        "score": [1] * len(texts),
        "created_utc": [1_136_073_600 + number for number in range(len(texts))],
        "created_at": [None] * len(texts),
        "body_length": [len(text) for text in texts],
        "link_id": [f"t3_s{month}"] * len(texts),
        "parent_id": [f"t3_s{month}", *(f"t1_{each}" for each in ids[:-1])],
        "distinguished": [None] * len(texts),
        "author_flair_text": [None] * len(texts),
    }


def _reddit_files() -> dict[str, dict[str, bytes]]:
    columns = {
        **{name: pa.string() for name in ("id", "author", "subreddit", "body")},
        **{"score": pa.int64(), "created_utc": pa.int64(), "created_at": pa.timestamp("ms"), "body_length": pa.int64()},
        **{name: pa.string() for name in ("link_id", "parent_id", "distinguished", "author_flair_text")},
    }
    schema = pa.schema(list(columns.items()))
    configs = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"data/{name}/**/*.parquet"}]}
        for name in ("comments", "submissions")
    ]
    submission = pa.schema([("id", pa.string()), ("title", pa.string())])
    arctic = {
        "README.md": f"---\n{json.dumps({'configs': configs, 'license': 'other'})}\n---\n".encode(),
        "data/comments/2006/01/000.parquet": _parquet(_comments(1, JANUARY), schema),
        "data/comments/2007/02/000.parquet": _parquet(_comments(2, FEBRUARY), schema),
        "data/submissions/2006/01/000.parquet": _parquet({"id": ["s1"], "title": ["Tea"]}, submission),
    }
    numbers = {name: Value("int64") for name in ("controversiality", "created_utc", "score")}
    flat = Features(
        {name: numbers.get(name, TEXT) for name in ("author", "body", "controversiality", "created_utc", "link_id")}
        | {name: numbers.get(name, TEXT) for name in ("score", "subreddit", "subreddit_id", "id")}
    )
    rows = _comments(1, JANUARY) | {"controversiality": [0] * 3, "subreddit_id": ["t5_1"] * 3}
    return {
        "open-index/arctic": arctic,
        "fddemarco/pushshift-reddit-comments": _dataset(
            {"default": (flat, {"train": {name: rows[name] for name in flat}})}, "data"
        ),
    }


def add_public_datasets(hub: LoopbackHub) -> None:
    """Add the copies of all datasets."""
    datasets = _nli_files() | _paraphrase_files() | _sts_files() | _caption_files() | _reddit_files()
    datasets["sentence-transformers/gooaq"] = _gooaq_files()
    datasets["williamkgao/bookcorpus100mb"] = {
        "README.md": b"",
        "bookcorpus.txt": b"It rained all day.\nWe stayed in.\n",
    }
    for name, files in datasets.items():
        hub.add_dataset(name, files)
    script = {"README.md": b"# Flickr30k\n", "flickr30k.py": b"# a loading script\n"}
    flickr = hub.add_dataset("nlphuji/flickr30k", script)
    flickr.branches[CONVERTED] = {"TEST/test/0000.parquet": _flickr_parquet()}
