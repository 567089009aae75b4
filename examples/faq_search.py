"""Find the frequently asked questions that mean the same as a new question, and show their answers.

python examples/faq_search.py
python examples/faq_search.py "Until when is the shop open on Friday?"
"""

import argparse

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex

FAQ = {
    "When does the shop open?": "At nine, Monday to Saturday.",
    "How long does the refund take?": "Five working days.",
    "Where is my parcel?": "The link in the delivery e-mail shows where it is.",
    "Can I pay by card?": "Yes, all cards are accepted.",
    "Can I exchange this for a larger size?": "Yes, within 30 days and with the receipt.",
}
QUERIES = ["At what time does the shop open?", "When will I get my money back?"]


def main() -> None:
    """Build an index of questions and search it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", nargs="*", default=QUERIES, help="new questions")
    parser.add_argument("--model", default="runs/quickstart/model", help="folder or Hub id (default: %(default)s)")
    options = parser.parse_args()

    try:
        encoder = Encoder.from_pretrained(options.model)
    except ValueError as error:
        parser.error(f"--model: {error}; `make train` trains the default")
    index = ReplyIndex.build(encoder, FAQ.keys(), side="input", answers=FAQ.values())

    for query, suggestions in zip(options.queries, index.suggest_many(options.queries, k=2), strict=True):
        print(query)
        for suggestion in suggestions:
            print(f"{suggestion.score:6.3f}  {suggestion.text}  ->  {suggestion.answer}")


if __name__ == "__main__":
    main()
