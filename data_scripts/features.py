"""The columns of the datasets that are loaded with `datasets`, as its `Features`; `schemas` has the Arrow columns.

Importing this module imports `datasets`, which takes most of a second.
"""

from datasets import ClassLabel, Features, Value

from data_scripts.schemas import NLI_LABELS, PAIR_SCHEMA

PAIR_FEATURES = Features({name: Value("string") for name in PAIR_SCHEMA.names})

NLI_FEATURES = Features(
    {"premise": Value("string"), "hypothesis": Value("string"), "label": ClassLabel(names=NLI_LABELS)}
)

STS_FEATURES = Features({"sentence1": Value("string"), "sentence2": Value("string"), "score": Value("float32")})
STSB_FEATURES = Features({**STS_FEATURES, "genre": Value("string")})

CQA_FEATURES = Features(
    {
        "query_id": Value("string"),
        "query": Value("string"),
        "candidate_id": Value("string"),
        "candidate": Value("string"),
        "relevant": Value("bool"),
        "label": Value("string"),
        "rank": Value("int32"),
    }
)
