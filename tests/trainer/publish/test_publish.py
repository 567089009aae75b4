"""Every reader of a published folder gets the same vectors, from disk and from a Hub; mistakes give one message."""

import importlib.util
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer, PreTrainedTokenizerFast

from modeling_convsim.encoding.torch_model import load_model
from modeling_convsim.files.errors import InputError
from tests.forking import Interpreter
from tests.loopback_hub import READ_TOKEN, WRITE_TOKEN, LoopbackHub, Repository
from tests.modeling_convsim.tiny_models import build
from tests.trainer.conftest import RESULTS, SETTINGS, refusal
from trainer.publish import __main__ as publish_command
from trainer.publish import folder as publish
from trainer.publish import upload as publish_upload
from trainer.publish.folder import embed_all_sides, verify_folder

ROOT = Path(__file__).resolve().parents[3]
TEXTS = ["How old is the cat?", "we walk", "zzz", "", "Do you like the big house in the city today? No, I hate it!"]


@pytest.fixture(scope="module", params=["dan", "dan_input_network", "dan_lexical", "cbow", "transformer", "bilstm"])
def published(request, built_run, tiny_tokenizer: PreTrainedTokenizerFast):
    """A model in memory, its vectors, and its published folder."""
    model = build(request.param)
    vectors = embed_all_sides(model, tiny_tokenizer, TEXTS)
    return SimpleNamespace(model=model, folder=built_run(request.param) / "model", vectors=vectors)


@pytest.fixture
def dan_run(make_run, tmp_path: Path) -> Path:
    """The folder of a finished run."""
    return make_run(tmp_path / "runs" / "tiny")


def close(found: object, expected: np.ndarray) -> bool:
    """The tolerance: rounding errors grow with the norm, and the norm of responses is their scale."""
    return np.allclose(
        np.asarray(found), expected, rtol=0, atol=1e-6 * max(1.0, np.linalg.norm(expected, axis=-1).max())
    )


# -- one folder -------------------------------------------------------------------------------------------------------


def test_auto_classes_give_the_same_bits_as_the_model_in_memory(published):
    batch = AutoTokenizer.from_pretrained(published.folder)(TEXTS, padding=True, return_tensors="pt")
    ids = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    encoder = AutoModel.from_pretrained(published.folder).eval()
    multitask = AutoModelForPreTraining.from_pretrained(published.folder).eval()
    with torch.inference_mode():
        assert np.array_equal(encoder(**ids).pooler_output.numpy(), published.vectors.inputs)
        assert np.array_equal(multitask(**ids).pooler_output.numpy(), published.vectors.inputs)
        responses = multitask.response_vectors(encoder(**ids).pooler_output, **ids)
        assert np.array_equal(responses.numpy(), published.vectors.responses)


def has_own_code(published) -> bool:
    return published.model.config.lexical_share > 0


def open_in_sentence_transformers(published, **options) -> SentenceTransformer:
    folder, trust = str(published.folder), has_own_code(published)
    return SentenceTransformer(folder, device="cpu", trust_remote_code=trust, model_kwargs=options)


def test_sentence_transformers_gives_the_vectors_of_every_side(published):
    model = open_in_sentence_transformers(published)
    assert close(model.encode(TEXTS), published.vectors.inputs)
    assert model.get_embedding_dimension() == published.vectors.inputs.shape[1]
    batch, encoder = model.preprocess(TEXTS), published.model.encoder
    expected = encoder(batch["input_ids"], batch["attention_mask"]).last_hidden_state
    torch.testing.assert_close(model[0].model(**batch).last_hidden_state, expected, rtol=0, atol=1e-6)
    assert close(model.encode_query(TEXTS), published.vectors.queries)
    expected = published.vectors.responses
    if published.model.config.normalize_response and not published.model.config.lexical_share:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    assert close(model.encode_document(TEXTS), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_close_on_both_routes(published, dtype):
    """Of an empty text, too, whose vector may be zero: normalized once more, it would not be a number in float16."""
    whole, half = open_in_sentence_transformers(published), open_in_sentence_transformers(published, dtype=dtype)
    for route in ("encode_query", "encode_document"):
        found, expected = (getattr(each, route)(TEXTS, convert_to_tensor=True).float() for each in (half, whole))
        assert (found - expected).norm(dim=1).max() < 0.03 * expected.norm(dim=1).max()
    assert (half.transformers_model.dtype, whole.transformers_model.dtype) == (dtype, torch.float32)


def test_a_folder_that_sentence_transformers_saves_is_the_same_on_both_routes(published, tmp_path):
    model = open_in_sentence_transformers(published)
    model.save_pretrained(str(tmp_path))
    again = SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=has_own_code(published))
    for route in ("encode", "encode_query", "encode_document"):
        assert np.array_equal(getattr(again, route)(TEXTS), getattr(model, route)(TEXTS))


