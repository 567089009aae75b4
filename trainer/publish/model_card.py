"""Writes the model card: README.md of a model folder, with every number from results.json."""

import dataclasses
import re
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers import MODEL_MAPPING, PretrainedConfig

from modeling_convsim import ConvSimEncoder
from modeling_convsim.encoding.batch_tokenizer import UNLIMITED
from modeling_convsim.files.hub import escape_text, parse_hub_name
from modeling_convsim.files.json_files import read_object
from modeling_convsim.shipped import MODEL_CARDS
from trainer.evaluation.baselines import LABELS
from trainer.evaluation.bootstrap import INTERVAL
from trainer.evaluation.evaluators import EVALUATORS
from trainer.evaluation.registry import CardEntry
from trainer.publish.provenance import (
    LOCAL,
    LOCAL_MODEL,
    NOT_PUBLISHED,
    base_models,
    base_name,
    data_rows,
    dataset_kinds,
    has_teacher,
    hub_sources,
    public_name,
    task_lines,
    trained_heads,
    training_sources,
)
from trainer.settings import MODELS, NEW_TOKENIZER, NEW_WEIGHTS, sources_of

TEMPLATE = MODEL_CARDS / "template.md"
WORD_VECTORS = ("random", "skip_gram")  # values of `word_vectors` that are not folders
# The minimum scores to recommend a use; all published models exceed them.
GOOD = {"stsb": ("pearson", 0.7), "response_prediction": ("p_at_1", 0.25)}
TAGS = ["convsim", "conversations"]


class Score(NamedTuple):
    """One score of results.json.

    Attributes:
        part: the evaluator, a key of results.json.
        card: the names of its task, dataset and metrics in cards.
        split: the split of the dataset.
        subset: a genre or one of several datasets; "" for all.
        metric: its key in results.json.
        value: the score.
        interval: its 95% bootstrap interval, if it was computed.
    """

    part: str
    card: CardEntry
    split: str
    subset: str
    metric: str
    value: float
    interval: list[float] | None = None


def render_card(
    folder: Path,
    results: Mapping[str, Any],
    settings: Mapping[str, Any],
    config: PretrainedConfig,
    model_id: str,
    about: str = "",
    beside: str = "",
) -> ModelCard:
    """The card of a model folder, with `model-index`.

    Args:
        folder: the model folder.
        results: the content of the run's results.json. `leakage` holds, for each training dataset,
            `{evaluation dataset: rows, "removed": rows in total}`; `run.rows` the number of rows after that; `licenses`
            what `find_licenses` returned during the run.
        settings: the run's settings, as in config.yaml.
        config: the model's config.
        model_id: what the card's examples load, `OWNER/NAME` or `runs/NAME/model`.
        about: a paragraph that ends the model's description.
        beside: Markdown that compares the model with others.
    """
    scores, on_hub = list(read_scores(results, settings)), hub_sources(results)
    name = [*model_id.split("/")[:2]][-1]  # of OWNER/NAME or runs/NAME/model
    return ModelCard.from_template(
        _metadata(scores, settings, config, name, on_hub),
        template_path=str(TEMPLATE),
        name=escape_text(name),
        model_id=model_id,
        config=config,
        exports_to_onnx=getattr(MODEL_MAPPING.get(type(config), ConvSimEncoder), "exports_to_onnx", False),
        about=about,
        beside=beside,
        max_tokens=_max_tokens(folder, settings),
        has_data_page=(folder / "DATA.md").is_file(),
        settings_file="preset.yaml" if (folder / "preset.yaml").is_file() else "config.yaml",
        is_half=bool(settings.get("half_precision")),
        **_provenance(results, settings, on_hub),
        **_results(scores, results, settings),
    )


