"""The model card agrees with results.json, and the Hub's own reader parses it."""

import json
import re
from html import escape
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from transformers import PretrainedConfig

from modeling_convsim.shipped import base_model
from trainer.publish.model_card import published_settings, read_scores, render_card
from trainer.publish.provenance import example_id, find_hub_sources


class SomeConfig(PretrainedConfig):
    model_type = "convsim_dan"
    embedding_size: int = 24
    normalize_response: bool = False


RESULTS = {
    "response_prediction": {
        "p_at_1": 0.5612, "p_at_3": 0.7025, "p_at_10": 0.8361, "candidates": 100, "queries": 4321, "split": "test",
    },
    "snli": {"accuracy": 0.7411, "split": "test"},
    "stsb": {
        "dev": {"all": {"pearson": 0.7101, "spearman": 0.7002}, "news": {"pearson": 0.6003, "spearman": 0.5904}},
        "test": {"all": {"pearson": 0.6905, "spearman": 0.6806}},
    },
    "stsb_tuned": {"test": {"all": {"pearson": 0.7307, "spearman": 0.7208}}},
    "cqa": {"dev": {"map": 0.6109}, "test2017": {"map": 0.4211}},
    "sts": {"2012": {"MSRpar": {"pearson": 0.4312, "spearman": 0.4213}}},
    "run": {
        "seconds": 1234.5,
        "pairs": 99,
        "steps": 5678,
        "parameters": 7654321,
        "seed": 3,
        "rows": {"pairs": 87654, "snli": 2345},
    },
    "leakage": {"pairs": {"stsb test": 12, "snli test": 0, "removed": 11}, "snli": {"removed": 0}},
    "hub_sources": ["someone/talk-pairs", "stanfordnlp/snli"],
}  # fmt: skip
SETTINGS = {
    "pairs": ["someone/talk-pairs", "/home/someone/secret/chats"],
    "snli": "stanfordnlp/snli",
    "tasks": {"response_prediction": 0.95, "snli": 0.05},
    "learning_rate": 0.01,
    "max_tokens": 64,
    "output_dir": "/home/someone/runs/x",
}


def card_of(folder: Path, results: dict = RESULTS, settings: dict = SETTINGS) -> ModelCard:
    return render_card(folder, results, settings, SomeConfig(), "someone/talker")


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> ModelCard:
    return card_of(tmp_path_factory.mktemp("card"))


