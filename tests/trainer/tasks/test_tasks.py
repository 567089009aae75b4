import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import nn

from modeling_convsim import (
    ConvSimCbowConfig,
    ConvSimCbowForMultitask,
    ConvSimDanConfig,
    ConvSimDanForMultitask,
    ConvSimForMultitask,
    ConvSimTransformerConfig,
    ConvSimTransformerForMultitask,
)
from trainer.data.positive_pairs import PositivePairs, ScoredPairs
from trainer.data.sentence_order import Neighbors
from trainer.data.token_cache import TokenColumn
from trainer.tasks import Task
from trainer.tasks.captions import Captions
from trainer.tasks.distillation import Distillation
from trainer.tasks.losses import cosine_ranking
from trainer.tasks.neighbors import NeighboringSentences
from trainer.tasks.ranking import Ranking
from trainer.tasks.response_distillation import ResponseDistillation
from trainer.tasks.response_prediction import ResponsePrediction
from trainer.tasks.score_teachers import ScoreTeachers
from trainer.tasks.snli import Snli

TASKS = "response_prediction snli contrastive ranking distillation response_distillation neighbors".split()
TASKS += ["response_prediction_with_teachers", "contrastive_with_teachers"]
ROWS = 23
HEADS = {"vocab_size": 60, "embedding_size": 12, "response_hidden_sizes": [10], "nli_hidden_size": 8}


def column(seed: int) -> TokenColumn:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 9, ROWS)
    ids = generator.integers(2, 60, lengths.sum())
    return TokenColumn(ids, np.concatenate([[0], np.cumsum(lengths)]), generator.integers(0, 12, ROWS))


def positive_pairs() -> PositivePairs:
    generator = np.random.default_rng(4)
    first, second = np.arange(ROWS), generator.permutation(ROWS)
    negative = np.where(generator.random(ROWS) < 0.5, generator.permutation(ROWS), -1)
    # The groups are random instead of connected components, so that few of them are equal.
    return PositivePairs(Dataset.from_dict({}), first, second, negative, generator.integers(0, 15, ROWS))


def scored_pairs() -> ScoredPairs:
    generator = np.random.default_rng(5)
    scores = generator.integers(0, 3, ROWS) / 2
    return ScoredPairs(Dataset.from_dict({}), generator.permutation(ROWS), generator.permutation(ROWS), scores)


def neighbors() -> Neighbors:
    """Sentences 0 to 22 in four documents of 1, 2, 7 and 13; the first is not an example, and 22 is not a negative."""
    before = np.array([-1, -1, 1, -1, *range(3, 9), -1, *range(10, 22)])
    after = np.array([-1, 2, -1, *range(4, 10), -1, *range(11, 23), -1])
    rows = np.flatnonzero((before >= 0) | (after >= 0))
    return Neighbors(rows, before[rows], after[rows], np.arange(ROWS - 1))


def build_task(name: str, mini_batch_size: int | None) -> Task:
    if name == "contrastive":
        return Captions(column(0), positive_pairs(), 20, mini_batch_size)
    if name == "contrastive_with_teachers":
        return Captions(column(0), positive_pairs(), 20, mini_batch_size, teachers=score_teachers())
    if name == "response_prediction_with_teachers":
        return ResponsePrediction(column(0), column(1), True, True, mini_batch_size, teachers=score_teachers())
    if name == "ranking":
        return Ranking(column(0), scored_pairs(), 20, mini_batch_size)
    if name == "neighbors":
        return NeighboringSentences(column(0), neighbors(), 3, 20, mini_batch_size)
    if name == "distillation":
        vectors = np.random.default_rng(6).normal(size=(ROWS, 7))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Distillation(column(0), vectors.astype(np.float16), 20, mini_batch_size)
    if name == "response_distillation":
        return ResponseDistillation(column(0), column(1), *teacher_vectors(), 9.0, mini_batch_size)
    if name == "snli":
        return Snli(column(0), column(1), np.random.default_rng(2).integers(0, 3, ROWS), mini_batch_size)
    return ResponsePrediction(column(0), column(1), True, True, mini_batch_size)


def teacher_vectors() -> np.ndarray:
    """A teacher's embeddings of inputs and of responses, (2, rows, dimension)."""
    vectors = np.random.default_rng(6).normal(size=(2, ROWS, 7))
    return (vectors / np.linalg.norm(vectors, axis=2, keepdims=True)).astype(np.float16)


def score_teachers() -> ScoreTeachers:
    return ScoreTeachers([build_model("dan_input_network", seed=1), build_model("dan", seed=2)], share=0.7)


