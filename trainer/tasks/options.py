"""Options that several tasks read."""

from dataclasses import dataclass

from trainer.arguments import Arguments, option


@dataclass
class InBatchOptions(Arguments):
    """For tasks with in-batch negatives."""

    matryoshka_dims: list[int] = option(
        [],
        "train Matryoshka embeddings, which may be truncated to these numbers of dimensions: the loss of each size is "
        "added (Kusupati et al., 2022)",
    )
    score_teachers: list[str] = option(
        [],
        "folders or Hub ids of trained models of this project, with the run's tokenizer, whose mean scores of the "
        "texts of a batch are reproduced: self-distillation (Furlanello et al., 2018)",
    )
    score_teacher_share: float = option(
        0.8, "share of the loss that compares with the scores of score_teachers", above=0, maximum=1
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
class TeacherOptions(Arguments):
    """For tasks that reproduce the similarities of a SentenceTransformer."""

    teacher: str | None = option(None, "folder or Hub id of the teacher, a SentenceTransformer")


@dataclass
class PairOptions(Arguments):
    """For tasks on conversation pairs."""

    pairs: list[str] = option(
        [],
        "folders or Hub ids of conversation pairs, in the format of `data_scripts reddit`; a batch has pairs of one of "
        "them, and a pair that several have is used once, as one of the first",
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