def test_folder_has_code_card_results_and_preset_with_equal_permissions(published):
    kind = published.model.config.model_type.removeprefix("convsim_")
    names = {path.relative_to(published.folder).as_posix() for path in published.folder.rglob("*")}
    assert {"README.md", "config.yaml", "model.safetensors", "tokenizer.json", "modeling_base.py"} <= names
    assert f"modeling_{kind}.py" in names
    modes = {path: path.stat().st_mode for path in published.folder.rglob("*") if path.is_file()}
    assert sum(path.suffix == ".safetensors" for path in modes) > 1 and len(set(modes.values())) == 1
    assert yaml.safe_load((published.folder / "config.yaml").read_text()) == SETTINGS | {"pairs": ["local dataset"]}
    card = ModelCard.load(published.folder / "README.md")
    assert [result.metric_value for result in card.data.eval_results] == [0.25, 0.75]


def test_weights_are_published_as_float32_and_the_model_is_unchanged(tiny_tokenizer, tmp_path: Path):
    model = build("dan").bfloat16().train()
    folder = publish.build_folder(model, tiny_tokenizer, tmp_path / "model", results={}, settings={})
    assert {weight.dtype for weight in load_file(folder / "model.safetensors").values()} == {torch.float32}
    assert (model.dtype, model.training) == (torch.bfloat16, True)


# -- the check --------------------------------------------------------------------------------------------------------


def double_a_weight(file: Path) -> None:
    weights = load_file(file)
    name = next(name for name in weights if name.endswith("weight"))
    weights[name] *= 2
    save_file(weights, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("file", "reader"),
    [
        ("model.safetensors", "AutoModelForPreTraining"),
        ("1_Router/document_0_Dense/model.safetensors", "encode_document"),
    ],
)
def test_check_refuses_weights_that_are_not_the_models(dan_run: Path, file: str, reader: str):
    folder = dan_run / "model"
    expected = embed_all_sides(*load_model(str(folder)))
    verify_folder(folder, expected)
    double_a_weight(folder / file)
    with pytest.raises(InputError, match=f"was not published: .*{reader}.* differ from those of the trained model"):
        verify_folder(folder, expected)


def test_after_a_refusal_the_earlier_folder_stays(dan_run: Path, tiny_tokenizer, monkeypatch: pytest.MonkeyPatch):
    before = (dan_run / "model" / "README.md").read_text()

    def refuse(*_: object) -> None:
        raise InputError("not this one")

    monkeypatch.setattr(publish, "verify_folder", refuse)
    model = build("dan")
    with pytest.raises(InputError, match="not this one"):
        publish.build_folder(model, tiny_tokenizer, dan_run / "model", results={}, settings={})
    assert (dan_run / "model" / "README.md").read_text() == before
    assert sorted(path.name for path in dan_run.iterdir()) == ["config.yaml", "model", "results.json"]


# -- the command ------------------------------------------------------------------------------------------------------


def test_dry_run_writes_the_card_of_the_newest_results_and_uploads_nothing(dan_run: Path, capsys):
    newer = {"response_prediction": {**RESULTS["response_prediction"], "p_at_1": 0.5}}
    (dan_run / "results.json").write_text(json.dumps(newer))
    with (dan_run / "config.yaml").open("a") as config:
        config.write("hub_model_id: me/earlier\n")
    assert publish_command.main([str(dan_run), "--hub_model_id", "me/renamed", "--dry_run"]) == 0
    address, branch, visibility, license, count, *files = capsys.readouterr().out.splitlines()[1:]
    assert address.split() == ["address", "https://huggingface.co/me/renamed"] and branch.split() == ["branch", "main"]
    assert "private" in visibility and license.split() == ["license", "none"]
    on_disk = {p.relative_to(dan_run / "model").as_posix(): p for p in (dan_run / "model").rglob("*") if p.is_file()}
    assert [line.split() for line in files] == [[f"{p.stat().st_size:,}", name] for name, p in sorted(on_disk.items())]
    assert count.split()[1:2] == [f"{len(on_disk)},"]
    card = ModelCard.load(dan_run / "model" / "README.md")
    assert [result.metric_value for result in card.data.eval_results] == [0.5]
    assert 'SentenceTransformer("me/renamed"' in card.text


