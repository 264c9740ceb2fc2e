"""The shell of the operator: it watches, asks the core for a plan and carries it out. It decides nothing itself."""
