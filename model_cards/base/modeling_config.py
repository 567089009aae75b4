"""The config that every ConvSim encoder and its heads share, and the files of sentence-transformers saved with it."""

import json
import math
import os
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

NLI_LABELS = ("entailment", "neutral", "contradiction")  # the order of the logits
# How sentence-transformers loads a saved encoder.
SENTENCE_TRANSFORMERS_FILES: dict[str, Any] = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
    ],
    "sentence_bert_config.json": {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
        "module_output_name": "sentence_embedding",
    },
    "config_sentence_transformers.json": {
        "model_type": "SentenceTransformer",
        "similarity_fn_name": "cosine",
    },
}


@strict
class ConvSimConfig(PreTrainedConfig):
    """Sizes and options that every encoder and its heads share.

    Args:
        vocab_size: Number of tokens in the vocabulary.
        embedding_size: Dimensions of a sentence embedding.
        pad_token_id: Id of the padding token. Without an attention mask, these tokens are treated as padding.
        unk_token_id: Id of the token for unknown words.
        initializer_range: Standard deviation of the normal distribution that initializes embedding matrices. None means
            1 / sqrt(dimensions). Linear layers are Glorot-uniform with zero biases. (Our choice.)
        response_hidden_sizes: Units of the response network's hidden layers. Its output layer has `embedding_size`
            units. The paper gives no sizes; one layer of 500 units is our choice.
        response_residual: The response network computes v + DNN(v), which is the identity at initialization. Its
            hidden layers use ReLU instead of tanh, so that it can be exported as plain dense layers.
        normalize_response: L2-normalize the response vector. The loss multiplies the scores, which then are cosines, by
            a learned scale.
        logit_scale_init: Initial value of that scale; above 0.
        input_network: Score responses with u' = DNN(u) instead of u, by a network like the response network, without
            the scale, L2-normalized if v' is (Yang et al. 2018, footnote 1). The sentence embedding is still u.
        lexical_size: Dimensions of the lexical channel, which is appended to the vectors that score responses, not to
            sentence embeddings: their dot product then also counts the tokens that both texts share. 0 for none;
            requires `normalize_response`. Training leaves the channel out. Not in the paper.
        lexical_share: The channel's share in a score, in [0, 1); with 0, nothing is appended.
        context_weights: Weights of the earlier turns of a conversation in the vector of a text, of the newest first,
            finite and 0 or more: see `modeling_convsim.encoding.context`. By default, earlier turns are ignored. Not in
            the paper.
        nli_hidden_size: Hidden units of the NLI classifier.
        language: Languages that the model was trained on, as ISO 639 codes; none if they are not known.
        id2label: The names of the NLI classifier's classes; entailment, neutral and contradiction unless it is
            fine-tuned with other labels (`num_labels`).
        label2id: The same, from names to ids.

    Raises:
        StrictDataclassClassValidationError: A value is out of range; the message names the field.
    """

    # The encoder's name in tables; each encoder's config sets its own.
    label: ClassVar[str] = ""
    # sentence-transformers reads the size of `pooler_output` from `projection_dim`, before any `hidden_size`.
    attribute_map: ClassVar[dict[str, str]] = {"projection_dim": "embedding_size"}
    # Options of earlier versions that changed vectors, and the value that is computed.
    removed_options: ClassVar[dict[str, Any]] = {}

    vocab_size: int = 30_000
    embedding_size: int = 500
    pad_token_id: int = 0
    unk_token_id: int = 1
    initializer_range: float | int | None = None
    response_hidden_sizes: list[int] = field(default_factory=lambda: [500])
    response_residual: bool = False
    normalize_response: bool = False
    logit_scale_init: float | int = 20.0
    input_network: bool = False
    lexical_size: int = 0
    lexical_share: float | int = 0.0
    context_weights: list[float | int] = field(default_factory=list)
    nli_hidden_size: int = 512
    language: list[str] = field(default_factory=list)

    def __post_init__(self, **kwargs: Any) -> None:
        """Names the classes: NLI's, unless others or another number of them are given."""
        if self.id2label is None and kwargs.get("num_labels", len(NLI_LABELS)) == len(NLI_LABELS):
            self.id2label = dict(enumerate(NLI_LABELS))
        if self.id2label is not None and self.label2id is None:
            self.label2id = {name: int(label) for label, name in self.id2label.items()}
        super().__post_init__(**kwargs)

    def to_diff_dict(self) -> dict[str, Any]:
        """What is saved: always with the names of the classes, whose default here is not that of transformers."""
        return super().to_diff_dict() | {"id2label": self.id2label, "label2id": self.label2id}

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves the config, and the files by which sentence-transformers reads the model, unless they exist.

        Without them, it would average token vectors instead of using `pooler_output`. A model's `save_pretrained` calls
        this method. `encode_document` gives response vectors only in folders of `python -m trainer.publish`.
        """
        # sentence-transformers' CrossEncoder reads the classifier's number of labels only if it is an architecture.
        if classifier := (getattr(self, "auto_map", None) or {}).get("AutoModelForSequenceClassification"):
            architectures = [*(self.architectures or []), classifier.rpartition(".")[2]]
            self.architectures = list(dict.fromkeys(architectures))
        super().save_pretrained(save_directory, *args, **kwargs)
        for name, content in SENTENCE_TRANSFORMERS_FILES.items():
            if name == "config_sentence_transformers.json":
                content = content | self.sentence_transformers_prompts()
            if not (Path(save_directory) / name).exists():
                (Path(save_directory) / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def prompt(self, side: str) -> str:
        """The text that is prepended to the texts of a side, "input", "query" or "response", before tokenization."""
        return ""

    def sentence_transformers_prompts(self) -> dict[str, Any]:
        """The prompts in config_sentence_transformers.json."""
        prompts = {"query": self.prompt("query"), "document": self.prompt("response")}
        if not (default := self.prompt("input")):
            return {"prompts": prompts, "default_prompt_name": None}
        return {"prompts": {**prompts, "input": default}, "default_prompt_name": "input"}

    def require_positive(self, *names: str) -> None:
        """Raises ValueError unless every named field, or every value of a list field, is above zero."""
        for name in names:
            value = getattr(self, name)
            if min(value if isinstance(value, list) else [value], default=1) <= 0:
                raise ValueError(f"{name} is {value}, expected numbers above 0")

    def validate_base_sizes(self) -> None:
        """Requires sizes above zero and at least one hidden layer in the response network."""
        self.require_positive("vocab_size", "embedding_size", "response_hidden_sizes")
        self.require_positive("nli_hidden_size", "logit_scale_init")
        if not self.response_hidden_sizes:
            raise ValueError("response_hidden_sizes is [], expected the size of at least one hidden layer")
        if self.initializer_range is not None:
            self.require_positive("initializer_range")

    def validate_removed_options(self) -> None:
        """Requires what is computed of options that earlier versions had."""
        for name, value in self.removed_options.items():
            if (given := getattr(self, name, value)) != value:
                raise ValueError(
                    f"{name} is {given}, which only earlier versions of convsim support; expected {value}: open the "
                    "model with the version that saved it, or train it again"
                )

    def validate_lexical_channel(self) -> None:
        """Requires normalized responses for a lexical channel, and a channel for a share."""
        if self.lexical_size < 0 or (self.lexical_size and not self.normalize_response):
            raise ValueError(
                f"lexical_size is {self.lexical_size}, expected 0 (no lexical channel), or more together with "
                "normalize_response: true"
            )
        if not 0 <= self.lexical_share < 1 or (self.lexical_share and not self.lexical_size):
            raise ValueError(
                f"lexical_share is {self.lexical_share}, expected at least 0 and below 1, and 0 without lexical_size"
            )

    def validate_context_weights(self) -> None:
        """Requires weights of earlier turns that are finite and 0 or more."""
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.context_weights):
            raise ValueError(f"context_weights is {self.context_weights}, expected finite numbers of 0 or more")

    def validate_token_ids(self) -> None:
        """Requires special tokens that are in the vocabulary."""
        for name in ("pad_token_id", "unk_token_id"):
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise ValueError(f"{name} is {getattr(self, name)}, expected an id below vocab_size {self.vocab_size}")


# With this, `save_pretrained` copies the code files and writes `auto_map`; subclasses inherit it.
ConvSimConfig.register_for_auto_class("AutoConfig")