def test_a_whole_model_repository_is_published_with_its_card(dan_run: Path, tmp_path: Path, capsys, monkeypatch):
    flat = shutil.copytree(dan_run / "model", tmp_path / "base")
    shutil.copy2(dan_run / "results.json", flat)
    card = 'from_pretrained("model_cards/base")'
    (flat / "README.md").write_text(card)
    assert publish_command.main([str(flat), "--hub_model_id", "me/x", "--dry_run"]) == 0
    assert "https://huggingface.co/me/x" in capsys.readouterr().out
    uploaded = {}

    def upload(folder: Path, repository_id: str, **_: object) -> None:
        uploaded[repository_id] = (folder / "README.md").read_text()

    monkeypatch.setattr(publish_upload, "upload", upload)
    assert publish_command.main([str(flat), "--hub_model_id", "me/x"]) == 0
    assert uploaded == {"me/x": 'from_pretrained("me/x")'} and (flat / "README.md").read_text() == card
    (flat / "results.json").unlink()
    assert "is not the folder of a finished run or model: results.json is missing" in refusal(
        capsys, publish_command.main, flat, "--hub_model_id", "me/x"
    )


# -- the Hub ----------------------------------------------------------------------------------------------------------

UNKNOWN_TOKEN = "hf_unknown"
TOKENS = (UNKNOWN_TOKEN, READ_TOKEN, WRITE_TOKEN)
PUSH = """
import contextlib, io, json, os, sys
from pathlib import Path
from huggingface_hub import constants
from trainer.publish import __main__ as publish_command
from modeling_convsim import Encoder
from modeling_convsim.encoding.torch_model import load_model
from modeling_convsim.suggestion import ReplyIndex

run, answers = sys.argv[1], {}

def command(name, token, *arguments):
    os.environ.pop("HF_TOKEN", None)
    if token:
        os.environ["HF_TOKEN"] = token
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(output := io.StringIO()):
        code = publish_command.main(list(arguments))
    print(error.getvalue())
    print(output.getvalue())
    errors = [line for line in error.getvalue().splitlines() if line.startswith("error")]
    answers[name] = {"code": code, "printed": output.getvalue(), "error": errors}

command("missing token", None, run, "--hub_model_id", "me/talker")
command("unknown token", "hf_unknown", run, "--hub_model_id", "me/talker")
command("read token", "hf_read", run, "--hub_model_id", "me/talker", "--public", "--create_pr", "--revision", "v 2")
command("private", "hf_write", run, "--hub_model_id", "me/private")
command("branch", "hf_write", run, "--hub_model_id", "me/private", "--revision", "v2")
command("model", "hf_write", run, "--hub_model_id", "me/talker", "--public")
results = Path(run, "results.json")
newer = json.loads(results.read_text())
del newer["snli"]
results.write_text(json.dumps(newer))
command("pull request", "hf_write", run, "--hub_model_id", "me/private", "--create_pr")
command("model again", "hf_write", run, "--hub_model_id", "me/talker")
plain = Encoder.from_pretrained(run + "/model")
ReplyIndex.build(plain, json.loads(sys.argv[2]), duplicate_cosine=1).save(run + "-replies")
Path(run + "-replies", "review.jsonl").touch()
ratings = [{"message": str(n), "reply": "yes", "score": 0.5, "rating": "send" if n % 3 else "no"} for n in range(40)]
Path(run + "-replies", "ratings.jsonl").write_text("\\n".join(map(json.dumps, ratings)))
page = ("--index", run + "-replies", "--hub_model_id", "me/talker", "--space_id", "me/page")
command("page, dry", None, *page, "--dry_run")
command("page", "hf_write", *page)
for part in load_model(run + "/model"):
    part.push_to_hub("me/plain")
print(json.dumps(answers))
"""

# What the three programs import; not our packages, because some run without them.
LIBRARIES = ("torch", "transformers.modeling_utils", "sentence_transformers", "datasets")

