import re

import pyarrow as pa
import pytest

from data_scripts.clean.masking import RECALL, mask_personal_data, mask_text
from data_scripts.clean.personal_data import KINDS
from tests.data_scripts.clean import personal_data


@pytest.mark.parametrize(
    ("text", "masked", "kind"),
    [
        ("write to jane.doe+news@mail.example.org today", "write to [EMAIL] today", "e-mail addresses"),
        ("*jane@bücher.example*, please", "*[EMAIL]*, please", "e-mail addresses"),
        ('"jane doe"@example.org.', "[EMAIL].", "e-mail addresses"),
        ("jane (at) example dot org", "[EMAIL]", "e-mail addresses"),
        ("it is jane at example dot org!", "it is [EMAIL]!", "e-mail addresses"),
        ("उपयोगकर्ता@उदाहरण.भारत", "[EMAIL]", "e-mail addresses"),
        ("as @jane_doe said", "as [USER] said", "user names"),
        ("as @bob.smith.jr. He", "as [USER]. He", "user names"),
        ("ask u/jane or me", "ask [USER] or me", "user names"),
        ("ask /u/jane-doe, please", "ask [USER], please", "user names"),
        ("<@U024BE7LH> knows", "[USER] knows", "user names"),
        ("<@U01|bob> and me", "[USER] and me", "user names"),
        ("<@12345>", "[USER]", "user names"),
        ("see reddit.com/user/bob/comments", "see reddit.com/user/[USER]/comments", "user names"),
        ("call +44 20 7946 0958 now", "call [PHONE] now", "phone numbers"),
        ("call (202) 555-0143 now", "call [PHONE] now", "phone numbers"),
        ("اتصل ٢٠٢-٥٥٥-٠١٤٣", "اتصل [PHONE]", "phone numbers"),
        ("＋４４２０７９４６０９５８", "[PHONE]", "phone numbers"),
        ("card 4111 1111 1111 1111 123", "card [CARD] 123", "card numbers"),
        ("pay DE89 3704 0044 0532 0130 00 NOW", "pay [IBAN] NOW", "IBANs"),
        ("from 203.0.113.77.", "from [IP].", "IP addresses"),
        ("at 2001:db8::8a2e:370:7334", "at [IP]", "IP addresses"),
        ("(https://a.org/x?page=2&token=abcd1234).", "([URL]).", "URLs with credentials"),
        ("ssh://jane:secret@a.org/x", "[URL]", "URLs with credentials"),
        ("key AKIAIOSFODNN7EXAMPLE!", "key [KEY]!", "keys of services"),
        ("ghp_" + "aB3" * 12, "[KEY]", "keys of services"),
    ],
)
def test_personal_data_are_masked_and_counted(text, masked, kind):
    texts, counts = mask_personal_data(pa.array(["nothing to hide", None, text]))
    assert texts.to_pylist() == ["nothing to hide", None, masked]
    assert {name: number for name, number in counts.items() if number} == {kind: 1}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_masked_texts_have_the_type_of_the_texts(kind):
    texts, _ = mask_personal_data(pa.array(["nothing to hide", None, "as @jane_doe said"], kind))
    assert texts.type == kind and texts.to_pylist() == ["nothing to hide", None, "as [USER] said"]


@pytest.mark.parametrize(
    "text",
    ["in 1984 or 2001", "on 2015-01-02", "3.14159265", "meet @ noon", "meet @5pm", "me/you/us", "10,000,000 people",
     "a @ b", "elm/http@2.0.0", "order 4155550132", "#4155550132", "http://y.be/4155550132", "4111 1111 1111 1112",
     "DE89 3704 0044 0532 0130 01", "version 2.6.38.1", "at 10:20:30", "std::vec", "127.0.0.1", "look at example.com",
     "http://a.org/?sid=180016&cid=14905337", "sk-learn-with-a-long-name"],
)  # fmt: skip
def test_what_is_no_personal_data_stays(text):
    texts, counts = mask_personal_data(pa.array([text]))
    assert texts.to_pylist() == [text] and not any(counts.values())


def test_several_in_one_text_are_all_masked():
    texts, counts = mask_personal_data(pa.array(["@a_b and u/cd: 202-555-0143, 202-555-0144, x@y.zz"]))
    assert texts.to_pylist() == ["[USER] and [USER]: [PHONE], [PHONE], [EMAIL]"]
    assert {kind: n for kind, n in counts.items() if n} == {"e-mail addresses": 1, "user names": 2, "phone numbers": 2}


