"""The operator, as a process of its own under its own ServiceAccount, on a real control plane with fake nodes."""
