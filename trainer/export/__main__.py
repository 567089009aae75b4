"""Export a saved model: to ONNX, which onnxruntime runs without torch, or to the static files of model2vec.

python -m trainer.export MODEL -o FOLDER [--precision int8] [--embeddings int8] [--stsb data/stsb]
python -m trainer.export MODEL --format static -o FOLDER

MODEL is the folder of a saved model, a run's folder, or a Hub id. The command writes the model, its tokenizer
and config to FOLDER, and its measurements to export.json and README.md: size, speed and, with --stsb, Pearson's r, each
beside the model in torch. For a run's folder, it adds them to results.json and the model card too, and an export to
RUN/model/onnx is published with the model. If the vectors differ from the model's, nothing is written.
"""

import sys
from argparse import Namespace, RawDescriptionHelpFormatter

from data_scripts.files.command_line import ArgumentParser, disk_path, run_stoppable
from trainer.export.formats import FORMATS, PRECISIONS


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(
        prog="python -m trainer.export", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model or of a run, or a Hub id")
    parser.add_argument(
        "-o", "--output", type=disk_path, required=True, metavar="FOLDER", help="new folder for the export"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="onnx",
        help="static: files of model2vec's StaticModel, from a CBOW encoder (default: %(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="precision of the matrices; int8: onnxruntime's dynamic quantization (default: %(default)s)",
    )
    parser.add_argument(
        "--embeddings",
        choices=PRECISIONS,
        help="precision of the embedding tables of words and bigrams; int8: with a scale for each row (default: "
        "float16 with --precision float16, else float32)",
    )
    parser.add_argument("--stsb", metavar="SOURCE", help="folder or Hub id of STS-B to evaluate both models on, on dev")
    return parser


def run(args: Namespace) -> int:
    """Export the model, and print what was measured; returns the exit code.

    Raises:
        InputError: the model, the data or the output folder is not usable, or the exported vectors are not the model's.
    """
    # Imported here because they take seconds, which `--help` should not.
    from transformers.utils.logging import disable_progress_bar

    from trainer.export.export import export, find_run, format_table

    disable_progress_bar()  # loading takes a moment only
    run_folder, report = find_run(args.model), export(**vars(args))
    recorded = f" and recorded in {run_folder / 'results.json'} and its card" if run_folder else ""
    print(f"{format_table(report)}saved in {args.output}{recorded}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
