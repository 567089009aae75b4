"""Messages for users are one short line that can be printed, whatever a file or a library puts into them."""

import pytest

from modeling_convsim.files.errors import MAX_MESSAGE, InputError, one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("data/ä 日.csv:3: expected\n  a name\r\n", "data/ä 日.csv:3: expected a name"),
        ("half \ud83d", r"half \ud83d"),
        ("\x1b[31mred\0", r"\x1b[31mred\x00"),
        ("right\u202eleft\u2028next", r"right\u202eleft next"),
    ],
)
def test_a_message_is_one_printable_line(text: str, line: str) -> None:
    assert str(InputError(text)) == one_line(text) == line


def test_the_beginning_and_the_end_of_a_long_message_stay() -> None:
    message = str(InputError("file.csv: " + "x" * 1_000_000 + "; download it again"))
    assert message.startswith("file.csv: x") and message.endswith("x; download it again")
    assert len(message) <= MAX_MESSAGE + 3
