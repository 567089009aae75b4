"""Hypothesis strategies: hostile texts, JSON values, and records that have the right fields with any values."""

from typing import Any

from hypothesis import strategies as st

SAMPLES = [
    *(
        "",
        " ",
        "\n",
        "\r",
        "\t",
        "\0",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\u200b",
        "\ufeff",
        "\ufffd",
        "\uffff",
        "\U0010ffff",
    ),
    *(
        "\ud800",
        "\udfff",
        "\ud83d\ude00",
        "a\ud800b",
        "e\u0301\u0302\u0303",
        "\u0301",
        "\u202eabc\u202c",
        "שלום",
        "مرحبا",
        "हिन्दी",
    ),
    *(
        "👩\u200d👩\u200d👧",
        "🏳️\u200d🌈",
        "🇩🇪",
        "👍🏽",
        "ﬁ",
        "İ",
        "ß",
        "ǅ",
        "㋿",
        "日本語",
        "\U000e0041",
        "=== x",
        "-",
        "nan",
        "1e999",
        "٣",
    ),
    *(
        '"',
        '""',
        "'",
        "\\",
        ",",
        "\t\t",
        "a\tb",
        "{",
        "&amp;#x0;",
        "&#xd800;",
        "<b>",
        "[a](b)",
        "> q",
        "a@b.de",
        "http://x.y",
        "+1 212 555 0123",
    ),
]


def texts(surrogates: bool = True, max_size: int = 30) -> st.SearchStrategy[str]:
    """Any text; many have characters of other scripts, control characters or half of a surrogate pair."""
    characters = st.characters() if surrogates else st.characters(exclude_categories=["Cs"])
    samples = [text for text in SAMPLES if surrogates or is_unicode(text)]
    return st.one_of(
        st.sampled_from(samples),
        st.text(characters, max_size=max_size),
        st.lists(st.sampled_from([*samples, "the cat", " ", "Hello"]), max_size=8).map("".join),
    )


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can represent a text."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def numbers() -> st.SearchStrategy[Any]:
    """Numbers that JSON can have, many of them at the limits of a type."""
    limits = [0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 1e-320, float("nan"), float("inf"), 12.0]
    return st.one_of(st.sampled_from(limits), st.integers(), st.floats())


def json_values() -> st.SearchStrategy[Any]:
    """Any JSON value, at most a few levels deep."""
    leaves = st.one_of(st.none(), st.booleans(), numbers(), texts())
    return st.recursive(
        leaves,
        lambda children: st.lists(children, max_size=3) | st.dictionaries(texts(max_size=5), children, max_size=3),
        max_leaves=5,
    )


def records(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Records with the given fields, one of which may have another value or be missing; or other fields in addition."""

    @st.composite
    def draw_record(draw: st.DrawFn) -> dict[str, Any]:
        record = {name: draw(values) for name, values in fields.items()}
        change = draw(st.sampled_from(["none", "none", "value", "missing", "more"]))
        name = draw(st.sampled_from(sorted(fields)))
        if change == "value":
            record[name] = draw(json_values())
        elif change == "missing":
            del record[name]
        elif change == "more":
            record[draw(texts(max_size=5))] = draw(json_values())
        return record

    return draw_record()


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """A content with a part that is cut out, replaced or repeated."""
    places = st.integers(0, len(content))
    return st.builds(
        lambda start, end, middle: content[: min(start, end)] + middle + content[max(start, end) :],
        places,
        places,
        st.binary(max_size=4),
    )
