import re

import pyarrow as pa
import pytest

from data_scripts.clean.masking import mask_personal_data, mask_text
from data_scripts.clean.personal_data import KINDS


@pytest.mark.parametrize(
    ("text", "masked", "kind"),
    [
        ("write to jane.doe+news@mail.example.org today", "write to [EMAIL] today", "e-mail addresses"),
        ('"jane doe"@example.org.', "[EMAIL].", "e-mail addresses"),
        ("it is jane at example dot org!", "it is [EMAIL]!", "e-mail addresses"),
        ("as @jane_doe said", "as [USER] said", "user names"),
        ("as @115712 said", "as [USER] said", "user names"),
        ("as @bob.smith.jr. He", "as [USER]. He", "user names"),
        ("ask u/jane or me", "ask [USER] or me", "user names"),
        ("<@U024BE7LH> knows", "[USER] knows", "user names"),
        ("<@U01|bob> and me", "[USER] and me", "user names"),
        ("call +44 20 7946 0958 now", "call [PHONE] now", "phone numbers"),
        ("call (202) 555-0143 now", "call [PHONE] now", "phone numbers"),
        ("card 4111 1111 1111 1111 123", "card [CARD] 123", "card numbers"),
        ("pay DE89 3704 0044 0532 0130 00 NOW", "pay [IBAN] NOW", "IBANs"),
        ("from 203.0.113.77.", "from [IP].", "IP addresses"),
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
     "http://a.org/?sid=180016&cid=14905337", "sk-learn-with-a-long-name", "#903701551936", "5/05/2015 10:20",
     "$841,087,953.00", "8 apples@1.50", "kernel 2.6.15.1", "ISBN 0-906-80047-2", "ISBN-13: 9783032996697", "0-2, 6-2",
     "45.3732448, -37.8835166", "at a dot", "http://example.org/?id=6581995435&page=2"],
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


TOKEN = "aB3dE5gH7j" * 7
# Kind -> what is masked as a whole, of which the tests above have other forms.
FORMS = {
    "e-mail addresses": [
        "maria.lopez+news@bücher.example", "O.BRIEN@XN--BCHER-KVA.EXAMPLE", "sam.smith.jr@[192.0.2.138]",
        "почта@пример.рф", "ｓａｍ．ｓｍｉｔｈ．ｊｒ＠ｕｎｉ－ｅｘａｍｐｌｅ．ｄｅ", "x99[at]example[dot]org",
        "bob [AT] shop.example.co.uk", "anna-lena@shop dot example dot co dot uk",
    ],
    "phone numbers": [
        "+918123454647", "+55-11-96123-0477", "+49.1512.3452336", "+٣٣٦١٢٣٤٠٥١٨", "+२० १० ०१२३४४४३", "201.555.6114",
        "2015553069", "1-201-555-4195", "01512 3455593", "01512/3459992", "+44 (0)7400 128945", "0033612345929",
    ],
    "card numbers": [
        "4789952557387447", "3763 669823 33255", "5198-1940-7130-0919", "٤٤٤٩ ٤٤٢٩ ٩٣٧٢ ٧١١٩",
        "5169\u00a01003\u00a01201\u00a00881",
    ],
    "IBANs": ["DE27533900105730550910", "DE58 7934 3394 6571 7357 75", "gb05west63092662407376"],
    "IP addresses": ["10f0:e589:e2ca:d1a7:25d8:89a8:5183:dc46", "fe80::76b6:1"],
    "URLs with credentials": [
        f"https://a.example.org/reset?token={TOKEN[:24]}", f"https://a.example.org/f?page=2&access_token={TOKEN[:24]}",
        f"https://a.example.org/f?api_key={TOKEN[:24]}", f"https://a.example.org/blob?sv=2020&sig={TOKEN[:24]}",
        f"https://example.org/#id_token={TOKEN[:24]}", f"https://hooks.slack.com/services/T0AB/B0CD/{TOKEN[:24]}",
    ],
    "user names": ["<@!672801810507658763>", "/u/Karma-Lover"],
    "keys of services": [
        f"github_pat_{TOKEN[:60]}", f"xoxb-86738617679-225362318709-{TOKEN[:24]}", f"rk_live_{TOKEN[:24]}",
        f"AIza{TOKEN[:35]}", f"sk-proj-{TOKEN[:48]}", f"hf_{TOKEN[:34]}",
        f"eyJ{TOKEN[:20]}.eyJ{TOKEN[:40]}.{TOKEN[:43]}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{TOKEN}\n-----END RSA PRIVATE KEY-----",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMS)
def test_every_form_is_masked_between_other_words(kind):
    mask = next(each.mask for each in KINDS if each.name == kind)
    regions = ("US", "DE", "GB", "FR")
    for before, after in (
        ("", ""),
        ("please see ", " for it"),
        ("well, ", ", or so"),
        ("ask\n", "\nnow"),
        ("это ", " так"),
    ):
        texts = [f"{before}{form}{after}" for form in FORMS[kind]]
        assert mask_personal_data(pa.array(texts), regions)[0].to_pylist() == [f"{before}{mask}{after}"] * len(texts)
        assert [mask_text(text, regions) for text in texts] == [f"{before}{mask}{after}"] * len(texts)


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