def build_model(kind: str, dropout: float = 0.0, seed: int = 0) -> ConvSimForMultitask:
    torch.manual_seed(seed)
    model: ConvSimForMultitask
    if kind.startswith("dan"):
        sizes = {"word_embedding_size": 8, "bigram_buckets": 32, "hidden_sizes": [8]}
        network = kind == "dan_input_network"
        config = ConvSimDanConfig(**HEADS, **sizes, token_dropout=dropout, input_network=network)
        model = ConvSimDanForMultitask(config)
        model.set_sparse_gradients(True)
    elif kind == "cbow":
        model = ConvSimCbowForMultitask(ConvSimCbowConfig(**HEADS, initializer_range=1))
    else:
        model = ConvSimTransformerForMultitask(
            ConvSimTransformerConfig(
                **HEADS,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=20,
                hidden_dropout=dropout,
                attention_dropout=dropout,
            )
        )
    return model.double().train()


def loss_and_gradients(model: nn.Module, task: Task) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    torch.manual_seed(5)
    loss, _ = task.loss(model, task.batch(np.arange(len(task))))
    loss.backward()
    return loss.detach(), {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", ["dan", "dan_input_network", "transformer"])
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("mini_batch_size", [1, 5, 100])
def test_gradient_caching_has_the_loss_and_gradient_of_the_whole_batch(kind, name, mini_batch_size):
    model = build_model(kind)
    loss, expected = loss_and_gradients(model, build_task(name, None))
    cached_loss, cached = loss_and_gradients(model, build_task(name, mini_batch_size))
    torch.testing.assert_close(cached_loss, loss)
    assert cached.keys() == expected.keys() and any(value.any() for value in expected.values())
    torch.testing.assert_close(cached, expected)


@pytest.mark.parametrize("kind", ["dan", "transformer"])
def test_gradient_caching_repeats_dropout_in_the_second_pass(kind, monkeypatch):
    model = build_model(kind, dropout=0.3)
    loss, cached = loss_and_gradients(model, build_task("response_prediction", 5))
    # The same mini-batches, encoded once, with their activations in memory.
    monkeypatch.setattr("trainer.tasks.encoding.checkpoint", lambda call, use_reentrant: call())
    kept_loss, kept = loss_and_gradients(model, build_task("response_prediction", 5))
    torch.testing.assert_close(loss, kept_loss)
    torch.testing.assert_close(cached, kept)


def test_gradient_caching_needs_the_memory_of_one_mini_batch():
    model = build_model("transformer")

    def saved_values(mini_batch_size: int | None) -> int:
        values = 0

        def count(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal values
            values += tensor.numel()
            return tensor

        task = build_task("response_prediction", mini_batch_size)
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            task.loss(model, task.batch(np.arange(ROWS)))
        return values

    # The backward pass keeps the embeddings, the scores and the inputs, but not the layers' activations.
    assert saved_values(4) < 0.2 * saved_values(None)


def test_responses_are_scored_with_the_input_network_which_is_trained():
    model, task = build_model("dan_input_network"), build_task("response_prediction", None)
    model.set_sparse_gradients(False)
    loss, gradients = loss_and_gradients(model, task)
    head = {name: value.clone() for name, value in model.input_head.named_parameters()}
    assert all(gradients[f"input_head.{name}"].any() for name in head)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert all((value != head[name]).any() for name, value in model.input_head.named_parameters())
    assert loss_and_gradients(model, task)[0] < loss


def vectors_of(model: nn.Module, places: np.ndarray) -> np.ndarray:
    ids, cu_seqlens = column(0).gather(places)
    with torch.no_grad():
        return model(torch.from_numpy(ids), cu_seqlens=torch.from_numpy(cu_seqlens)).pooler_output.numpy()


def test_contrastive_loss_against_a_loop():
    model, similar = build_model("dan").eval(), positive_pairs()
    loss, metrics = build_task("contrastive", None).loss(model, build_task("contrastive", None).batch(np.arange(ROWS)))
    first, second = vectors_of(model, similar.first), vectors_of(model, similar.second)
    hard = similar.negative[similar.negative >= 0]
    negatives = vectors_of(model, hard)
    expected, right = [], 0
    for i in range(ROWS):
        others = [j for j in range(ROWS) if similar.groups[j] != similar.groups[i]]
        true = 20 * first[i] @ second[i]
        unlike = negatives[similar.groups[hard] != similar.groups[i]]
        forth = np.array([20 * first[i] @ second[j] for j in others] + [20 * first[i] @ each for each in unlike])
        back = np.array([20 * second[i] @ first[j] for j in others])
        expected += [np.log(np.exp(scores).sum() + np.exp(true)) - true for scores in (forth, back)]
        right += true > max(20 * first[i] @ each for each in [*np.delete(second, i, axis=0), *negatives])
    np.testing.assert_allclose(loss.item(), np.mean(expected), rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy"].item(), right / ROWS, rtol=1e-6)


def test_ranking_and_distillation_compare_cosines_of_the_encoder():
    model, scored = build_model("dan").eval(), scored_pairs()
    task = build_task("ranking", None)
    loss, metrics = task.loss(model, task.batch(np.arange(ROWS)))
    cosines = (vectors_of(model, scored.first) * vectors_of(model, scored.second)).sum(axis=1)
    expected = cosine_ranking(torch.tensor(cosines), torch.tensor(scored.scores), 20)
    torch.testing.assert_close(loss.double(), expected.double(), rtol=1e-5, atol=1e-6)
    pairs = [(i, j) for i in range(ROWS) for j in range(ROWS) if scored.scores[i] < scored.scores[j]]
    np.testing.assert_allclose(
        metrics["accuracy"].item(), np.mean([cosines[i] < cosines[j] for i, j in pairs]), rtol=1e-6
    )

    # The loss of a teacher with the same similarities is zero.
    vectors = vectors_of(model, np.arange(ROWS))
    alike = Distillation(column(0), vectors, 20)
    loss, metrics = alike.loss(model, alike.batch(np.arange(ROWS)))
    assert loss.item() < 1e-6 and metrics["difference"].item() < 1e-6


def test_a_sentence_and_its_neighbors_are_not_negatives():
    rows, negatives = neighbors(), 400
    # Each sentence is one word, which identifies it.
    texts = TokenColumn(np.arange(ROWS), np.arange(ROWS + 1), np.arange(ROWS))
    torch.manual_seed(0)
    batch = NeighboringSentences(texts, rows, negatives, 1).batch(np.arange(len(rows)))
    places = batch["input_ids"].numpy()
    sentences, candidates = places[: len(rows)], places[len(rows) :].reshape(len(rows), 2 + negatives)
    np.testing.assert_array_equal(sentences, rows.sentences)
    assert len(batch["cu_seqlens"]) - 1 == len(rows) * (1 + 2 + negatives)
    drawn = set()
    for row, sentence in enumerate(sentences):
        around = [rows.before[row], rows.after[row]]
        assert batch["is_neighbor"][row].tolist() == [each >= 0 for each in around] + [False] * negatives
        for place in range(2 + negatives):
            candidate, counts = candidates[row, place], batch["is_candidate"][row, place].item()
            if place < 2:
                assert counts == (around[place] >= 0) and (candidate == around[place] or not counts)
            else:
                assert counts == (candidate != sentence and candidate not in around)
                drawn.add(candidate)
    assert drawn == set(rows.others)


def test_negatives_are_sampled_with_the_generator_that_the_loop_seeds():
    task = build_task("neighbors", None)

    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return task.batch(np.arange(5))["input_ids"]

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))


def test_the_loss_of_neighboring_sentences_is_equation_1_over_cosines_of_averages():
    model, rows, scale = build_model("cbow"), neighbors(), 3.0
    task = NeighboringSentences(column(0), rows, 4, scale)
    chosen = np.array([0, 1, 2, 8, 14, 20])
    torch.manual_seed(3)
    loss, metrics = task.loss(model, task.batch(chosen))
    torch.manual_seed(3)  # repeats the random negatives
    drawn = rows.others[torch.randint(len(rows.others), (len(chosen), 4)).numpy()]
    table, texts = model.get_parameter("encoder.embed_tokens.weight").detach().numpy(), column(0)

    def average(place: int) -> np.ndarray:
        words = table[texts.ids[texts.offsets[place] : texts.offsets[place + 1]]]
        return words.mean(axis=0) if len(words) else np.zeros(table.shape[1])

    def cosine(place: int, other: int) -> float:
        u, v = average(place), average(other)
        return u @ v / max(np.linalg.norm(u) * np.linalg.norm(v), 1e-9)

    losses, right = [], 0
    for row, negatives in zip(chosen, drawn, strict=True):
        sentence = rows.sentences[row]
        around = [place for place in (rows.before[row], rows.after[row]) if place >= 0]
        known = texts.keys[[sentence, *around]]
        others = [place for place in negatives if texts.keys[place] not in known]
        scores = [scale * cosine(sentence, place) for place in [*around, *others]]
        total = np.exp(scores).sum()
        losses.append(-np.mean([np.log(np.exp(score) / total) for score in scores[: len(around)]]))
        right += int(np.argmax(scores)) < len(around)
    np.testing.assert_allclose(loss.item(), np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy"].item(), right / len(chosen), rtol=1e-6)
