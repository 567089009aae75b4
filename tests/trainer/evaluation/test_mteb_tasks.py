"""MTEB's code computes our scores, in files that it reads again and that are published with the model."""

import random
import sys
from pathlib import Path

import pytest
from datasets import Dataset

from tests.conftest import WORDS
from trainer.evaluation import mteb_tasks


@pytest.fixture
def run(make_run, tmp_path: Path) -> Path:
    """The folder of a finished run of a tiny model."""
    return make_run(tmp_path / "run")


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
def test_mteb_computes_our_scores_and_reads_its_files_again(run, sets, split, monkeypatch):
    mteb = pytest.importorskip("mteb", reason="the extra mteb is not installed: pip install -e '.[mteb]'")
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


def test_without_mteb_the_message_names_the_extra(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mteb", None)
    assert mteb_tasks.main([str(run / "model"), "--stsb", "data/stsb"]) == 2
    assert "this command needs mteb: pip install 'convsim[mteb]'" in capsys.readouterr().err


def test_the_code_of_a_folder_is_not_run(make_run, tmp_path, sets, capsys):
    pytest.importorskip("mteb", reason="the extra mteb is not installed: pip install -e '.[mteb]'")
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
