"""What the training processes said, in the status: the table of `disttrain.core.progress`."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from disttrain import names
from disttrain.core.model import Report
from disttrain.core.progress import duration, plain
from tests.unit.core.factory import (
    NOW,
    after,
    all_pods,
    exited,
    gang,
    later,
    mirrored,
    parameter_server,
    planned,
    pod,
    respecified,
    running,
    stored,
    world,
)

CHIEF, WORKER, EVALUATOR = ("chief", 0), ("worker", 0), ("evaluator", 0)


def said(of, slot, report, now=NOW, **changes):
    """The job after one report of one running replica."""
    return after(of, world(*all_pods(of, of.status.attempt, **changes), reports={slot: report}), now)


# --- progress ---


def test_progress_is_the_leaders():
    report = Report(step=1200, total_steps=5000, epoch=3, loss=0.11309, steps_per_second=12.5, time=later(-5))
    progress = said(running(gang()), CHIEF, report).status.progress
    assert progress.summary == "1200/5000 loss 0.1131 ETA 5m"
    assert (progress.step, progress.total_steps, progress.epoch) == (1200, 5000, 3)
    assert (progress.loss, progress.steps_per_second) == ("0.1131", "12.5")
    assert (progress.estimated_remaining_seconds, progress.time) == (304, later(-5))


def test_progress_of_others_is_not_taken():
    assert said(running(gang()), WORKER, Report(step=7)).status.progress is None


def test_without_a_chief_worker_0_leads():
    assert said(running(mirrored()), WORKER, Report(step=7)).status.progress.step == 7


def test_a_report_of_an_earlier_attempt_is_not_taken():
    of = running(gang())
    assert said(of, CHIEF, Report(step=7, attempt=9)).status.progress is None


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_written_as_a_word(loss):
    progress = said(running(gang()), CHIEF, Report(step=1, loss=loss)).status.progress
    assert progress.loss in {"NaN", "Infinity", "-Infinity"}


@pytest.mark.parametrize("rate", [None, 0.0, -1.0, math.nan, math.inf])
def test_without_a_rate_there_is_no_estimate(rate):
    progress = said(running(gang()), CHIEF, Report(step=1, total_steps=9, steps_per_second=rate)).status.progress
    assert progress.estimated_remaining_seconds is None


def test_without_a_total_the_step_stands_alone():
    assert said(running(gang()), CHIEF, Report(step=1200, loss=0.5)).status.progress.summary == "step 1200 loss 0.5"


def test_progress_alone_is_not_urgent():
    of = running(gang())
    plan = planned(of, world(*all_pods(of), reports={CHIEF: Report(step=7)}))
    assert (plan.status is not None, plan.urgent) == (True, False)


def test_the_same_report_again_is_not_written():
    report = Report(step=7, loss=math.nan, metrics={"auc": 0.5}, model_location="/m", checkpoint_step=5)
    of = said(running(gang()), CHIEF, report)
    assert planned(of, world(*all_pods(of), reports={CHIEF: report}), later(60)).status is None


def test_a_report_from_a_clock_that_is_ahead_is_dated_now():
    assert said(running(gang()), CHIEF, Report(step=7, time=later(99))).status.progress.time == NOW


# --- checkpoint, model, evaluation ---


def test_a_checkpoint_keeps_the_time_it_was_first_seen_at():
    report = Report(checkpoint_step=1000, checkpoint_location="/disttrain/checkpoints")
    first = said(running(gang()), CHIEF, report)
    second = said(first, CHIEF, replace(report, step=1100), later(60))
    assert (second.status.checkpoint.step, second.status.checkpoint.time) == (1000, NOW)


def test_the_model_is_known_from_the_leaders_last_word():
    of = running(gang())
    last = Report(step=9, model_location="/disttrain/model", metrics={"accuracy": 0.97})
    status = after(of, world(*all_pods(of, chief_0=pod("chief", exit=exited(0, report=last))))).status
    assert status.is_true(names.SUCCEEDED)
    assert (status.model.location, status.model.metrics[0].value) == ("/disttrain/model", "0.97")
    assert status.progress.step == 9


def test_an_evaluation_is_the_evaluators():
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    report = Report(evaluation_step=1000, evaluation_metrics={"loss": 0.5, "auc": 0.91})
    evaluation = said(of, EVALUATOR, report).status.evaluation
    assert (evaluation.step, [(m.name, m.value) for m in evaluation.metrics]) == (
        1000,
        [("auc", "0.91"), ("loss", "0.5")],
    )


def test_an_evaluation_of_the_leader_is_taken_where_no_evaluator_has_one():
    assert said(running(gang()), CHIEF, Report(evaluation_step=3)).status.evaluation.step == 3


def test_the_last_evaluation_is_taken_after_the_job_has_succeeded():
    of = running(gang(roles={"chief": 1, "worker": 1, "evaluator": 1}))
    done = after(of, world(*all_pods(of, chief_0=pod("chief", exit=exited(0)))))
    last = pod("evaluator", exit=exited(0, report=Report(evaluation_step=5000)))
    assert after(done, world(pod("chief", exit=exited(0)), last)).status.evaluation.step == 5000


# --- lastResume ---


def restarted(of, report=None, **lost):
    """The job, having been at step 1200, after a replica was lost and everybody is back in attempt 2."""
    of = said(of, of_leader(of), Report(step=1200))
    ((slot, lost_pod),) = lost.items()
    failed = after(of, world(*all_pods(of, **{slot: lost_pod})), later(10))
    gone = after(failed, world(*surviving(of, failed)), later(20))
    back = world(*surviving(of, failed), *replaced(of, failed), reports={of_leader(of): report} if report else {})
    return after(gone, back, later(30)), back


def of_leader(of):
    return CHIEF if of.spec.replicas("chief") else WORKER


def surviving(of, failed):
    doomed = failed.status.accounted_pods
    gang_restarts = of.spec.strategy != names.PARAMETER_SERVER
    return [p for p in all_pods(of) if not gang_restarts and p.uid not in doomed]


def replaced(of, failed):
    left = {(p.role, p.index) for p in surviving(of, failed)}
    return [p for p in all_pods(of, 2) if (p.role, p.index) not in left]


WORKER_1_FAILS = {"worker_1": pod("worker", 1, exit=exited(1))}


def test_a_restarted_leader_says_where_it_resumed():
    of, _ = restarted(running(gang()), **WORKER_1_FAILS)
    assert of.status.last_resume is None
    back = said(of, CHIEF, Report(resumed_from=1000, step=1001, attempt=2), later(60))
    resume = back.status.last_resume
    assert (resume.from_step, resume.lost_steps, resume.time) == (1000, 200, later(60))
    assert back.status.progress.step == 1001


def test_a_resume_is_written_once():
    of, _ = restarted(running(gang()), **WORKER_1_FAILS)
    first = said(of, CHIEF, Report(resumed_from=1000, step=1001, attempt=2), later(60))
    second = said(first, CHIEF, Report(resumed_from=1000, step=1500, attempt=2), later(90))
    assert (second.status.last_resume, second.status.progress.step) == (first.status.last_resume, 1500)


def test_the_report_of_the_dead_leader_is_not_taken_for_the_new_ones():
    of, _ = restarted(running(gang()), Report(resumed_from=0, step=1200, attempt=1), **WORKER_1_FAILS)
    assert of.status.last_resume is None


def test_a_leader_that_began_anew_lost_everything():
    of, _ = restarted(running(gang()), Report(resumed_from=0, step=3, attempt=2), **WORKER_1_FAILS)
    assert (of.status.last_resume.from_step, of.status.last_resume.lost_steps) == (0, 1200)


def test_the_last_word_of_the_failed_leader_tells_how_far_it_had_been():
    last = pod("chief", exit=exited(1, report=Report(step=1250, attempt=1)))
    of, _ = restarted(running(gang()), Report(resumed_from=1000, attempt=2), chief_0=last)
    assert (of.status.last_resume.from_step, of.status.last_resume.lost_steps) == (1000, 250)


def test_a_leader_that_went_on_lost_nothing():
    of, _ = restarted(running(parameter_server()), Report(step=1300, resumed_from=0, attempt=1), **WORKER_1_FAILS)
    assert (of.status.last_resume.from_step, of.status.last_resume.lost_steps) == (1300, 0)


def test_a_leader_that_went_on_keeps_reporting_while_others_restart():
    of = said(running(parameter_server()), CHIEF, Report(step=1200))
    lost = after(of, world(*all_pods(of, **WORKER_1_FAILS)))
    rest = [p for p in all_pods(of) if (p.role, p.index) != ("worker", 1)]
    assert after(lost, world(*rest, reports={CHIEF: Report(step=1250)})).status.progress.step == 1250


def test_a_leader_that_succeeds_before_everybody_was_seen_back_still_says_where_it_resumed():
    of = said(running(gang()), CHIEF, Report(step=1200))
    lost = after(of, world(*all_pods(of, **WORKER_1_FAILS)), later(10))
    last = exited(0, report=Report(step=5000, resumed_from=1000, attempt=2))
    done = after(lost, world(*all_pods(of, 2, chief_0=pod("chief", 0, 2, exit=last))), later(30))
    assert done.status.is_true(names.SUCCEEDED)
    assert (done.status.last_resume.from_step, done.status.last_resume.lost_steps) == (1000, 200)


def test_a_first_start_is_no_resume():
    assert said(running(gang()), CHIEF, Report(resumed_from=0, step=1)).status.last_resume is None


def test_a_job_resumed_from_suspension_says_where():
    of = said(running(gang()), CHIEF, Report(step=1200))
    suspended = after(respecified(of, roles={"chief": 1, "worker": 2}, suspend=True), world(*all_pods(of)), later(10))
    resumed = after(respecified(suspended, roles={"chief": 1, "worker": 2}), world(), later(20))
    back = after(resumed, world(*all_pods(of, 2), reports={CHIEF: Report(resumed_from=1150, step=1151)}), later(30))
    assert (back.status.last_resume.from_step, back.status.last_resume.lost_steps) == (1150, 50)


def test_a_job_first_started_from_suspension_resumes_nothing():
    created = after(gang(suspend=True), world())
    started = after(stored(respecified(created, roles={"chief": 1, "worker": 2}), created.status), world(), later(20))
    assert said(started, CHIEF, Report(resumed_from=0, step=1), later(30)).status.last_resume is None


# --- words ---


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.11309, "0.1131"), (12.5, "12.5"), (1234.56, "1235"), (123456.7, "123457"), (1e20, "1e+20"), (0.0, "0")],
)
def test_numbers_are_plain(number, text):
    assert plain(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1s"), (59, "59s"), (60, "1m"), (304, "5m"), (3600, "1h"), (7500, "2h5m"), (86_400, "1d"), (277_200, "3d5h")],
)
def test_durations_have_their_two_largest_units(seconds, text):
    assert duration(seconds) == text
