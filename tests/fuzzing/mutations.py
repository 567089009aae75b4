"""Mutations of valid documents that get past a reader's first check: JSON values of other types, strange bytes."""

import json
import random
from typing import Any

TOKENS = [
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\n",
        b"\r\n",
        b"\t",
        b"\0",
        b"\x1b[31m",
        b"\xff",
        b"\xed\xa0\x80",
    ),
    *(
        b"\\ud800",
        b"\\udc00",
        b"\\u0000",
        b"\\ud83d\\ude00",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        "\u202e".encode(),
        "e\u0301".encode(),
    ),
    *(
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"-1",
        b"0.5",
        b"1E5",
        b"12.0",
        b"9" * 30,
        b"9" * 1_200,
        b"null",
        b"true",
        b"[" * 60,
        b"{}",
        b'""',
    ),
    *(b"}{", b"}\n\n{", b'"id":', b'"messages":', b'"mapping":', b"text,", b"=== "),
]
VALUES = [
    *(
        None,
        True,
        False,
        0,
        -1,
        12,
        12.0,
        1.5,
        1e300,
        2**63,
        10**400,
        "",
        " ",
        "12",
        "12.0",
        "1e999",
        "nan",
        "\ud800",
        "\0",
    ),
    *(
        "a\nb",
        "\u2028",
        "\u202eabc",
        "e\u0301",
        "👩‍👩‍👧",
        [],
        {},
        [[]],
        [None],
        ["a"],
        [{}],
        {"": None},
        {"id": []},
        {"name": "a\ud800"},
    ),
    *(
        "x" * 200,
        [[[[[[]]]]]],
        {"a": {"a": {"a": 1}}},
        "2020-01-01T00:00:00Z",
        "9999-12-31",
        "0001-01-01T00:00:00+14:00",
    ),
]


def mutate(data: bytes, random_: random.Random, rounds: int = 3) -> bytes:
    """A changed copy of an input: of one of its JSON lines the values, or any of its bytes."""
    for _ in range(random_.randint(1, rounds)):
        data = random_.choice(MUTATIONS)(data, random_)
    return data


def _change_json(data: bytes, random_: random.Random) -> bytes:
    """Replace a value anywhere in a JSON document, or in one of the JSON lines, after its first non-JSON bytes."""
    start = next((index for index in (data.find(b"{"), data.find(b"[")) if index >= 0), -1)
    if start < 0:
        return _change_bytes(data, random_)
    head, body = data[:start], data[start:]
    try:
        return head + _dump(_change_value(json.loads(body), random_))
    except (ValueError, RecursionError):
        lines = body.split(b"\n")
        index = random_.randrange(len(lines))
        try:
            lines[index] = _dump(_change_value(json.loads(lines[index]), random_))
        except (ValueError, RecursionError):
            return _change_bytes(data, random_)
        return head + b"\n".join(lines)


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def _change_value(value: Any, random_: random.Random) -> Any:
    if isinstance(value, dict) and value and random_.random() < 0.85:
        key = random_.choice(list(value))
        choice = random_.random()
        if choice < 0.1:
            return {name: content for name, content in value.items() if name != key}
        if choice < 0.15:
            return value | {str(random_.choice(VALUES)): value[key]}
        return value | {key: _change_value(value[key], random_)}
    if isinstance(value, list) and value and random_.random() < 0.85:
        index = random_.randrange(len(value))
        if random_.random() < 0.15:
            return [*value, value[index]]
        return [*value[:index], _change_value(value[index], random_), *value[index + 1 :]]
    return random_.choice(VALUES)


def _change_bytes(data: bytes, random_: random.Random) -> bytes:
    start = random_.randint(0, len(data))
    end = min(len(data), start + random_.choice([0, 0, 1, 2, 8, 64]))
    middle = random_.choice([b"", random_.choice(TOKENS), random_.randbytes(2), data[start:end] * 2])
    return data[:start] + middle + data[end:]


def _flip_bit(data: bytes, random_: random.Random) -> bytes:
    if not data:
        return b"\x00"
    index = random_.randrange(len(data))
    return data[:index] + bytes([data[index] ^ 1 << random_.randrange(8)]) + data[index + 1 :]


def _truncate(data: bytes, random_: random.Random) -> bytes:
    return data[: random_.randint(0, len(data))]


MUTATIONS = [_change_json, _change_json, _change_json, _change_bytes, _change_bytes, _flip_bit, _truncate]
