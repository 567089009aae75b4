"""Adapting a trained model to a user's own conversations, as the hook of a training run.

The base is the model of `initialize_from`. Its token weights are adjusted to the conversations, and the share of its
lexical channel is chosen; the pairs show whether that is better, because the base has not seen them. The result is an
interpolation of this start and the model that was trained from it. Step and factor are chosen on dev; a few pairs are
too few for a dev split, and are chosen by cross-validation.
"""

import dataclasses
import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from datasets import DatasetDict, concatenate_datasets
from transformers import PreTrainedTokenizerFast

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.adapt.cross_validation import FOLDS, Choice, Ranking, cross_validate, is_better
from trainer.adapt.start import Start, prepare_start, shares_of
from trainer.arguments import Arguments
from trainer.data.datasets import RunData
from trainer.data.dev_split import ENOUGH, complete_dev_split
from trainer.tasks import Task
from trainer.training.context import Hook, Progress, RunContext
from trainer.training.metrics_log import METRICS
from trainer.training.model_evaluator import DEV_QUERIES, ModelEvaluator, mean_precision
from trainer.training.train import train

TASK = "response_prediction"
SMALL = 4_000  # pairs; a dev split of fewer would have 400 queries or less
FEWEST_STEPS, EPOCHS, EVALUATIONS = 150, 1.5, 4
LARGE = 20_000  # pairs; with more, a batch is `LARGE_BATCH` times batch_size
LARGE_BATCH = 4
MANY_QUERIES = 1_000  # on dev; enough to choose the share of the lexical channel once more

logger = logging.getLogger(__name__)


def adapt(arguments: Arguments) -> tuple[dict[str, Any], DatasetDict]:
    """Adapt the model of `initialize_from` with the settings of a run.

    Returns:
        The contents of results.json, and the pairs: "train", and, if they were held out, "validation" and "test".

    Raises:
        InputError: the settings or the data are invalid, or the pairs can neither be held out nor cross-validated.
        Interrupted: a signal has stopped the run.
    """
    adaptation = Adaptation()
    return train(arguments, adaptation), adaptation.pairs


class Adaptation(Hook):
    """Adapts the model of a run.

    Attributes:
        pairs: the pairs by split.
    """

    pairs: DatasetDict
    _start: Start
    _choice: Choice | None = None
    _base_ranking: Ranking

    def complete_splits(self, data: RunData) -> None:
        """See `split_pairs`."""
        split_pairs(data)
        self.pairs = DatasetDict({"train": data.training["pairs"], **data.evaluation["pairs"]})

    def prepare(
        self,
        context: RunContext,
        model: ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        tasks: Mapping[str, Task],
    ) -> Arguments:
        """Turn the base into the start; without a dev split, choose steps and factor by cross-validation."""
        arguments = scale_schedule(context.arguments, len(tasks[TASK]))
        train_pairs = self.pairs["train"]
        if "validation" not in self.pairs:
            context = dataclasses.replace(context, arguments=arguments)
            self._start, self._choice = cross_validate(context, model, tokenizer, tasks, train_pairs)
            steps, self._base_ranking = self._choice.steps, self._choice.base_ranking
            return dataclasses.replace(arguments, max_steps=steps, eval_every=steps, best_metric="last")
        dev = {"pairs": DatasetDict(validation=self.pairs["validation"])}
        evaluator = ModelEvaluator(model, tokenizer, dev, ())
        self._base_ranking = evaluator.evaluate("dev", queries=DEV_QUERIES, evaluators=[TASK])[TASK]
        self._start = prepare_start(model, tokenizer, tasks[TASK].columns, train_pairs)
        return arguments

    def evaluate(self, evaluator: ModelEvaluator, step: int, score: Callable[[dict], float]) -> dict[str, Any]:
        """Evaluate the interpolated weights with each factor; return the results of the best, with its factor."""
        if not step:
            return super().evaluate(evaluator, step, score)
        outcomes = self._start.weights.evaluate(
            evaluator.model,
            lambda: super(Adaptation, self).evaluate(evaluator, step, score),
            *([[self._choice.factor]] if self._choice else []),
        )
        factor, results = max(outcomes, key=lambda outcome: score(outcome[1]))  # the lowest of the best
        return results | {"interpolation": {"factor": factor}}

    def finish(self, context: RunContext, evaluator: ModelEvaluator, progress: Progress) -> dict[str, Any]:
        """Interpolate the weights of the best checkpoint; return the part "adaptation" of results.json."""
        model, start, base = evaluator.model, self._start, self._base_ranking
        factor, adapted = self._selected(context, progress)
        start.weights.apply(model, factor)
        if not self._choice and self._queries() >= MANY_QUERIES:
            adapted = _choose_share(evaluator)
        helps = is_better(adapted, base, base)
        self._log_outcome(helps, adapted, model.config.lexical_share, factor, progress.best_step)
        if not helps:
            start.base.apply(model, 0.0)
            model.config.lexical_share = start.base_share
            adapted, factor = base, 0.0
        part = {
            "factor": factor,
            "token_weights_adjusted": start.adjusted and helps,
            "lexical_share": model.config.lexical_share,
            "selected_on": self._method(),
            "queries": self._queries(),
            "base_p_at_1": base["p_at_1"],
            "p_at_1": adapted["p_at_1"],
        }
        return {"adaptation": part}

    def _log_outcome(self, helps: bool, adapted: Ranking, share: float, factor: float, step: int | None) -> None:
        scores = (adapted["p_at_1"], self._base_ranking["p_at_1"], self._method(), self._queries())
        if not helps:
            message = "adapting did not help: P@1 %.4f at best, the base's %.4f (%s, %d queries)"
            logger.info(f"{message}; the result is the base", *scores)
            return
        changes = ["adjusted token weights"] * self._start.adjusted
        changes += [f"lexical share {share:g}"] * bool(share)
        changes += [f"start + {factor:g} (trained - start), step {step}"] * bool(factor)
        logger.info("adapted: P@1 %.4f, from %.4f of the base (%s, %d queries; %s)", *scores, ", ".join(changes))

    def _method(self) -> str:
        return f"{FOLDS}-fold cross-validation" if self._choice else "dev"

    def _queries(self) -> int:
        """The number of dev queries, or of those of cross-validation."""
        return self._choice.queries if self._choice else min(len(self.pairs["validation"]), DEV_QUERIES)

    def _selected(self, context: RunContext, progress: Progress) -> tuple[float, Ranking]:
        """The factor that ranks best, and its ranking: of cross-validation, or on dev at the best step; 0 is the start.

        A resumed run finds the dev results of its first steps in the log.
        """
        if self._choice:
            return self._choice.factor, self._choice.ranking
        lines = (context.folder / METRICS).read_text(encoding="utf-8").splitlines()
        dev = {row["step"]: row["dev"] for row in map(json.loads, lines) if "dev" in row}
        start, trained = dev[0][TASK], dev[progress.best_step]
        if is_better(trained[TASK], start, self._base_ranking):
            return trained["interpolation"]["factor"], trained[TASK]
        return 0.0, start


