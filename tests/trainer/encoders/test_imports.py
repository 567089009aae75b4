"""Loading an encoder imports gensim only for PV-DBOW."""

import subprocess
import sys


def test_evaluations_do_not_import_gensim() -> None:
    code = "import sys, trainer.evaluation.__main__, trainer.data.teacher; sys.exit('gensim' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
