"""Captions by image from all formats, compared with plain readings of the files."""

import gzip
import json
import random
from pathlib import Path

import pytest
from datasets import Dataset

from data_scripts.__main__ import main

Images = list[tuple[str, list[str]]]


def run(tmp_path: Path, source: Path | str) -> dict[str, Images]:
    assert main(["captions", str(source), "--output", str(tmp_path / "out"), "--overwrite"]) == 0
    splits = {}
    for file in (tmp_path / "out").glob("*.parquet"):
        rows = Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "cache"))
        assert rows.column_names == ["group", "captions"]
        splits[file.name.partition("-")[0]] = [(row["group"], row["captions"]) for row in rows]
    return splits


def test_lines_of_parallel_files_describe_one_image(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.1.en.gz").write_bytes(gzip.compress(b"A dog.\nA cat.\n"))
    (folder / "train.2.en.gz").write_bytes(gzip.compress(b"An animal.\nA cat.\n"))
    (folder / "test_2016.1.en").write_text("A bird.\r\n")
    (folder / "test_2016.1.de").write_text("Ein Vogel.\n")
    assert run(tmp_path, folder) == {
        "train": [("train:1", ["A dog.", "An animal."]), ("train:2", ["A cat."])],
        "test": [("test_2016:1", ["A bird."])],
    }
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["train"] == {
        "from": str(folder),
        "images": 2,
        "captions": 3,
        "images with one caption": 1,
        "repeated for their image, left out": 1,
        "empty, left out": 0,
    }


def test_captions_in_any_order_are_grouped_as_by_a_dictionary(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = [(f"{draw.randrange(300)}.jpg", f"Scene {draw.randrange(40)}.") for _ in range(3000)]
    file = tmp_path / "scenes.tsv"
    file.write_text("image_id\tcaption\tsource\n" + "".join(f"{image}\t{caption}\tx\n" for image, caption in rows))
    expected: dict[str, dict[str, None]] = {}
    for image, caption in rows:
        expected.setdefault(image, {})[caption] = None
    assert run(tmp_path, file) == {"train": [(image, list(captions)) for image, captions in expected.items()]}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"train.1.en": "A dog.\nA cat.\n", "train.2.en": "A hound.\n"},
            "train.2.en: 1 lines, fewer than the other train.*",
        ),
        (
            {"train.1.en": "A dog.\n", "train.2.en": "A hound.\nA cat.\n"},
            "train.1.en: 1 lines, fewer than the other train.*",
        ),
        ({"scenes.tsv": "caption\nA dog.\n"}, "scenes.tsv:2: one caption, but no column that identifies its image"),
        ({"scenes.jsonl": '{"captions": ["A dog.", 5]}\n'}, "scenes.jsonl:1: captions are ['A dog.', 5]"),
        (
            {"scenes.tsv": "image\ttitle\n1\tA dog.\n"},
            "no column captions; expected captions (or caption, sentences, caption1)",
        ),
        ({"scenes.tsv": "image_id\tcaption\n1\t \n"}, "split train: contains no caption"),
    ],
)
def test_a_wrong_source_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], message: str
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    assert main(["captions", str(folder), "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_real_parallel_files_give_every_line(data_dir: Path, tmp_path: Path) -> None:
    folder = data_dir / "captions" / "multi30k"
    splits = run(tmp_path, folder)
    assert {name: len(images) for name, images in splits.items()} == {
        "train": 29_000,
        "validation": 1_014,
        "test": 1_000,
    }
    texts = [gzip.decompress((folder / f"val.{i}.en.gz").read_bytes()).decode().splitlines() for i in range(1, 6)]
    plain = [list(dict.fromkeys(line.strip() for line in lines)) for lines in zip(*texts, strict=True)]
    assert [captions for _, captions in splits["validation"]] == plain


def test_pairs_of_captions_in_a_row_are_of_one_image(tmp_path):
    rows = ["a\tb", "b\tc", "c\ta", "a man\ta boy", "a boy\ta man", "b\ta"]
    (tmp_path / "pairs.tsv").write_text("\n".join(["caption1\tcaption2", *rows, ""]))
    images = run(tmp_path, tmp_path / "pairs.tsv")["train"]
    # The last pair has captions of the first image, but does not follow its pairs.
    assert [captions for _, captions in images] == [["a", "b", "c"], ["a man", "a boy"], ["b", "a"]]


def test_files_of_the_same_split_are_joined(tmp_path):
    parallel = tmp_path / "parallel"
    parallel.mkdir()
    for year in ("2016", "2017"):
        (parallel / f"test_{year}.1.en").write_text(f"A dog of {year}.\n")
    texts = [[f"A dog of {year}."] for year in (2016, 2017)]
    assert run(tmp_path, parallel) == {"test": list(zip(["test_2016:1", "test_2017:1"], texts, strict=True))}


def test_what_is_left_out_is_counted(tmp_path):
    lines = [
        '{"group": "1", "captions": ["A dog.", " ", "A dog. ", "A cat."]}',
        "{",
        '{"group": "2", "captions": [""]}',
    ]
    (tmp_path / "scenes.jsonl").write_text("\n".join(lines))
    assert run(tmp_path, tmp_path / "scenes.jsonl") == {"train": [("1", ["A dog.", "A cat."])]}
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["train"] == {
        "from": str(tmp_path / "scenes.jsonl"),
        "images": 1,
        "captions": 2,
        "images with one caption": 0,
        "repeated for their image, left out": 1,
        "empty, left out": 2,
    }
    assert report["lines left out"] == {"not JSON": 1} and "scenes.jsonl:2: " in report["first lines left out"][0]
