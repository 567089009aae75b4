"""The model card: README.md and `.eval_results/` of a model folder, every number of them out of results.json."""

import shutil
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from huggingface_hub import (
    EvalResult,
    EvalResultEntry,
    ModelCard,
    ModelCardData,
    eval_result_entries_to_yaml,
    try_to_load_from_cache,
)
from transformers import PretrainedConfig

from data_scripts.write.hub import read_licenses

TEMPLATE = Path(__file__).resolve().parents[2] / "model_cards" / "template.md"
# Settings that say nothing about the model.
NOT_SHOWN = {"output_dir", "overwrite", "resume", "cache_dir", "log_every", "trackers", "push_to_hub", "hub_model_id",
             "hub_private", "num_processes", "device"}  # fmt: skip


class Part(NamedTuple):
    """What a part of results.json measures, in the Hub's words and in people's."""

    task_type: str
    task_name: str
    dataset_id: str  # a Hub id, or a plain name where the set has none
    dataset_name: str


PARTS = {
    "response_prediction": Part("text-ranking", "response prediction", "conversations", "held-out conversations"),
    "snli": Part("text-classification", "natural language inference", "stanfordnlp/snli", "SNLI"),
    "stsb": Part("sentence-similarity", "textual similarity", "mteb/stsbenchmark-sts", "STS Benchmark"),
    "stsb_tuned": Part("sentence-similarity", "textual similarity", "mteb/stsbenchmark-sts", "STS Benchmark"),
    "cqa": Part("text-ranking", "question similarity", "semeval-2017-task3-b", "SemEval CQA, subtask B"),
    "sts": Part("sentence-similarity", "textual similarity, cosine", "semeval-sts", "SemEval STS"),
}
METRICS = {"accuracy": "accuracy", "pearson": "Pearson", "spearman": "Spearman", "map": "MAP",
           "p_at_1": "P@1", "p_at_3": "P@3", "p_at_10": "P@10"}  # fmt: skip


# Pairs of the public sets, by which a run on another set in their form is told from one on the set itself.
PUBLIC_PAIRS = {("snli", "dev"): 9842, ("snli", "test"): 9824, ("stsb", "dev"): 1500, ("stsb", "test"): 1379}


class Score(NamedTuple):
    """One number of results.json, measured on `data`; `subset` is a genre or a set, "" for the whole."""

    part: str
    data: Part
    split: str
    subset: str
    metric: str
    value: float
    interval: list[float] | None = None
    """Where 95 of 100 bootstrap samples of the items fall, if that was measured."""

    @property
    def metric_name(self) -> str:
        """The metric as a table shows it."""
        return METRICS[self.metric] + (", tuned" if self.part == "stsb_tuned" else "")


def scores(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Score]:
    """The scores of results.json, in its order; a part that was not run gives none.

    A set with another number of pairs than SNLI or the STS Benchmark has goes by the name that the settings give it.

    Counts beside a score (`candidates`, `queries`, number of pairs) are no scores and are left out.
    """
    for part in PARTS:
        found = results.get(part, {})
        # Parts of one split name it beside their scores; the others hold {split: {subset: scores}} or {split: scores}.
        for split, subsets in ({found["split"]: found} if "split" in found else found).items():
            nested = {key: value for key, value in subsets.items() if isinstance(value, Mapping)} or {"": subsets}
            data, form = PARTS[part], part.removesuffix("_tuned")
            pairs = nested.get("all", subsets).get("pairs")
            if pairs is not None and pairs != PUBLIC_PAIRS.get((form, split), pairs):
                name = _shown(settings.get(form) or "own data")
                data = data._replace(dataset_id=name.replace("/", "-"), dataset_name=name)
            for subset, values in nested.items():
                for metric, value in values.items():
                    if metric in METRICS:
                        interval = values.get(f"{metric}_interval")
                        yield Score(part, data, split, "" if subset == "all" else subset, metric, value, interval)


