"""The whole of it on a real cluster: real pods, real TensorFlow, the operator as manifests/install.yaml installs it."""
