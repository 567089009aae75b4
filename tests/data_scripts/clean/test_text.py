import pytest

from data_scripts.clean.language import detect_language, languages
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