def write_card(
    folder: Path, results: Mapping[str, Any], settings: Mapping[str, Any], config: PretrainedConfig, model_id: str
) -> None:
    """Write README.md, with `model-index`, and `.eval_results/*.yaml` into a model folder, over those of before.

    Args:
        folder: the model folder.
        results: the content of the run's results.json (DESIGN.md); `leakage` holds, for each training set (`pairs`,
            `snli`), `{evaluation set: rows, "removed": rows in all}`, `run.rows` how many rows it trained on, and
            `licences` what `find_licences` said when the run was made; `export` what `trainer.export` measured of each
            form: `size_mb`, `sentences_per_second` and, by split, `stsb`, each `exported` and of `torch`.
        settings: the run's settings, as in config.yaml.
        config: the model's config.
        model_id: what the card's examples load, `ORG/NAME`. What model_cards/NAME/errors.md says of the errors' table,
            where there is one, is taken over.
    """
    rows = list(scores(results, settings))
    examples = TEMPLATE.parent / model_id.rpartition("/")[2] / "errors.md"
    base = settings.get("initialise_from")
    languages = _named(settings, "language") or ["en"]
    data = ModelCardData(
        language=languages,
        license=settings.get("license", "apache-2.0"),
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=[
            "sentence-transformers",
            "transformers",
            "feature-extraction",
            "convsim",
            "conversations",
            config.model_type,
        ],
        base_model=base if base and _is_on_hub(base) else None,
        datasets=list(dict.fromkeys(_hub_id(name) for name in _sources(settings) if _is_on_hub(name))) or None,
        metrics=sorted({row.metric for row in rows}) or None,
        model_name=model_id.rpartition("/")[2],
        eval_results=[_eval_result(row) for row in rows] or None,
    )
    card = ModelCard.from_template(
        data,
        template_path=str(TEMPLATE),
        name=model_id.rpartition("/")[2],
        model_id=model_id,
        config=config,
        run=results.get("run", {}),
        language="in English" if languages == ["en"] else f"(language: {', '.join(languages)})",
        trained=_trained(settings),
        max_tokens=settings.get("max_tokens"),
        teacher=_shown(settings["teacher"]) if "distillation" in _trained(settings) else None,
        full_precision=[_score_row(row) for row in scores(results.get("full_precision", {}), settings)],
        seeds=[_seed_row(name, values) for name, values in results.get("seeds", {}).items()],
        errors=results.get("stsb_errors", {}).get("dev", {}),
        examples=examples.read_text(encoding="utf-8").strip() if examples.is_file() else "",
        data_rows=[_data_row(name, results, settings) for name in results.get("leakage", {})],
        sources=", ".join(_shown(name) for name in _sources(settings)) or "not recorded",
        settings={key: _cell(value) for key, value in published_settings(settings).items() if value is not None},
        prediction=results.get("response_prediction", {}),
        score_rows=[_score_row(row) for row in rows],
        exports=[_export_row(form, measured, folder) for form, measured in results.get("export", {}).items()],
    )
    temporary = folder / "README.md.new"
    card.save(temporary)
    temporary.replace(folder / "README.md")
    _write_eval_results(folder / ".eval_results", rows)


def _eval_result(score: Score) -> EvalResult:
    return EvalResult(
        task_type=score.data.task_type,
        task_name=score.data.task_name,
        dataset_type=score.data.dataset_id,
        dataset_name=score.data.dataset_name,
        dataset_config=score.subset or None,
        dataset_split=score.split,
        metric_type=score.metric,
        metric_name=score.metric_name,
        metric_value=score.value,
    )


def _write_eval_results(folder: Path, rows: list[Score]) -> None:
    """One file for each set that the Hub has (one with `/` in its id), with the whole test set's scores."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in PARTS:
        entries = [
            EvalResultEntry(
                dataset_id=row.data.dataset_id,
                task_id=row.metric,
                value=row.value,
                notes="tuned with one matrix on the training set" if name == "stsb_tuned" else None,
            )
            for row in rows
            if row.part == name and row.split == "test" and not row.subset and "/" in row.data.dataset_id
        ]
        if entries:
            folder.mkdir(exist_ok=True)
            text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False)
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def _score_row(score: Score) -> dict[str, str]:
    name = score.data.dataset_name
    data = f"{name} ({score.subset})" if score.subset else name
    return {
        "task": score.data.task_name,
        "data": data,
        "split": score.split,
        "metric": score.metric_name,
        "value": f"{score.value:.4f}",
        "interval": " to ".join(f"{end:.3f}" for end in score.interval or ()),
    }


def _seed_row(name: str, values: list[float]) -> dict[str, str]:
    """A score of results.json, `part.split.subset.metric`, over the seeds."""
    *where, metric = name.split(".")
    part = PARTS[where[0]]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {
        "task": f"{part.task_name}{', tuned' if where[0].endswith('_tuned') else ''}",
        "data": " ".join([part.dataset_name, *where[1:]]),
        "metric": METRICS[metric],
        "mean": f"{statistics.fmean(values):.4f}",
        "deviation": f"{deviation:.4f}",
        "values": ", ".join(f"{value:.4f}" for value in values),
    }


def _export_row(form: str, measured: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """A form of `results["export"]`; where it lies in the model's folder, if it does."""
    inside = measured.get("folder", "")
    row = {"form": f"{form} (`{inside}/`)" if inside and (folder / inside).is_dir() else form}
    for which in ("exported", "torch"):
        row[f"size_{which}"] = f"{measured['size_mb'][which]:.1f}"
        row[f"speed_{which}"] = f"{measured['sentences_per_second'][which]:,.0f}"
        stsb = measured.get("stsb", {})
        row[f"stsb_{which}"] = ", ".join(f"{split} {values[which]:.4f}" for split, values in stsb.items())
    pairs = "".join(f", {values['pairs']:,} pairs of {split}" for split, values in measured.get("stsb", {}).items())
    threads, texts = (measured["speed_of"][name] for name in ("threads", "texts"))
    return row | {"measured_with": f"{threads} thread{'s' * (threads != 1)}, {texts:,} sentences{pairs}"}


