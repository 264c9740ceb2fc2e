"""Checkpoints in the job's directory, keyed by the step; TensorFlow's own format, so any program can read them."""

from __future__ import annotations

import logging
import re
import shutil
import time
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from disttrain_agent.contract import CHECKPOINT_DIR
from disttrain_trainer import reporting
from disttrain_trainer.errors import UsageError
from disttrain_trainer.job import CheckpointPolicy

PREFIX: Final = "ckpt"
_INDEX_FILE: Final = re.compile(rf"{PREFIX}-(\d+)\.index")

# How TensorFlow says that a checkpoint's files are damaged or gone: a checksum or table error is an OpError, a data
# file cut short an IndexError ("Read less bytes than requested").
UNREADABLE: Final = (tf.errors.OpError, IndexError)


def _is_for_people(record: logging.LogRecord) -> bool:
    """False for TensorFlow's warning that its own saving, with variables on several hosts, is traced anew each time."""
    return "MultiDeviceSaver.save" not in record.getMessage()


tf.get_logger().addFilter(_is_for_people)


def steps_in(directory: Path) -> list[int]:
    """Steps of the checkpoints in a directory, newest first.

    TensorFlow writes `<prefix>.index` last, so a checkpoint whose save was cut off is mostly not listed; should it be,
    reading it fails and the previous one serves.
    """
    if not directory.is_dir():
        return []
    matches = (_INDEX_FILE.fullmatch(path.name) for path in directory.iterdir())
    return sorted((int(match.group(1)) for match in matches if match), reverse=True)


def prefix_of(directory: Path, step: int) -> str:
    """What TensorFlow calls a checkpoint: its path without the endings of its files."""
    return str(directory / f"{PREFIX}-{step}")


def trackables(model: Any) -> dict[str, Any]:
    """What a checkpoint holds of a compiled Keras 3 model besides the step.

    Keras does not track the state of seed generators (dropout) for tf.train.Checkpoint, so `random_state` names it.
    The compiled metrics are in neither: they start anew, and reading one is a collective, which the leader cannot do
    alone.
    """
    named = {id(variable) for variable in model.weights}
    random_state = [variable.value for variable in model.variables if id(variable) not in named]
    return {"model": model, "optimizer": model.optimizer, "random_state": random_state}


class CheckpointNotSeenError(Exception):
    """A worker does not see the checkpoint that the leader resumes from."""


