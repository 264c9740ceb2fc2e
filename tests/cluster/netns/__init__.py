"""Two real Kubernetes nodes on one machine, each in namespaces of its own: kubelet, containerd, CNI, real pods."""
