"""Subtask B of SemEval Task 3, compared with the official gold."""

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data_scripts.__main__ import main
from data_scripts.public.cqa import load_cqa
from data_scripts.schemas import CQA_SCHEMA, features
from modeling_convsim.files.errors import InputError

DEV = "SemEval2016-Task3-CQA-QL-dev.xml"
ROWS: list[dict[str, Any]] = [
    {
        "query_id": "Q1",
        "query": "Cheap bikes. Where do I buy one & how?",
        "candidate_id": "Q1_R3",
        "candidate": "Bike shop. Is there a shop?",
        "relevant": True,
        "label": "PerfectMatch",
        "rank": 3,
    },
    {
        "query_id": "Q1",
        "query": "Cheap bikes. Where do I buy one & how?",
        "candidate_id": "Q1_R7",
        "candidate": "Lost my keys",
        "relevant": False,
        "label": "Irrelevant",
        "rank": 7,
    },
]
RELATED = """
<OrgQuestion ORGQ_ID="Q1">
  <OrgQSubject>Cheap bikes</OrgQSubject><OrgQBody>Where do I buy one &amp; how?</OrgQBody>
  <Thread THREAD_SEQUENCE="{id}">
    <RelQuestion RELQ_ID="{id}" RELQ_RANKING_ORDER="{rank}" RELQ_RELEVANCE2ORGQ="{label}">
      <RelQSubject>{subject}</RelQSubject><RelQBody>{body}</RelQBody>
    </RelQuestion>
    <RelComment RELC_ID="{id}_C1"><RelCText>A comment.</RelCText></RelComment>
  </Thread>
</OrgQuestion>"""
RELATED_ROWS = [
    {"id": "Q1_R3", "rank": "3", "label": "PerfectMatch", "subject": "Bike shop", "body": "Is there a shop?"},
    {"id": "Q1_R7", "rank": "7", "label": "Irrelevant", "subject": "Lost my keys", "body": ""},
]


def xml(related: list[dict[str, str]]) -> bytes:
    return ('<xml version="1.0">' + "".join(RELATED.format(**row) for row in related) + "\n</xml>\n").encode()


def test_official_xml_gives_subject_and_body_of_both_questions(tmp_path: Path) -> None:
    (tmp_path / f"{DEV}.xz").write_bytes(lzma.compress(xml(RELATED_ROWS)))
    splits = load_cqa(str(tmp_path))
    assert list(splits) == ["validation"] and splits["validation"].to_list() == ROWS
    assert splits["validation"].features == features(CQA_SCHEMA)


def test_parts_of_train_are_joined_and_missing_files_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2):
        name = f"SemEval2016-Task3-CQA-QL-train-part{number}.xml"
        (tmp_path / name).write_bytes(xml(RELATED_ROWS[number - 1 : number]))
    splits = load_cqa(str(tmp_path))
    assert list(splits) == ["train"] and splits["train"].to_list() == ROWS
    assert f"has no {DEV}; left out of split validation" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (DEV, xml(RELATED_ROWS)[:-40], r":\d+: not well-formed XML"),
        (DEV, xml([{**RELATED_ROWS[0], "rank": "first"}]), r", RelQuestion Q1_R3: rank 'first'"),
        (DEV, b"<xml></xml>", ": contains no related question"),
        (
            "test.jsonl",
            b'{"question": "W?", "related": "Y?", "relevant": "perhaps"}',
            ":1: label 'perhaps'; expected true",
        ),
        (
            "test.jsonl",
            b'{"question": "Where?", "related": "", "relevant": true}',
            ":1: candidate is ''; expected a text",
        ),
        ("test.jsonl", b'{"question": "Where?", "relevant": true}', ":1: no column candidate; expected query"),
    ],
)
def test_a_damaged_file_is_refused_with_its_location(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}{message}"):
        load_cqa(str(tmp_path))


