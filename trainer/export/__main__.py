"""Export a saved model to ONNX, which onnxruntime runs without torch.

python -m trainer.export MODEL -o FOLDER

MODEL is the folder of a saved model or run, or a Hub id. FOLDER will contain the model in float32, its tokenizer and
its config. If the vectors of the export differ from the model's, nothing is written.
"""

import sys
from argparse import Namespace, RawDescriptionHelpFormatter

from modeling_convsim.files.command_line import ArgumentParser, add_output_argument, run_stoppable


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(
        prog="python -m trainer.export", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model or run, or a Hub id")
    add_output_argument(parser, "new folder for the export")
    return parser


def run(args: Namespace) -> int:
    """Export the model, and print how far its vectors differ; returns the exit code.

    Raises:
        InputError: the model or the output folder is not usable, or the exported vectors are not the model's.
    """
    # Imported here because they take seconds, which `--help` should not.
    from transformers.utils.logging import disable_progress_bar

    from trainer.export.export import export

    disable_progress_bar()  # loading takes a moment only
    difference = export(args.model, args.output)
    print(f"saved in {args.output}; its vectors differ from the model's by at most {difference:.1e}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
