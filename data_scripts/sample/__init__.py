"""The sample dataset that ships with the project: pairs, with NLI and STS examples in `nli` and `sts`.

Each of 395 situations has several phrasings of an input and of its reply, with slots such as {city}, which are filled
with several values. In validation and test, the reply of a pair is not in train: its words are new (about a quarter),
its values and the words of the input are new (about a quarter), or only its values are new (about half); among the
replies of the split, one is right for each input. The premises of NLI are in one split with all their values; its
labels are equally frequent. The STS score is 5 for another phrasing, 3 for another phrasing with other values, 1 for an
input of another situation of the domain, and 0 for one of another domain.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