def numbers(value: object) -> set[str]:
    """Every number in a nested structure, as cards show it: in full, to four decimals, without decimals."""
    if isinstance(value, dict):
        return set().union(*(numbers(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(numbers(item) for item in value))
    return {str(value), f"{value:.4f}", f"{value:.0f}"} if isinstance(value, (int, float)) else set()


def test_metadata_names_library_task_language_license_and_the_data_that_is_on_the_hub(card: ModelCard):
    data = card.data
    assert (data.library_name, data.pipeline_tag, data.language) == (
        "sentence-transformers",
        "sentence-similarity",
        ["en"],
    )
    assert data.license is None
    assert data.datasets == ["someone/talk-pairs", "stanfordnlp/snli"]
    assert "convsim_dan" in data.tags


def test_model_index_has_the_first_metric_of_each_evaluator_on_test(card: ModelCard):
    written = [(result.dataset_split, result.metric_type, result.metric_value) for result in card.data.eval_results]
    assert written == [
        ("test", "p_at_1", 0.5612),
        ("test", "accuracy", 0.7411),
        ("test", "pearson", 0.6905),
        ("test", "pearson", 0.7307),
        ("test2017", "map", 0.4211),
    ]


def test_table_shows_every_score_that_is_not_on_dev(card: ModelCard):
    for score in read_scores(RESULTS, SETTINGS):
        row = re.search(rf"\| {score.split} \| [^|]+ \| {score.value:.4f} \|", card.text)
        assert bool(row) == (score.split != "dev"), score


def test_every_number_in_data_and_results_sections_comes_from_the_results(card: ModelCard):
    known = numbers(RESULTS) | numbers(SETTINGS) | {"1", "3", "10", "2012", "2017"}
    known |= {"95", "2018"}  # of the bootstrap, and of a citation
    body = card.text[card.text.index("## Results") : card.text.index("## Citation")]
    for number in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", body):
        assert number.rstrip(",").replace(",", "") in known, number


def test_a_part_that_was_not_run_is_absent(tmp_path: Path):
    card = card_of(tmp_path, {"run": {}}, {"pairs": [], "tasks": {}})
    assert card.data.eval_results is None
    assert "The model was not evaluated." in card.text
    assert "did not record whether evaluation sentences were removed" in card.text and "encode_query" not in card.text


@pytest.mark.parametrize(
    ("precision", "pearson", "text"),
    [
        (0.56, 0.75, "Choose it for sentence similarity {}, and for selecting {}. Choose another model for "),
        (0.56, 0.41, "Choose it for selecting {1}. Its results are not good enough for sentence similarity {0}. "),
        (0.03, 0.41, "Its results are not good enough for sentence similarity {}, or for selecting {}. Choose "),
        (None, None, "It was not evaluated for sentence similarity {}, or for selecting {}. Choose "),
    ],
)
def test_results_say_what_a_model_is_good_for(
    tmp_path: Path, precision: float | None, pearson: float | None, text: str
):
    scores = {"stsb": {"dev": {"all": {"pearson": 0.9}}, "test": {"all": {"pearson": pearson}}},
              "response_prediction": RESULTS["response_prediction"] | {"p_at_1": precision}}  # fmt: skip
    card = card_of(tmp_path, scores if precision else {})
    text = text.format("in English, search and clustering of short texts", "a reply from a fixed list")
    assert f"## When to choose it {text}" in " ".join(card.content.split())


def test_the_tokenizer_says_how_much_of_a_text_is_read(tmp_path: Path):
    shown = {}
    for length in (512, 10**30):  # the latter is that of all
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
        shown[length] = re.findall(r"first (\d+) tokens", card_of(tmp_path).content)
    assert shown == {512: ["512"], 10**30: []}


def test_a_dataset_of_another_size_does_not_get_the_public_name(tmp_path: Path):
    own = {
        "snli": {"accuracy": 0.7, "pairs": 882, "split": "test"},
        "stsb": {"test": {"all": {"pearson": 0.6, "spearman": 0.5, "pairs": 269}}},
    }
    card = card_of(tmp_path, own, {**SETTINGS, "snli": "data/sample/nli", "stsb": "data/sample/sts"})
    assert {result.dataset_type for result in card.data.eval_results} == {"local-dataset"}
    shown = card.text.partition("## Results")[2].partition("## Data")[0]
    assert "local dataset" in shown and "STS Benchmark" not in shown and "SNLI" not in shown


def test_published_settings_say_nothing_of_where_folders_lie():
    settings = SETTINGS | {"stsb": "jane", "extensions": ["bob.py"], "tokenizer": "jane", "score_teachers": ["bob"]}
    published = published_settings(settings, RESULTS["hub_sources"])
    assert published["pairs"] == ["someone/talk-pairs", "local dataset"] and published["snli"] == "stanfordnlp/snli"
    assert not [name for name in ("/home", "jane", "bob") if name in str(published)]
    assert (published["stsb"], published["tokenizer"]) == ("local dataset", "local model")
    assert published["score_teachers"] == ["local model"]
    assert published_settings({"word_vectors": "random"}, ())["word_vectors"] == "random"


def test_datasets_of_the_other_tasks_have_a_row_for_each_kind_and_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # without datasets of these names, whose licenses would be shown
    settings = SETTINGS | {"captions": ["data/coco", "data/multi30k"], "paraphrases": ["someone/questions@v2"]}
    settings |= {"tasks": {"captions": 1, "paraphrases": 1}}
    rows = {"captions/coco": 1000, "captions/multi30k": 200, "paraphrases/questions": 20}
    leakage = {"captions/coco": {"stsb test": 3, "removed": 3}, "captions/multi30k": {"removed": 4}}
    leakage |= {"paraphrases/questions": {"removed": 0}}
    results = RESULTS | {"run": {"rows": rows}, "leakage": leakage, "hub_sources": ["someone/questions@v2"]}
    results["licenses"] = {"someone/questions@v2": "mit"}
    card = card_of(tmp_path, results, settings)
    assert "| 2 local datasets | not stated | captions 1,200 | 7 |" in card.text
    assert "| someone/questions@v2 | mit | paraphrases 20 | 0 |" in card.text
    assert card.data.datasets == ["someone/questions"]


def test_a_task_without_data_is_not_named(tmp_path):
    text = card_of(tmp_path, RESULTS, SETTINGS | {"snli_share": 0.0}).content
    assert "- SNLI:" not in text and "- Response prediction:" in text


def test_a_baseline_of_another_ranking_alone_is_no_comparison(tmp_path: Path):
    baselines = {"bm25": {"cqa": {"dev": {"map": 0.5}, "test2017": {"map": 0.4}}}}
    assert "BM25" not in card_of(tmp_path, RESULTS | {"baselines": baselines}).content


def test_the_card_of_an_adapted_model_compares_it_and_names_its_base_and_teacher(tmp_path: Path):
    gain = {"gain": 0.1, "gain_interval": [0.05, 0.15]}
    adaptation = {"p_at_1": 0.44, "base_p_at_1": 0.34, "queries": 1234, "measured_by": "dev", **gain}
    baselines = {"bm25": {"response_prediction": {"p_at_1": 0.123, "gain": 0.317, "gain_interval": [0.3, 0.33]}}}
    results = {"adaptation": adaptation, "baselines": baselines, "hub_sources": ["someone/encoder"]}
    settings = {"tasks": {"response_prediction": 1}, "initialize_from": "someone/encoder", "token_weights": "ones"}
    card = card_of(tmp_path, results, settings)
    text = " ".join(card.text.split())
    assert "evaluation dataset were removed" not in text and "human ratings" not in text
    assert "was not adapted to." in text and "did not record whether" not in text
    with_leakage = card_of(tmp_path, results | {"leakage": RESULTS["leakage"]}, settings)
    assert "not to that of the model that it was initialized from." in " ".join(with_leakage.content.split())
    assert card.data.base_model == ["someone/encoder"] and "**Adapted** from someone/encoder:" in text
    assert "was 0.440 for this model and 0.340 for the base: +0.100 (95% interval +0.050 to +0.150; dev, 1,234" in text
    assert r"| BM25 | 0.123 | +0.317 \[+0.300, +0.330\] |" in text
    assert published_settings(settings, ["someone/encoder"]) == {
        "tasks": {"response_prediction": 1},
        "initialize_from": "someone/encoder",
    }
    # the base that ships was itself distilled, as its own settings say
    settings["initialize_from"] = base_model()
    card = card_of(tmp_path, results, settings)
    assert card.data.base_model == ["sentence-transformers/all-MiniLM-L6-v2"]
    assert "from the base that ships with convsim, which was distilled from" in " ".join(card.text.split())


def test_intervals_and_seeds_are_shown_if_they_were_measured(tmp_path):
    news = {"stsb.test.news.pearson": [0.6, 0.62, 0.61]}  # a part of the whole
    results = RESULTS | {
        "stsb": {"test": {"all": {"pearson": 0.71, "pearson_interval": [0.6812, 0.7409], "pairs": 1379}}},
        "seeds": {"stsb.test.all.pearson": [0.7, 0.72, 0.71], "response_prediction.test.p_at_1": [0.3]} | news,
    }
    text = card_of(tmp_path, results).text
    assert "| textual similarity | STS Benchmark | test | Pearson | 0.7100 | 0.681 to 0.741 |" in text
    assert "with 3 seeds" in text and "| STS Benchmark test all | Pearson | 0.7100 | 0.0100 |" in text
    assert "| held-out conversations test | P@1 | 0.3000 | 0.0000 |" in text and "test news" not in text


def test_unknown_tasks_and_datasets_are_shown_by_their_names(tmp_path: Path):
    settings = SETTINGS | {"tasks": {"chess_moves": 1.0, "snli": 0}, "games": ["/data/chess/openings"]}
    results = {
        "snli": {"accuracy": 0.5, "split": "test"},
        "run": {"rows": {"chess_moves/openings": 9}},
        "leakage": {"games/openings": {"removed": 2}},
        "seeds": {"chess.test.elo": [1500.0]},
    }
    text = card_of(tmp_path, results, settings).text
    assert "Training tasks:\n\n- chess moves\n" in text
    assert "| local dataset | not stated | not recorded | 2 |" in text
    assert "| chess test | elo | 1500.0000 |" in text


def test_a_local_folder_with_the_form_of_a_hub_id_is_not_published(tmp_path: Path):
    settings = SETTINGS | {
        "pairs": ["jane-doe/private-chats"],
        "initialize_from": "jane-doe/model",
        "teacher": "jane-doe/teacher",
        "tasks": {"response_prediction": 1, "distillation": 1},
    }
    card = card_of(tmp_path, RESULTS, settings)  # where the folder is no longer there
    assert card.data.datasets is None and card.data.base_model is None
    assert "jane-doe" not in card.content and "private-chats" not in card.content
    assert "| local dataset | not stated | response prediction 87,654 |" in card.text


def test_the_hub_sources_of_a_run_are_those_that_are_no_paths(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    settings = {"pairs": ["someone/talk:all@main", "data/chats", "./a/b", "plain"], "teacher": "org/model", "seed": 3}
    assert find_hub_sources(settings) == ["someone/talk:all@main", "org/model"]


HOSTILE = "<img src=x onerror=alert(1)>\n# [a](http://evil.org) | **b** `c`"


def test_names_are_no_markup_in_the_card(tmp_path: Path):
    markdown = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    settings = SETTINGS | {"model_type": HOSTILE, "tasks": {HOSTILE: 1, "snli": 1}, "teacher": HOSTILE}
    results = RESULTS | {"hub_sources": [HOSTILE], "licenses": {"stanfordnlp/snli": HOSTILE}, "seeds": {HOSTILE: [1.0]}}
    html = markdown.render(card_of(tmp_path, results, settings).text)
    assert "<img src=x" not in html and 'href="http://evil' not in html and "<strong>b" not in html
    assert html.count(escape(HOSTILE.replace("\n", " "))) == 2  # a task and a license


def test_a_run_folders_name_is_no_code_in_the_examples():
    assert example_id(Path('runs/x"); import os #')) == "runs/x-import-os/model"
