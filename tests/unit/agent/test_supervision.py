"""The agent's decisions: what follows from which event, whatever came before."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disttrain_agent import contract, supervision
from disttrain_agent.supervision import (
    CannotStart,
    ChildExited,
    Event,
    GateOpened,
    KillGroup,
    LeaderGone,
    ParentGone,
    Phase,
    Rules,
    SignalChild,
    SignalGroup,
    Signalled,
    Spawn,
    State,
    Tick,
    decide,
)
from tests.unit.agent.harness import whatever_the_load

PLAIN = Rules.of(grace=120, holds=False)
HOLDS = Rules.of(grace=120, holds=True)
TERM = Signalled(signal.SIGTERM)


def after(rules: Rules, *events: Event | tuple[float, Event]) -> tuple[State, tuple[supervision.Action, ...]]:
    """The state after these events (at time 0 unless given) and the actions of the last."""
    state, actions = State(), ()
    for event in events:
        now, happened = event if isinstance(event, tuple) else (0.0, event)
        state, actions = decide(rules, state, happened, now)
    return state, actions


def test_the_open_gate_starts_the_child() -> None:
    state, actions = after(PLAIN, GateOpened())
    assert (state.phase, actions) == (Phase.RUNNING, (Spawn(),))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_at_the_gate_ends_at_once(number: signal.Signals, code: int) -> None:
    state, actions = after(PLAIN, Signalled(number))
    assert (state.exit_code, state.reason, actions) == (code, contract.REASON_STOPPED, ())


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_other_signals_at_the_gate_change_nothing(number: signal.Signals) -> None:
    assert after(PLAIN, Signalled(number)) == (State(), ())


def test_a_gate_that_gives_up_ends_with_its_code() -> None:
    state, _ = after(PLAIN, CannotStart(75, "PeersMissing"))
    assert (state.phase, state.exit_code, state.reason) == (Phase.EXITED, 75, "PeersMissing")


@pytest.mark.parametrize(
    ("events", "code", "reason"),
    [
        ([], 0, contract.REASON_COMPLETED),
        ([], 3, contract.REASON_ERROR),
        ([], 137, contract.REASON_ERROR),
        ([], 42, contract.REASON_SAVED),
        ([TERM], 42, contract.REASON_SAVED),
        ([TERM], 0, contract.REASON_COMPLETED),
        ([TERM], 143, contract.REASON_STOPPED),
        ([TERM, (115.0, Tick())], 137, contract.REASON_KILLED),
    ],
)
def test_the_childs_exit_code_passes_through(events: list[Event], code: int, reason: str) -> None:
    state, actions = after(PLAIN, GateOpened(), *events, ChildExited(code))
    assert (state.exit_code, state.reason, actions) == (code, reason, (KillGroup(),))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_other_signals_are_passed_to_the_child_alone(number: signal.Signals) -> None:
    state, actions = after(PLAIN, GateOpened(), Signalled(number))
    assert (state.phase, actions) == (Phase.RUNNING, (SignalChild(number),))


def test_sigterm_goes_to_the_group_and_starts_the_clock() -> None:
    state, actions = after(PLAIN, GateOpened(), (7.0, TERM))
    assert (state.phase, actions, state.wake_at()) == (Phase.STOPPING, (SignalGroup(signal.SIGTERM),), 7.0 + 115.0)


def test_sigint_goes_to_the_child_and_starts_the_clock() -> None:
    state, actions = after(PLAIN, GateOpened(), Signalled(signal.SIGINT))
    assert (actions, state.wake_at()) == ((SignalChild(signal.SIGINT),), 115.0)


def test_a_repeated_sigterm_is_passed_on_and_puts_nothing_off() -> None:
    state, actions = after(PLAIN, GateOpened(), TERM, (60.0, TERM))
    assert (actions, state.wake_at()) == ((SignalGroup(signal.SIGTERM),), 115.0)


def test_the_group_is_killed_when_the_grace_is_spent() -> None:
    _, actions = after(PLAIN, GateOpened(), TERM, (115.0, Tick()))
    assert actions == (KillGroup(),)


def test_a_child_that_survives_sigkill_is_given_up() -> None:
    state, _ = after(PLAIN, GateOpened(), TERM, (115.0, Tick()), (120.0, Tick()))
    assert (state.phase, state.exit_code, state.reason) == (Phase.EXITED, 137, contract.REASON_KILLED)


def test_a_gone_parent_leaves_two_seconds() -> None:
    state, actions = after(PLAIN, GateOpened(), (10.0, ParentGone()))
    assert (actions, state.wake_at()) == ((SignalGroup(signal.SIGTERM),), 12.0)


def test_a_gone_parent_shortens_a_stop_under_way() -> None:
    state, _ = after(PLAIN, GateOpened(), TERM, (10.0, ParentGone()))
    assert state.wake_at() == 12.0


@pytest.mark.parametrize(("grace", "limit"), [(120, 115), (30, 25), (10, 5), (4, 2), (0, 0)])
def test_the_reserve_is_five_seconds_or_half_of_a_short_grace(grace: float, limit: float) -> None:
    assert Rules.of(grace, holds=False).limit == limit


def test_a_holder_waits_for_the_leader_before_it_stops_its_child() -> None:
    state, actions = after(HOLDS, GateOpened(), TERM)
    assert (state.phase, actions, state.wake_at()) == (Phase.HOLDING, (), 115.0)


@pytest.mark.parametrize("release", [LeaderGone(), TERM, (115.0, Tick())], ids=["leader", "second stop", "limit"])
def test_a_hold_ends_with_the_leader_a_second_stop_or_its_limit(release: Event) -> None:
    state, actions = after(HOLDS, GateOpened(), TERM, release)
    assert (state.phase, actions) == (Phase.STOPPING, (SignalGroup(signal.SIGTERM),))


def test_a_spent_hold_leaves_its_child_time_before_sigkill() -> None:
    state, _ = after(HOLDS, GateOpened(), TERM, (115.0, Tick()))
    assert state.wake_at() == 117.5


def test_a_gone_parent_shortens_a_hold() -> None:
    state, _ = after(HOLDS, GateOpened(), TERM, (10.0, ParentGone()))
    assert (state.phase, state.wake_at()) == (Phase.HOLDING, 12.0)


def test_a_leader_that_goes_while_all_runs_is_no_stop() -> None:
    state, actions = after(HOLDS, GateOpened(), LeaderGone())
    assert (state.phase, actions) == (Phase.RUNNING, ())


EVENTS = st.one_of(
    st.sampled_from([GateOpened(), CannotStart(75, "PeersMissing"), ParentGone(), LeaderGone(), Tick()]),
    st.sampled_from(supervision.FORWARDED_SIGNALS).map(Signalled),
    st.integers(0, 255).map(ChildExited),
)
HISTORIES = st.lists(st.tuples(st.floats(0, 200), EVENTS), max_size=30)
RULES = st.builds(Rules.of, grace=st.floats(0, 300), holds=st.booleans())


def play(rules: Rules, history: list[tuple[float, Event]]) -> list[tuple[float, Event, State, tuple[object, ...]]]:
    """Each event after the pause before it: (time, event, state, actions)."""
    now, state, played = 0.0, State(), []
    for pause, event in history:
        now += pause
        state, actions = decide(rules, state, event, now)
        played.append((now, event, state, actions))
    return played


@whatever_the_load
@given(RULES, HISTORIES)
def test_there_are_never_two_children(rules: Rules, history: list[tuple[float, Event]]) -> None:
    spawned = [action for *_, actions in play(rules, history) for action in actions if isinstance(action, Spawn)]
    assert len(spawned) <= 1


@whatever_the_load
@given(RULES, HISTORIES)
def test_sigkill_comes_after_the_grace_or_after_the_childs_end(
    rules: Rules, history: list[tuple[float, Event]]
) -> None:
    allowed = float("inf")
    for now, event, _, actions in play(rules, history):
        if isinstance(event, Signalled) and event.number in supervision.STOP_SIGNALS:
            allowed = min(allowed, now + rules.limit)
        if isinstance(event, ParentGone):
            allowed = min(allowed, now + supervision.PARENT_LIMIT_SECONDS)
        assert KillGroup() not in actions or isinstance(event, ChildExited) or now >= allowed


@whatever_the_load
@given(RULES, HISTORIES)
def test_a_stop_always_leads_to_the_end(rules: Rules, history: list[tuple[float, Event]]) -> None:
    *_, state, _ = play(rules, [*history, (0.0, TERM)])[-1]
    ticks = 0
    while (wake_at := state.wake_at()) is not None:
        state, _ = decide(rules, state, Tick(), wake_at)
        ticks += 1
        assert ticks <= 3
    assert state.phase is Phase.EXITED


@whatever_the_load
@given(RULES, HISTORIES)
def test_nothing_follows_the_end(rules: Rules, history: list[tuple[float, Event]]) -> None:
    ended: State | None = None
    for _, _, state, actions in play(rules, history):
        assert ended is None or (state is ended and actions == ())
        ended = state if state.phase is Phase.EXITED else None


@whatever_the_load
@given(RULES, HISTORIES)
def test_the_end_has_a_code_and_a_reason(rules: Rules, history: list[tuple[float, Event]]) -> None:
    for _, _, state, _ in play(rules, history):
        assert (state.phase is Phase.EXITED) == (state.exit_code is not None) == (state.reason is not None)
