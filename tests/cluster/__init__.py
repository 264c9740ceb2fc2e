"""Kubernetes control planes for tests, started as plain processes: no container engine, no cluster, no root."""
