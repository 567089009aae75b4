"""Loading of ConvSim models and SentenceTransformers as encoders; Python code in a model's folder is never run."""

import builtins
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast

from modeling_convsim.files.errors import InputError
from modeling_convsim.shipped import base_model
from tests.modeling_convsim.tiny_models import build, save
from trainer.encoders.loading import SentenceTransformerEncoder, load_encoder
from trainer.training.model import load_pretrained

TEXTS = ["How old is the cat?", "we walk", "yes , we like it"]


@pytest.fixture(scope="module")
def convsim_folder(tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    return str(save(build("cbow"), tiny_tokenizer, tmp_path_factory.mktemp("convsim")))


@pytest.fixture(params=["cosine", "dot"])
def static_folder(tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    torch.manual_seed(0)
    module = StaticEmbedding(tiny_tokenizer.backend_tokenizer, embedding_dim=5)
    model = SentenceTransformer(modules=[module], device="cpu", similarity_fn_name=request.param)
    model.save(str(tmp_path), create_model_card=False)
    return str(tmp_path)


def test_dot_product_equals_the_similarity_of_a_sentence_transformer(static_folder: str) -> None:
    encoder, model = load_encoder(static_folder), SentenceTransformer(static_folder, device="cpu")
    vectors = model.encode(TEXTS)
    expected = model.similarity(vectors, vectors).numpy()
    inputs, responses = encoder.encode(TEXTS), encoder.encode(TEXTS, side="response")
    assert inputs.dtype == np.float32
    assert inputs @ responses.T == pytest.approx(expected, abs=1e-6)


def test_inputs_are_queries_and_responses_documents() -> None:
    class Recorder:
        similarity_fn_name = "dot"

        def encode_query(self, texts: list[str], **options: object) -> np.ndarray:
            return np.zeros((len(texts), 2))

        def encode_document(self, texts: list[str], **options: object) -> np.ndarray:
            return np.ones((len(texts), 2))

    encoder = SentenceTransformerEncoder(Recorder())  # type: ignore[arg-type]
    assert encoder.encode(TEXTS).max() == 0 and encoder.encode(TEXTS, side="response").min() == 1
    assert encoder.encode(TEXTS, side="query").max() == 0


def test_what_sentence_transformers_saved_of_our_model_ranks_replies_by_its_routes(tmp_path: Path) -> None:
    SentenceTransformer(base_model(), device="cpu", trust_remote_code=True).save(str(tmp_path))
    saved, own = load_encoder(str(tmp_path)), load_encoder("base")
    for side in ("query", "response"):
        np.testing.assert_allclose(saved.encode(TEXTS, side=side), own.encode(TEXTS, side=side), atol=1e-5)


def test_a_folder_without_a_model_is_refused(tmp_path: Path, convsim_folder: str) -> None:
    with pytest.raises(InputError, match=r"has neither config.json nor modules.json.*runs/NAME/model"):
        load_encoder(str(tmp_path))
    (tmp_path / "config.json").write_text("{ no JSON")
    with pytest.raises(InputError, match="the model cannot be loaded"):
        load_encoder(str(tmp_path))
    (tmp_path / "config.json").write_bytes(Path(convsim_folder, "config.json").read_bytes())
    with pytest.raises(InputError, match=r"holds no model.safetensors"):
        load_encoder(str(tmp_path))


def test_an_unknown_name_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"nobody/no-such-model: the model cannot be loaded") as refusal:
        load_encoder("nobody/no-such-model")
    assert "\n" not in str(refusal.value)


CODE = """
from pathlib import Path
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
Path(MARKER).touch()
class Config(PretrainedConfig):
    model_type = "foreign"
class Model(PreTrainedModel):
    config_class = Config
class Tokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def foreign_model(tmp_path: Path) -> Path:
    """A model of an unknown type, whose code creates the file `ran`."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "foreign.py").write_text(CODE.replace("MARKER", repr(str(tmp_path / "ran"))))
    classes = {"AutoConfig": "foreign.Config", "AutoModel": "foreign.Model"}
    (folder / "config.json").write_text(json.dumps({"model_type": "foreign", "auto_map": classes}))
    tokenizer = {"tokenizer_class": "Tokenizer", "auto_map": {"AutoTokenizer": [None, "foreign.Tokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: load_pretrained(AutoConfig, folder, "initialize_from"),
        lambda folder: load_pretrained(AutoTokenizer, folder, "tokenizer"),
        load_encoder,
    ],
)
def test_code_in_a_models_folder_is_not_run(foreign_model, load, monkeypatch, tmp_path):
    monkeypatch.setattr(builtins, "input", lambda *prompt: "y")  # the first line of a file that is piped in
    with pytest.raises(InputError, match="contains custom code"):
        load(str(foreign_model))
    assert not (tmp_path / "ran").exists()
