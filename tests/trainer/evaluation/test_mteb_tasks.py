"""MTEB's code computes our scores, in files that it reads again and that are published with the model."""

import math
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression

from modeling_convsim.encoding import Encoder
from tests.conftest import WORDS
from trainer.evaluation import mteb_tasks


@pytest.fixture
def run(make_run, tmp_path: Path) -> Path:
    """The folder of a finished run of a tiny model."""
    return make_run(tmp_path / "run")


@pytest.fixture
def mteb() -> ModuleType:
    return pytest.importorskip("mteb", reason="the extra mteb is not installed: pip install -e '.[mteb]'")


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """STS-B and conversation pairs of invented sentences, each with a dev and a test split."""
    draw = random.Random(0)

    def sentences(count: int) -> list[str]:
        return [" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) for _ in range(count)]

    for split, size in (("validation", 110), ("test", 130)):
        stsb = {"sentence1": sentences(50), "sentence2": sentences(50), "score": [draw.random() * 5 for _ in range(50)]}
        talk = {"input": sentences(size), "response": sentences(size)}
        names = {"thread": [f"{split} {number}" for number in range(size)], "source": ["invented"] * size}
        for name, columns in {"stsb": stsb, "pairs": talk | names}.items():
            (tmp_path / name).mkdir(exist_ok=True)
            Dataset.from_dict(columns).to_parquet(tmp_path / name / f"{split}-00000-of-00001.parquet")
    return tmp_path


@pytest.mark.parametrize("split", ["dev", "test"])
def test_mteb_computes_our_scores_and_reads_its_files_again(run, sets, split, monkeypatch, mteb):
    words = [str(run / "model"), "--stsb", str(sets / "stsb"), "--pairs", str(sets / "pairs"), "--split", split]
    scores: list[mteb_tasks.ComparedScore] = []
    monkeypatch.setattr(mteb_tasks, "format_scores", scores.extend)
    assert mteb_tasks.main(words) == 0
    assert [(one.task, one.name) for one in scores] == [
        *(("STSBenchmark", f"cosine_{name}") for name in ("pearson", "spearman")),
        *(("ConvSimReplies", f"hit_rate_at_{n}") for n in (1, 3, 10)),
    ]
    assert [one.mteb for one in scores] == pytest.approx([one.ours for one in scores], abs=1e-4)
    assert all(one.ours for one in scores)

    folder, split = run / "model" / "mteb", mteb_tasks.SPLITS[split]
    assert {path.name for path in folder.iterdir()} == {"STSBenchmark.json", "ConvSimReplies.json", "model_meta.json"}
    for one in scores:
        result = mteb.TaskResult.from_disk(folder / f"{one.task}.json", load_historic_data=False)
        assert result.scores[split][0][one.name] == pytest.approx(one.mteb, abs=1e-6)


INTENTS = {
    "like": ["i like the cat", "we love dogs", "you like the new car", "they love the big house"],
    "ask": ["where is the cat ?", "who are you ?", "when do they walk ?", "why is the dog sad ?"],
}


@pytest.fixture
def intents(tmp_path: Path) -> Path:
    """Messages with their intents, three of each to train on."""
    folder = tmp_path / "intents"
    folder.mkdir()
    for split, messages in {"train": slice(3), "test": slice(3, None)}.items():
        rows = [(text, label) for label, texts in INTENTS.items() for text in [*texts[messages]]]
        Dataset.from_dict(dict(zip(("text", "label"), zip(*rows, strict=True), strict=True))).to_csv(
            folder / f"{split}.csv"
        )
    return folder


def test_intents_are_classified_from_a_number_of_examples_of_each(run, intents, mteb, monkeypatch):
    scores: list[mteb_tasks.ComparedScore] = []
    monkeypatch.setattr(mteb_tasks, "format_scores", scores.extend)
    assert mteb_tasks.main([str(run / "model"), "--intents", str(intents), "--shots", "1", "3"]) == 0
    # Three of each are all, whichever are drawn.
    encode = Encoder.from_pretrained(run / "model").encode
    parts = {split: Dataset.from_csv(str(intents / f"{split}.csv")) for split in ("train", "test")}
    vectors = {split: encode(rows["text"][:]) for split, rows in parts.items()}
    classifier = LogisticRegression().fit(vectors["train"], parts["train"]["label"])
    expected = classifier.score(vectors["test"], parts["test"]["label"])
    names = [f"ConvSimIntents.{shots}-shot" for shots in (1, 3)]
    assert [(one.task, one.name, one.ours) for one in scores] == [(name, "accuracy", None) for name in names]
    assert scores[1].mteb == pytest.approx(expected)
    assert all((run / "model" / "mteb" / f"{name}.json").is_file() for name in names)


def test_a_task_of_mteb_is_found_by_its_name(run, tmp_path, mteb, monkeypatch, capsys):
    """LMEB's LoCoMo, with other data in place of the Hub's: the mean of its subsets."""
    task = mteb.get_task("LoCoMo")
    texts = ["the dog runs", "i like the old car", "where is the cat ?"]

    def load(self, *_, **__):
        corpus = Dataset.from_dict({"id": ["d0", "d1", "d2"], "text": texts})
        queries = Dataset.from_dict({"id": ["q"], "text": [texts[1]]})
        self.dataset, self.data_loaded = {}, True
        for number, subset in enumerate(task.hf_subsets):
            # The query is a document's text, which is the relevant one in the first subset alone.
            relevant = {"q": {"d1": 1} if number == 0 else {"d1": 0, "unknown": 1}}
            part = {"corpus": corpus, "queries": queries, "relevant_docs": relevant, "top_ranked": None}
            self.dataset[subset] = {"test": part}

    monkeypatch.setattr(type(task), "load_data", load)
    assert mteb_tasks.main([str(run / "model"), "--tasks", "LoCoMo", "-o", str(tmp_path / "out")]) == 0
    encoder = SentenceTransformer(str(run / "model"))
    (cosines,) = encoder.similarity(encoder.encode_query([texts[1]]), encoder.encode_document(texts))
    expected = 1 / math.log2(2 + (cosines > cosines[1]).sum()) / 5  # there are five subsets
    assert f"LoCoMo  ndcg_at_10        {expected:>10.6f}\n" in capsys.readouterr().out
    assert mteb.TaskResult.from_disk(tmp_path / "out" / "LoCoMo.json").get_score() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks", "LoCoM"], "--tasks LoCoM: MTEB has no such task ('LoCoM' not found. Did you mean: 'LoCoMo'?)"),
        (["--tasks", "LoCoMo"], "mteb/LoCoMo: no such file or folder here, and the Hub cannot be reached"),
        (["--tasks", "CIFAR10"], "--tasks CIFAR10: reads image; expected a task on texts alone"),
        (["--intents", "intents", "--shots", "1", "4"], "intent 'like' has 3 training messages, fewer than --shots 4"),
        (["--intents", "intents", "--split", "dev"], "intents has no validation split; it has train, test"),
        (["--intents", "empty"], "empty: split train: row 2 has no text or no label"),
        (["--intents", "one"], "one: split train has 1 intents; expected two or more"),
        (["--intents", "new"], "new: split test has no message, or an intent that split train does not have"),
        (["--tasks", "LoCoMo", "--shots", "4"], "--shots: no task is a classification"),  # before a download
        (["--intents", "pairs"], "pairs: split test has no column text, label"),
        (["--stsb", "stsb", "--shots", "4"], "--shots: no task is a classification"),
    ],
)
def test_a_task_that_cannot_be_evaluated_is_named(run, sets, intents, mteb, options, message, monkeypatch, capsys):
    monkeypatch.chdir(sets)
    like, ask = "text,label\nhello,like\n", "why,ask\n"
    rows = {"empty": (like + "thanks,\n", like), "one": (like, like), "new": (like + ask, like + "see,other\n")}
    for name, parts in rows.items():
        Path(name).mkdir()
        for split, part in zip(("train", "test"), parts, strict=True):
            Path(name, f"{split}.csv").write_text(part)
    assert mteb_tasks.main([str(run / "model"), *options]) == 2
    assert message in capsys.readouterr().err


def test_without_mteb_the_message_names_the_extra(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mteb", None)
    assert mteb_tasks.main([str(run / "model"), "--stsb", "data/stsb"]) == 2
    assert "this command needs mteb: pip install 'convsim[mteb]'" in capsys.readouterr().err


def test_the_code_of_a_folder_is_not_run(make_run, tmp_path, sets, mteb, capsys):
    run = make_run(tmp_path / "run", "dan_lexical")
    assert mteb_tasks.main([str(run / "model"), "--stsb", str(sets / "stsb")]) == 2
    error = capsys.readouterr().err
    assert "sentence-transformers cannot open it without running its code" in error
    assert "`python -m trainer.evaluation` evaluates it" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name STS-B with --stsb"),
        (["--stsb", "x"], "ORG/NAME is not a local folder; name a folder for the results with -o"),
    ],
)
def test_a_mistake_is_one_message(options, message, monkeypatch, capsys):
    monkeypatch.setattr(mteb_tasks, "import_mteb", lambda: None)
    assert mteb_tasks.main(["ORG/NAME", *options]) == 2
    assert message in capsys.readouterr().err
