"""Files of every format, damaged: the command reads them, or refuses them in one line that names the file."""

import json
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_scripts.__main__ import main
from data_scripts.clean.filters import Filters, measure
from data_scripts.clean.masking import mask_personal_data, mask_text
from data_scripts.clean.text import normalize_text
from data_scripts.reddit.columns import measure_column
from data_scripts.reddit.dumps import DumpParser
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLines
from tests.data_scripts.chats.reading import read_items
from tests.fuzzing.documents import DOCUMENTS, as_json, as_lines
from tests.fuzzing.strategies import damaged, numbers, records, texts

SUITE = settings.default.max_examples


def run(capsys: pytest.CaptureFixture[str], *words: object) -> int:
    """Run a command of data_scripts; it may refuse the last file that it is given, in one line that names it."""
    code = main([str(word) for word in words])
    printed = capsys.readouterr().err
    assert code in (0, 2)
    if code:
        (line,) = [line for line in printed.splitlines() if line.startswith("error: ")]
        assert any(Path(str(word)).name in line for word in words[1:]) and len(line) <= 3_000, line
    return code


def write(path: Path, document: bytes | dict[str, bytes]) -> Path:
    if isinstance(document, bytes):
        path.write_bytes(document)
    else:
        with zipfile.ZipFile(path, "w") as file:
            for name, content in document.items():
                file.writestr(name, content)
    return path


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_valid_document_is_read(tmp_path: Path, name: str) -> None:
    items, _ = read_items(write(tmp_path / name, DOCUMENTS[name]))
    assert items


@given(data=st.data(), name=st.sampled_from(sorted(DOCUMENTS)))
def test_a_damaged_document_is_read_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject, name: str
) -> None:
    document = DOCUMENTS[name]
    if isinstance(document, bytes):
        document = data.draw(damaged(document))
    else:
        member = data.draw(st.sampled_from(sorted(document)))
        document = document | {member: data.draw(damaged(document[member]))}
    run(capsys, "inspect", write(tmp_path / name, document))


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each value within a JSON value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*place, key)
        yield from places(inner, (*place, key))


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """A JSON value with another value at a place."""
    if not place:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[place[0]] = replaced(value[place[0]], place[1:], new)
    return copied


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.endswith((".json", ".jsonl"))])
@pytest.mark.parametrize("new", [None, 5, {}])
def test_an_unexpected_value_anywhere_in_an_export_is_no_traceback(tmp_path: Path, name: str, new: Any) -> None:
    content = DOCUMENTS[name]
    assert isinstance(content, bytes)
    is_lines, path = name.endswith(".jsonl"), tmp_path / name
    value = [json.loads(line) for line in content.splitlines()] if is_lines else json.loads(content)
    for place in places(value):
        changed = replaced(value, place, new)
        path.write_bytes(as_lines(changed) if is_lines else as_json(changed))
        with suppress(InputError):
            read_items(path)


COMMENT = {
    "id": "a1", "parent_id": "t1_a0", "link_id": "t3_b", "author": "someone", "subreddit": "pets",
    "body": "I like [cats](http://c.d) &amp; dogs\n> no", "created_utc": 1420070400, "edited": False, "flair": "cats",
}  # fmt: skip


@settings(max_examples=10 * SUITE)
@given(
    block=damaged(as_lines([COMMENT | {"id": f"a{number}"} for number in range(3)])).filter(bool),
    markdown=st.booleans(),
)
def test_a_block_of_a_dump_has_the_rows_of_its_lines(block: bytes, markdown: bool) -> None:
    """The parser of blocks against that of single lines."""
    parser, broken = DumpParser(False, Filters(markdown=markdown)), BrokenLines()
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    rows = parser.parse_lines(Path("RC.jsonl"), 1, memoryview(block), broken)
    assert len(rows) + broken.counts.total() == lines
    table = parser.parse(memoryview(block), lines)
    if table is not None:
        assert not broken.counts and table == rows


SENTENCES = texts()
TABLES = {
    "nli": records(premise=SENTENCES, hypothesis=SENTENCES, label=st.sampled_from([0, 1, 2, -1, "neutral", "-"])),
    "paraphrases": records(sentence1=SENTENCES, sentence2=SENTENCES, score=numbers() | st.none()),
    "captions": records(group=SENTENCES, captions=st.lists(SENTENCES, max_size=3)),
    "books": records(book=SENTENCES, paragraph=numbers(), sentence=SENTENCES),
}
# The count of the report, and the rows that it counts.
COUNTS = {"nli": "rows", "paraphrases": "pairs", "captions": "captions", "books": "sentences"}


@pytest.mark.parametrize("command", TABLES)
@settings(max_examples=max(SUITE // 3, 3))
@given(data=st.data())
def test_a_table_becomes_a_dataset_whose_counts_add_up_or_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, data: st.DataObject
) -> None:
    table = data.draw(st.lists(TABLES[command], min_size=1, max_size=4))
    source, output = tmp_path / f"train{data.draw(st.sampled_from(['.jsonl', '.json']))}", tmp_path / "out"
    source.write_bytes(json.dumps(table).encode() if source.suffix == ".json" else as_lines(table))
    if run(capsys, command, source, "-o", output, "--overwrite") == 0:
        report = json.loads((output / "report.json").read_text(encoding="utf-8"))
        rows = [row for file in output.glob("train*.parquet") for row in pq.read_table(file).to_pylist()]
        counted = sum(len(row["captions"]) for row in rows) if command == "captions" else len(rows)
        assert report["train"][COUNTS[command]] == counted


@given(table=st.lists(texts(surrogates=False), min_size=1, max_size=5), markdown=st.booleans())
def test_texts_are_measured_alone_and_together(table: list[str], markdown: bool) -> None:
    filters = Filters(markdown=markdown)
    try:
        alone = [measure(text, filters) for text in table]
        "".join(text for text, _, _ in alone).encode()
    except UnicodeEncodeError:  # "&#xd800;" is one: html.unescape
        return
    cleaned, characters, alphabetic = measure_column(pa.array(table, pa.string()), filters)
    assert [*zip(cleaned.to_pylist(), characters.tolist(), alphabetic.tolist(), strict=True)] == alone


@given(table=st.lists(texts(surrogates=False), min_size=1, max_size=4))
def test_masking_is_idempotent_and_the_same_for_a_text_alone(table: list[str]) -> None:
    masked, counts = mask_personal_data(pa.array(table, pa.string()))
    assert masked.to_pylist() == [mask_text(text) for text in table]
    again, more = mask_personal_data(masked)
    assert again == masked and not any(more.values())
    assert sum(counts.values()) >= (masked.to_pylist() != table)


@given(text=texts())
def test_a_normalized_text_stays_as_it_is(text: Any) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)
