"""The evaluation datasets of the tests. TEMPORARY adapter until `tests.trainer.evaluation` has them as a mapping."""

from tests.trainer.evaluation.corpora import corpora
from trainer.report.until_merge import EvaluationData


def evaluation_data() -> EvaluationData:
    """All datasets with all splits."""
    data = corpora()
    return {name: getattr(data, name) for name in ("pairs", "snli", "stsb", "cqa", "sts")}
