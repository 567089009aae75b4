"""The names of models in the report: the labels of their training tasks and of their encoders."""

from collections.abc import Iterable, Mapping
from typing import Any

from modeling_convsim import ENCODERS
from trainer.tasks import TASKS

# The training data of a model.
CONVERSATIONS = TASKS["response_prediction"].label
SNLI = TASKS["snli"].label
BOTH = f"{CONVERSATIONS} + {SNLI}"
NEIGHBORS = TASKS["neighbors"].label
WORDS = "words"  # by gensim
UNKNOWN = "unknown"  # a saved model

# Its encoder.
DAN, TRANSFORMER, AVERAGES, BILSTM = (
    ENCODERS[name].config_class.label for name in ("dan", "transformer", "cbow", "bilstm")
)
LSTM = BILSTM.removeprefix("Bi")

# The gensim method that trained it.
METHODS = {"skip_gram": "word2vec skip-gram", "cbow": "word2vec CBOW", "fasttext": "fastText", "pv_dbow": "PV-DBOW"}


def training_label(tasks: Iterable[str]) -> str:
    """The tasks' labels joined by " + ": those that train a head first; a task that is not registered is last, by name.

    `UNKNOWN` without tasks.
    """
    names = set(tasks)
    registered = sorted((name for name in TASKS if name in names), key=lambda name: TASKS[name].evaluator is None)
    labels = [TASKS[name].label for name in registered]
    return " + ".join([*labels, *sorted(names - TASKS.keys())]) or UNKNOWN


def encoder_label(config: Mapping[str, Any]) -> str:
    """The label of the encoder with this config; its model type if the encoder is not registered, "" without a config.

    A BiLSTM that reads in one direction only is an LSTM.
    """
    name = config.get("model_type", "").removeprefix("convsim_")
    label = ENCODERS[name].config_class.label if name in ENCODERS else name
    return LSTM if label == BILSTM and not config.get("bidirectional", True) else label
