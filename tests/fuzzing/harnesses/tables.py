"""Tables of messages and pairs in each format of a file."""

import io
import json
import tarfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzzing.harnesses.chats import CONVOKIT, as_lines
from tests.fuzzing.invariants import accepts, read_chat
from tests.fuzzing.registry import harness

PAIRS = [{"input": 'How "are" you,\nda?', "response": "Fine; thanks", "source": "a", "thread": 1}] * 2
TURNS = [
    {"thread": "t", "speaker": "ada", "time": 0, "text": "Hello"},
    {"thread": "t", "speaker": "bob", "time": 1.5, "text": "Hi"},
]
GUESSED = [{"Ticket #": 7, "From": "Ann", "Sent at": "13/03/2026 09:00", "Message": "Grüße; is, it|here?"}] * 2
NAMES = ("table.csv", "table.tsv", "table.jsonl", "table.json", "table.txt")


def _csv(records: list[dict], separator: str) -> bytes:
    quote = str if separator == "\t" else '"{}"'.format
    rows = [list(records[0]), *(list(record.values()) for record in records)]
    clean = [
        [str(value).replace("\n", " ") if separator == "\t" else str(value).replace('"', '""') for value in row]
        for row in rows
    ]
    return "".join(separator.join(map(quote, row)) + "\n" for row in clean).encode()


def _table_seeds() -> list[bytes]:
    tables = (PAIRS, TURNS, CONVOKIT[:1], GUESSED)
    others = [_csv(GUESSED, ";").decode().encode(encoding) for encoding in ("cp1252", "utf-16")]
    return [b"\4" + content for content in others] + [
        bytes([kind]) + content
        for records in tables
        for kind, content in enumerate(
            (_csv(records, ","), _csv(records, "\t"), as_lines(records), json.dumps(records).encode())
        )
    ]


@harness("tables (.csv, .tsv, .jsonl, .json)", _table_seeds)
def tables(data: bytes, folder: Path) -> bool:
    """Byte 0 selects the format."""
    path = folder / NAMES[data[0] % len(NAMES) if data else 0]
    path.write_bytes(data[1:])
    return accepts(partial(read_chat, path), path)


def _tar_seeds() -> list[bytes]:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        member = tarfile.TarInfo("chats/day.jsonl")
        content = as_lines(CONVOKIT)
        member.size = len(content)
        file.addfile(member, io.BytesIO(content))
        file.addfile(tarfile.TarInfo("read me"))
    plain = archive.getvalue()[: 512 * 6]
    return [plain + bytes(1024)]


@harness("archives of JSON lines (.tar)", _tar_seeds, max_bytes=8192)
def tar(data: bytes, folder: Path) -> bool:
    path = folder / "chats.tar"
    path.write_bytes(data)
    return accepts(partial(read_chat, path), path)


def _parquet_seeds() -> list[bytes]:
    seeds = []
    for records, options in (
        (PAIRS, {"compression": "none"}),
        (TURNS, {"compression": "zstd"}),
        (CONVOKIT[:1], {"use_dictionary": False, "compression": "none"}),
        ([{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}], {}),
        (
            [{"input": "a" * 20, "response": "b"}] * 3,
            {"data_page_version": "2.0", "column_encoding": {"input": "DELTA_BYTE_ARRAY"}, "use_dictionary": False},
        ),
    ):
        clean = [{name: value for name, value in record.items() if value not in ({}, [])} for record in records]
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(clean), file, **options)
        seeds.append(file.getvalue())
    return seeds


@harness("Parquet", _parquet_seeds, max_bytes=8192)
def parquet(data: bytes, folder: Path) -> bool:
    path = folder / "table.parquet"
    path.write_bytes(data)
    return accepts(partial(read_chat, path), path)
