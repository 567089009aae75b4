"""How a published folder names the sources of its data: Hub ids in full, local folders by their names only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def hub_id(source: str) -> str:
    """OWNER/NAME of OWNER/NAME:CONFIG@REVISION."""
    return source.partition("@")[0].partition(":")[0]


def is_on_hub(source: str) -> bool:
    """Whether a source is a Hub id rather than a local folder."""
    return hub_id(source).count("/") == 1 and not Path(source).exists()


def public_name(source: str) -> str:
    """A Hub id in full; of a local folder only its name, so that no path of this machine is published."""
    return source if is_on_hub(source) else Path(source).name


def sources_of(settings: Mapping[str, Any], dataset: str) -> list[str]:
    """The sources that a run's settings name for a kind of dataset, such as `pairs`; empty if they name none."""
    value = settings.get(dataset)
    return [value] if isinstance(value, str) else list(value or [])
