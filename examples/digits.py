"""Recognise handwritten digits: scikit-learn's 1,797 images of 8 x 8 pixels, a small network, any strategy.

python digits.py                          on this machine, one process
disttrain run examples/digits-mwms.yaml   two workers as processes of this machine
kubectl apply -f examples/digits-mwms.yaml
"""

import argparse

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from disttrain_trainer import DataContext, batches_of, train


def build_model() -> keras.Model:
    """64 pixels -> 10 logits."""
    model = keras.Sequential(
        [
            keras.Input((64,), name="pixels"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, name="logits"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def split(name: str):
    """Images [n, 64] float32 in 0..1 and labels [n] int64; 80 % to train on, 20 % held out, always the same ones."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split((images / 16).astype("float32"), labels, test_size=0.2, random_state=0, stratify=labels)
    return (parts[0], parts[2]) if name == "train" else (parts[1], parts[3])


def build_dataset(context: DataContext):
    """The batches this worker trains on, or the held-out ones."""
    return batches_of(split(context.split), context)


def main() -> None:
    """Train, then say how good the model is and where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["loop", "fit"], default="loop", help="custom training loop, or Keras's fit")
    parser.add_argument("--steps", type=int, default=600, help="steps to train (%(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="examples a step, over all workers (%(default)s)")
    parser.add_argument("--run-dir", help="where checkpoints and the model go if no job says so; none: nothing is kept")
    flags = parser.parse_args()
    result = train(
        build_model,
        build_dataset,
        steps=flags.steps,
        global_batch_size=flags.batch,
        mode=flags.mode,
        run_dir=flags.run_dir,
    )
    if result.leader:
        print(f"model {result.model_location or 'not kept'}")
        print(f"accuracy {result.metrics['accuracy']:.4f}")


if __name__ == "__main__":
    main()
