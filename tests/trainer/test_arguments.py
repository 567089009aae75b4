"""The bounds of options, options that exclude each other, and the learning rate of the embedding matrices."""

import dataclasses
import re
from typing import Any

import pytest

from data_scripts.files.errors import InputError
from trainer.arguments import Arguments, option, table_learning_rate_ratio, validate


@dataclasses.dataclass
class Bounded(Arguments):
    at_least: int | None = option(None, "", minimum=2)
    above: float | None = option(None, "", above=0.5)
    at_most: float | None = option(None, "", maximum=1)


@pytest.mark.parametrize(
    "value",
    [
        {}, {"at_least": 2}, {"above": 0.51}, {"at_most": 1},
        {"optimizer": "adamw", "weight_decay": 0.1, "late_from": 0.5, "late_batch_size": 256},
        {"language": ["de", "code"]}, {"epochs": 2}, {"word_vectors": "OWNER/NAME"},
        {"initialize_from": "m", "tasks": {"response_prediction": 1}, "adapt": True},
    ],
)  # fmt: skip
def test_values_within_their_bounds_are_accepted(value: dict[str, Any]) -> None:
    validate(Bounded(**value))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"at_least": 1}, "at_least is 1; expected 2 or more"),
        ({"above": 0.5}, "above is 0.5; expected more than 0.5"),
        ({"at_most": 1.1}, "at_most is 1.1; expected 1 or less"),
        ({"at_most": float("nan")}, "at_most is nan"),
        ({"above": float("inf")}, "above is inf; expected a finite number"),
        ({"at_least": 2**31}, "at_least is 2147483648; expected 2147483647 or less"),
        ({"seed": 2**64}, "seed is 18446744073709551616; expected 4294967295 or less"),
        ({"max_steps": 10**12}, "max_steps is 1000000000000; expected 100000000 or less"),
        ({"tasks": {"response_prediction": float("inf")}}, "tasks.response_prediction is inf; expected a finite"),
        ({"model_config": {"hidden_sizes": [float("nan")]}}, "model_config.hidden_sizes is nan; expected a finite"),
        ({"decay": "none"}, "decay is 'none'; expected one of constant, linear, cosine"),
        ({"best_metric": "sts.2012.OnWN.pearson"}, "but sts are test sets: name a result of dev"),
        ({"resume": True, "overwrite": True}, "resume and overwrite exclude each other"),
        ({"push_to_hub": True}, "hub_model_id is needed"),
        ({"word_vectors": "glove"}, "word_vectors is 'glove'; expected random, skip_gram, an existing file or folder"),
        ({"output_dir": "s3://bucket/run"}, "output_dir is s3://bucket/run, a URL; expected a folder"),
        ({"language": ["EN"]}, "language is 'EN'; expected ISO 639 codes in lower case"),
        ({"language": []}, "language is ''; expected ISO 639 codes"),
        ({"license": "mit license"}, "license is 'mit license'; expected a license"),
        ({"adapt": True}, "adapt needs a model to start from"),
        ({"adapt": True, "initialize_from": "m"}, "set tasks to {response_prediction: 1}"),
        # Options without effect
        ({"hub_model_id": "me/model"}, "hub_model_id has no effect with push_to_hub: false: set push_to_hub to true"),
        ({"late_from": 0.5}, "late_from has no effect without late_batch_size or late_learning_rate"),
        ({"late_batch_size": 256}, "has no effect with late_from: 1, the end of the run: set late_from below 1, or"),
        ({"epochs": 1, "max_steps": 5}, "max_steps has no effect with epochs: drop epochs, or drop it"),
        ({"weight_decay": 0.1}, "weight_decay has no effect with optimizer: sgd: set optimizer to adamw"),
        ({"texts": ["a"], "word_vector_passes": 2}, "texts, word_vector_passes have no effect with word_vectors: ran"),
        ({"tokenizer": "t", "min_count": 3, "vocab_size": 99}, "min_count, vocab_size have no effect with tokenizer"),
        ({"initialize_from": "m", "token_weights": "sif"}, "token_weights has no effect with initialize_from"),
        ({"initialize_from": "m", "vocab_size": 99}, "drop it (to reset an option of a preset: --vocab_size none)"),
    ],
)  # fmt: skip
def test_values_out_of_bounds_and_without_effect_are_refused(value: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        validate(Bounded(**value))


def test_the_learning_rate_of_the_tables_is_given_or_follows_the_optimizer() -> None:
    assert table_learning_rate_ratio(Arguments(learning_rate=0.1)) == 1
    assert table_learning_rate_ratio(Arguments(learning_rate=0.1, optimizer="adamw")) == 20
    assert table_learning_rate_ratio(Arguments(learning_rate=0.1, table_learning_rate=0.4)) == 4
