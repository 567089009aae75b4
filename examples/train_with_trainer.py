"""Train an encoder with transformers.Trainer instead of convsim's trainer; the models compute their own loss.

python examples/train_with_trainer.py --max_steps 200
"""

import argparse
from functools import partial
from typing import Any

import torch
from transformers import AutoModelForPreTraining, AutoTokenizer, Trainer, TrainingArguments

import modeling_convsim  # noqa: F401  (registers the models)
from data_scripts.loading import load_pairs
from data_scripts.sample import FOLDER
from modeling_convsim.shipped import base_model


def collate(tokenizer: Any, pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """The inputs and the responses of a batch; each response is a negative of the other inputs."""
    tokenize = partial(tokenizer, padding=True, truncation=True, return_tensors="pt", return_token_type_ids=False)
    inputs, responses = (tokenize([pair[side] for pair in pairs]) for side in ("input", "response"))
    return {**inputs, **{f"response_{name}": value for name, value in responses.items()}, "return_loss": True}


def main() -> None:
    """Train on the sample dataset and score replies to a message."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=base_model(), help="folder or Hub id (default: the base model)")
    parser.add_argument("--max_steps", type=int, default=200, help="training steps (default: %(default)s)")
    parser.add_argument("-o", "--output", default="runs/trainer", help="folder (default: %(default)s)")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForPreTraining.from_pretrained(options.model)
    arguments = TrainingArguments(
        options.output, max_steps=options.max_steps, per_device_train_batch_size=64, learning_rate=1e-3,
        remove_unused_columns=False, report_to=[], save_strategy="no", logging_steps=50,
    )  # fmt: skip
    pairs = load_pairs(str(FOLDER))["train"]
    Trainer(model, arguments, train_dataset=pairs, data_collator=partial(collate, tokenizer)).train()
    model.save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)
    replies = ["On Friday we are open until six.", "Take a tablet and lie down."]
    batch = collate(tokenizer, [{"input": "Until when is the shop open?", "response": reply} for reply in replies])
    with torch.no_grad():
        output = model.eval()(**batch)
    for score, reply in zip((output.pooler_output @ output.response_embeds.T)[0].tolist(), replies, strict=True):
        print(f"{score:.3f}  {reply}")


if __name__ == "__main__":
    main()
