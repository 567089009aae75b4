"""The messages that the page offers to try."""

from modeling_convsim.suggestion.examples import choose_examples


def test_examples_are_some_distinct_short_messages_of_one_line():
    unsuitable = ["", "two\nlines", "a" * 61]
    messages = [f"message {n}" for n in range(20)]
    chosen = choose_examples([*unsuitable, *messages, *messages])
    assert len(set(chosen)) == len(chosen) == 5 and set(chosen) < set(messages)
    assert chosen == choose_examples([*unsuitable, *messages]) != messages[:5]
    assert choose_examples(["b", *unsuitable]) == ["b"] and choose_examples([]) == []