# Everything but the last reader runs without modeling_convsim: the code comes out of the repositories.
PULL = """
import json, sys
import torch
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

texts, found = json.loads(sys.argv[1]), {}

def read(name):
    batch = AutoTokenizer.from_pretrained("me/plain", trust_remote_code=True)(texts, padding=True, return_tensors="pt")
    batch = {key: batch[key] for key in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        encoder = AutoModel.from_pretrained(name, trust_remote_code=True).eval()
        found[name + " AutoModel"] = encoder(**batch).pooler_output.tolist()
        model = AutoModelForPreTraining.from_pretrained(name, trust_remote_code=True).eval()
        found[name + " responses"] = model.response_head(model(**batch).pooler_output).tolist()
    return model

for name in ("me/talker", "me/plain", "me/borrowed"):
    model = read(name)
model.push_to_hub("me/again")
read("me/again")

from sentence_transformers import SentenceTransformer
model = SentenceTransformer("me/talker", trust_remote_code=True, device="cpu")
found["me/talker encode"] = model.encode(texts).tolist()
found["me/talker encode_document"] = model.encode_document(texts).tolist()

had_package = "modeling_convsim" in sys.modules

from modeling_convsim.encoding import Encoder
encoder = Encoder.from_pretrained("me/talker")
found["me/talker Encoder"] = encoder.encode(texts).tolist()
found["me/talker Encoder, responses"] = encoder.encode(texts, side="response").tolist()
print(json.dumps({"found": found, "had_package": had_package}))
"""

# The page runs from the files of its Space, and loads the model from the Hub.
PAGE = """
import json, sys
from contextlib import nullcontext
from pathlib import Path
import modeling_convsim
from modeling_convsim.suggestion import page

assert Path(modeling_convsim.__file__).is_relative_to(Path.cwd())
index = page.ReplyIndex.load("replies")
page.build(index, Path("replies"), nullcontext())
print(json.dumps([[one.text, one.score] for one in index.suggest(json.loads(sys.argv[1]), len(index))]))
"""


@pytest.fixture(scope="module")
def hub(make_run, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory):
    """A run pushed to a Hub on loopback, and loaded by name, each in a separate process."""
    folder = tmp_path_factory.mktemp("hub")
    run = make_run(folder / "tiny")
    printed = []
    with LoopbackHub() as server:
        environment = {**os.environ, **server.environment(folder / "home"), "PYTHONPATH": ""}
        with Interpreter(LIBRARIES, environment) as interpreter:

            def python(code: str, *arguments: str, cwd: Path, path: Path = ROOT, **variables: str) -> Any:
                done = interpreter.run(code, *arguments, cwd=cwd, path=path, **variables)
                assert done.returncode == 0, done.stderr
                printed.append(done.stdout + done.stderr)
                return json.loads(done.stdout.splitlines()[-1])

            pushed = python(PUSH, str(run), json.dumps(TEXTS[:3]), cwd=ROOT)
            server.repositories["models", "me/borrowed"] = borrow_code(server.repositories["models", "me/talker"])
            pulled = python(PULL, json.dumps(TEXTS), cwd=folder, HF_TOKEN=WRITE_TOKEN)
            for path, data in server.repositories["spaces", "me/page"].files().items():
                (folder / "space" / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / "space" / path).write_bytes(data)
            shutil.rmtree(folder / "tiny-replies")
            has_gradio = importlib.util.find_spec("gradio") is not None
            run.rename(folder / "moved")
            page = has_gradio and python(PAGE, json.dumps(TEXTS[0]), cwd=folder / "space", path=folder / "space")
            (folder / "moved").rename(run)
    vectors = embed_all_sides(build("dan"), tiny_tokenizer, TEXTS)
    written = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for (_, name), repository in server.repositories.items():
        written |= {f"{name}/{path}": data for *_, files in repository.commits for path, data in files.items()}
    return SimpleNamespace(
        repositories=server.repositories, run=run, pushed=pushed, pulled=pulled, page=page, vectors=vectors,
        written=written, printed="".join(printed),
    )  # fmt: skip


def borrow_code(repository: Repository) -> Repository:
    """The same weights in a repository without code, whose config names the code of the first: `repo--module.Class`."""
    files = {path: data for path, data in repository.files().items() if not path.endswith(".py")}
    config = json.loads(files["config.json"])
    config["auto_map"] = {name: f"me/talker--{place}" for name, place in config["auto_map"].items()}
    files["config.json"] = json.dumps(config).encode()
    return Repository({}, [("b" * 40, "borrowed", files)])


def test_each_push_of_a_model_is_one_commit_with_all_its_files(hub):
    for case in ("model", "model again"):
        assert (hub.pushed[case]["code"], hub.pushed[case]["error"]) == (0, [])
    repository = hub.repositories["models", "me/talker"]
    assert [summary for _, summary, _ in repository.commits] == ["Publish me/talker", "Publish me/talker"]
    on_disk = {p.relative_to(hub.run / "model").as_posix(): p for p in (hub.run / "model").rglob("*") if p.is_file()}
    assert repository.files() == {name: path.read_bytes() for name, path in on_disk.items()}


