"""Fine-tune a pretrained text encoder to find replies in your own chats. A GPU is recommended.

python examples/finetune_pretrained.py examples/support.csv --model sentence-transformers/all-MiniLM-L6-v2 \
    --max_steps 50
"""

import argparse
import sys
from pathlib import Path

from data_scripts.chats.conversations import ConversationOptions, prepare_conversations
from modeling_convsim.files.errors import InputError
from trainer.settings import build_settings
from trainer.training.train import train


def main() -> None:
    """Turn the chats into pairs, train, and print P@1 on held-out pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="an export of a chat program, or a table")
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2", help="any text encoder")
    parser.add_argument("--max_steps", type=int, default=500, help="training steps (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/finetuned"), help="(default: %(default)s)")
    options = parser.parse_args()
    try:
        prepare_conversations([options.log], ConversationOptions(overwrite=True), options.output / "pairs")
        results = train(
            build_settings(
                initialize_from=options.model,
                pairs=[str(options.output / "pairs")],
                tasks={"response_prediction": 1.0},
                mask_false_negatives=True,
                symmetric_loss=True,
                optimizer="adamw",
                learning_rate=2e-5,
                warmup=0.1,
                batch_size=32,
                max_steps=options.max_steps,
                eval_every=options.max_steps,
                output_dir=str(options.output / "run"),
                overwrite=True,
            )
        )
    except InputError as error:
        sys.exit(f"error: {error}")
    scores = results["response_prediction"]
    print(f"P@1 {scores['p_at_1']:.3f} among {scores['candidates']} replies, on the {scores['split']} split")


if __name__ == "__main__":
    main()
