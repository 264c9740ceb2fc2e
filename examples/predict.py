"""Load an exported model in a fresh process, as a server would, and predict the held-out digits.

python examples/predict.py disttrain-runs/<job>/model
"""

import sys

import numpy as np
import tensorflow as tf
from digits import split


def main() -> None:
    """Print some predictions and the share of right ones."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} MODEL_DIRECTORY")
    model = tf.saved_model.load(sys.argv[1])
    images, labels = split("eval")
    predicted = np.argmax(model.serve(images), axis=1)
    for digit, truth in zip(predicted[:5], labels[:5], strict=True):
        print(f"a {truth} is read as {digit}")
    print(f"accuracy {np.mean(predicted == labels):.4f}")


if __name__ == "__main__":
    main()
