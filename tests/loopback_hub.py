"""A small Hub on the loopback interface: only the requests that huggingface_hub and datasets make to push and pull.

Files are held in memory. `LoopbackHub.script` makes it answer otherwise, or not at all. Run a client in a separate
process with the variables of `LoopbackHub.environment()`: huggingface_hub reads its endpoint when it is imported.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from tests.loopback import LoopbackHandler, LoopbackServer

WRITE_TOKEN = "hf_write"
READ_TOKEN = "hf_read"  # known, but without the right to write
LARGE_FILES = (".safetensors", ".bin", ".parquet")

ROUTES = {
    "POST": {
        r"/api/repos/create": "create",
        r"/api/validate-yaml": "validate_card",
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+)/preupload/([^/]+)": "choose_upload",
        r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch": "offer_large_upload",
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+)/branch/([^/]+)": "create_branch",
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+)/commit/([^/]+)": "commit",
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+)/paths-info/([^/]+)": "describe_files",
    },
    "PUT": {r"/large/([0-9a-f]{64})": "store_large"},
    "GET": {
        r"/api/whoami-v2": "whoami",
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(?:/revision/([^/]+))?": "describe",
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+)/tree/([^/]+)(?:/(.+))?": "list_files",
        r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)": "download",
    },
}
ROUTES["HEAD"] = ROUTES["GET"]


class Refusal(Exception):
    """A response other than 200: status, the Hub's error code (or ""), message, and other fields of its body."""

    def __init__(self, status: int, code: str, message: str, **body: str):
        super().__init__(message)
        self.status, self.code, self.message, self.body = status, code, message, body


@dataclass
class Repository:
    """One repository.

    Attributes:
        settings: `visibility` "private" hides it from clients without a token; `gated` refuses its files to them, and
            to those with the read token.
        commits: (id, summary, files as path -> bytes) of the branch main, oldest first.
        branches: name -> the files of another branch, such as refs/convert/parquet or a pull request's.
    """

    settings: dict
    commits: list[tuple[str, str, dict[str, bytes]]] = field(default_factory=list)
    branches: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """The files at a revision ("main", a branch or a commit's id); empty before the first commit."""
        if not self.commits:
            return {}
        for commit, _, files in reversed(self.commits):
            if revision in ("main", commit):
                return files
        for branch, files in self.branches.items():
            if revision in (branch, self.commit(branch)):
                return files
        raise Refusal(404, "RevisionNotFound", f"no revision {revision}")

    def commit(self, revision: str) -> str:
        """The id of the commit that a branch points to; other revisions are such ids."""
        if revision in self.branches:
            return hashlib.sha1(revision.encode()).hexdigest()
        return self.head if revision == "main" else revision

    @property
    def head(self) -> str:
        return self.commits[-1][0] if self.commits else "0" * 40


