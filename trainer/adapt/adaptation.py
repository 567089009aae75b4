"""Adapts a trained model to a user's own conversations.

The base is the model of `initialize_from`. The result is an interpolation between the start (`start.py`) and the
trained weights, if its gain over the base is significant on held-out messages not used for model selection; otherwise,
it is the base. The held-out messages are in the dev split, or, with fewer than `SMALL` pairs, in the folds of
cross-validation. The test split is never used for selection.

Adapting takes minutes and writes no checkpoints: after an interruption, it starts again.
"""

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any

from datasets import Dataset, DatasetDict, concatenate_datasets

from modeling_convsim import ConvSimPretrainedModel
from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.joint import SECOND, write_share
from modeling_convsim.files.errors import InputError
from modeling_convsim.suggestion.ratings import Rating
from trainer.adapt.cross_validation import FOLDS, RATED, TASK, Choice, CrossValidation, Trial, hold_out
from trainer.adapt.frozen import Vectors, copy_model, freeze, unfreeze
from trainer.adapt.joint import join
from trainer.adapt.suggestions import CenteredEncoder
from trainer.data.datasets import ENOUGH, RunData, complete_dev_split, load_run_data
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.ranking import QUERIES, contexts_of
from trainer.runs import Run, RunContext
from trainer.settings import Settings
from trainer.training.backbone import find_backbone
from trainer.training.checkpoints import Progress
from trainer.training.inputs import build_tasks, build_tokenizer
from trainer.training.model import max_tokens
from trainer.training.model_evaluator import ModelEvaluator, evaluators_to_skip
from trainer.training.train import initialize_model, start_run, write_run

SMALL = 4_000  # pairs; the dev split of a smaller dataset would have fewer than 400 queries
FEWEST_STEPS, EPOCHS, EVALUATIONS = 150, 1.5, 4
LARGE = 20_000  # pairs; with more, a batch is `LARGE_BATCH` times batch_size
LARGE_BATCH = 4
LEXICAL_SIZE = 1024  # dimension of the lexical channel that is added to a pretrained encoder


@dataclasses.dataclass(frozen=True)
class Adapted:
    """The outcome of an adaptation.

    Attributes:
        results: the contents of results.json.
        pairs: the splits "train" and, if there are any, "validation" and "test".
        trials: how pairs were held out.
        choice: the result of model selection.
        base: the model before it was adapted.
        judge: the encoder that compares suggestions with real replies.
    """

    results: dict[str, Any]
    pairs: DatasetDict
    trials: list[Trial]
    choice: Choice
    base: Encoder
    judge: SentenceEncoder

    @property
    def measured_by(self) -> str:
        """The data that the model was selected and measured on: "dev" or "cross-validation"."""
        return "dev" if "validation" in self.pairs else "cross-validation"


def adapt(settings: Settings, beside: str | None = None, ratings: Sequence[Rating] = ()) -> Adapted:
    """Adapt the model of `initialize_from` with the settings of a run, and write the result to the run's folder.

    A pretrained encoder gets heads and a lexical channel. Only these are trained.

    Args:
        settings: the settings.
        beside: another model, which is adapted too, and combined with the first one if this ranks replies better.
            Before adapting, it compares suggestions with real replies; by default, the model of `initialize_from` does.
        ratings: ratings of suggestions; replies rated "send" become training data (`add_sent`).

    Raises:
        InputError: the settings or the data are invalid, or the pairs can neither be held out nor cross-validated.
        Interrupted: a signal has stopped the run.
    """
    if find_backbone(str(settings.initialize_from)):
        model_config = {"lexical_size": LEXICAL_SIZE, **settings.model_config}
        settings = dataclasses.replace(settings, model_config=model_config)
    with start_run(settings) as context:
        if context.accelerator.num_processes > 1:
            raise InputError("adapt runs in a single process; start it without `accelerate launch`")
        data = load_run_data(context.settings)
        split_pairs(data)
        sent = add_sent(data, ratings)
        pairs = DatasetDict({"train": data.training["pairs"], **data.evaluation["pairs"]})
        trials = hold_out(pairs)
        base, choice, vectors = _adapt_model(context, data, trials)
        replies = pairs["train"].shuffle(0)["response"][:QUERIES]
        judge = CenteredEncoder(base, replies) if vectors else base
        parts, joint = {"adaptation": _summarize(choice, "validation" in pairs)}, None
        parts |= {"sent": sent} if ratings else {}
        if beside:
            other_settings = dataclasses.replace(
                context.settings, initialize_from=beside, model_config={}, max_tokens=None
            )
            other_settings.max_tokens = max_tokens(other_settings)
            judge, second, _ = _adapt_model(dataclasses.replace(context, settings=other_settings), data, trials)
            joint = join(choice, second, trials)
            parts |= {"joint": joint.summarize()} if joint else {}
        results = _write(context, data, choice, parts)
        if vectors:
            freeze(choice.model.encoder, vectors)  # it is saved; lookups make the rest faster
        choice.encoder.name = str(context.folder / "model")
        if joint:
            second.model.save_pretrained(context.folder / "model" / SECOND)
            second.tokenizer.save_pretrained(context.folder / "model" / SECOND)
            write_share(context.folder / "model", joint.encoder.share)
        return Adapted(results, pairs, trials, joint.choice if joint else choice, base, judge)


