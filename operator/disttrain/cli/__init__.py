"""The `disttrain` command: one file a verb. Verbs import what they need when they run, so that `--help` is quick."""
