"""Cosine and angle against `math` in a loop."""

import math

import numpy as np
import pytest

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.evaluation.similarity import angular, cosine, encode_pairs, to_gold_scale


@pytest.fixture
def vectors() -> tuple[np.ndarray, np.ndarray]:
    u, v = np.random.default_rng(0).normal(size=(2, 40, 6)).astype(np.float32)
    return u, v


def loop_cosine(u: np.ndarray, v: np.ndarray) -> list[float]:
    return [
        math.fsum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)
        for a, b in zip(u.tolist(), v.tolist(), strict=True)
    ]


def test_angular_score_equals_math_acos_in_a_loop(vectors: tuple[np.ndarray, np.ndarray]) -> None:
    expected = [-math.acos(value) for value in loop_cosine(*vectors)]
    assert angular(cosine(*vectors)) == pytest.approx(expected, abs=1e-12)


def test_gold_scale_is_five_times_one_minus_the_angle_over_pi(vectors: tuple[np.ndarray, np.ndarray]) -> None:
    expected = [5 * (1 - math.acos(value) / math.pi) for value in loop_cosine(*vectors)]
    assert to_gold_scale(angular(cosine(*vectors))) == pytest.approx(expected, abs=1e-12)
    assert to_gold_scale(np.array([0, -math.pi / 2, -math.pi])) == pytest.approx([5, 2.5, 0])


def test_rounding_never_leaves_the_arc_cosine_undefined(vectors: tuple[np.ndarray, np.ndarray]) -> None:
    u = np.concatenate(vectors)
    assert angular(cosine(u, 3 * u)) == pytest.approx(np.zeros(80), abs=1e-6)
    assert angular(cosine(u, -u)) == pytest.approx(np.full(80, -math.pi), abs=1e-6)


def test_a_zero_vector_has_cosine_0_with_every_vector() -> None:
    u = np.array([[0, 0], [0, 0]], dtype=np.float32)
    assert cosine(u, np.array([[1, 2], [0, 0]], dtype=np.float32)).tolist() == [0, 0]


def test_every_text_is_encoded_once() -> None:
    encoder = FakeEncoder()
    first, second = ["a cat", "a dog", "a cat"], ["a dog", "a dog", "a cat"]
    u, v = encode_pairs(encoder, first, second)
    assert encoder.calls == [("input", ["a cat", "a dog"])]
    assert (u == encoder.encode(first)).all() and (v == encoder.encode(second)).all()
