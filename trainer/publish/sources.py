"""How a published folder names the sources of its data: what came from the Hub by its id, local folders not at all."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from data_scripts.files.hub import is_path

LOCAL = "local dataset"
LOCAL_MODEL = "local model"
HUB_SOURCES = "hub_sources"  # key in results.json
# Settings beside those of datasets that may name a folder.
MODEL_SOURCES = ("initialize_from", "score_teachers", "teacher", "tokenizer", "word_vectors")

# Settings without information about the model.
NOT_PUBLISHED = {"output_dir", "overwrite", "resume", "cache_dir", "log_every", "trackers", "push_to_hub",
                 "hub_model_id", "num_processes", "device"}  # fmt: skip


def hub_id(source: str) -> str:
    """OWNER/NAME of OWNER/NAME:CONFIG@REVISION."""
    return source.partition("@")[0].partition(":")[0]


def find_hub_sources(settings: Mapping[str, Any]) -> list[str]:
    """The sources in a run's settings that it loads from the Hub, for results.json.

    It must be called during the run: later, or in another folder, a local folder `OWNER/NAME` may not be there, and
    nothing would tell its name from a Hub id.
    """
    values = [
        value if isinstance(value, list) else [value] for key, value in settings.items() if key not in NOT_PUBLISHED
    ]
    names = dict.fromkeys(name for value in values for name in value if isinstance(name, str))
    return [name for name in names if _is_hub_id(name) and not is_path(name)]


def _is_hub_id(source: str) -> bool:
    try:
        validate_repo_id(hub_id(source))
    except HFValidationError:
        return False
    return hub_id(source).count("/") == 1


def hub_sources(results: Mapping[str, Any]) -> frozenset[str]:
    """The sources that the run of a results.json loaded from the Hub; none if it did not record them."""
    return frozenset(results.get(HUB_SOURCES, ()))


def public_name(source: str, on_hub: Collection[str], local: str = LOCAL) -> str:
    """The Hub id of one of the sources `on_hub`; other sources are local, and their names stay private."""
    return source if source in on_hub else local


def example_id(run: Path) -> str:
    """What a card's examples load if it is not known where the model of a run will be published."""
    return f"ORG/{re.sub(r'[^A-Za-z0-9_.-]+', '-', run.name).strip('-.') or 'model'}"


def sources_of(settings: Mapping[str, Any], dataset: str) -> list[str]:
    """The sources that a run's settings name for a kind of dataset, such as `pairs`; empty if they name none."""
    value = settings.get(dataset)
    return [value] if isinstance(value, str) else list(value or [])
