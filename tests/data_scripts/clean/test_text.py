import pyarrow as pa
import pytest

from data_scripts.clean.language import detect_language, languages
from data_scripts.clean.masking import mask_personal_data
from data_scripts.clean.text import strip_markdown


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("read [the manual](https://a.org/x_(y)) first", "read the manual first"),
        ('an ![image](cat.png "a cat") of it', "an image of it"),
        ("> what you said\n>more of it\n\nmy answer", "my answer"),
        ("yes\n\n> quoted\n\nno", "yes\n\nno"),
        ("1 > 0, see array[0](call)", "1 > 0, see array0"),
        ("nothing [here] (or there)", "nothing [here] (or there)"),
    ],
)
def test_links_become_their_labels_and_quoted_lines_are_removed(text, stripped):
    assert strip_markdown(text) == stripped


def test_languages_are_detected_if_there_is_enough_text():
    assert detect_language("Where did you buy that wonderful old bicycle?") == "en"
    assert detect_language("Dove hai comprato quella bellissima vecchia bicicletta?") == "it"
    assert detect_language("ok") == ""
    assert {"en", "de", "ja"} <= set(languages())


@pytest.mark.parametrize(
    ("text", "masked", "kind"),
    [
        ("write to jane.doe+news@mail.example.org today", "write to [EMAIL] today", "e-mail addresses"),
        ("as @jane_doe said", "as [USER] said", "user names"),
        ("ask u/jane or me", "ask [USER] or me", "user names"),
        ("ask /u/jane-doe, please", "ask [USER], please", "user names"),
        ("<@U024BE7LH> knows", "[USER] knows", "user names"),
        ("call +44 20 7946 0958 now", "call [PHONE] now", "phone numbers"),
        ("call (555) 123-4567 now", "call [PHONE] now", "phone numbers"),
    ],
)
def test_personal_data_are_masked_and_counted(text, masked, kind):
    texts, counts = mask_personal_data(pa.array(["nothing to hide", text]))
    assert texts.to_pylist() == ["nothing to hide", masked]
    assert {name: number for name, number in counts.items() if number} == {kind: 1}


@pytest.mark.parametrize(
    "text", ["in 1984 or 2001", "on 2015-01-02", "3.14159265", "meet @ noon", "me/you/us", "10,000,000 people", "a @ b"]
)
def test_texts_without_personal_data_stay(text):
    texts, counts = mask_personal_data(pa.array([text]))
    assert texts.to_pylist() == [text] and not any(counts.values())


def test_all_personal_data_in_a_text_are_masked():
    texts, counts = mask_personal_data(pa.array(["@a_b and u/cd: 555-123-4567, 555-765-4321, x@y.zz"]))
    assert texts.to_pylist() == ["[USER] and [USER]: [PHONE], [PHONE], [EMAIL]"]
    assert counts == {"e-mail addresses": 1, "user names": 2, "phone numbers": 2}
