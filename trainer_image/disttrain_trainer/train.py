"""`train`: one call that trains, checkpoints, resumes, evaluates and exports, whatever strategy the job asks for."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from disttrain_trainer.completion import Result, read_done, report_done
from disttrain_trainer.context import BuildDataset, BuildModel, Mode, Settings
from disttrain_trainer.errors import usage_errors_exit
from disttrain_trainer.job import JobEnvironment


def train(  # noqa: PLR0913 - the one call a program makes; all but the two functions are named
    build_model: BuildModel,
    build_dataset: BuildDataset,
    *,
    steps: int,
    global_batch_size: int,
    mode: Mode = "loop",
    eager: bool = False,
    seed: int = 0,
    steps_per_epoch: int | None = None,
    run_dir: str | os.PathLike[str] | None = None,
) -> Result:
    """Train a Keras 3 model to step `steps`, from the newest checkpoint if there is one; evaluate and export it.

    Call it once, in every process of the job: it does what the process's role needs. Without a job it trains here.

    Args:
        build_model: makes a compiled keras.Model (optimizer, loss, metrics) with defined input shapes. Called under
            the strategy's scope, and again outside of it for evaluation and export.
        build_dataset: from a `DataContext` to a tf.data.Dataset of `(x, y)` or `(x, y, sample_weight)` batches, such
            as `batches_of` makes; for the split "eval" it may return None.
        steps: steps of the optimizer after which training is complete, over the whole job.
        global_batch_size: examples a step trains on, over all workers; under ParameterServer a step is one worker's.
        mode: "loop", a custom training loop, or "fit", Keras's own, which works in one process (Mirrored or none).
        eager: run every step eagerly, to debug; slow.
        seed: of the weights' initialisation, the shuffling and dropout.
        steps_per_epoch: where an epoch ends, for progress reports and `fit`.
        run_dir: where checkpoints and the model go if the job has no storage; None: nothing is kept.

    Returns:
        In the leader the step, held-out metrics, exported model and its location; elsewhere the step.

    Raises:
        SystemExit: 42 after SIGTERM, when the state was saved; 143 if there was nowhere to save it; 64 where program,
            manifest and environment cannot work together (one line on stderr says why and what to do).
    """
    with usage_errors_exit():
        settings = Settings(steps, global_batch_size, mode, eager, seed, steps_per_epoch)
        job = JobEnvironment.from_environment(os.environ)
        if job.run_dir is None and run_dir is not None:
            job = replace(job, run_dir=Path(run_dir))
        settings.refuse_impossible(job.strategy)
        return _do_the_roles_part(build_model, build_dataset, settings, job)


def _do_the_roles_part(
    build_model: BuildModel, build_dataset: BuildDataset, settings: Settings, job: JobEnvironment
) -> Result:
    if job.evaluates:
        from disttrain_trainer import evaluator

        return evaluator.run(build_model, build_dataset, settings, job)
    if job.serves:
        from disttrain_trainer import server

        server.serve(job)
    if done := read_done(job.run_dir, job.leader):
        report_done(done)
        return done
    from disttrain_trainer import lifecycle

    return lifecycle.run(build_model, build_dataset, settings, job)
