import numpy as np
import torch

from trainer.losses import false_negatives, in_batch_softmax


def test_in_batch_softmax_is_the_papers_formula():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(5, 9)) * 4
    targets = np.array([3, 0, 8, 2, 1])
    # P(y | x) = exp S(x, y) / sum over the K responses of exp S(x, y_k); the loss is -mean log P, in float64.
    expected = -np.mean([scores[i, t] - np.log(np.exp(scores[i]).sum()) for i, t in enumerate(targets)])
    loss = in_batch_softmax(torch.tensor(scores), torch.tensor(targets))
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-6)


def test_masked_candidates_count_for_nothing():
    scores = torch.tensor([[1.0, 5.0, 2.0]])
    without = in_batch_softmax(scores[:, [0, 2]], torch.tensor([0]))
    masked = in_batch_softmax(scores, torch.tensor([0]), torch.tensor([[False, True, False]]))
    torch.testing.assert_close(masked, without)


def test_false_negatives_against_a_loop():
    generator = np.random.default_rng(1)
    inputs, responses = generator.integers(0, 6, 40), generator.integers(0, 6, 40)
    targets = np.arange(10, 20)
    expected = [
        [j != t and (inputs[t] == inputs[j] or responses[t] == responses[j]) for j in range(40)] for t in targets
    ]
    mask = false_negatives(
        *(torch.tensor(x) for x in (inputs[targets], responses[targets], inputs, responses, targets))
    )
    np.testing.assert_array_equal(mask.numpy(), expected)
