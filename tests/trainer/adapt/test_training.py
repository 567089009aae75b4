"""The run of the command: its settings, and the splits that it used."""

import logging

import pytest
from datasets import Dataset, DatasetDict

from data_scripts.errors import InputError
from trainer.adapt import training
from trainer.arguments import Arguments
from trainer.data.datasets import RunData


@pytest.mark.parametrize(("license", "stated"), [(None, Arguments.license), ("mit", "mit")])
def test_the_run_adapts_the_base_to_the_pairs_of_the_folder(tmp_path, monkeypatch, license, stated):
    started = []
    monkeypatch.setattr(training, "train", started.append)
    arguments = training.train_model("some/base", tmp_path, license)
    assert started == [arguments] and arguments.adapt and arguments.overwrite
    assert arguments.initialize_from == "some/base" and arguments.license == stated
    assert (arguments.pairs, arguments.output_dir) == ([str(tmp_path / "pairs")], str(tmp_path))


def test_a_base_that_cannot_be_loaded_is_named_with_its_option(tmp_path):
    with pytest.raises(InputError, match=r"^--base: .*nothing"):
        training.check_base(str(tmp_path / "nothing"))


@pytest.mark.parametrize(("pairs", "dev"), [(500, None), (4000, 400)])
def test_splits_are_those_of_the_run(monkeypatch, caplog, pairs, dev):
    rows = [{"input": f"{row}", "response": "r", "thread": f"{row}", "source": "s"} for row in range(pairs)]
    test = Dataset.from_list(rows[:9])

    def load(arguments: object) -> RunData:
        logging.getLogger("trainer.data.datasets").warning("said before")
        logging.getLogger("another").warning("not said before")
        return RunData({"pairs": Dataset.from_list(rows)}, {"pairs": DatasetDict(test=test)})

    monkeypatch.setattr(training, "load_run_data", load)
    splits = training.load_splits(None)
    assert (splits.dev and len(splits.dev)) == dev and len(splits.train) == pairs - (dev or 0)
    assert splits.test.to_list() == test.to_list()
    assert caplog.messages == ["not said before"]
