"""Compares the automatic estimate, and curves fitted to ratings, with ratings of suggestions that were read.

`python -m tests.benchmarks.readings FOLDER` prints the tables and the constants of `suggestion.estimate`, and plots the
calibration. readings.json has numbers, no texts: for each of eight logs its `recurrence`, and for each message the
cosines of its three suggestions with the real reply (by the base), their scores, and the ratings (s send, e edit, n no)
of one or two independent readers. The models of cross-validation made the suggestions.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score

from modeling_convsim.suggestion.estimate import one_of
from modeling_convsim.suggestion.probability import Curve, share_interval

EARLIER_COSINE = 0.6  # of sentence embeddings: the column "cosine"
RATINGS, DRAWS, GROUPS = 40, 200, 5
Log = dict[str, Any]


def answers(log: Log) -> np.ndarray:
    """Whether suggestions can be sent, as they are or after an edit: (readers, messages, 3)."""
    given = [message["ratings"] for message in log["messages"]]
    return np.array([[[each != "n" for each in one] for one in reader] for reader in zip(*given, strict=True)])


def cosines(log: Log, kind: str = "response_cosines") -> np.ndarray:
    """(messages, 3)."""
    return np.array([message[kind] for message in log["messages"]])


def features(log: Log) -> np.ndarray:
    """What the estimate is a function of: (suggestions, 2)."""
    each = cosines(log).ravel()
    return np.stack([each, np.full_like(each, log["recurrence"])], axis=1)


def fit(logs: list[Log]) -> LogisticRegression:
    """Fit the estimate to some logs, with the same weight for each log."""
    inputs, outputs, weights = [], [], []
    for log in logs:
        for reader in answers(log):
            inputs.append(features(log))
            outputs.append(reader.ravel())
            weights.append(np.full(reader.size, 1 / answers(log).size))
    return LogisticRegression(C=np.inf).fit(*map(np.concatenate, (inputs, outputs, weights)))


def print_estimates(logs: list[Log]) -> None:
    """Print the estimate of each log, fitted to the other logs, beside the ratings."""
    print("| log | rated | agreement | first: rated | cosine | estimated | one of three: rated | estimated |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for log in logs:
        given = answers(log)
        chances = fit([other for other in logs if other is not log]).predict_proba(features(log))[:, 1]
        chances = chances.reshape(given[0].shape)
        agreement = f"{cohen_kappa_score(*given[:, :, 0]):.2f}" if len(given) > 1 else ""
        earlier = (cosines(log, "sentence_cosines")[:, 0] >= EARLIER_COSINE).mean()
        first, any_of = given[:, :, 0], given.any(axis=2)
        print(
            f"| {log['log']} | {len(given[0])} | {agreement} | {_shares(first)} | {earlier:.2f} | "
            f"{chances[:, 0].mean():.2f} | {_shares(any_of)} | {one_of(chances).mean():.2f} |"
        )


def _shares(given: np.ndarray) -> str:
    """The share by each reader, and the 95% interval of the first one."""
    low, high = share_interval(int(given[0].sum()), len(given[0]))
    return ", ".join(f"{reader.mean():.2f}" for reader in given) + f" [{low:.2f}, {high:.2f}]"


def draw_calibration(logs: list[Log], path: Path) -> None:
    """Probabilities by curves that were fitted to 40 ratings, against the share of the other ratings, in fifths."""
    figure = Figure(figsize=(4.2, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="gray", linewidth=1)
    for log, mark in zip(logs, "os", strict=True):
        scores, given = cosines(log, "scores").ravel(), answers(log)[0].ravel()
        random, pairs = np.random.default_rng(0), []
        for _ in range(DRAWS):
            order = random.permutation(len(scores))
            curve = Curve.fit(scores[order[:RATINGS]], given[order[:RATINGS]], estimated=False)
            rest = order[RATINGS:]
            pairs.append(np.stack([[curve.probability(score) for score in scores[rest]], given[rest]]))
        predicted, sent = np.concatenate(pairs, axis=1)
        groups = np.array_split(np.argsort(predicted), GROUPS)
        points = np.array([(predicted[rows].mean(), sent[rows].mean()) for rows in groups])
        axes.plot(*points.T, f"{mark}-", label=log["log"])
        print(
            f"{log['log']}, after {RATINGS} ratings, predicted and given: "
            + ", ".join(f"{a:.2f} {b:.2f}" for a, b in points)
        )
    axes.set(xlabel=f"probability after {RATINGS} ratings", ylabel="share that can be sent", xlim=(0, 1), ylim=(0, 1))
    axes.legend()
    figure.savefig(path, dpi=100)


def main(folder: str) -> None:
    """Print the tables, and draw the plot in a folder."""
    logs = json.loads(Path(__file__).with_name("readings.json").read_text(encoding="utf-8"))
    print_estimates(logs)
    model = fit(logs)
    print(f"constant {model.intercept_[0]:.2f}, cosine {model.coef_[0, 0]:.2f}, recurrence {model.coef_[0, 1]:.2f}")
    draw_calibration(logs[:2], Path(folder) / "calibration.png")


if __name__ == "__main__":
    main(sys.argv[1])
