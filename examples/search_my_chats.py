"""Search a chat log by meaning: print the messages most similar to a query, and their answers.

python examples/search_my_chats.py examples/support.csv "my tent lets the rain in"
python examples/search_my_chats.py WhatsApp.zip "when do we meet?"

To keep such an index, use `convsim index`.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from datasets import concatenate_datasets, load_dataset

from data_scripts.chats.conversations import ConversationOptions, prepare_conversations
from modeling_convsim.encoding import Encoder
from modeling_convsim.files.errors import InputError
from modeling_convsim.shipped import base_model
from modeling_convsim.suggestion import ReplyIndex


def build_index(log: Path) -> ReplyIndex:
    """Read a log and index its messages with their answers."""
    with TemporaryDirectory() as folder:
        prepare_conversations([log], ConversationOptions(), Path(folder) / "pairs")
        splits = load_dataset("parquet", data_dir=f"{folder}/pairs", keep_in_memory=True)
        pairs = concatenate_datasets(list(splits.values()))
    encoder = Encoder.from_pretrained(base_model())
    return ReplyIndex.build(encoder, pairs["response"], pairs["input"], by_messages=True, show_progress=True)


def main() -> None:
    """Print the best matches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="an export of a chat program, or a table")
    parser.add_argument("query")
    options = parser.parse_args()
    try:
        index = build_index(options.log)
    except InputError as error:
        sys.exit(f"error: {error}")
    print()
    for match in index.suggest(options.query):
        print(f"{match.score:.3f}  {match.message}\n       -> {match.text}")


if __name__ == "__main__":
    main()
