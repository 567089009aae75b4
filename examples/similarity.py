"""Compare sentences with a trained encoder.

python examples/similarity.py
python examples/similarity.py --model runs/chats/model "Where is my parcel?" "Has my order been shipped?"
"""

import argparse

from modeling_convsim.encoding import Encoder

SENTENCES = ["How old are you?", "What is your age?", "How are you?", "Where do you live?"]


def main() -> None:
    """Print the similarity of each pair of sentences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", nargs="*", default=SENTENCES, help="two or more sentences")
    parser.add_argument("--model", default="runs/quickstart/model", help="folder or Hub id (default: %(default)s)")
    options = parser.parse_args()

    try:
        encoder = Encoder.from_pretrained(options.model)
    except ValueError as error:
        parser.error(f"--model: {error}; `make train` trains the default")
    embeddings = encoder.encode(options.sentences)  # (sentences, dimensions), L2-normalized
    similarities = embeddings @ embeddings.T  # cosines

    for row, sentence in enumerate(options.sentences):
        for column in range(row + 1, len(options.sentences)):
            print(f"{similarities[row, column]:6.3f}  {sentence}  |  {options.sentences[column]}")


if __name__ == "__main__":
    main()