def _object_id(path: str, content: bytes) -> str:
    """The id by which a client knows that a file has not changed: the SHA-256 of large files, or Git's id."""
    if path.endswith(LARGE_FILES):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def _parents(path: str) -> list[str]:
    """The folders that contain a path, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def _entry(repository: Repository, revision: str, path: str) -> dict[str, object]:
    """A file or a folder, as the Hub lists it."""
    data = repository.files(revision).get(path)
    if data is None:
        return {"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(path.encode()).hexdigest()}
    return {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


class _Handler(LoopbackHandler):
    storage: "LoopbackHub"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.storage.requests.append(f"{self.command} {unquote(path)}")
        self.body = self.read_body()
        fault = self.storage.script(len(self.storage.requests))
        if fault == "refuse":
            self.close_connection = True
            return
        try:
            if isinstance(fault, int):
                raise Refusal(fault, "", f"fault {fault}")
            for pattern, name in ROUTES[self.command].items():
                if match := re.fullmatch(pattern, path):
                    groups = (group and unquote(group) for group in match.groups())  # a revision may be refs%2Fpr%2F1
                    answer, headers = getattr(self, name)(*groups)
                    break
            else:
                raise Refusal(404, "", f"unknown address: {path}")
            self._answer(200, answer, headers)
        except Refusal as refusal:
            headers = {"X-Error-Code": refusal.code, "X-Error-Message": refusal.message}
            answer = {"error": refusal.message, **refusal.body}
            self._answer(refusal.status, answer, {name: value for name, value in headers.items() if value})

    do_HEAD = do_POST = do_PUT = do_GET

    def _answer(self, status: int, answer: object, headers: dict[str, str]) -> None:
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.storage.sent_bytes += self.answer(status, data, headers)

    # -- permissions --------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _require(self, tokens: tuple[str, ...]) -> None:
        if self._token not in (WRITE_TOKEN, READ_TOKEN):
            raise Refusal(401, "", "Invalid username or password.")
        if self._token not in tokens:
            raise Refusal(403, "", "You don't have the rights to write to this repository")

    def _repository(self, kind: str | None, name: str) -> Repository:
        if (kind or "models", name) not in self.storage.repositories:
            raise Refusal(404, "RepoNotFound", "Repository not found")
        repository = self.storage.repositories[kind or "models", name]
        if repository.settings.get("visibility") == "private" and self._token not in (WRITE_TOKEN, READ_TOKEN):
            raise Refusal(401, "RepoNotFound", "Invalid username or password.")
        return repository

    def _require_access(self, repository: Repository) -> None:
        """Refuse the files of a gated repository to those who have not accepted its conditions."""
        if repository.settings.get("gated") and self._token != WRITE_TOKEN:
            raise Refusal(403 if self._token else 401, "GatedRepo", "Access to this dataset is restricted.")

    # -- pushing -----------------------------------------------------------------------------------------------------

    def create(self) -> tuple[object, dict]:
        self._require((WRITE_TOKEN,))
        settings = json.loads(self.body)
        kind = settings.get("type", "model") + "s"
        name = f"{settings.get('organization') or 'me'}/{settings['name']}"
        address = {"url": f"{self.storage.url}/{'' if kind == 'models' else kind + '/'}{name}"}
        if (kind, name) in self.storage.repositories:
            raise Refusal(409, "", "You already created this repo", **address)
        self.storage.repositories[kind, name] = Repository(settings)
        return address, {}

    def validate_card(self) -> tuple[object, dict]:
        header = json.loads(self.body)["content"].split("---\n")[1]
        try:
            if not isinstance(yaml.safe_load(header), dict):
                raise Refusal(400, "", "the card's metadata is not a mapping")
        except yaml.YAMLError as error:
            raise Refusal(400, "", str(error)) from error
        return {"warnings": [], "errors": []}, {}

    def create_branch(self, kind: str, name: str, branch: str) -> tuple[object, dict]:
        self._require((WRITE_TOKEN,))
        repository = self._repository(kind, name)
        if branch == "main" or branch in repository.branches:
            raise Refusal(409, "", "Reference already exists")
        repository.branches[branch] = dict(repository.files())
        return {}, {}

    def choose_upload(self, kind: str, name: str, revision: str) -> tuple[object, dict]:
        self._require((WRITE_TOKEN,))
        files = self._repository(kind, name).files(revision)
        paths = [file["path"] for file in json.loads(self.body)["files"]]
        modes = [
            {
                "path": path,
                "uploadMode": "lfs" if path.endswith(LARGE_FILES) else "regular",
                "oid": _object_id(path, files[path]) if path in files else None,
            }
            for path in paths
        ]
        return {"files": [{**mode, "shouldIgnore": False} for mode in modes]}, {}

    def offer_large_upload(self, kind: str | None, name: str) -> tuple[object, dict]:
        self._require((WRITE_TOKEN,))
        offers = []
        for item in json.loads(self.body)["objects"]:
            offers.append({**item, "actions": {"upload": {"href": f"{self.storage.url}/large/{item['oid']}"}}})
        return {"transfer": "basic", "objects": offers}, {}

    def store_large(self, digest: str) -> tuple[object, dict]:
        if hashlib.sha256(self.body).hexdigest() != digest:
            raise Refusal(400, "", "the content does not match its digest")
        self.storage.large[digest] = self.body
        return {}, {}

    def commit(self, kind: str, name: str, revision: str) -> tuple[object, dict]:
        self._require((WRITE_TOKEN,))
        repository = self._repository(kind, name)
        files, summary = dict(repository.files(revision)), ""
        for line in map(json.loads, self.body.splitlines()):
            value = line["value"]
            match line["key"]:
                case "header":
                    summary = value["summary"]
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.storage.large[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        commit = hashlib.sha1(repository.head.encode() + self.body).hexdigest()
        answer = {"commitUrl": f"{self.storage.url}/{name}/commit/{commit}", "commitOid": commit}
        if parse_qs(urlsplit(self.path).query).get("create_pr") == ["1"]:
            repository.branches["refs/pr/1"] = files
            return {**answer, "pullRequestUrl": f"{self.storage.url}/{name}/discussions/1"}, {}
        if revision == "main":
            repository.commits.append((commit, summary, files))
        else:
            repository.branches[revision] = files
        return answer, {}

    # -- pulling -----------------------------------------------------------------------------------------------------

    def whoami(self) -> tuple[object, dict]:
        self._require((WRITE_TOKEN, READ_TOKEN))
        return {"type": "user", "name": "me", "orgs": []}, {}

    def describe(self, kind: str, name: str, revision: str | None) -> tuple[object, dict]:
        repository = self._repository(kind, name)
        files = repository.files(revision or "main")
        commit = repository.commit(revision or "main")
        return {"id": name, "sha": commit, "tags": [], "siblings": [{"rfilename": path} for path in files]}, {}

    def list_files(self, kind: str, name: str, revision: str, folder: str | None) -> tuple[object, dict]:
        prefix = f"{folder}/" if folder else ""
        repository = self._repository(kind, name)
        files = {p: data for p, data in repository.files(revision).items() if p.startswith(prefix)}
        if folder and not files:
            raise Refusal(404, "EntryNotFound", f"no folder {folder}")
        is_recursive = "recursive=true" in urlsplit(self.path).query.lower()
        folders = {prefix + part for p in files for part in _parents(p.removeprefix(prefix))}
        paths = [p for p in [*files, *sorted(folders)] if is_recursive or "/" not in p.removeprefix(prefix)]
        return [_entry(repository, revision, path) for path in paths], {}

    def describe_files(self, kind: str, name: str, revision: str) -> tuple[object, dict]:
        repository = self._repository(kind, name)
        files = repository.files(revision)
        asked = [path.strip("/") for path in parse_qs(self.body.decode()).get("paths", [])]
        existing = [path for path in asked if path in files or any(p.startswith(f"{path}/") for p in files)]
        return [_entry(repository, revision, path) for path in existing], {}

    def download(self, kind: str | None, name: str, revision: str, path: str) -> tuple[object, dict]:
        repository = self._repository(kind, name)
        self._require_access(repository)
        files = repository.files(revision)
        if path not in files:
            raise Refusal(404, "EntryNotFound", f"no file {path}")
        commit = repository.commit(revision)
        return files[path], {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha256(files[path]).hexdigest()}"'}


class LoopbackHub(LoopbackServer):
    """The server, as a context manager; `repositories` is keyed by ("models", "ORG/NAME").

    `script` takes the number of a request (from 1, in `requests`) and returns None for the right answer, a status, or
    "refuse" (the connection ends without an answer).
    """

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.script: Callable[[int], int | str | None] = lambda number: None
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.sent_bytes = 0  # of the bodies of its answers

    def add_dataset(self, name: str, files: dict[str, bytes], **settings: Any) -> Repository:
        """Add a dataset with these files, as path -> bytes."""
        commit = hashlib.sha1(name.encode()).hexdigest()
        repository = Repository(settings, [(commit, "first files", files)])
        self.repositories["datasets", name] = repository
        return repository

    def environment(self, home: Path) -> dict[str, str]:
        """Environment variables of a client: this Hub, caches under `home`, and no access to any other host."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        }
