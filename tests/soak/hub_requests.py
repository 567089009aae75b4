"""A push of a folder to the Hub, and a pull, with waits so short that a fault of each request takes seconds at most."""

import sys
import time
from pathlib import Path

import huggingface_hub.utils._http as http
from transformers import AutoModel  # noqa: F401  imported before the forks

import data_scripts.write.hub
from data_scripts.command_line import run_stoppable
from data_scripts.errors import InputError
from data_scripts.read import hub_client
from data_scripts.read.hub_datasets import load_pairs
from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding import hub_client as wheel_hub_client

SHORTENED = 50  # how much shorter the waits between attempts are
MOST_SECONDS = 600  # of waiting between attempts in a push or a pull, before they are shortened


class _Clock:
    """Stands for `time` in the client, whose waits between attempts it shortens and adds up."""

    waited = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        _Clock.waited += seconds
        time.sleep(seconds / SHORTENED)


def main(arguments: list[str]) -> int:
    """push FOLDER ID, pull_model ID or pull_pairs ID."""
    http.time = _Clock()  # type: ignore[attr-defined]
    hub_client.TIMEOUT_SECONDS = wheel_hub_client.TIMEOUT_SECONDS = 0.5
    hub_client.MAX_SILENCE_SECONDS = wheel_hub_client.MAX_SILENCE_SECONDS = 1.5
    return run_stoppable(lambda: _run(*arguments))


def _run(command: str, *names: str) -> int:
    try:
        if command == "push":
            data_scripts.write.hub.upload(
                Path(names[0]), names[1], failed="Push it later.", private=True, repo_type="dataset",
                commit_message="Pairs", delete_patterns="*.parquet",
            )  # fmt: skip
        elif command == "pull_model":
            Encoder.from_pretrained(names[0], "cpu")
        else:
            load_pairs(names[0])
    except (InputError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        if _Clock.waited > MOST_SECONDS:
            print(f"error: waited for {_Clock.waited:.0f} s between attempts", file=sys.stderr)
    return 0
