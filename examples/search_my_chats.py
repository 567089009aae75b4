"""Search a chat log by meaning: the messages that are most like a query, and how they were answered.

python examples/search_my_chats.py examples/support.csv "my tent lets the rain in"
python examples/search_my_chats.py WhatsApp.zip "when do we meet?" -o runs/search
"""

import argparse
import sys
from pathlib import Path

from datasets import concatenate_datasets, load_dataset

from data_scripts.chats.conversations import ConversationOptions, prepare_conversations
from data_scripts.files.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from trainer.shipped import base_model


def build_index(log: Path, folder: Path) -> ReplyIndex:
    """Read a log, and index its messages with their answers; the index is saved for the next query."""
    prepare_conversations([log], ConversationOptions(overwrite=True), folder / "pairs")
    splits = load_dataset("parquet", data_dir=str(folder / "pairs"))
    pairs = concatenate_datasets(list(splits.values()))
    encoder = Encoder.from_pretrained(base_model())
    index = ReplyIndex.build(encoder, pairs["input"], side="input", answers=pairs["response"], show_progress=True)
    index.save(folder / "index")
    return index


def main() -> None:
    """Print the best matches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="an export of a chat program, or a table")
    parser.add_argument("query")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/search"), help="folder (default: %(default)s)")
    options = parser.parse_args()
    try:
        index = build_index(options.log, options.output)
    except InputError as error:
        sys.exit(f"error: {error}")
    print()
    for match in index.suggest(options.query, k=3, threshold=float("-inf")):
        print(f"{match.score:.3f}  {match.text}\n       -> {match.answer}")


if __name__ == "__main__":
    main()
