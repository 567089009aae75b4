"""How many sentences a second a model encodes."""

import copy
import functools
import itertools
import time

import torch
from transformers import PreTrainedTokenizerFast

from data_scripts.sample import read_nli
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_base import ConvSimEncoder

SPEED_SENTENCES = 512
SPEED_SECONDS = 1.0  # time budget for measuring the speed of a model


def measure_speed(model: ConvSimEncoder, tokenizer: PreTrainedTokenizerFast) -> dict[str, float]:
    """Measure how many sentences per second a model encodes on the CPU; return the entries of results.json.

    The model computes in float32, and the time includes tokenization. The sentences are those of the shipped sample
    dataset, so that models can be compared; the fastest pass counts. A slow model encodes fewer sentences, so that the
    measurement takes about a second. The model does not change.
    """
    texts = _speed_sentences()
    model = copy.deepcopy(model).cpu().float()
    encoder = Encoder(model, tokenizer)
    rate, left = 0.0, SPEED_SECONDS
    for count in (1, 8, 64, len(texts), len(texts), len(texts)):
        if rate and count / rate > left:
            break
        started = time.perf_counter()
        encoder.encode(texts[:count])
        seconds = time.perf_counter() - started
        rate, left = max(rate, count / seconds), left - seconds
    return {"sentences_per_second": round(rate, 1), "speed_threads": torch.get_num_threads()}


@functools.cache
def _speed_sentences() -> list[str]:
    rows = read_nli().select(["premise", "hypothesis"]).to_pylist()
    texts: list[str] = []
    for premise, examples in itertools.groupby(rows, key=lambda row: row["premise"]):
        texts += [premise, *(row["hypothesis"] for row in examples)]
    return texts[:: len(texts) // SPEED_SENTENCES][:SPEED_SENTENCES]
