"""Asks `train` for what cannot work; imports neither TensorFlow nor Keras."""

import sys

from disttrain_trainer import train

batch, mode, eager = sys.argv[1:]
train(None, None, steps=10, global_batch_size=int(batch), mode=mode, eager=eager == "eager")
