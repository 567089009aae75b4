"""Adapt the base model to chats, and suggest replies; the options are those of `python -m trainer.adapt`.

python examples/train_on_chats.py examples/support.csv --repliers Tom Elena Priya -o runs/support
"""

import sys

from modeling_convsim.suggestion import ReplyIndex
from trainer.adapt.__main__ import build_parser
from trainer.adapt.__main__ import main as adapt

MESSAGES = ("Where is my parcel?", "can i send the boots back, they are too small")


def main() -> None:
    """Read the chats, adapt the model, compare it, and suggest replies to two messages."""
    options = build_parser().parse_args()
    if code := adapt(sys.argv[1:]):
        sys.exit(code)

    index = ReplyIndex.load(options.output / "replies")
    for message in MESSAGES:
        print(f"\n{message}")
        for suggestion in index.suggest(message, k=3, threshold=float("-inf")):  # also those that are not sure
            print(f"  {suggestion.score:.3f}  {suggestion.text}")


if __name__ == "__main__":
    main()