@pytest.mark.parametrize("name", ["me/talker", "me/plain", "me/borrowed", "me/again"])
def test_a_repository_read_by_name_without_the_package_gives_the_same_bits(hub, name: str):
    assert not hub.pulled["had_package"]
    assert np.array_equal(np.float32(hub.pulled["found"][f"{name} AutoModel"]), hub.vectors.inputs)
    assert np.array_equal(np.float32(hub.pulled["found"][f"{name} responses"]), hub.vectors.responses)


@pytest.mark.parametrize("reader", ["encode", "encode_document", "Encoder", "Encoder, responses"])
def test_sentence_transformers_and_encoder_read_a_repository_by_name(hub, reader: str):
    expected = hub.vectors.responses if reader in ("encode_document", "Encoder, responses") else hub.vectors.inputs
    assert close(hub.pulled["found"][f"me/talker {reader}"], expected)


def test_no_token_is_printed_or_written(hub) -> None:
    assert "error: " in hub.printed
    assert {f"{hub.run}/results.json", "me/talker/README.md"} <= hub.written.keys()
    assert not [token for token in TOKENS if token in hub.printed]
    assert not [path for path, data in hub.written.items() if any(token.encode() in data for token in TOKENS)]


@pytest.mark.parametrize(
    ("case", "option"),
    [("missing token", ""), ("unknown token", ""), ("read token", " --public --create_pr --revision 'v 2'")],
)
def test_an_invalid_token_gives_one_message_with_the_command_for_later(hub, case: str, option: str):
    assert hub.pushed[case]["code"] == 2
    (message,) = hub.pushed[case]["error"]
    assert f"The trained model is in {hub.run / 'model'}" in message
    assert message.endswith(f"convsim publish {hub.run} --hub_model_id me/talker{option}")


def test_a_page_is_pushed_as_a_space_that_runs_by_itself(hub):
    assert (hub.pushed["page"]["code"], hub.pushed["page"]["error"]) == (0, [])
    space = hub.repositories["spaces", "me/page"]
    assert space.settings["sdk"] == "gradio"
    assert not any(path.endswith((".pyc", "ratings.jsonl", "review.jsonl")) for path in space.files())
    file = json.loads(space.files()["replies/index.json"])
    assert file["model"] == "me/talker" and not file["settings"]["curve"]["estimated"]  # as the ratings say
    assert str(hub.run.parent) not in str(file)
    assert space.settings["visibility"] == "private"
    listed = [line.split(maxsplit=1) for line in hub.pushed["page, dry"]["printed"].splitlines() if line[:1] == " "]
    assert {name: int(size.replace(",", "")) for size, name in listed} == {
        name: len(data) for name, data in space.files().items()
    }
    card = ModelCard(space.files()["README.md"].decode())
    assert card.data.to_dict()["models"] == ["me/talker"]
    if not hub.page:
        pytest.skip("the page needs Gradio: pip install -e '.[demo]'")
    scores = hub.vectors.queries[0] @ hub.vectors.responses[:3].T
    order = [place for place in np.argsort(-scores) if place]  # the message is no reply to itself
    assert [text for text, _ in hub.page] == [TEXTS[place] for place in order]
    np.testing.assert_allclose([score for _, score in hub.page], scores[order], rtol=2e-3)


def test_a_page_without_an_index_is_refused(tmp_path: Path, capsys):
    words = ["--index", tmp_path, "--hub_model_id", "me/talker", "--space_id", "me/page"]
    message = refusal(capsys, publish_command.main, *words)
    assert f"--index: {tmp_path} holds no index.json" in message
    assert "`convsim index`" in message


def test_a_new_repository_is_private_unless_it_is_to_be_public(hub):
    assert hub.repositories["models", "me/private"].settings["visibility"] == "private"
    assert hub.repositories["models", "me/talker"].settings["visibility"] == "public"


def test_a_branch_and_a_pull_request_leave_main_as_it_is(hub):
    repository = hub.repositories["models", "me/private"]
    assert len(repository.commits) == 1
    assert repository.branches["v2"] == repository.files()
    assert repository.branches["refs/pr/1"].keys() == repository.files().keys()
    assert hub.pushed["pull request"]["printed"].endswith("me/private/discussions/1\n")
