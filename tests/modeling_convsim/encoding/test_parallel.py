from concurrent.futures.process import BrokenProcessPool

import pytest

from modeling_convsim.encoding import Encoder, parallel
from modeling_convsim.encoding.__main__ import main
from tests.modeling_convsim.tiny_models import build


def test_a_killed_process_is_a_clear_exception_and_one_line(tiny_tokenizer, tmp_path, monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise BrokenProcessPool("A process in the process pool was terminated abruptly")

    model = build("dan_best")
    model.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.setattr(parallel, "_map_in_order", fail)
    with pytest.raises(ChildProcessError, match="one of 2 encoding processes was killed"):
        Encoder(model, tiny_tokenizer).encode(["the dog"], processes=2)
    (tmp_path / "texts.txt").write_text("the dog\n")
    command = [tmp_path / "model", tmp_path / "texts.txt", "-o", tmp_path / "out.npy", "--processes", 2]
    capsys.readouterr()
    assert main([str(word) for word in command]) == 2
    assert "error: one of 2 encoding processes was killed" in capsys.readouterr().err
    assert not (tmp_path / "out.npy").exists()
