import pytest

from data_scripts.chats.messages import Pair
from data_scripts.chats.sample import Sample
from modeling_convsim.files.delimited import Dialect
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import check_encoding
from tests.data_scripts.chats.reading import read_items

GERMAN = "input;response\nWo ist mein Päckchen?;Es kommt morgen früh – für 20 €\nSchöne Grüße;Danke, Ihnen auch!\n"
POLISH = "input;response\nDzień dobry, gdzie jest moja paczka?;Będzie jutro, przepraszamy za opóźnienie\n"
RUSSIAN = "input;response\nЗдравствуйте, где мой заказ?;Он будет завтра, извините за задержку\n"
JAPANESE = "input;response\n注文した商品はいつ届きますか;明日届く予定です\n"


@pytest.mark.parametrize(
    ("text", "encoding", "detected"),
    [
        (GERMAN, "utf-8", None),
        (GERMAN, "utf-8-sig", None),
        (GERMAN, "cp1252", "cp1252"),
        (POLISH, "cp1250", "cp1250"),
        (RUSSIAN, "cp1251", "cp1251"),
        (JAPANESE, "cp932", "cp932"),
        (GERMAN, "utf-16", "utf-16"),
        (GERMAN, "utf-16-be", "utf-16-be"),
        ("input;response\nhi;ho\n", "utf-16-le", "utf-16-le"),
    ],
)
@pytest.mark.parametrize("name", ["c.txt", "c.csv.gz"])
def test_texts_in_any_encoding_are_read_and_the_encoding_is_noted(tmp_path, text, encoding, detected, name):
    pairs, log = read_items(tmp_path / name, text.encode(encoding))
    assert pairs == [Pair(*line.split(";"), None, "c") for line in text.splitlines()[1:]]
    assert log.detected == {"delimiter": "semicolon"} | ({"encoding": detected} if detected else {})


def test_a_file_of_utf8_with_a_few_broken_lines_stays_utf8(tmp_path):
    lines = ["input,response", "café,é", "ö,ü"]
    pairs, log = read_items(tmp_path / "c.csv", "\n".join(lines).encode() + b"\ncaf\xe9,yes\n")
    assert len(pairs) == 2 and log.broken.counts == {"not UTF-8": 1} and not log.detected


def test_a_stated_encoding_is_used_and_bytes_that_it_has_not_are_counted(tmp_path):
    content = "input,response\nnerede,çok geç\n".encode("cp1254") + b"a,\x81\n"
    pairs, log = read_items(tmp_path / "c.csv", content, encoding="cp1254")
    assert pairs == [Pair("nerede", "çok geç", None, "c")]
    assert log.broken.counts == {"not UTF-8": 1} and log.detected == {"encoding": "cp1254"}


def test_an_encoding_that_nothing_recognizes_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "c.csv").write_bytes(b"input,response\n" + bytes([0x81, 0x8D, 0x90, 0xFF, 0x9D, 0x80]) * 50 + b",a\n")
    with pytest.raises(InputError, match=r"c.csv: not UTF-8, and no .* state it with --encoding, or convert the file"):
        read_items(tmp_path / "c.csv")


@pytest.mark.parametrize("name", ["latin2000", "rot13", "base64"])
def test_a_name_that_is_no_encoding_is_refused(name):
    with pytest.raises(InputError, match=f"--encoding {name}: no such encoding; expected a name such as utf-8"):
        check_encoding("--encoding", name)
    assert check_encoding("--encoding", "Windows-1252") == "cp1252"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected_among_others_in_the_texts(tmp_path, delimiter):
    other = ";" if delimiter == "," else ","
    rows = ["input{0}response", 'a{1} b{0}"c{0} d"', '"say ""hi""{1}"{0}e']
    pairs, _ = read_items(tmp_path / "c.csv", "\n".join(rows).format(delimiter, other) + "\n")
    assert pairs == [Pair(f"a{other} b", f"c{delimiter} d", None, "c"), Pair(f'say "hi"{other}', "e", None, "c")]


def test_a_delimiter_in_the_name_of_a_column_does_not_decide(tmp_path):
    items, _ = read_items(tmp_path / "c.csv", "input;response;date, time\n" + "a, b, c;d;1\n" * 5)
    assert items[0] == Pair("a, b, c", "d", None, "c")


def test_quotes_may_be_escaped_by_a_backslash(tmp_path):
    (tmp_path / "c.csv").write_text('input,response\n"a \\"b\\", c","d"\n"e","f"\n' * 3, encoding="utf-8")
    assert Sample(tmp_path / "c.csv").dialect == Dialect(",", "\\")
    assert read_items(tmp_path / "c.csv")[0][0] == Pair('a "b", c', "d", None, "c")


def test_a_tsv_without_tabs_is_read_with_its_delimiter_and_one_with_tabs_without_quoting(tmp_path):
    pairs, _ = read_items(tmp_path / "c.tsv", 'input;response\n"a; b";c\n')
    assert pairs == [Pair("a; b", "c", None, "c")]
    pairs, log = read_items(tmp_path / "c.tsv", 'input\tresponse\n"a; b\tc\n')
    assert pairs == [Pair('"a; b', "c", None, "c")] and not log.detected
