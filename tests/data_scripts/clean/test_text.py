import pytest

from data_scripts.clean.text import are_html, detect_language, html_to_text, languages, strip_markdown, unescape


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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a &amp; b &lt;c&gt; &#39;d&#x27; &eacute;", "a & b <c> 'd' é"),
        ("/?order=1&section=2&copy=3&reg=4", "/?order=1&section=2&copy=3&reg=4"),
        ("&amp;lt; &notit; & ;", "&lt; &notit; & ;"),
    ],
)
def test_references_that_end_in_a_semicolon_are_decoded_once(text, plain):
    assert unescape(text) == plain


def test_languages_are_detected_if_there_is_enough_text():
    assert detect_language("Where did you buy that wonderful old bicycle?") == "en"
    assert detect_language("Dove hai comprato quella bellissima vecchia bicicletta?") == "it"
    assert detect_language("ok") == ""
    assert {"en", "de", "ja"} <= set(languages())


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Hello,</p><p>where is my&nbsp;<b>order</b>?</p>", "Hello,\nwhere is my order?"),
        ("<div>one<br/>two<br>three</div>", "one\ntwo\nthree"),
        ("<ul>\n  <li>a\n b</li>\n  <li>c</li>\n</ul>", "a b\nc"),
        ("<p>answer</p><blockquote><p>question</p></blockquote><p>bye</p>", "answer\nbye"),
        ("<blockquote>a<blockquote>b</blockquote>c</blockquote>d", "d"),
        ("<style>p {}</style><script>1 < 2</script>text", "text"),
        ("</blockquote>text", "text"),
        ("<html><head><title>a title</title></head><body>text</body></html>", "text"),
        ("<p>a</p>b", "a\nb"),
        ("<p>at AT&T", "at AT&T"),
        ("<p>a<![if !supportLists]>b<![endif]>c<![foo[x]]>d<![ x", "abcd<![ x"),
        ("a<!--[if gte mso 9]><xml>b</xml><![endif]-->c<!-- d", "ac"),
        ("<p>a <b", "a <b"),
        ("1 &lt; 2 &amp; 3 > 2", "1 < 2 & 3 > 2"),
        ("if a < b and c", "if a < b and c"),
        ("no tags at all", "no tags at all"),
        ("<p></p>", ""),
    ],
)
def test_html_becomes_lines_of_text(html, text):
    assert html_to_text(html) == text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["<p>a</p>", "b"], True),
        (["<DIV class='x'>a</DIV>"], True),
        (["a<br>b", "c", "d"], False),
        (["a < b > c", "<nick> hello", "mail <ann@example.com>"], False),
        ([], False),
    ],
)
def test_texts_are_html_if_half_of_them_have_tags(texts, expected):
    assert are_html(texts) is expected
