import json
import random
import string

import pytest
from datasets import Dataset, load_dataset

from data_scripts.__main__ import main
from data_scripts.clean import leakage
from data_scripts.clean.leakage import remove_leaked
from data_scripts.clean.text import normalize_text
from data_scripts.public import load_evaluation_texts


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A Man, is  riding!", "a man is riding"),
        ("It's raining", "it 's raining ."),
        ("ﬁne ｔｅｘｔ", "fine text"),
        ("STRASSE", "straße"),
        ("snake_case\tand\nlines", "snake case and lines"),
    ],
)
def test_texts_that_differ_only_in_form_are_equal(one, other):
    assert normalize_text(one) == normalize_text(other)


def test_removed_rows_equal_those_of_a_brute_force_comparison():
    draw = random.Random(0)

    def sentence() -> str:
        words = (draw.choice(["a cat", "A dog", "the bird"]), draw.choice(["runs", "SLEEPS", "eats fish"]))
        return " ".join(words) + draw.choice([".", " !", "", "?!"])

    def plain(text: str) -> str:
        return "".join(letter for letter in text.lower() if letter not in string.punctuation).strip()

    rows = [{"input": sentence(), "response": sentence(), "source": str(number)} for number in range(300)]
    evaluation = {"one": ["A cat runs", "the bird eats fish."], "two": ["a dog sleeps", "a cat runs!"]}
    plain_sets = {name: list(map(plain, texts)) for name, texts in evaluation.items()}
    hits = [
        {name for name, texts in plain_sets.items() if plain(row["input"]) in texts or plain(row["response"]) in texts}
        for row in rows
    ]
    kept, counts = remove_leaked(Dataset.from_list(rows), ["input", "response"], evaluation)
    assert kept.to_list() == [row for row, hit in zip(rows, hits, strict=True) if not hit]
    assert counts == {
        "one": sum("one" in hit for hit in hits),
        "two": sum("two" in hit for hit in hits),
        "removed": sum(map(bool, hits)),
    }
    assert 0 < counts["removed"] < 300


def test_all_rows_of_a_group_are_removed_with_one_that_leaks(monkeypatch):
    monkeypatch.setattr(leakage, "BATCH", 2)  # rows of a group are in several tables
    rows = Dataset.from_dict({"group": list("abacb"), "caption": ["A dog.", "One.", "A cat.", "Two.", "Three."]})
    left, counts = remove_leaked(rows, ["caption"], {"dev": ["a cat"], "test": ["two", "A CAT"]}, "group")
    assert left["caption"] == ["One.", "Three."]
    assert counts == {"dev": 1, "test": 2, "removed": 3}


def test_an_evaluation_text_without_words_matches_nothing():
    rows = Dataset.from_dict({"input": ["", "?!", "words"]})
    kept, counts = remove_leaked(rows, ["input"], {"set": ["...", ""]})
    assert len(kept) == 3
    assert counts == {"set": 0, "removed": 0}


def write(folder, **splits):
    folder.mkdir(exist_ok=True)
    for name, columns in splits.items():
        Dataset.from_dict(columns).to_parquet(folder / f"{name}-00000-of-00001.parquet")
    (folder / "report.json").write_text('{"train": {"from": "somewhere"}}')
    return str(folder)


@pytest.fixture
def stsb(tmp_path):
    """An STS-B whose test split has two sentences, as a value of --against."""
    pairs = {"sentence1": ["A man is here."], "sentence2": ["He is here."], "score": [3.0], "genre": ["news"]}
    return "stsb=" + write(tmp_path / "stsb", train=pairs | {"sentence1": ["Trained on."]}, test=pairs)


def test_an_image_is_removed_with_all_its_captions_and_reported(tmp_path, stsb, capsys):
    train = {
        "group": ["1", "2", "3"],
        "captions": [["A dog.", "A hound."], ["A cat.", "a man is HERE"], ["Trained on.", "he is here!"]],
    }
    source = write(tmp_path / "captions", train=train, test={"group": ["4"], "captions": [["A man is here."]]})
    output = tmp_path / "out"
    assert main(["leakage", source, "--against", stsb, "--output", str(output)]) == 0
    left = load_dataset("parquet", data_dir=str(output))
    assert left["train"].to_list() == [{"group": "1", "captions": ["A dog.", "A hound."]}]
    assert left["test"]["group"] == ["4"]  # only train is stripped
    assert json.loads((output / "leakage.json").read_text()) == {
        "rows": {"read": 3, "removed": 2, "kept": 1},
        "columns": ["captions"],
        "sentences": {"stsb test": 2},
        "sets": {"stsb test": 2},
    }
    report = json.loads((output / "report.json").read_text())
    assert report == {"train": {"from": "somewhere"}, "leakage": {"read": 3, "removed": 2, "kept": 1}}
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["removed", "2"] in printed and ["stsb", "test", "2"] in printed


@pytest.mark.parametrize(
    "columns",
    [
        {"input": ["Fine.", "A man is here"], "response": ["He is there.", "Hm."], "thread": ["1", "A man is here."]},
        {"input": ["Fine.", "Well."], "response": ["No.", "Hm."], "context": [["so what"], ["so", "He is here"]]},
        {"premise": ["Fine.", "Well."], "hypothesis": ["No.", "HE IS HERE"], "label": [0, 1]},
        {"sentence1": ["Fine.", "Well."], "sentence2": ["No.", "He is here?"], "score": [None, 1.0]},
        {"book": ["He is here.", "b"], "paragraph": [0, 1], "position": [0, 1], "sentence": ["Fine.", "He is here."]},
    ],
)
def test_leaked_rows_of_every_kind_of_dataset_are_removed(tmp_path, stsb, columns):
    source = write(tmp_path / "source", train=columns)
    assert main(["leakage", source, "--against", stsb, "--output", str(tmp_path / "out")]) == 0
    left = load_dataset("parquet", data_dir=str(tmp_path / "out"))["train"]
    assert left.to_list() == [{name: values[0] for name, values in columns.items()}]


