"""Options that several tasks read."""

from dataclasses import dataclass

from trainer.arguments import Arguments, option


@dataclass
class MatryoshkaOptions(Arguments):
    """For tasks with in-batch negatives."""

    matryoshka_dims: list[int] = option(
        [],
        "train Matryoshka embeddings, which may be truncated to these numbers of dimensions: the loss of each size is "
        "added (Kusupati et al., 2022)",
    )


@dataclass
class SimilarityOptions(Arguments):
    """For tasks that train the similarity of texts."""

    similarity_scale: float = option(
        20.0,
        "inverse temperature, by which cosines are multiplied; Siamese CBOW: 1",
        above=0,
    )


@dataclass
class NliOptions(Arguments):
    """For tasks on natural language inference."""

    nli: list[str] = option(
        [],
        "folders or Hub ids of natural language inference datasets (SNLI, MultiNLI …)",
    )


@dataclass
class ParaphraseOptions(Arguments):
    """For tasks on paraphrases."""

    paraphrases: list[str] = option(
        [],
        "folders or Hub ids of paraphrases, or of pairs of sentences with similarity scores",
    )
