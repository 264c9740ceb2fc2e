"""DistTrain: distributed TensorFlow training on Kubernetes and on a laptop from one manifest."""