def test_what_overlaps_becomes_one_mask():
    assert mask_text("https://a.org/?email=jane@a.org&token=abcdef") == "[URL]"
    assert mask_text("@bob@social.example.org") == "[EMAIL]"


def test_national_numbers_are_those_of_the_regions_that_are_named():
    assert mask_text("ruf 030 901820 an") == "ruf 030 901820 an"
    assert mask_text("ruf 030 901820 an", ("US", "DE")) == "ruf [PHONE] an"


def test_every_form_that_is_masked_is_suspected_by_the_filter_before_it():
    texts = [text for kind, forms in personal_data.POSITIVES.items() for text, *_ in personal_data.texts(forms, kind)]
    masked, _ = mask_personal_data(pa.array(texts), personal_data.REGIONS)
    assert masked.to_pylist() == [mask_text(text, personal_data.REGIONS) for text in texts]


def test_the_recorded_recall_is_that_of_the_rules_as_they_are():
    measured = personal_data.measure()
    remedy = "run python -m tests.data_scripts.clean.personal_data --write"
    assert RECALL.read_text(encoding="utf-8") == personal_data.serialize(measured), remedy
    assert set(measured["recall"]) == {kind.name for kind in KINDS}
    assert all(row["masked"] / row["texts"] < 0.1 for row in measured["false positives"].values())


@pytest.mark.parametrize(
    ("parameter", "is_secret"),
    [
        ("token=abcd", True), ("token=abc", False), ("API_KEY=abcd", True), ("my-Session-id=1234", True),
        ("KEY=abcdefghijkl", True), ("key=abcdefghijk", False), ("sid=123456789012", True),
        ("monkey=abcdefghijkl", False), ("page=abcdefghijklmnop", False),
    ],
)  # fmt: skip
def test_long_values_of_parameters_that_hold_secrets_are_masked_in_any_case(parameter, is_secret):
    url = f"https://example.org/x?a=1&{parameter}"
    assert mask_text(f"see {url}.") == ("see [URL]." if is_secret else f"see {url}.")


@pytest.mark.parametrize(
    "profile", ["LinkedIn.com/in/", "Twitter.com/", "INSTAGRAM.com/", "Reddit.com/user/", "/Home/", "C:\\USERS\\"]
)
def test_names_in_addresses_of_profiles_are_masked_in_any_case(profile):
    assert mask_text(f"see {profile}jane_doe") == f"see {profile}[USER]"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("firmware: 203.0.113.77", "firmware: 203.0.113.77"),
        ("a firmware at 203.0.113.77", "a firmware at [IP]"),
        ("19.19.19.19", "19.19.19.19"),
        ("19.19.19.20", "[IP]"),
        ("fe80::1", "[IP]"),
        ("12:34", "12:34"),
        ("::1 and ::", "::1 and ::"),
        ("dead:beef::", "dead:beef::"),
        ("0.0.0.0 or 256.1.1.1", "0.0.0.0 or 256.1.1.1"),
    ],
)
def test_addresses_of_other_machines_are_masked_and_versions_and_times_are_not(text, masked):
    assert mask_text(text) == masked


def test_a_phone_number_after_a_url_or_a_long_word_is_masked_in_its_place():
    for before in ("see http://a.org/2025550199?x=1, or", "aaaaa" * 6, "http://a.org http://b.org/c and", "b" * 24):
        assert mask_text(f"{before} call 202-555-0143 now") == f"{before} call [PHONE] now"


def test_digits_of_every_script_are_seen():
    number = "+442079460958"
    for zero in "٠۰०০０":
        written = re.sub(r"\d", lambda match, zero=zero: chr(ord(zero) + int(match[0])), number)
        assert mask_text(f"call {written}") == "call [PHONE]"


@pytest.mark.parametrize(
    ("text", "masked", "users"), [("@alice@bob", "[USER][USER]", 2), ("a@b.org@bob", "[EMAIL][USER]", 1)]
)
def test_personal_data_that_adjoins_other_data_is_masked_too(text: str, masked: str, users: int) -> None:
    found, counts = mask_personal_data(pa.array([text]))
    assert found.to_pylist() == [masked] == [mask_text(text)] and counts["user names"] == users
