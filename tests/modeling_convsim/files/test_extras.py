"""Missing packages are named with the command that installs them."""

import sys
from pathlib import Path

import pytest

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.extras import import_extra


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("upath.local", "searching needs universal-pathlib: pip install -e '{clone}[suggest]'"),
        ("gensim", "searching needs gensim: pip install -e '{clone}[suggest]' (with Python 3.13 or older)"),
    ],
)
def test_a_package_that_is_not_installed(module: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    with pytest.raises(InputError) as error:
        import_extra(module, "suggest", "searching")
    assert str(error.value) == message.format(clone=Path(__file__).resolve().parents[3])


def test_a_package_that_is_damaged(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mteb.py").write_text("from math import nothing")
    monkeypatch.delitem(sys.modules, "mteb", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"this needs mteb \(cannot import name 'nothing' from 'math'.*: pip install"):
        import_extra("mteb", "mteb", "this")
