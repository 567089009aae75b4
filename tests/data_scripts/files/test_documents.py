"""JSON arrays and objects that are read value by value: the same values as json.loads, in chunks of any size."""

import io
import json

import pytest

from data_scripts.files.documents import JsonReader, NotJsonError

VALUES = [
    *("", "a\\\n[", '\\"[{', "\\" * 31, "é😀" * 20, "\ud800", "\ud83dA", "\0", "[" * 99),
    *(0, -1, 12.0, 1e5, 1e-7, 123456789012345678901234567890, 10**999, float("inf"), True, None),
    *([], {}, [[], [{}]], {"a": {"b": [1, "x"]}}, {"messages": [1]}),
]


class Chunks(io.BytesIO):
    """Returns at most `size` bytes at a time."""

    size = 1

    def read(self, size=-1):
        return super().read(self.size)


def chunks(text: str | bytes, size: int) -> Chunks:
    stream = Chunks(text if isinstance(text, bytes) else text.encode())
    stream.size = size
    return stream


def read_fields(stream: Chunks) -> dict[str, object]:
    reader = JsonReader(stream, "f")
    fields = {name: reader.value() for name in reader.names()}
    reader.check_end()
    return fields


def read_elements(stream: Chunks, field: str = "") -> list[object]:
    reader = JsonReader(stream, "f")
    elements = list(reader.elements(field))
    reader.check_end()
    return elements


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 16])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 1])
def test_values_are_those_of_json(size, ascii_only, indent):
    values = VALUES if ascii_only else [value for value in VALUES if value not in ("\ud800", "\ud83dA")]
    array = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    fields = {f'{number}"é': value for number, value in enumerate(values)}
    document = json.dumps(fields | {"list": values, "more": [1]}, indent=indent, ensure_ascii=ascii_only)
    assert read_elements(chunks(f" {array}\n", size)) == values
    assert read_elements(chunks(document, size), "list") == values
    assert read_fields(chunks(document, size)) == json.loads(document)


@pytest.mark.parametrize("text", ["{}", '{"b": [1]}', '{"a": {"a": [1]}}', '{"a": "x"}', "[1]", "3", '"a"'])
def test_a_document_without_the_array_has_no_elements(text):
    assert read_elements(chunks(text, 1), "a") == []


BROKEN = [*("", "[", "[1", "[1,", "[1,]", "[1]]", "[1] x", "[1 2]", "[01]", "[1.]", "[nu]", "[-]")]
BROKEN += ['["a]', '["\\x"]', '["\n"]', "[//\n1]"]


@pytest.mark.parametrize("size", [1, 1 << 16])
@pytest.mark.parametrize("text", BROKEN)
def test_what_json_refuses_is_refused(text, size):
    with pytest.raises(ValueError):
        json.loads(text)
    with pytest.raises(NotJsonError):
        read_elements(chunks(text, size))


@pytest.mark.parametrize(
    "text", ["{", '{"a"', '{"a":', '{"a" 1}', '{"a": 1', '{"a": 1,}', "{1: 2}", '{"a": 1} {', '{"a": }']
)
def test_what_json_refuses_in_an_object_is_refused(text):
    with pytest.raises(ValueError):
        json.loads(text)
    for key in (None, "a"):
        with pytest.raises(NotJsonError):
            read_elements(chunks(text, 1), key) if key else read_fields(chunks(text, 1))


@pytest.mark.parametrize("content", [b'["\xff"]', b'["\xed\xa0\x80"]', b'["\xc3'])
def test_bytes_that_are_not_utf8_are_refused(content):
    with pytest.raises(NotJsonError, match="not UTF-8: byte 0x"):
        read_elements(chunks(content, 1))