def test_a_folder_without_a_file_of_the_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no original files were found either, such as SemEval2016"):
        load_cqa(str(tmp_path))
    with pytest.raises(InputError, match="no such folder"):
        load_cqa(str(tmp_path / "nowhere"))


def test_labels_of_a_test_file_come_from_the_official_gold(tmp_path: Path) -> None:
    name = "SemEval2017-Task3-CQA-QL-test.xml"
    (tmp_path / name).write_bytes(xml([{**row, "label": "?"} for row in RELATED_ROWS]))
    with pytest.raises(InputError, match=r"RelQuestion Q1_R3: label '\?'.* its gold, X.xml.subtaskB.relevancy, must"):
        load_cqa(str(tmp_path))
    gold = "Q1\tQ1_R3\t3\t0.33\ttrue\nQ1\tQ1_R7\t7\t0.14\tfalse\n"
    (tmp_path / f"{name}.subtaskB.relevancy").write_text(gold)
    rows = load_cqa(str(tmp_path))["test2017"].to_list()
    assert rows == [{**ROWS[0], "label": "PerfectMatch/Relevant"}, ROWS[1]]


@pytest.mark.parametrize("relevance", ['"relevant": true', '"relevant": 1', '"label": "Relevant"'])
def test_a_table_without_ids_and_ranks_is_read(tmp_path: Path, relevance: str) -> None:
    lines = [
        f'{{"question": "Where to?", "related": "Which way?", {relevance}}}',
        '{"question": "Who is it?", "related": "Who?", "relevant": false}',
        f'{{"question": "Where to?", "related": "Whither?", {relevance}}}',
    ]
    (tmp_path / "test.jsonl").write_text("\n".join(lines))
    rows = load_cqa(str(tmp_path))["test"].to_list()
    assert [(row["query_id"], row["candidate_id"], row["rank"]) for row in rows] == [
        ("Q1", "Q1_R1", 1),
        ("Q2", "Q2_R1", 1),
        ("Q1", "Q1_R2", 2),
    ]
    assert [row["relevant"] for row in rows] == [True, False, True]
    assert rows[1]["label"] == "Irrelevant"


def test_command_writes_splits_that_load_back_and_reports_the_labels(tmp_path: Path) -> None:
    source, output = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    (source / DEV).write_bytes(xml(RELATED_ROWS))
    assert main(["cqa", str(source), "--output", str(output)]) == 0
    before, after = load_cqa(str(source)), load_cqa(str(output))
    assert {name: rows.to_list() for name, rows in after.items()} == {
        name: rows.to_list() for name, rows in before.items()
    }
    report = json.loads((output / "report.json").read_text())
    assert report["validation"] == {"from": str(source), "rows": 2, "questions": 1, "Irrelevant": 1, "PerfectMatch": 1}


def official_gold(path: Path) -> dict[tuple[str, str], tuple[int, bool]]:
    """(question, related question) -> (rank, relevant) of a .relevancy file of the scorer."""
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return {(query, candidate): (int(rank), relevant == "true") for query, candidate, rank, _, relevant in lines}


def test_real_dev_has_the_rows_of_the_official_gold_ten_for_each_question(data_dir: Path) -> None:
    rows = load_cqa(str(data_dir / "cqa"))["validation"]
    ours = {(row["query_id"], row["candidate_id"]): (row["rank"], row["relevant"]) for row in rows}
    gold = official_gold(data_dir / "cqa" / "SemEval2016-Task3-CQA-QL-dev.xml.subtaskB.relevancy")
    assert len(ours) == len(rows) and ours == gold
    assert set(Counter(rows["query_id"]).values()) == {10}


def test_real_part_of_train_has_the_published_labels(data_dir: Path) -> None:
    train = load_cqa(str(data_dir / "cqa"))["train"]
    # The task's README, part 2.
    assert Counter(train["label"]) == {"PerfectMatch": 54, "Relevant": 242, "Irrelevant": 374}
