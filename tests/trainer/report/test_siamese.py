"""The tables of Siamese CBOW over encoders with known word vectors: published rows as published, ours against NumPy."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from scipy import stats
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask
from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import HEADS
from tests.trainer.evaluation.invented_data import COLORS, THINGS, sts
from tests.trainer.report.folders import write_run
from tests.trainer.report.reading import shows, table_with, tables
from trainer.report import measurements as module
from trainer.report.__main__ import PUBLISHED
from trainer.report.measurements import Measurements
from trainer.report.page import Page
from trainer.report.plan import NEIGHBORS
from trainer.report.plan import WORDS as AVERAGES
from trainer.report.siamese import write_siamese
from trainer.report.systems import System

WORDS = [*"the a is : , her she his me my i".split(), *COLORS, *THINGS]
SIZE = 6
SETS = {"2012 MSRpar": ("2012", "MSRpar"), "2012 OnWN": ("2012", "OnWN"), "2014 OnWN": ("2014", "OnWN")}
SOURCES = {"sts": "data/sts"}
BOOKS = {"documents": ["data/books"], "batch_size": 100, "epochs": 5}
SYSTEMS: dict[str, dict[str, Any]] = {
    "siamese": {"label": "Siamese CBOW (books)", "role": NEIGHBORS, "settings": BOOKS},
    "cbow": {"label": "word2vec CBOW (books)", "role": AVERAGES, "settings": BOOKS, "method": "cbow"},
    "skip_gram": {"label": "word2vec skip-gram (books)", "role": AVERAGES, "settings": BOOKS, "method": "skip_gram"},
    "dan": {},
}


def word_table(name: str) -> np.ndarray:
    """Word vectors by id (words + 2, SIZE), drawn by name; [PAD], [UNK] and "lamp" have none."""
    table = np.random.RandomState(sum(map(ord, name))).randn(len(WORDS) + 2, SIZE).astype(np.float32)
    table[2:] *= np.linspace(2, 0.5, len(WORDS))[:, None]
    place = {word: number for number, word in enumerate(WORDS, start=2)}
    table[place["she"]] = 0.9 * table[place["her"]] + 0.05
    table[[0, 1, place["lamp"]]] = 0
    return table


def load(model: str) -> Encoder:
    """Replaces `load_encoder`: averages of `word_table`, by the name of the run's folder."""
    folder = Path(model).parent
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    config = ConvSimCbowConfig(**HEADS | {"vocab_size": len(vocabulary)}, embedding_size=SIZE)
    encoder = ConvSimCbowForMultitask(config)
    with torch.no_grad():
        encoder.get_parameter("encoder.embed_tokens.weight").copy_(torch.from_numpy(word_table(folder.name)))
    return Encoder(encoder, words)


def cosines(name: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """A dataset's cosines of averages in float64, and its gold scores."""
    year, each = SETS[key]
    pairs, table = sts()[year][each], word_table(name).astype(np.float64)

    def average(text: str) -> np.ndarray:
        # "semeval" and "dictionary" are not words; words without a vector count.
        return np.mean([table[WORDS.index(word) + 2] for word in text.replace(":", " :").split() if word in WORDS], 0)

    both = [(average(pair["sentence1"]), average(pair["sentence2"])) for pair in pairs]
    found = [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u, v in both]
    return np.array(found), np.array(pairs["score"])


@pytest.fixture(scope="module")
def published() -> Any:
    return yaml.safe_load(PUBLISHED.read_text("utf-8"))["kenter2016"]


def metrics(losses: list[float]) -> list[dict[str, Any]]:
    """Losses of a run, logged every step, evaluated at every fourth and before the first."""
    rows: list[dict[str, Any]] = []
    for step, loss in enumerate([0.0, *losses]):
        if step:
            rows.append({"step": step, "learning_rate": 1.0, "neighbors/books/loss": loss})
        if step % 4 == 0:
            dev: dict[str, dict[str, Any]] = {}
            for place, (year, name) in enumerate(SETS.values()):
                dev.setdefault(year, {})[name] = {"pearson": place / 10 + step / 100}
            rows.append({"step": step, "dev": {"sts": dev}})
    return rows


def study(folder: Path, setting: str, *values: str) -> list[System]:
    """Finished runs; the loss of a run falls to the number of characters of its value."""
    systems = []
    for value in values:
        losses = [1.0] * 18 + [0.1 * len(value), 0.3 * len(value)]
        varied = (setting, value)
        systems.append(write_run(folder / value, "", NEIGHBORS, BOOKS, metrics=metrics(losses), varied=varied))
    return systems


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, published: Any) -> Iterator[Path]:
    """The report's folder."""
    folder = tmp_path_factory.mktemp("siamese")
    systems = [
        write_run(folder / name, **options, metrics=metrics([1.0] * 20) if name == "siamese" else None)
        for name, options in SYSTEMS.items()
    ]
    systems += study(folder / "negatives", "negatives", "2", "1", "10", "5")
    systems += study(folder / "dimensions", "model_config.embedding_size", "300", "1200", "50")
    systems += study(folder / "rates", "learning_rate", "1.0", "10", "0.0001")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_encoder", load)
        page = Page(folder / "report")
        write_siamese(page, Measurements({"sts": sts()}, SOURCES, folder / "measured", systems), published)
        page.save()
    yield page.folder


@pytest.fixture(scope="module")
def numbers(report: Path) -> dict[str, Any]:
    return json.loads((report / "report.json").read_text("utf-8"))


