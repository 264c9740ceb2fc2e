"""What the agent does on which event: a pure state machine, the shell around it is `disttrain_agent.agent`.

    waiting --gate opened--> running --stop--> [holding --leader gone / limit / second stop-->] stopping --> exited
       |                        |                                                                    ^
       +--cannot start, stop    +---------------------------- child exited --------------------------+

Times are seconds of one monotonic clock. There is one child: `Spawn` is ordered once, on the way from waiting to
running, and the machine always ends: a stop leads to SIGKILL, and SIGKILL without an exit to giving up.
"""

from __future__ import annotations

import enum
import signal
from dataclasses import dataclass, replace
from typing import Final, Optional, Tuple, Union

from disttrain_agent import contract

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""Both ask for the end: SIGTERM by the kubelet, SIGINT where an image's STOPSIGNAL or a terminal says so."""

FORWARDED_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

RESERVE_SECONDS: Final = 5.0  # of the pod's grace period, kept for SIGKILL, the last word and the agent's own end
PARENT_LIMIT_SECONDS: Final = 2.0  # nobody waits for us any more when `disttrain run` itself was killed
PARENT_MARGIN_SECONDS: Final = 0.5
GIVE_UP_SECONDS: Final = 5.0  # after SIGKILL: a process in uninterruptible sleep (a dead NFS server) does not exit


class Phase(enum.Enum):
    """Where the agent is; the values are the states of `contract`."""

    WAITING = contract.STATE_GATE
    RUNNING = contract.STATE_RUNNING
    HOLDING = "holding"  # served as "stopping": SIGTERM came, but the leader still saves what this process holds
    STOPPING = contract.STATE_STOPPING
    EXITED = contract.STATE_EXITED


@dataclass(frozen=True)
class Rules:
    """`limit`: seconds from a stop to SIGKILL, or to the end of a hold; `margin`: from a spent hold to SIGKILL."""

    limit: float
    margin: float
    holds: bool

    @staticmethod
    def of(grace: float, holds: bool) -> Rules:
        """For a pod with this grace period: 120 s give SIGKILL after 115 s; under 10 s, half of it is the reserve."""
        limit = max(grace - RESERVE_SECONDS, grace / 2)
        return Rules(limit=limit, margin=(grace - limit) / 2, holds=holds)


@dataclass(frozen=True)
class State:
    """Everything the machine remembers."""

    phase: Phase = Phase.WAITING
    hold_until: Optional[float] = None
    kill_at: Optional[float] = None
    give_up_at: Optional[float] = None
    stopped: bool = False
    """Somebody asked for the end, so an end by that signal is no failure of the program's own."""
    killed: bool = False
    """The agent itself sent SIGKILL."""
    exit_code: Optional[int] = None
    reason: Optional[str] = None

    def wake_at(self) -> Optional[float]:
        """When to call `decide` with a `Tick` at the latest."""
        times = [time for time in (self.hold_until, self.kill_at, self.give_up_at) if time is not None]
        return min(times) if times and self.phase is not Phase.EXITED else None


@dataclass(frozen=True)
class GateOpened:
    """Every peer answers."""


@dataclass(frozen=True)
class CannotStart:
    """The training process will not be started: a peer is missing, the agent's port is taken."""

    code: int
    reason: str


@dataclass(frozen=True)
class Signalled:
    """A signal for the agent. `number` is one of FORWARDED_SIGNALS."""

    number: int


@dataclass(frozen=True)
class ParentGone:
    """`disttrain run`, which started this agent, ended without stopping it."""


@dataclass(frozen=True)
class LeaderGone:
    """The leader's process ended or its agent does not answer any more: it saves nothing now."""


@dataclass(frozen=True)
class ChildExited:
    """`code` as a shell has it: 128 + n after signal n."""

    code: int


@dataclass(frozen=True)
class Tick:
    """Time passed."""


Event = Union[GateOpened, CannotStart, Signalled, ParentGone, LeaderGone, ChildExited, Tick]


@dataclass(frozen=True)
class Spawn:
    """Start the training process."""


@dataclass(frozen=True)
class SignalChild:
    """To the training process alone."""

    number: int


@dataclass(frozen=True)
class SignalGroup:
    """To every process of the child's group."""

    number: int


