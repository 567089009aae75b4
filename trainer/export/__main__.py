"""Export a saved model: to ONNX, which onnxruntime runs without torch, or to the static files of model2vec.

python -m trainer.export MODEL -o FOLDER [--precision int8] [--embeddings int8] [--stsb data/stsb]
python -m trainer.export MODEL --format static -o FOLDER

MODEL is the folder of a saved model, a run's folder, or a name on the Hub. The command writes the model, its tokenizer
and config to FOLDER, and what it measured to export.json and README.md: size, speed and, with --stsb, Pearson's r, each
beside the model in torch. For a run's folder, it adds them to results.json and the model's card too, and an export to
RUN/model/onnx is published with the model. If the vectors are not those of the model, nothing is written.
"""

import argparse
import sys
from pathlib import Path

from transformers.utils.logging import disable_progress_bar

from data_scripts.errors import InputError
from trainer.export.export import FORMATS, ExportOptions, export
from trainer.export.formats import PRECISIONS
from trainer.export.report import find_run, format_table


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m trainer.export", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or of a run, or a name on the Hub")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="a new folder")
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
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
    parser.add_argument("--stsb", metavar="SOURCE", help="folder or Hub id of STS-B, to evaluate both models on")
    parser.add_argument(
        "--split", choices=("dev", "test", "both"), default="dev", help="split of STS-B (default: %(default)s)"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, or 2 after a user error, which a message explains."""
    options = ExportOptions(**vars(build_parser().parse_args(arguments)))
    disable_progress_bar()  # loading takes a moment only
    try:
        run, report = find_run(options.model), export(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(format_table(report), end="")
    print(f"saved in {options.output}" + (f" and recorded in {run / 'results.json'} and its card" if run else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
