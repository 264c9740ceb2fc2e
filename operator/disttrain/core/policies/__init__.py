"""The rules of a job's life, one a file, each with its table."""