def _adapt_model(context: RunContext, data: RunData, trials: list[Trial]) -> tuple[Encoder, Choice, Vectors]:
    """The unchanged base, the selected model, and the frozen encoder's vectors of all texts."""
    pairs, settings = data.training["pairs"], context.settings
    tokenizer = build_tokenizer(settings, data)
    tasks = build_tasks(settings, data, tokenizer, show_progress=True)
    model = initialize_model(context, data, tokenizer, tasks).to(context.accelerator.device)
    vectors = Vectors()
    if is_frozen := isinstance(model.encoder, ConvSimPretrainedModel):
        freeze(model.encoder, vectors)
    base = Encoder(copy_model(model), tokenizer, str(settings.initialize_from))
    if is_frozen:
        _encode_texts(base, [pairs, *(trial.held_out for trial in trials)])
    context = dataclasses.replace(context, settings=scale_schedule(settings, len(pairs)))
    return base, CrossValidation(context, model, tokenizer, tasks[TASK], pairs, trials).run(), vectors


def _write(context: RunContext, data: RunData, choice: Choice, parts: dict[str, Any]) -> dict[str, Any]:
    """Replace an earlier run in the folder; return the contents of results.json, which include `parts`."""
    model, steps, rows = choice.model, choice.point.step if choice.point else 0, len(data.training["pairs"])
    unfreeze(model.encoder)
    Run(context.folder).begin(context.settings)
    skip = evaluators_to_skip([TASK], context.settings.final_split)
    evaluator = ModelEvaluator(model, choice.tokenizer, data.evaluation, skip)
    progress = Progress.at_start(context.accelerator)
    progress.step = progress.best_step = steps
    progress.pairs = steps * scale_schedule(context.settings, rows).batch_size
    progress.seconds = time.monotonic() - context.started
    return write_run(context, evaluator, progress, {"pairs": rows}, data.leakage, parts)


def _encode_texts(base: Encoder, known: list[Dataset]) -> None:
    """Encode all texts once, with a progress bar: this is the slowest part of training heads."""
    said = [text for rows in known for turns in contexts_of(rows) for text in turns]
    said += [text for rows in known for text in rows["input"]]
    base.encode(list(dict.fromkeys(said)), side="query", show_progress=True)
    replies = dict.fromkeys(text for rows in known for text in rows["response"])
    base.encode(list(replies), side="response", show_progress=True)


def _summarize(choice: Choice, is_on_dev: bool) -> dict[str, Any]:
    """The part "adaptation" of results.json."""
    point = choice.point
    return {
        "adapted": point is not None,
        "step": point.step if point else 0,
        "factor": point.factor if point else 0.0,
        "token_weights_adjusted": choice.adjusted,
        "lexical_share": choice.encoder.model.config.lexical_share,
        "measured_by": "dev" if is_on_dev else f"{FOLDS}-fold cross-validation",
        **choice.gain.summarize(),
        "context_weights": list(choice.context.weights),
        "context_gain": choice.context.gain.summarize(),
    }


def add_sent(data: RunData, ratings: Sequence[Rating]) -> dict[str, int]:
    """Add replies rated "send" to the training split, in the conversation of their message if it is known.

    They are only used for training, never for evaluation: their source is `RATED`.

    Returns:
        The number of replies "added", "known" (already in the training split), and "held out" (to held-out messages).
    """
    pairs, splits = data.training["pairs"], data.evaluation["pairs"]
    thread_of = dict(zip(pairs["input"][:], pairs["thread"][:], strict=True))
    known = set(zip(pairs["input"][:], pairs["response"][:], strict=True))
    held_out = {message for rows in splits.values() for message in rows["input"]}
    counts, rows = {"added": 0, "known": 0, "held out": 0}, list[dict[str, Any]]()
    for each in ratings:
        if each.rating == "send":
            is_known, is_held_out = (each.message, each.reply) in known, each.message in held_out
            counts["held out" if is_held_out else "known" if is_known else "added"] += 1
            if not (is_known or is_held_out):
                thread = thread_of.setdefault(each.message, f"rating {len(rows)}")
                row = {"input": each.message, "response": each.reply, "context": each.context, "thread": thread}
                rows.append({name: row.get(name, RATED) for name in pairs.column_names})
    if rows:
        data.training["pairs"] = concatenate_datasets([pairs, Dataset.from_list(rows, features=pairs.features)])
    return counts


def split_pairs(data: RunData) -> None:
    """Complete a dev split that is too small, or, with fewer than `SMALL` pairs, add it to the training split for
    cross-validation.
    """
    data.join_sources("pairs")
    train_pairs, splits = data.training["pairs"], data.evaluation["pairs"]
    held_out = [splits["validation"]] if "validation" in splits else []
    if len(train_pairs) + sum(map(len, held_out)) >= SMALL:
        complete_dev_split(data, ENOUGH)
        return
    data.training["pairs"] = concatenate_datasets([train_pairs, *held_out])
    data.evaluation["pairs"] = DatasetDict({name: rows for name, rows in splits.items() if name != "validation"})


def scale_schedule(settings: Settings, pairs: int) -> Settings:
    """Return the settings with batch size and steps for a number of pairs; a given `max_steps` is kept.

    One and a half epochs are enough for many pairs; with few pairs, 150 steps are enough.
    """
    batch_size = settings.batch_size * (LARGE_BATCH if pairs > LARGE else 1)
    steps = settings.max_steps or max(FEWEST_STEPS, math.ceil(EPOCHS * pairs / batch_size))
    eval_every = min(settings.eval_every, math.ceil(steps / EVALUATIONS))
    return dataclasses.replace(settings, batch_size=batch_size, max_steps=steps, eval_every=eval_every)
