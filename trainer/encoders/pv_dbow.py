"""Paragraph vectors (PV-DBOW) as a sentence encoder, with gensim."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors.numpy import load_file, save_file
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.files.extras import import_extra
from trainer.encoders.protocol import PV_DBOW_FILE, Side


class PvDbowEncoder:
    """Paragraph vectors with a distributed bag of words (Le and Mikolov, 2014), equal on every side.

    The vector of a text is inferred by gradient descent on the loss of its words, with the weights of the words fixed.
    The descent starts at zero and uses the same random seed for every text, so that a text always has the same vector
    (gensim's initial vector differs between processes). The step sizes add up to those of Lau and Baldwin (2016),
    1,000 passes from a rate of 0.01, in a fifth of the time.
    """

    FILE = PV_DBOW_FILE
    WEIGHTS = "pv_dbow.safetensors"
    PASSES = 200
    RATE = 0.05  # learning rate of the first pass; it decays to zero

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerFast) -> None:
        self.model, self.tokenizer = model, tokenizer

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "PvDbowEncoder":
        """Load a folder that `save_pretrained` wrote; InputError if gensim is not installed."""
        doc2vec = import_extra("gensim.models.doc2vec", "report", str(folder))
        settings = json.loads(Path(folder, cls.FILE).read_text(encoding="utf-8"))
        weights = load_file(Path(folder, cls.WEIGHTS))
        tokenizer = cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(folder, trust_remote_code=False))
        model = doc2vec.Doc2Vec(dm=0, min_count=1, **settings)
        words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        counts = zip(words, weights["counts"].tolist(), strict=True)
        model.build_vocab_from_freq({word: count for word, count in counts if count})
        # gensim orders words by their counts.
        model.syn1neg = weights["output_vectors"][tokenizer.convert_tokens_to_ids(model.wv.index_to_key)]
        return cls(model, tokenizer)

    def save_pretrained(self, folder: Path) -> None:
        """Save the count of each token, its output weights, and the tokenizer, which inference needs.

        The vectors of the training texts are not saved.
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
        """Return vectors (texts, dimensions), float32, L2-normalized; zeros for a text without a known word."""
        from gensim.models.doc2vec import train_document_dbow

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
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)
