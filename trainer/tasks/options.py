"""Options that several tasks read."""

from dataclasses import dataclass

from trainer.arguments import Arguments, option


@dataclass
class MatryoshkaOptions(Arguments):
    """For tasks with in-batch negatives."""

    matryoshka_dims: list[int] = option(
        [],
        "dimensions below embedding_size to which embeddings may be truncated: tasks with in-batch negatives add the "
        "loss of the first dimensions alone, for each size (Matryoshka: Kusupati et al., 2022)",
    )


@dataclass
class SimilarityOptions(Arguments):
    """For tasks that train the similarity of texts."""

    similarity_scale: float = option(
        20.0,
        "what cosines are multiplied by in the tasks that train the similarity of texts; Siamese CBOW: 1",
        above=0,
    )


@dataclass
class NliOptions(Arguments):
    """For tasks on natural language inference."""

    nli: list[str] = option(
        [],
        "folders or Hub ids of natural language inference (SNLI, MultiNLI …) for the tasks entailment and ranking",
    )


@dataclass
class ParaphraseOptions(Arguments):
    """For tasks on paraphrases."""

    paraphrases: list[str] = option(
        [],
        "folders or Hub ids of paraphrases, or of pairs of sentences with similarity scores, for the tasks paraphrases "
        "and ranking",
    )
