"""What a model has learnt from the shipped sample, for a person to look at: neighbours, replies and figure 1."""

from pathlib import Path

import numpy as np

from data_scripts.errors import InputError
from data_scripts.pairs import load_pairs
from data_scripts.sts import load_stsb
from trainer.evaluation.encoders import SentenceEncoder
from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation
from trainer.evaluation.similarity import angular, cosine, encode_pairs

# Not sentences of the sample.
QUERIES = (
    "At what time do you close this evening?",
    "My laptop will not connect to the network.",
    "Would you recommend a good place for dinner?",
    "I lost my bank card, what now?",
    "How many years old is your little brother?",
)
# Figure 1 of Yang et al. (2018): the first two mean the same, the first and the third share their words.
OLD, AGE, HOW = "How old are you?", "What is your age?", "How are you?"
SHOWN = 3


def evaluate_sample(encoder: SentenceEncoder, folder: Path) -> dict[str, dict]:
    """Print neighbours, replies and figure 1's order of a model trained on the sample.

    Args:
        encoder: the model.
        folder: what `python -m data_scripts sample` wrote.

    Returns:
        The part "sample" of results.json: "sts" (Pearson and Spearman of the angular score on the sample's graded test
        pairs) and "figure_1" (cosines of "How old are you?" with "What is your age?" and with "How are you?", and
        whether the first is larger).

    Raises:
        InputError: the folder is not the sample's, or the model has no response head.
    """
    pairs, sts = load_pairs(str(folder)), load_stsb(str(folder / "sts"))
    if "train" not in pairs or "test" not in sts:
        raise InputError(f"{folder}: not the whole sample; write it with python -m data_scripts sample -o {folder}")
    _print_neighbours(encoder, sorted(set(pairs["train"]["input"])), sorted(set(pairs["train"]["response"])))

    old, age, how = encoder.encode([OLD, AGE, HOW])
    old_age, old_how = cosine(old[None], age[None]).item(), cosine(old[None], how[None]).item()
    holds = old_age > old_how
    print(f"Figure 1 of the paper, whose sentences are not in the sample ({'holds' if holds else 'does not hold'}):")
    print(f"  {old_age:6.3f}  {OLD}  {AGE}\n  {old_how:6.3f}  {OLD}  {HOW}")

    rows = sts["test"]
    scores = angular(cosine(*encode_pairs(encoder, rows["sentence1"][:], rows["sentence2"][:])))
    return {
        "sts": sts_correlation(scores, np.asarray(rows["score"])),
        "figure_1": {"old_age": old_age, "old_how": old_how, "holds": holds},
    }


def _print_neighbours(encoder: SentenceEncoder, sentences: list[str], replies: list[str]) -> None:
    try:
        reply_vectors = encoder.encode(replies, side="response")
    except ValueError as error:
        raise InputError(f"task sample: {error}") from error
    queries = encoder.encode(QUERIES)
    sides = (("nearest sentences", sentences, encoder.encode(sentences)), ("best replies", replies, reply_vectors))
    for query, vector in zip(QUERIES, queries, strict=True):
        print(query)
        for name, texts, vectors in sides:
            scores = vectors @ vector
            best = np.argsort(-scores, kind="stable")[:SHOWN]
            print(f"  {name}")
            for index in best:
                print(f"  {scores[index]:6.2f}  {texts[index]}")
        print()