class Checkpoints:
    """Saves and restores a model, its optimizer and the step. Only the leader writes; without a directory, nobody.

    Args:
        run_dir: the job's directory in storage, None where the job has none.
        policy: when to save, how many to keep, where to start from.
        model: the compiled model with a built optimizer.
        leader: True in the one process that writes.
        io_device: the device whose host reads and writes the files; None: each variable's own host.
    """

    def __init__(
        self, run_dir: Path | None, policy: CheckpointPolicy, model: Any, leader: bool, io_device: str | None = None
    ) -> None:
        self.directory = None if run_dir is None else run_dir / CHECKPOINT_DIR
        self._policy = policy
        self._leader = leader
        self._options = tf.train.CheckpointOptions(experimental_io_device=io_device)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._checkpoint = tf.train.Checkpoint(step=self._step, **trackables(model))
        self._manager: Any = None
        self._saved_step = 0
        self._saved_at = time.monotonic()

    def restore(self) -> int:
        """Load the newest checkpoint that can be read and return its step; 0 if there is none.

        A damaged one is reported and the previous one taken. Raises UsageError if there are checkpoints but none can
        be read (starting from nothing would overwrite what may yet be rescued), if the model is another one than was
        saved, or if `checkpoint.restoreFrom` holds no checkpoint.
        """
        found = self._where_to_start()
        if found is None:
            return 0
        directory, steps = found
        failures: list[str] = []
        for step in steps:
            try:
                self._load(directory, step)
            except UNREADABLE as error:
                failures.append(reporting.first_line(error))
                reporting.say(f"checkpoint {prefix_of(directory, step)} cannot be read: {failures[-1]}")
                continue
            if failures:
                reporting.say(f"falling back to the checkpoint of step {step}")
            return step
        raise UsageError(
            f"{directory}: none of its {len(steps)} checkpoints can be read ({failures[0]}); repair the storage, or "
            "remove the directory to train from nothing"
        )

    def restore_step(self, step: int) -> None:
        """Load the checkpoint that the leader has chosen.

        Raises CheckpointNotSeenError if it is not there or not readable, which ends this attempt only: on a network
        file system a file may show up late.
        """
        found = [directory for directory in self._directories() if Path(f"{prefix_of(directory, step)}.index").exists()]
        try:
            if not found:
                raise FileNotFoundError(f"no {PREFIX}-{step} in {' or '.join(map(str, self._directories())) or 'it'}")
            self._load(found[0], step)
        except (*UNREADABLE, FileNotFoundError) as error:
            raise CheckpointNotSeenError(
                f"the leader resumes from step {step}, but this worker cannot read that checkpoint: "
                f"{reporting.first_line(error)}; spec.storage must be one volume that every worker mounts"
            ) from error

    def save_if_due(self, step: int) -> None:
        """Save if the policy says so. Call after every step; costs nothing in between."""
        if self._policy.due(step, self._saved_step, time.monotonic() - self._saved_at):
            self.save(step)

    def save(self, step: int) -> None:
        """Save now, unless this very step is saved already. TensorFlow writes beside the old ones and renames."""
        if self.directory is None or not self._leader or step == self._saved_step:
            return
        reporting.phase("saving")
        if self._manager is None:
            self._manager = self._make_manager(self.directory)
        self._step.assign(step)
        location = self._manager.save(checkpoint_number=step, options=self._options)
        self._saved_step, self._saved_at = step, time.monotonic()
        reporting.saved(step, str(location))
        reporting.phase("training")

    @property
    def keeps(self) -> bool:
        """True if the job's state outlives the process, whoever writes it."""
        return self.directory is not None

    def _directories(self) -> list[Path]:
        """Where a checkpoint to resume from may be: the job's own directory before the one of `restoreFrom`."""
        own = [] if self.directory is None else [self.directory]
        source = self._policy.restore_from
        return own if source is None else [*own, source / CHECKPOINT_DIR, source]

    def _where_to_start(self) -> tuple[Path, list[int]] | None:
        """The directory to resume from and its steps, newest first; None: there is nothing to resume from."""
        for directory in self._directories():
            if steps := steps_in(directory):
                return directory, steps
        source = self._policy.restore_from
        if source is None:
            return None
        raise UsageError(f"spec.checkpoint.restoreFrom: no checkpoint in {source} or {source / CHECKPOINT_DIR}")

    def _load(self, directory: Path, step: int) -> None:
        prefix = prefix_of(directory, step)
        try:
            self._checkpoint.restore(prefix, options=self._options).assert_existing_objects_matched()
        except (ValueError, AssertionError) as error:
            raise UsageError(
                f"the model is not the one saved in {prefix}: {reporting.first_line(error)}; restore the old model, or "
                "train the new one as a new job"
            ) from error
        # Another job's checkpoint is not ours yet: the next save is due at once.
        self._saved_step = step if directory == self.directory else -1
        self._saved_at = time.monotonic()

    def _make_manager(self, directory: Path) -> Any:
        for leftover in directory.glob(f"{PREFIX}-*_temp"):
            # A save was cut off by a kill. Only the leader writes, so nobody else can be writing here now.
            shutil.rmtree(leftover, ignore_errors=True)
        return tf.train.CheckpointManager(
            self._checkpoint, str(directory), max_to_keep=self._policy.keep, checkpoint_name=PREFIX
        )


def load_weights(model: Any, prefix: str) -> None:
    """Load a checkpoint's weights into a model of the same architecture, made outside of any strategy.

    Raises one of `UNREADABLE` if the files are damaged or have been rotated away.
    """
    tf.train.Checkpoint(model=model).restore(prefix).expect_partial()


def complete_steps(directory: Path) -> list[int]:
    """Steps of the checkpoints whose save has ended, oldest first, as TensorFlow's own state file lists them."""
    state = tf.train.get_checkpoint_state(str(directory))
    paths = state.all_model_checkpoint_paths if state else ()
    steps = (path.rpartition("-")[2] for path in paths)
    return sorted(int(step) for step in steps if step.isdecimal())
