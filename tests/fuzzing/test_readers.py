"""Files of every format: each record is valid, or the file or line is refused in one line."""

import csv
import gzip
import io
import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_scripts.clean.filters import Filters
from data_scripts.clean.masking import mask_personal_data, mask_text
from data_scripts.clean.measures import measure, measure_column
from data_scripts.clean.text import normalize_text
from data_scripts.errors import InputError
from data_scripts.read.chat_logs import read_log
from data_scripts.read.files import BrokenLines, zstd
from data_scripts.read.messages import ChatLog
from data_scripts.read.rows import read_rows
from tests.fuzzing.harnesses.chats import CHATGPT, CONVOKIT, DISCORD, OPENAI, SHAREGPT
from tests.fuzzing.invariants import accepts, check_broken, read_chat
from tests.fuzzing.strategies import damaged, is_unicode, json_values, numbers, records, texts

PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}
LABELS = st.one_of(texts(max_size=8), numbers(), st.none())
TABLES = {
    "pairs": records(input=texts(), response=texts(), thread=LABELS, source=LABELS),
    "replies": records(id=LABELS, parent=LABELS, text=texts(), speaker=LABELS),
    "turns": records(thread=LABELS, text=texts(), time=st.one_of(numbers(), texts(), st.none()), id=LABELS),
    "convokit": records(**{name: json_values() | st.just(value) for name, value in CONVOKIT[1].items()}),
    "openai": st.just(OPENAI[0]) | records(messages=st.lists(records(role=texts(), content=json_values()), max_size=3)),
    "sharegpt": st.just(SHAREGPT[0])
    | records(conversations=st.lists(records(**{"from": texts(), "value": texts()}), max_size=3)),
    "chatgpt": st.just(CHATGPT[0])
    | records(mapping=st.dictionaries(texts(max_size=3), records(parent=LABELS, message=json_values()), max_size=3)),
    "discord": records(**{name: st.just(value) for name, value in DISCORD.items()}),
}


@pytest.mark.parametrize("name", TABLES)
@given(data=st.data())
def test_a_json_array_has_the_items_of_json_lines(tmp_path: Path, name: str, data: st.DataObject) -> None:
    table = data.draw(st.lists(TABLES[name], min_size=1, max_size=4))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in table))
    (tmp_path / "log.json").write_text(json.dumps(table, indent=data.draw(st.sampled_from([None, 1]))))
    outcomes = []
    for path in (tmp_path / "log.jsonl", tmp_path / "log.json"):
        log = ChatLog(path, "log", {}, None, BrokenLines(), Counter())
        try:
            items = [item for _, item in read_log(log)]
        except InputError:
            items = ["refused"]
        assert accepts(lambda path=path: read_chat(path), path) == (items != ["refused"])
        outcomes.append((items, log.broken.counts, log.left_out))
    assert outcomes[0] == outcomes[1]


@given(data=st.data(), suffix=st.sampled_from(sorted(PACKERS)), separator=st.sampled_from(",\t"))
def test_csv_with_any_quoting_gives_the_texts_that_were_written(
    tmp_path: Path, data: st.DataObject, suffix: str, separator: str
) -> None:
    plain = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
    rows = data.draw(st.lists(st.tuples(plain, plain), min_size=1, max_size=5))
    quoting = data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])) if separator == "," else csv.QUOTE_NONE
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=separator, quoting=quoting, quotechar='"' if separator == "," else None)
    writer.writerows([("input", "response"), *rows])
    path = tmp_path / f"pairs{'.csv' if separator == ',' else '.tsv'}{suffix}"
    path.write_bytes(PACKERS[suffix](file.getvalue().encode()))
    assert [item[:2] for item in read_chat(path)] == rows
    content = path.read_bytes()
    path.write_bytes(data.draw(damaged(content)))
    accepts(lambda: read_chat(path), path)


@given(data=st.data())
def test_parquet_of_any_types_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    columns = {
        "input": [["a", None], [b"a", b"\xff"], [[1], None]],
        "response": [["b", "\0"], [1.5, None], [{"x": "y"}, None]],
        "thread": [[1.0, float("nan")], [None, None], [True, False], [2**63 - 1, -1]],
        "time": [[0, 1], ["now", "2020-01-01"]],
    }
    names = data.draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, unique=True))
    table = pa.table({name: data.draw(st.sampled_from(columns[name])) for name in names})
    file = io.BytesIO()
    pq.write_table(table, file, compression=data.draw(st.sampled_from(["none", "zstd"])))
    path = tmp_path / "log.parquet"
    for content in (file.getvalue(), data.draw(damaged(file.getvalue()))):
        path.write_bytes(content)
        accepts(lambda: read_chat(path), path)


@given(table=st.lists(records(a=texts(), b=json_values()), max_size=4), suffix=st.sampled_from([".jsonl", ".jsonl.gz"]))
def test_rows_hold_texts_that_utf8_can_represent(tmp_path: Path, table: list[dict[str, Any]], suffix: str) -> None:
    path, broken = tmp_path / f"rows{suffix}", BrokenLines()
    path.write_bytes(PACKERS[suffix[6:]]("".join(json.dumps(record) + "\n" for record in table).encode()))

    def read() -> None:
        rows = [row for part in read_rows(str(path), {"a": ("a",), "b": ("b",)}, broken).values() for _, row in part]
        assert len(rows) + broken.counts.total() == len(table)
        assert all(is_unicode(row["a"]) for row in rows if isinstance(row["a"], str))

    accepts(read, path)
    check_broken(broken)


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
def test_a_normalized_text_stays_as_it_is(text: str) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)
