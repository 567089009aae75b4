"""No text that is equivalent to a row's own is among its negatives: each loss against a loop over raw texts."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import Tensor

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from trainer.data.positive_pairs import PositivePairs, caption_pairs, entailment_pairs, paraphrase_pairs
from trainer.data.sentence_order import Neighbors
from trainer.data.token_cache import TokenColumn
from trainer.tasks import Task
from trainer.tasks.captions import Captions
from trainer.tasks.neighbors import NeighboringSentences
from trainer.tasks.response_prediction import ResponsePrediction

SCALE = 5.0
Links = list[tuple[str, str]]  # equivalent texts


def dan() -> ConvSimDanForMultitask:
    torch.manual_seed(0)
    sizes = {"word_embedding_size": 6, "bigram_buckets": 16, "hidden_sizes": [6], "embedding_size": 6}
    config = ConvSimDanConfig(vocab_size=60, response_hidden_sizes=[6], nli_hidden_size=4, **sizes)
    return ConvSimDanForMultitask(config).double()


def token_column(texts: list[str]) -> TokenColumn:
    """Each letter is a token; equal texts have equal keys."""
    ids = np.array([ord(letter) % 50 + 2 for text in texts for letter in text])
    keys = np.unique(texts, return_inverse=True)[1].astype(np.int64)
    return TokenColumn(ids, np.cumsum([0, *map(len, texts)]), keys)


def embed(model: ConvSimDanForMultitask, texts: list[str], side: str = "pooler_output") -> dict[str, np.ndarray]:
    ids, cu_seqlens = token_column(texts).gather(np.arange(len(texts)))
    batch = {"input_ids": torch.from_numpy(ids), "cu_seqlens": torch.from_numpy(cu_seqlens)}
    if side == "response_embeds":
        batch |= {f"response_{name}": value for name, value in batch.items()}
    with torch.no_grad():
        return dict(zip(texts, model(**batch)[side].numpy(), strict=True))


def run_on_two_ranks(monkeypatch: pytest.MonkeyPatch, loss_of: Callable[[int], float]) -> list[float]:
    """The loss of each of two ranks, whose gathered tensors hold the rows of both in the order of the ranks."""

    def run(rank: int, gather: Callable[[Tensor], Tensor]) -> float:
        monkeypatch.setattr("trainer.distributed.rank", lambda: rank)
        monkeypatch.setattr("trainer.distributed.gather_rows", gather)
        return loss_of(rank)

    def record(sent: list[Tensor], rows: Tensor) -> Tensor:
        sent.append(rows)
        return torch.cat([rows, rows])

    sent: list[list[Tensor]] = [[], []]
    for rank in (0, 1):
        run(rank, partial(record, sent[rank]))
    losses = []
    for rank in (0, 1):
        gathered = iter([torch.cat(parts) for parts in zip(*sent, strict=True)])
        losses.append(run(rank, lambda _, gathered=gathered: next(gathered)))
    return losses


def softmax_loss(true: float, others: list[float]) -> float:
    return float(np.log(np.exp([true, *others]).sum()) - true)


def equivalent_texts(links: Links) -> dict[str, set[str]]:
    """Every text -> the texts that it is linked to, in any number of steps, by merging sets."""
    groups: dict[str, set[str]] = {}
    for pair in links:
        merged = set().union(*(groups.get(text, {text}) for text in pair))
        groups |= dict.fromkeys(merged, merged)
    return groups


def names(generator: np.random.Generator, count: int) -> list[str]:
    return ["".join(generator.choice(list("abcdefgh"), 3)) for _ in range(count)]


def made_pairs(kind: str) -> PositivePairs:
    """Pairs over few texts, so that many of them meet in every role."""
    generator = np.random.default_rng(3)
    texts = sorted(set(names(generator, 50)))
    first, second = generator.choice(texts, (2, 60))
    if kind == "captions":
        return caption_pairs(Dataset.from_dict({"group": generator.integers(0, 30, 60), "caption": first}), 0)
    if kind == "entailment":
        labels = generator.integers(0, 3, 60)
        return entailment_pairs(Dataset.from_dict({"premise": first, "hypothesis": second, "label": labels}), 0)
    scores = generator.choice([0.0, 1.0], 60)
    return paraphrase_pairs(Dataset.from_dict({"sentence1": first, "sentence2": second, "score": scores}), 0)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("mini_batch_size", [None, 3])
@pytest.mark.parametrize("kind", ["captions", "entailment", "paraphrases"])
def test_no_equivalent_text_is_a_negative(kind, mini_batch_size, ranks, monkeypatch):
    model, pairs = dan().train(), made_pairs(kind)
    texts = pairs.texts["text"][:]
    first, second = ([texts[place] for place in side] for side in (pairs.first, pairs.second))
    negative = [texts[place] if place >= 0 else None for place in pairs.negative]
    task = Captions(token_column(texts), pairs, SCALE, mini_batch_size)
    share = len(pairs) // ranks
    parts = [range(rank * share, (rank + 1) * share) for rank in range(ranks)]

    def loss_of(rank: int) -> float:
        return task.loss(model, task.batch(np.array(parts[rank])))[0].item()

    losses = [loss_of(0)] if ranks == 1 else run_on_two_ranks(monkeypatch, loss_of)
    vectors, equivalent = embed(model, texts), equivalent_texts(list(zip(first, second, strict=True)))
    masked = 0
    for part, loss in zip(parts, losses, strict=True):
        terms = []
        hard = [negative[row] for row in part if negative[row] is not None]
        for row in part:
            a, p = first[row], second[row]
            true = SCALE * vectors[a] @ vectors[p]
            everyone = [other for each in parts for other in each if other != row]
            candidates = [second[other] for other in everyone] + hard
            forth = [SCALE * vectors[a] @ vectors[text] for text in candidates if text not in equivalent[a]]
            back = [SCALE * vectors[p] @ vectors[first[j]] for j in everyone if first[j] not in equivalent[p]]
            terms += [softmax_loss(true, forth), softmax_loss(true, back)]
            masked += sum(text in equivalent[a] for text in (candidates if kind == "captions" else hard))
        np.testing.assert_allclose(loss, np.mean(terms), rtol=1e-6)
    assert masked  # or nothing was tested


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("mini_batch_size", [None, 3])
def test_no_equal_response_and_no_other_response_to_the_same_input_is_a_negative(
    mini_batch_size, symmetric, ranks, monkeypatch
):
    generator = np.random.default_rng(4)
    inputs, responses = (generator.choice(names(generator, 9), 24).tolist() for _ in range(2))
    model = dan().train()
    task: Task = ResponsePrediction(token_column(inputs), token_column(responses), True, symmetric, mini_batch_size)
    share = len(inputs) // ranks
    parts = [range(rank * share, (rank + 1) * share) for rank in range(ranks)]

    def loss_of(rank: int) -> float:
        return task.loss(model, task.batch(np.array(parts[rank])))[0].item()

    losses = [loss_of(0)] if ranks == 1 else run_on_two_ranks(monkeypatch, loss_of)
    u, v = embed(model, sorted(set(inputs))), embed(model, sorted(set(responses)), "response_embeds")
    for part, loss in zip(parts, losses, strict=True):
        terms = []
        for row in part:
            x, r = inputs[row], responses[row]
            others = [j for j in range(len(inputs)) if inputs[j] != x and responses[j] != r]
            terms.append(softmax_loss(u[x] @ v[r], [u[x] @ v[responses[j]] for j in others]))
            if symmetric:
                terms.append(softmax_loss(u[x] @ v[r], [u[inputs[j]] @ v[r] for j in others]))
        np.testing.assert_allclose(loss, np.mean(terms), rtol=1e-6)


def test_no_random_sentence_with_the_text_of_the_sentence_or_of_a_neighbor_is_a_negative():
    # One document; its texts come again, and the first sentence has no neighbor before it.
    texts = ["a", "b", "c", "a", "b", "d", "e", "c"]
    places = np.arange(len(texts))
    neighbors = Neighbors(places, places - 1, np.append(places[1:], -1), places)
    torch.manual_seed(0)
    batch = NeighboringSentences(token_column(texts), neighbors, 60, 1).batch(places)
    letters = [chr(token - 2 + 50) if token - 2 + 50 > 96 else chr(token - 2 + 100) for token in batch["input_ids"]]
    candidates = np.array(letters[len(texts) :]).reshape(len(texts), -1)[:, 2:]
    for row, text in enumerate(texts):
        own = {text, *texts[max(row - 1, 0) : row], *texts[row + 1 : row + 2]}
        counts = batch["is_candidate"][row, 2:].tolist()
        assert counts == [candidate not in own for candidate in candidates[row]]