@dataclass(frozen=True)
class KillGroup:
    """SIGKILL to what is left of the child's group."""


Action = Union[Spawn, SignalChild, SignalGroup, KillGroup]
Decision = Tuple[State, Tuple[Action, ...]]


def decide(rules: Rules, state: State, event: Event, now: float) -> Decision:
    """The next state and what to do to get there. After the end every event is ignored."""
    if state.phase is Phase.EXITED:
        return state, ()
    if state.phase is Phase.WAITING:
        return _before_start(state, event)
    if isinstance(event, ChildExited):
        return _child_exited(state, event.code)
    if isinstance(event, (Signalled, ParentGone)):
        return _signalled(rules, state, event, now)
    if isinstance(event, LeaderGone):
        return _release(state) if state.phase is Phase.HOLDING else (state, ())
    return _tick(state, now) if isinstance(event, Tick) else (state, ())


def _before_start(state: State, event: Event) -> Decision:
    if isinstance(event, GateOpened):
        return replace(state, phase=Phase.RUNNING), (Spawn(),)
    if isinstance(event, CannotStart):
        return _end(state, event.code, event.reason), ()
    number = event.number if isinstance(event, Signalled) else signal.SIGTERM if isinstance(event, ParentGone) else None
    if number in STOP_SIGNALS:
        return _end(state, 128 + number, contract.REASON_STOPPED), ()
    return state, ()  # nobody to pass a signal on to


def _end(state: State, code: int, reason: str) -> State:
    return replace(
        state, phase=Phase.EXITED, hold_until=None, kill_at=None, give_up_at=None, exit_code=code, reason=reason
    )


def _child_exited(state: State, code: int) -> Decision:
    if code == 0:
        reason = contract.REASON_COMPLETED
    elif code == contract.EXIT_SAVED:
        reason = contract.REASON_SAVED
    elif state.killed:
        reason = contract.REASON_KILLED
    elif state.stopped:
        reason = contract.REASON_STOPPED
    else:
        reason = contract.REASON_ERROR
    return _end(state, code, reason), (KillGroup(),)


def _signalled(rules: Rules, state: State, event: Union[Signalled, ParentGone], now: float) -> Decision:
    if isinstance(event, ParentGone):
        hurried = Rules(limit=PARENT_LIMIT_SECONDS, margin=PARENT_MARGIN_SECONDS, holds=rules.holds)
        return _stop(hurried, state, signal.SIGTERM, now)
    if event.number not in STOP_SIGNALS:
        return state, (SignalChild(event.number),)
    if state.phase is Phase.HOLDING:
        return _release(state)  # asked twice: whoever asks does not want us to wait for the leader
    return _stop(rules, state, event.number, now)


def _stop(rules: Rules, state: State, number: int, now: float) -> Decision:
    """A repeated stop is passed on again; it can bring the end nearer, never put it off."""
    limit, after_hold = now + rules.limit, now + rules.limit + rules.margin
    if state.phase is Phase.HOLDING or (state.phase is Phase.RUNNING and rules.holds):
        holding = replace(
            state,
            phase=Phase.HOLDING,
            stopped=True,
            hold_until=_earlier(state.hold_until, limit),
            kill_at=_earlier(state.kill_at, after_hold),
        )
        return holding, ()
    kill_at = None if state.killed else _earlier(state.kill_at, limit)
    stopping = replace(state, phase=Phase.STOPPING, stopped=True, kill_at=kill_at)
    return stopping, (SignalGroup(number) if number == signal.SIGTERM else SignalChild(number),)


def _release(state: State) -> Decision:
    return replace(state, phase=Phase.STOPPING, hold_until=None), (SignalGroup(signal.SIGTERM),)


def _tick(state: State, now: float) -> Decision:
    if state.hold_until is not None and now >= state.hold_until:
        return _release(state)
    if state.kill_at is not None and now >= state.kill_at:
        return replace(state, kill_at=None, killed=True, give_up_at=now + GIVE_UP_SECONDS), (KillGroup(),)
    if state.give_up_at is not None and now >= state.give_up_at:
        return _end(state, 128 + signal.SIGKILL, contract.REASON_KILLED), ()
    return state, ()


def _earlier(one: Optional[float], other: float) -> float:
    return other if one is None else min(one, other)
