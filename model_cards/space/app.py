"""Serves the page of the index beside this file."""

from pathlib import Path

from modeling_convsim.suggestion.server import main

raise SystemExit(main([str(Path(__file__).with_name("replies"))]))
