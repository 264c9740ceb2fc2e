"""The life of a training process: strategy, model, newest checkpoint, the steps, then evaluation, export and DONE."""

from __future__ import annotations

from pathlib import Path

import keras

from disttrain_agent.contract import EXIT_SAVED
from disttrain_trainer import coordinator, fit, loop, reporting, strategies
from disttrain_trainer.checkpoints import Checkpoints
from disttrain_trainer.completion import Result, mark_done
from disttrain_trainer.context import BuildDataset, BuildModel, Settings
from disttrain_trainer.errors import UsageError
from disttrain_trainer.evaluation import evaluate, held_out, plain_copy
from disttrain_trainer.export import export
from disttrain_trainer.job import JobEnvironment
from disttrain_trainer.stopping import EXIT_NOT_SAVED, StopSignal
from disttrain_trainer.training import Training


def run(build_model: BuildModel, build_dataset: BuildDataset, settings: Settings, job: JobEnvironment) -> Result:
    """Train in this process and return its result. Raises SystemExit(42 or 143) after SIGTERM, UsageError."""
    reporting.phase("starting")
    if job.leader and job.run_dir is not None:
        _make_directory(job.run_dir)
    strategy = strategies.get_strategy(job)
    settings.per_pipeline_batch(1, strategy.num_replicas_in_sync)  # refuse before any work is done
    keras.utils.set_random_seed(settings.seed)
    with strategy.scope():
        model = build_model()
        model.optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(job.run_dir, job.checkpoint, model, job.leader, strategies.checkpoint_device(strategy))
    start = _resume(job, checkpoints)
    with StopSignal() as stop:
        training = Training(job, settings, strategy, model, build_dataset, checkpoints, stop, start)
        step = _train(training)
        reporting.flush()
        if step < settings.steps:
            strategies.wait_for_all(strategy)  # the leader must have saved before the first one leaves
            strategies.part(strategy)
            raise SystemExit(_stopped(training, step))
        result = _finish(training, build_model) if job.leader else Result(leader=False, step=step)
        strategies.wait_for_all(strategy)  # the model is there before anybody goes on
        return result


def _make_directory(run_dir: Path) -> None:
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the job's directory {run_dir} cannot be made: {error.strerror}; check spec.storage"
        ) from error


def _resume(job: JobEnvironment, checkpoints: Checkpoints) -> int:
    """Bring every worker to the step that the leader resumes from; 0: there is nothing to resume from."""
    start = strategies.agree_on(strategies.get_strategy(job), checkpoints.restore() if job.leader else 0)
    if start and not job.leader:
        checkpoints.restore_step(start)
    reporting.resumed(start)
    if start and job.leader:
        reporting.say(f"resumed from step {start}")
    return start


def _train(training: Training) -> int:
    if strategies.is_parameter_server(training.strategy):
        return coordinator.run(training)
    return fit.run(training) if training.settings.mode == "fit" else loop.run(training)


def _stopped(training: Training, step: int) -> int:
    """Say what a SIGTERM left behind; the exit code."""
    if not training.checkpoints.keeps:
        reporting.say(f"stopped by SIGTERM at step {step}; nothing is saved: the job has no storage (spec.storage)")
        return EXIT_NOT_SAVED
    if training.job.leader:
        reporting.say(f"stopped by SIGTERM; saved at step {step} of {training.settings.steps}")
    return EXIT_SAVED


def _finish(training: Training, build_model: BuildModel) -> Result:
    """The leader's last work: evaluate on the held-out data, export, mark the job as done."""
    settings, run_dir = training.settings, training.job.run_dir
    reporting.phase("evaluating")
    model = plain_copy(build_model, training.model)
    dataset = held_out(training.build_dataset, settings)
    metrics = evaluate(model, dataset)
    if run_dir is None:
        reporting.say("the model is not exported: the job has no storage (spec.storage)")
        return Result(leader=True, step=settings.steps, metrics=metrics, model=model)
    reporting.phase("exporting")
    location = export(model, run_dir, None if dataset is None else next(iter(dataset))[0])
    reporting.exported(location, metrics)
    result = Result(leader=True, step=settings.steps, metrics=metrics, model_location=location, model=model)
    mark_done(run_dir, result)
    return result