def published_settings(settings: Mapping[str, Any], on_hub: Collection[str]) -> dict[str, Any]:
    """A run's settings without the names of local folders, and without settings that do not describe the model.

    Args:
        settings: as in config.yaml.
        on_hub: the sources that the run loaded from the Hub.
    """
    sources = {
        *dataset_kinds(),
        *(evaluator.dataset for evaluator in EVALUATORS.values()),
        *MODELS,
        "extensions",
    }

    def shown(key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [shown(key, item) for item in value]
        if key == "task_options":
            return {name: shown(name, item) for name, item in value.items()}
        names_folder = isinstance(value, str) and (key in sources or "/" in value) and value not in WORD_VECTORS
        return public_name(value, on_hub, LOCAL_MODEL if key in MODELS else LOCAL) if names_folder else value

    published = {key: shown(key, value) for key, value in settings.items() if key not in NOT_PUBLISHED}
    if base := base_name(settings, on_hub):  # whose tokenizer and weights the run had
        published = {key: value for key, value in published.items() if key not in (*NEW_TOKENIZER, *NEW_WEIGHTS)}
        published["initialize_from"] = base
    return published


def _metadata(
    scores: list[Score], settings: Mapping[str, Any], config: PretrainedConfig, name: str, on_hub: Collection[str]
) -> ModelCardData:
    """The card's YAML header."""
    datasets = dict.fromkeys(
        parse_hub_name(source).repository for source in training_sources(settings) if source in on_hub
    )
    first: dict[str, Score] = {}  # metric of each evaluator on the whole of its final split: what the Hub lists
    for score in final_scores(scores):
        if not score.subset:
            first.setdefault(score.part, score)
    return ModelCardData(
        language=_languages(settings),
        license=settings.get("license"),
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=[*TAGS, config.model_type],
        base_model=base_models(settings, on_hub) or None,
        datasets=list(datasets) or None,
        model_name=name,
        eval_results=[
            EvalResult(
                task_type=score.card.task_type,
                dataset_type=score.card.dataset_id,
                dataset_name=score.card.dataset_name,
                dataset_config=score.subset or None,
                dataset_split=score.split,
                metric_type=score.metric,
                metric_name=score.card.metrics[score.metric],
                metric_value=score.value,
            )
            for score in first.values()
        ]
        or None,
    )


def _max_tokens(folder: Path, settings: Mapping[str, Any]) -> int | None:
    """The limit of tokens per text, from a model's tokenizer or else the settings of its run; None without a limit."""
    file = folder / "tokenizer_config.json"
    length = read_object(file).get("model_max_length") if file.is_file() else settings.get("max_tokens")
    return length if length and length < UNLIMITED else None


def _provenance(results: Mapping[str, Any], settings: Mapping[str, Any], on_hub: Collection[str]) -> dict[str, Any]:
    """The template's values for what the model learned from: tasks, data, other models, and the settings."""
    teacher = settings.get("teacher") if has_teacher(settings) else None
    word_vectors = settings.get("word_vectors")  # on the Hub, they are those of a SentenceTransformer
    base = base_name(settings, on_hub)
    names = dict.fromkeys(public_name(source, on_hub) for source in training_sources(settings))
    return {
        "language": _language(settings),
        "heads": trained_heads(settings),
        "teacher": (escape_text(teacher) if teacher in on_hub else "a local model") if teacher else None,
        "score_teachers": len(settings.get("score_teachers") or ()),
        "token_teacher": escape_text(word_vectors) if word_vectors in on_hub else None,
        "base": f"a {base}" if base == LOCAL_MODEL else base,
        "base_teachers": [each for each in base_models(settings, on_hub) if each != settings.get("initialize_from")],
        "run": results.get("run", {}),
        "tasks": task_lines(settings),
        "is_stripped": any(leaks.keys() - {"removed"} for leaks in results.get("leakage", {}).values()),
        "data_rows": [_cells(row) for row in data_rows(results, settings)],
        "sources": ", ".join(map(escape_text, names)) or "not recorded",
    }


def _results(scores: list[Score], results: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The template's values for results; of an adapted model also P@1 of others, and its gain over each."""
    seeds = results.get("seeds", {})
    others = {name: part.get("response_prediction", {}) for name, part in results.get("baselines", {}).items()}
    return {
        "prediction": results.get("response_prediction", {}),
        "similarity": any(score.card.task_type == "sentence-similarity" for score in scores),
        "score_rows": [_cells(score_row(score)) for score in final_scores(scores)],
        "seeds": [_cells(seed_row(path, values)) for path, values in seeds.items() if not _is_part(path, seeds)],
        "seed_count": max(map(len, seeds.values()), default=0),
        "uses": _sort_uses(scores, settings),
        "adaptation": results.get("adaptation"),
        "comparison": [_cells(_comparison_row(name, part)) for name, part in others.items() if "gain" in part],
    }


def _sort_uses(scores: list[Score], settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The uses of a model, by whether its scores for them are "good", "weak" or "unknown"."""
    uses: dict[str, list[str]] = {"good": [], "weak": [], "unknown": []}
    names = {"stsb": f"sentence similarity {_language(settings)}, search and clustering of short texts"}
    if "response_prediction" in trained_heads(settings):
        names["response_prediction"] = "selecting a reply from a fixed list"
    for part, name in names.items():
        metric, least = GOOD[part]
        found = [score.value for score in final_scores(scores) if (score.part, score.metric) == (part, metric)]
        uses["unknown" if not found else "good" if max(found) >= least else "weak"].append(name)
    return uses


def _comparison_row(name: str, part: Mapping[str, Any]) -> dict[str, str]:
    """A row of the table of an adapted model and others on its held-out messages."""
    return {
        "system": {"base": "the base", **LABELS}.get(name, name),
        "value": f"{part['p_at_1']:.3f}",
        "gain": f"{part['gain']:+.3f} [{', '.join(f'{end:+.3f}' for end in part[f'gain{INTERVAL}'])}]",
    }


def final_scores(scores: list[Score]) -> list[Score]:
    """The scores; those on dev and on subsets of a dataset only if the same evaluator has no others."""
    tested = {score.part for score in scores if score.split != "dev"}
    final = [score for score in scores if score.split != "dev" or score.part not in tested]
    whole = {score.part for score in final if not score.subset}
    return [score for score in final if not score.subset or score.part not in whole]


def _is_part(path: str, others: Collection[str]) -> bool:
    """Return whether a path `PART.SPLIT.SUBSET.METRIC` is of a subset of a dataset whose whole is one of the others."""
    *split, subset, metric = path.split(".")
    return subset != "all" and ".".join([*split, "all", metric]) in others


def _language(settings: Mapping[str, Any]) -> str:
    languages = _languages(settings)
    return "in English" if languages == ["en"] else f"(language: {', '.join(languages)})"


def _languages(settings: Mapping[str, Any]) -> list[str]:
    return sources_of(settings, "language") or ["en"]


def _cells(row: Mapping[str, str]) -> dict[str, str]:
    return {key: escape_text(value) for key, value in row.items()}


# -- scores -----------------------------------------------------------------------------------------------------------


def read_scores(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Score]:
    """The scores of results.json, in the order of the evaluators; a part that was not run has none.

    A dataset whose size differs from the public one is named as in the settings. Counts beside the scores
    (`candidates`, `queries`, `pairs`) are skipped.
    """
    for name in EVALUATORS:
        part = results.get(name, {})
        # A part of a single split has the split's name beside its scores; the others are {split: {subset: scores}} or
        # {split: scores}.
        splits = {part["split"]: part} if "split" in part else part
        for split, scores in splits.items():
            subsets = {key: value for key, value in scores.items() if isinstance(value, Mapping)} or {"": scores}
            card = _card_entry(name, split, subsets.get("all", scores).get("pairs"), settings, hub_sources(results))
            for subset, values in subsets.items():
                for metric, value in values.items():
                    if metric in card.metrics:
                        interval = values.get(f"{metric}{INTERVAL}")
                        yield Score(name, card, split, "" if subset == "all" else subset, metric, value, interval)


def _card_entry(
    name: str, split: str, pairs: int | None, settings: Mapping[str, Any], on_hub: Collection[str]
) -> CardEntry:
    """The evaluator's entry, with the dataset's name in the settings if its size is not that of the public dataset."""
    evaluator = EVALUATORS[name]
    if pairs is None or pairs == evaluator.card.public_sizes.get(split, pairs):
        return evaluator.card
    own_name = public_name(next(iter(sources_of(settings, evaluator.dataset)), LOCAL), on_hub)
    own_id = re.sub(r"[^\w.-]", "-", own_name)
    return dataclasses.replace(evaluator.card, dataset_id=own_id, dataset_name=own_name)


def score_row(score: Score) -> dict[str, str]:
    """A row of the card's table of results."""
    name = score.card.dataset_name
    return {
        "task": score.card.task_name,
        "data": f"{name} ({score.subset})" if score.subset else name,
        "split": score.split,
        "metric": score.card.metrics[score.metric],
        "value": f"{score.value:.4f}",
        "interval": " to ".join(f"{end:.3f}" for end in score.interval or ()),
    }


def seed_row(path: str, values: Sequence[float]) -> dict[str, str]:
    """A row of the card's table of seeds.

    Args:
        path: `PART.SPLIT.SUBSET.METRIC`, with or without split and subset.
        values: the score for each seed.
    """
    part, *where, metric = path.split(".")
    card = EVALUATORS[part].card if part in EVALUATORS else CardEntry("", part, part, part, metrics={})
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {
        "data": " ".join([card.dataset_name, *where]),
        "metric": card.metrics.get(metric, metric),
        "mean": f"{statistics.fmean(values):.4f}",
        "deviation": f"{deviation:.4f}",
    }