def test_correlations_are_those_of_cosines_of_averages(numbers: dict[str, Any]) -> None:
    assert {row["run"] for row in numbers["siamese_table1"]} == set(SYSTEMS)
    for row in numbers["siamese_table1"]:
        assert set(row["sets"]) == set(SETS)
        for key, found in row["sets"].items():
            scores, gold = cosines(row["run"], key)
            assert found["pearson"] == pytest.approx(np.corrcoef(scores, gold)[0, 1], abs=1e-5)
            assert found["spearman"] == pytest.approx(stats.spearmanr(scores, gold).statistic, abs=0.02)


def test_each_is_tested_against_word2vec_cbow_by_signed_ranks(numbers: dict[str, Any]) -> None:
    rows = {row["run"]: row for row in numbers["siamese_table1"]}
    assert rows["cbow"]["p"] == {}
    for name in ("siamese", "skip_gram"):
        for key, p in rows[name]["p"].items():
            expected = stats.wilcoxon(cosines(name, key)[0], cosines("cbow", key)[0]).pvalue
            assert p == pytest.approx(expected, rel=0.05)
        assert set(rows[name]["p"]) == set(SETS)


def test_table_1_shows_the_numbers_of_json_and_their_means(report: Path, numbers: dict[str, Any]) -> None:
    rows = {row["run"]: row for row in numbers["siamese_table1"]}
    shown: set[str] = set()
    for table in tables(report):
        runs = [title.split("`")[1] for title in table[0] if "`" in title]
        if table[0][0] != "dataset" or not runs:
            continue
        shown |= set(runs)
        cells = {line[0].strip("*"): line[1:] for line in table[1:]}
        for column, run in enumerate(runs):
            for key, found in rows[run]["sets"].items():
                pearson, spearman = cells[key][column].replace("†", "").split()
                assert shows(pearson, found["pearson"]) and shows(spearman, found["spearman"])
                assert ("†" in cells[key][column]) == (rows[run]["p"].get(key, 1) < 0.0001)
                best = max(rows[other]["sets"][key]["pearson"] for other in runs)
                assert pearson.startswith("**") == (found["pearson"] == best)
            for of, keys in (("2012", ["2012 MSRpar", "2012 OnWN"]), ("all", list(SETS))):
                mean = np.mean([rows[run]["sets"][key]["pearson"] for key in keys])
                assert shows(cells[f"mean of {of}"][column], mean)
    assert shown == set(SYSTEMS)


def test_published_results_are_beside_ours(report: Path, numbers: dict[str, Any], published: Any) -> None:
    table1, columns = published["table1"], numbers["siamese_published"]
    for place, name in enumerate(table1["system_names"]):
        expected = [table1["sets"][year][each]["pearson"][place] for year, each in SETS.values()]
        assert columns[f"the paper: {name}"] == expected
    fastsent = [values for title, values in columns.items() if "FastSent" in title]
    assert fastsent == [[None, None, published["table2"]["sets"]["2014"]["OnWN"]["pearson"][0]]]
    ours = {row["run"]: row["sets"] for row in numbers["siamese_table1"]}
    for run, name in (("siamese", "Siamese CBOW"), ("cbow", "w2v CBOW"), ("skip_gram", "w2v skipgram")):
        assert columns[f"ours: {name}"] == [ours[run][key]["pearson"] for key in SETS]
    for line, key in zip(table_with(report, "dataset", "the paper: w2v skipgram"), SETS, strict=True):
        assert line[0] == key
        for cell, value in zip(line[1:], [values[list(SETS).index(key)] for values in columns.values()], strict=True):
            assert shows(cell, value) if value is not None else cell == ""


def test_curves_during_training_are_those_of_the_metrics(report: Path, numbers: dict[str, Any]) -> None:
    assert numbers["figure2"]["run"] == "siamese"
    assert numbers["figure2"]["seen"] == [100 * step for step in (0, 4, 8, 12, 16, 20)]
    for place, key in enumerate(SETS):
        expected = [place / 10 + step / 100 for step in (0, 4, 8, 12, 16, 20)]
        assert numbers["figure2"]["curves"][key] == pytest.approx(expected)
    assert (report / "figure2.png").is_file() and "5 epochs" in (report / "README.md").read_text("utf-8")


@pytest.mark.parametrize(("figure", "values"), [("figure3", ["1", "2", "5", "10"]), ("figure4", ["50", "300", "1200"])])
def test_a_study_has_each_value_in_order(report, numbers, figure, values):
    assert list(numbers[figure]) == values and (report / f"{figure}.png").is_file()
    title = {"figure3": "negative examples", "figure4": "dimensions"}[figure]
    for line, value in zip(table_with(report, title), values, strict=True):
        expected = [np.corrcoef(*cosines(value, key))[0, 1] for key in SETS]
        assert list(numbers[figure][value].values()) == pytest.approx(expected, abs=1e-5)
        assert line[0] == value and shows(line[1], float(np.mean(expected)))


def test_norms_are_sorted_over_words_of_letters_that_have_a_vector(numbers: dict[str, Any], published: Any) -> None:
    lengths = dict(zip(WORDS, np.linalg.norm(word_table("siamese")[2:].astype(np.float64), axis=1), strict=True))
    expected = sorted((word for word in WORDS if word.isalpha() and lengths[word]), key=lengths.__getitem__)
    assert numbers["norms"]["smallest"] == expected[:10] and numbers["norms"]["largest"] == expected[-10:]
    # COLORS and THINGS have none.
