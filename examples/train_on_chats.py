"""Train an encoder on a table of messages.

python examples/train_on_chats.py support.csv --columns thread=ticket speaker=from time=at

The table has the columns thread and text, or id, parent and text (parent is the id of the message answered); --columns
names columns with other names. `python -m data_scripts conversations --help` describes all formats and filters.
"""

import argparse
import sys
from pathlib import Path

from data_scripts.__main__ import main as data_scripts
from modeling_convsim.encoding import Encoder
from trainer.command_line import build_arguments
from trainer.training.train import train


def main() -> None:
    """Turn messages into pairs, train a DAN on them, and encode a sentence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="CSV, TSV, JSON lines or Parquet")
    parser.add_argument("--columns", nargs="+", default=[], metavar="ROLE=NAME", help="columns with other names")
    parser.add_argument("--output", type=Path, default=Path("runs/chats"), help="folder (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2000, help="training steps (default: %(default)s)")
    parser.add_argument("--batch_size", type=int, default=128, help="pairs per step (default: %(default)s)")
    options = parser.parse_args()

    # Each turn answers the one before it. --mask replaces e-mail addresses, phone numbers and user names.
    pairs = options.output / "pairs"
    command = ["conversations", options.table, "--mask", "--output", str(pairs), "--overwrite"]
    if data_scripts([*command, *(["--columns", *options.columns] if options.columns else [])]):
        sys.exit(2)

    results = train(
        build_arguments(
            pairs=[str(pairs)],
            tasks={"response_prediction": 1.0},
            model_type="dan",
            model_config={"word_embedding_size": 256, "bigram_buckets": 16_384, "hidden_sizes": [256, 256]},
            optimizer="adamw",
            learning_rate=0.001,
            max_steps=options.steps,
            batch_size=options.batch_size,
            eval_every=min(options.steps, 500),
            output_dir=str(options.output / "run"),
            overwrite=True,
        )
    )
    # The true response among up to 100 candidates, for held-out threads.
    print("P@1 on the test split:", results["response_prediction"]["p_at_1"])

    encoder = Encoder.from_pretrained(options.output / "run" / "model")
    print("The embedding of one sentence has the shape", encoder.encode(["Where is my parcel?"]).shape)


if __name__ == "__main__":
    main()
