"""A Hub that refuses, hangs or cuts the connection at each request of a push and of a pull."""

import itertools
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.loopback_hub import WRITE_TOKEN, LoopbackHub, Repository
from tests.soak.command_server import CommandServer, Ended
from tests.soak.pipeline import contents, moments
from tests.soak.registry import Fault, scenario

CLIENT = "tests.soak.hub_requests"
ANSWERS = (401, 403, 409, 429, 500, 503, "hang", "refuse", "cut")
PUSHED = ("datasets", "me/pairs")


@scenario("Hub answers", "each request of a push", faults=120, smoke=0)
def failing_push(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Give one request of a push, or all from one on, another answer; then push again, to a Hub that works."""
    pairs = _write_folder(folder / "pairs")
    with LoopbackHub() as hub, _client(folder, hub) as server:
        requests = _count_requests(server, hub, pairs)
        for number, answer, lasts in _faults(requests, draws, count):
            hub.repositories.clear()
            hub.requests.clear()
            hub.script = _script(number, answer, lasts)
            ended = server.run(CLIENT, ["push", pairs, PUSHED[1]])
            commits = len(_commits(hub))
            what = f"{answer} at {hub.requests[number - 1] if number <= len(hub.requests) else number}"
            hub.script = lambda number: None
            again = server.run(CLIENT, ["push", pairs, PUSHED[1]])
            problems = [_wrong_end(ended, commits), _wrong_repository(hub, pairs, again)]
            yield Fault(f"{what}{' and all later requests' if lasts else ''}", "; ".join(filter(None, problems)))


@scenario("Hub answers", "each request of pulling a model and pairs", faults=40, smoke=0)
def failing_pull(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Give one request of a pull, or all from one on, another answer; then pull again, from a Hub that works."""
    from tests.soak.tiny_files import write_model

    model = write_model(folder / "model")
    repositories = {("models", "me/model"): model, PUSHED: _write_folder(folder / "pairs")}
    with LoopbackHub() as hub:
        for name, files in repositories.items():
            content = {path: data for path, data in contents(files).items() if not Path(path).name.startswith(".")}
            hub.repositories[name] = Repository({}, [("a" * 40, "first", content)])
        for command in (["pull_model", "me/model"], ["pull_pairs", PUSHED[1]]):
            yield from _fail_pulls(folder, hub, command, draws, count // 2)


def _fail_pulls(
    folder: Path, hub: LoopbackHub, command: list[str], draws: random.Random, count: int
) -> Iterator[Fault]:
    with _client(folder, hub) as server:
        hub.requests.clear()
        ended = server.run(CLIENT, command)
        assert ended.code == 0, ended
        for number, answer, lasts in _faults(len(hub.requests), draws, count):
            shutil.rmtree(folder / "home")
            hub.requests.clear()
            hub.script = _script(number, answer, lasts)
            ended = server.run(CLIENT, command)
            what = f"{command[0]}: {answer} at {hub.requests[number - 1] if number <= len(hub.requests) else number}"
            hub.script = lambda number: None
            again = server.run(CLIENT, command)
            problems = [_wrong_end(ended, 0), "" if again.code == 0 else f"again: {again}"]
            yield Fault(f"{what}{' and all later requests' if lasts else ''}", "; ".join(filter(None, problems)))


@scenario("SIGKILL", "a push", faults=4, smoke=0)
def killed_push(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Kill a push; the next one leaves the files of the folder in the repository."""
    pairs = _write_folder(folder / "pairs")
    with LoopbackHub() as hub, _client(folder, hub) as server:
        seconds = server.run(CLIENT, ["push", pairs, PUSHED[1]]).seconds
        for moment in moments(seconds, count, draws):
            hub.repositories.clear()
            server.run(CLIENT, ["push", pairs, PUSHED[1]], number=signal.SIGKILL, after=moment)
            commits = len(_commits(hub))
            again = server.run(CLIENT, ["push", pairs, PUSHED[1]])
            problem = "" if commits <= 1 else f"{commits} commits"
            yield Fault(f"push: SIGKILL after {moment:.2f} s", problem or _wrong_repository(hub, pairs, again))


def _write_folder(folder: Path) -> Path:
    """Write a dataset of one pair in each split."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from data_scripts.schemas import PAIR_SCHEMA, SPLITS
    from data_scripts.write.folders import new_folder

    with new_folder(folder, overwrite=False) as (new, _):
        for split in SPLITS:
            table = pa.table([[split], ["reply"], ["thread"], ["synthetic"]], schema=PAIR_SCHEMA)
            pq.write_table(table, new / f"{split}-00000-of-00001.parquet")
        (new / "README.md").write_text("---\nlicense: cc0-1.0\n---\nA card.\n")
    return folder


def _client(folder: Path, hub: LoopbackHub) -> CommandServer:
    short = {"HF_HUB_ETAG_TIMEOUT": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "1", "HF_TOKEN": WRITE_TOKEN}
    return CommandServer([CLIENT], {**hub.environment(folder / "home"), **short})


def _count_requests(server: CommandServer, hub: LoopbackHub, pairs: Path) -> int:
    ended = server.run(CLIENT, ["push", pairs, PUSHED[1]])
    assert ended.code == 0, ended
    return len(hub.requests)


def _faults(requests: int, draws: random.Random, count: int) -> Iterator[tuple[int, int | str, bool]]:
    """Number of a request, its answer, and whether all later ones get it too; every combination before one repeats."""
    combinations = list(itertools.product(range(1, requests + 1), ANSWERS, (False, True)))
    draws.shuffle(combinations)
    return itertools.islice(itertools.cycle(combinations), count)


def _script(first: int, answer: int | str, lasts: bool) -> Callable[[int], int | str | None]:
    return lambda number: answer if number == first or (lasts and number > first) else None


def _commits(hub: LoopbackHub) -> list:
    repository = hub.repositories.get(PUSHED)
    return repository.commits if repository else []


def _wrong_end(ended: Ended, commits: int) -> str:
    if (
        ended.code not in (0, 2)
        or (ended.code == 2 and len(ended.messages) != 1)
        or (not ended.code and ended.messages)
    ):
        return f"exit code {ended.code} after {ended.seconds:.0f} s, messages {ended.messages}"
    if commits > 1:
        return f"{commits} commits"
    if ended.code and commits and "nothing was pushed" in ended.messages[0]:
        return f"there is a commit, but: {ended.messages[0]}"
    return ""


def _wrong_repository(hub: LoopbackHub, pairs: Path, again: Ended) -> str:
    """What is wrong after a push to a Hub that works: one commit in all, with the files of the folder."""
    if again.code != 0:
        return f"pushed again: exit code {again.code}, {again.messages}"
    expected = {name: data for name, data in contents(pairs).items() if not name.startswith(".")}
    found = {name: data for name, data in hub.repositories[PUSHED].files().items() if name != ".gitattributes"}
    commits = len(_commits(hub))
    return "" if commits == 1 and found == expected else f"{commits} commits, files {sorted(found)}"
