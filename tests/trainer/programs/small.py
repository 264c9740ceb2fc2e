"""Trains a small network on generated data and prints a hash of the final weights: equal hashes, bit-equal models."""

import argparse
import hashlib

import keras
import numpy as np

from disttrain_trainer import batches_of, train

CLASSES = 4

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--mode", default="loop")
parser.add_argument("--steps-per-epoch", type=int)
flags = parser.parse_args()
built = []  # the first one is the one that is trained, on every worker


def build_model():
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dropout(0.1, seed=5),
            keras.layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(5e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    built.append(model)
    return model


def build_dataset(context):
    x = np.random.default_rng(3).normal(size=(1800, 64)).astype("float32")
    y = x[:, :CLASSES].argmax(axis=1)
    part = slice(1400) if context.split == "train" else slice(1400, None)
    return batches_of((x[part], y[part]), context)


result = train(
    build_model,
    build_dataset,
    steps=flags.steps,
    global_batch_size=96,
    mode=flags.mode,
    steps_per_epoch=flags.steps_per_epoch,
)
digest = hashlib.sha256(b"".join(value.tobytes() for value in built[0].get_weights())).hexdigest()
print(f"sha {digest}", flush=True)
if result.leader:
    print(f"accuracy {result.metrics['accuracy']}", flush=True)
