"""`python -m data_scripts`, which starts its worker processes for small dumps too."""

from data_scripts.__main__ import main as data_scripts
from data_scripts.write import comments


def main(arguments: list[str]) -> int:
    """Run the command."""
    comments.WORTH_WORKERS = 0
    return data_scripts(arguments)