def test_without_an_output_nothing_is_written(tmp_path, stsb, capsys):
    source = write(tmp_path / "source", train={"sentence": ["He is here.", "Fine."]})
    before = sorted(tmp_path.rglob("*"))
    assert main(["leakage", source, "--against", stsb]) == 0
    assert ["removed", "1"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert sorted(tmp_path.rglob("*")) == before
    assert main(["leakage", source, "--against", stsb, "--overwrite"]) == 2
    assert "--overwrite: needs --output" in capsys.readouterr().err


def test_snli_and_sts_are_loaded_as_by_their_commands(tmp_path):
    (tmp_path / "snli").mkdir()
    line = {"sentence1": "He is here.", "sentence2": "Someone is.", "gold_label": "entailment"}
    for name in ("train", "test"):
        (tmp_path / "snli" / f"snli_1.0_{name}.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "sts" / "2014-test").mkdir(parents=True)
    (tmp_path / "sts" / "2014-test" / "STS.input.images.txt").write_text("A barn.\tA house.\n")
    (tmp_path / "sts" / "2014-test" / "STS.gs.images.txt").write_text("3\n")
    source = write(tmp_path / "source", train={"sentence": ["He is here.", "a house", "Fine."]})
    against = ["--against", f"snli={tmp_path / 'snli'}", "--against", f"sts={tmp_path / 'sts'}"]
    assert main(["leakage", source, *against, "--output", str(tmp_path / "out")]) == 0
    sets = json.loads((tmp_path / "out" / "leakage.json").read_text())["sets"]
    assert sets == {"snli test": 1, "sts 2014 images": 1}


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("stsb", "--against stsb: expected NAME=SOURCE"),
        ("mine={folder}/train_only", "has no split for evaluation; found train"),
        ("mine={folder}/numbers", "split test: no column of text; expected some of input"),
        ("mine={folder}/source", "every row leaks"),
        ("mine={folder}/nowhere", "nowhere: no such folder"),
    ],
)
def test_a_wrong_dataset_is_refused_and_leaves_no_output(tmp_path, capsys, against, message):
    source = write(tmp_path / "source", train={"sentence": ["He is here."]}, test={"sentence": ["He is here."]})
    write(tmp_path / "train_only", train={"sentence": ["He is here."]})
    write(tmp_path / "numbers", test={"number": [1]})
    output = tmp_path / "out"
    assert main(["leakage", source, "--against", against.format(folder=tmp_path), "--output", str(output)]) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_a_folder_without_a_train_split_and_an_output_equal_to_it_are_refused(tmp_path, stsb, capsys):
    source = write(tmp_path / "source", test={"sentence": ["He is here."]})
    assert main(["leakage", source, "--against", stsb]) == 2
    assert "no train-*.parquet" in capsys.readouterr().err
    source = write(tmp_path / "source", train={"sentence": ["Fine."]})
    assert main(["leakage", source, "--against", stsb, "--output", source, "--overwrite"]) == 2
    assert "this folder is the one that is read" in capsys.readouterr().err


def test_removed_images_of_real_captions_equal_those_of_a_plain_reader(data_dir, tmp_path):
    captions, output = str(tmp_path / "captions"), tmp_path / "out"
    assert main(["captions", str(data_dir / "captions" / "multi30k"), "--output", captions]) == 0
    arguments = ["leakage", captions, "--against", f"stsb={data_dir / 'stsb'}", "--output", str(output)]
    assert main(arguments) == 0
    sentences = set()
    for name in ("dev", "test"):
        for line in (data_dir / "stsb" / f"sts-{name}.csv").read_text(encoding="utf-8").split("\n")[:-1]:
            sentences |= {normalize_text(text) for text in line.split("\t")[5:7]}
    train = load_dataset("parquet", data_files=f"{captions}/train-*.parquet")["train"]
    expected = [row["group"] for row in train if not sentences & {normalize_text(text) for text in row["captions"]}]
    left = load_dataset("parquet", data_files=f"{output}/train-*.parquet")["train"]
    assert left["group"] == expected and len(train) - len(left) == 504


def test_texts_of_lists_and_of_all_splits_but_train_are_evaluation_texts(tmp_path):
    dev = {"captions": [["A dog.", None, "A hound."], None], "text": [None, "So."]}
    test = {"captions": [["A cow."]], "text": ["Four."]}
    source = write(tmp_path / "images", validation=dev, test_matched=test, train=test)
    assert load_evaluation_texts([f"mine={source}"]) == {
        "mine dev": ["A dog.", "A hound.", "So."],
        "mine test_matched": ["A cow.", "Four."],
    }


def test_the_license_and_the_other_splits_of_the_dataset_are_kept(tmp_path, stsb):
    source = write(tmp_path / "source", train={"text": ["Fine.", "He is here."]}, validation={"text": ["He is here."]})
    (tmp_path / "source" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Some texts\n")
    assert main(["leakage", source, "--against", stsb, "--output", str(tmp_path / "out")]) == 0
    assert "license: cc-by-4.0" in (tmp_path / "out" / "README.md").read_text()
    left = load_dataset("parquet", data_dir=str(tmp_path / "out"))
    assert {name: rows["text"][:] for name, rows in left.items()} == {"train": ["Fine."], "validation": ["He is here."]}
    text = (tmp_path / "out" / "leakage.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"  # for readers