def split_pairs(data: RunData) -> None:
    """Complete a dev split that is too small; that of a few pairs is added to the training split, which is then
    cross-validated.
    """
    data.join_sources("pairs")
    train_pairs, splits = data.training["pairs"], data.evaluation["pairs"]
    held_out = [splits["validation"]] if "validation" in splits else []
    if len(train_pairs) + sum(map(len, held_out)) >= SMALL:
        complete_dev_split(data, ENOUGH)
        return
    data.training["pairs"] = concatenate_datasets([train_pairs, *held_out])
    data.evaluation["pairs"] = DatasetDict({name: rows for name, rows in splits.items() if name != "validation"})


def scale_schedule(arguments: Arguments, pairs: int) -> Arguments:
    """Return the arguments with a batch size and numbers of steps for a number of pairs; `max_steps` is kept if given.

    An epoch and a half is enough for many pairs; more than 150 steps are too many for a few.
    """
    batch_size = arguments.batch_size * (LARGE_BATCH if pairs > LARGE else 1)
    steps = arguments.max_steps or max(FEWEST_STEPS, math.ceil(EPOCHS * pairs / batch_size))
    eval_every = min(arguments.eval_every, math.ceil(steps / EVALUATIONS))
    return dataclasses.replace(arguments, batch_size=batch_size, max_steps=steps, eval_every=eval_every)


def _choose_share(evaluator: ModelEvaluator) -> Ranking:
    """Choose the share of the model's lexical channel on dev, and return the ranking with it.

    It has the highest mean precision among those whose P@1 is at least that of the model's own share.
    """
    config, rankings = evaluator.model.config, {}
    own, *others = shares_of(evaluator.model)
    for share in (own, *others):
        config.lexical_share = share
        rankings[share] = evaluator.evaluate("dev", queries=DEV_QUERIES, evaluators=[TASK])[TASK]
    candidates = [share for share in rankings if rankings[share]["p_at_1"] >= rankings[own]["p_at_1"]]
    config.lexical_share = max(candidates, key=lambda share: mean_precision(rankings[share]))
    return rankings[config.lexical_share]
