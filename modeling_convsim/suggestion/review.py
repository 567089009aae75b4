"""The review of an index: a person rates whether suggestions for held-out messages can be sent.

`convsim review RUN` shows the messages of review.jsonl in the index's folder. The suggestions come from a model that
was not trained on these messages, and from other replies. `ReplyIndex.load` reads the ratings from ratings.jsonl.
"""

import argparse
import sys
from pathlib import Path

from modeling_convsim.files.command_line import ArgumentParser, run_stoppable
from modeling_convsim.files.errors import InputError, one_line
from modeling_convsim.suggestion.probability import LEAST, share_interval
from modeling_convsim.suggestion.ratings import (
    RATINGS,
    REVIEW,
    Answer,
    HeldOut,
    Rating,
    Shown,
    add_rating,
    find_index,
    fit_ratings,
    read_ratings,
    read_review,
)

KEYS: dict[str, Answer] = {"s": "send", "e": "edit", "n": "no"}


class Review:
    """The held-out messages of an index, and their ratings so far.

    Attributes:
        messages: The messages, in random order.
    """

    def __init__(self, folder: Path) -> None:
        """Reads the files in an index's folder, or in that of its run.

        Raises:
            InputError: There is no review, or a file is damaged.
        """
        self.folder = find_index(folder)
        if not (self.folder / REVIEW).is_file():
            remedy = "`convsim adapt` creates one, and so does `convsim index` with at least 20 different messages"
            raise InputError(f"{self.folder / REVIEW}: there is no review; {remedy}")
        self.messages = read_review(self.folder / REVIEW)
        ratings = read_ratings(self.folder / RATINGS) if (self.folder / RATINGS).is_file() else []
        self.ratings = {each.key: each for each in ratings}

    def answers(self, held_out: HeldOut) -> list[Answer | None]:
        """The rating of each suggestion for a message; None if it has none yet."""
        question = (held_out.message, *held_out.context, "")
        ratings = [self.ratings.get((*question, each.text)) for each in held_out.suggestions]
        return [each.rating if each else None for each in ratings]

    def next(self) -> tuple[int, HeldOut] | None:
        """The first message with a suggestion that is not rated yet, and its number; None after the last one."""
        return next((each for each in enumerate(self.messages) if None in self.answers(each[1])), None)

    def rate(self, held_out: HeldOut, shown: Shown, answer: Answer) -> None:
        """Stores a rating."""
        rating = Rating(held_out.message, shown.text, answer, held_out.context, shown.score, "review")
        add_rating(self.folder / RATINGS, rating)
        self.ratings[rating.key] = rating

    def summary(self) -> str:
        """How many suggestions can be sent, with 95% intervals, and how many ratings probabilities need."""
        answered = [each for each in map(self.answers, self.messages) if each and None not in each]
        if not answered:
            return "no message is rated yet"
        good = {"send", "edit"}
        firsts, any_of = ([not good.isdisjoint(each[:count]) for each in answered] for count in (1, None))
        edits = sum(each[0] == "edit" for each in answered)
        known = f"the first can be sent in {_share(firsts)}{f', {edits} after an edit' * bool(edits)}; "
        known += f"one of {max(map(len, answered))} in {_share(any_of)}"
        if not fit_ratings(self.ratings.values()):
            useful = [each.rating != "no" for each in self.ratings.values() if each.score is not None]
            known += f"\nprobabilities will be fitted to {LEAST} or more ratings of both kinds; so far, "
            known += f"{sum(useful)} can be sent, {len(useful) - sum(useful)} cannot"
        return known


def _share(is_good: list[bool]) -> str:
    low, high = share_interval(sum(is_good), len(is_good))
    cases = f"{sum(is_good)} of {len(is_good)} cases"
    return f"{cases} ({sum(is_good) / len(is_good):.0%}, {100 * low:.0f} to {high:.0%})"


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ArgumentParser(
        prog="convsim review",
        description="Rate suggestions for held-out messages: can they be sent? Press s (send as it is), e (send "
        "after a small edit) or n (no); r shows the real reply, q quits. Run the command again to continue.",
        epilog="example: convsim review runs/support",
    )
    parser.add_argument("run", type=Path, help="folder of a `convsim adapt` run or of an index")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, 2 after an error message, or 128 + signal."""
    return run_stoppable(lambda: _run(parse_arguments(arguments)))


def _run(options: argparse.Namespace) -> int:
    review = Review(options.run)
    while following := review.next():
        if not _ask(review, *following):
            break
    else:
        print("all messages are rated")
    print(review.summary())
    return 0


def _ask(review: Review, number: int, held_out: HeldOut) -> bool:
    """Shows a message and asks for ratings of its suggestions; False if the person quits."""
    print(f"\n{number + 1} of {len(review.messages)}")
    for turn in held_out.context[::-1]:
        print(f"    earlier  {one_line(turn)}")
    print(f"    message  {one_line(held_out.message)}\n")
    for position, shown in enumerate(held_out.suggestions, start=1):
        print(f"  {position}  {one_line(shown.text)}")
    print("\ns send, e edit, n no, r real reply, q quit")
    for position, (shown, answer) in enumerate(
        zip(held_out.suggestions, review.answers(held_out), strict=True), start=1
    ):
        while answer is None:
            print(f"  {position}? ", end="", flush=True)
            key = read_key()
            print(KEYS.get(key, key if key.isprintable() else ""))
            if key in ("", "q"):
                return False
            if key == "r":
                print(f"  real reply  {one_line(held_out.reply)}")
            elif key in KEYS:
                review.rate(held_out, shown, answer := KEYS[key])
    print(f"  real reply  {one_line(held_out.reply)}\n{review.summary()}", flush=True)
    return True


def read_key() -> str:
    """The key that is pressed, "" for Ctrl-C and Ctrl-D; of piped input the next letter, and "" at its end."""
    if sys.stdin.isatty():
        from click import getchar

        try:
            return getchar().lower()
        except (EOFError, KeyboardInterrupt):  # Ctrl-D and Ctrl-C
            return ""
    while (key := sys.stdin.read(1)).isspace():
        pass
    return key.lower()


if __name__ == "__main__":
    sys.exit(main())