# Kind of training set, as results.json has it under `leakage` -> tasks that it is for, as under `run.rows`.
_TASKS_OF = {
    "pairs": ("response_prediction",),
    "snli": ("snli",),
    "nli": ("entailment", "ranking"),
    "captions": ("captions",),
    "paraphrases": ("paraphrases", "ranking"),
    "documents": ("neighbours",),
    "texts": (),
}


def _data_row(name: str, results: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
    kind, _, one = name.partition("/")
    rows = results.get("run", {}).get("rows", {})
    if one:
        counts = {task: rows[f"{task}/{one}"] for task in _TASKS_OF[kind] if f"{task}/{one}" in rows}
    else:
        counts = {task: rows[kind] for task in _TASKS_OF[kind] if kind in rows}
    sources = [source for source in _named(settings, kind) if not one or source.rstrip("/").rpartition("/")[2] == one]
    licences = find_licences(settings) | results.get("licences", {})
    named = {_shown(source): licences.get(source, "not stated") for source in sources}
    leaks = {other: count for other, count in results["leakage"][name].items() if other != "removed" and count}
    return {
        "source": ", ".join(map(_shown, sources)),
        "licence": _cell(next(iter(named.values())) if len(set(named.values())) == 1 else named),
        "rows": ", ".join(f"{task.replace('_', ' ')} {count:,}" for task, count in counts.items())
        or ("word vectors only" if kind == "texts" else "none"),
        "removed": f"{results['leakage'][name]['removed']:,}",
        "where": ", ".join(f"{other}: {count:,}" for other, count in leaks.items()),
    }


def _trained(settings: Mapping[str, Any]) -> list[str]:
    odds = [*settings.get("tasks", {}).items(), *settings.get("late_tasks", {}).items()]
    return list(dict.fromkeys(task for task, share in odds if share))


def _sources(settings: Mapping[str, Any]) -> list[str]:
    """The training sets of a run, as its settings name them."""
    trained = _trained(settings)
    kinds = [kind for kind, tasks in _TASKS_OF.items() if any(task in trained for task in tasks)]
    return [source for kind in kinds for source in _named(settings, kind)]


def _named(settings: Mapping[str, Any], kind: str) -> list[str]:
    value = settings.get(kind)
    return [value] if isinstance(value, str) else list(value or [])


def find_licences(settings: Mapping[str, Any]) -> dict[str, str]:
    """Source of training data, as the settings name it -> its licence; without those that state none.

    A folder states it at the top of its card (`--license` of our commands), a set of the Hub in the card that was
    downloaded with it; nothing is asked of the Hub.
    """
    sources = dict.fromkeys(source for kind in _TASKS_OF for source in _named(settings, kind))
    found = {source: _licence(source) for source in sources}
    return {source: licence for source, licence in found.items() if licence}


def _licence(source: str) -> str:
    card = try_to_load_from_cache(_hub_id(source), "README.md", repo_type="dataset") if _is_on_hub(source) else None
    return " and ".join(read_licenses(Path(card) if isinstance(card, str) else Path(source, "README.md")))


def _hub_id(source: str) -> str:
    """OWNER/NAME of OWNER/NAME:CONFIG@REVISION."""
    return source.partition("@")[0].partition(":")[0]


def _is_on_hub(source: str) -> bool:
    return _hub_id(source).count("/") == 1 and not Path(source).exists()


def _shown(source: str) -> str:
    """A Hub id whole; of a local folder its name only: where it lies is nobody else's business."""
    return source if _is_on_hub(source) else Path(source).name


def published_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings, local folders by their names only, without those that say nothing to others."""

    def shown(value: Any) -> Any:
        if isinstance(value, list):
            return [shown(item) for item in value]
        return _shown(value) if isinstance(value, str) and "/" in value else value

    return {key: shown(value) for key, value in settings.items() if key not in NOT_SHOWN}


def _cell(value: Any) -> str:
    """A setting as a cell of a table."""
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_cell(item)}" for key, item in value.items()) or "none"
    return str(value).replace("|", "\\|")
