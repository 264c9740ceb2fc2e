"""The gate: the training process starts when every peer is there; TensorFlow hangs in silence on one that is not.

A peer is there when its name resolves and its agent answers `GET /v1/status` with this job's uid, its own role and
index and, where the whole gang restarts together, this attempt. One that stops or has failed does not count, for it is
about to be replaced; one that has finished with success does: a restarted job may have nothing left to do.

A pod whose image has no command cannot be given an agent, so nobody answers on its agent port. It counts as there when
its host *refuses* the agent's port (so it is up, and has no agent that is merely late: an agent listens before
anything else) and its TensorFlow port accepts, three probes in a row. Job and attempt cannot be checked then. This
never makes two processes wait for each other: without an agent there is no gate, TensorFlow's server comes up at once.

Cost for n peers: n answered probes in each process, so n * n in the whole job, each one lookup and one small request,
started at a different peer by each. Waiting adds little: at most FAN_OUT peers are being tried at any time, each at
most once a second in the end; the others are tried when one of these has answered. So a process that waits for 3,000
peers sends no more than one that waits for 16, and names those it has tried.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Callable, Deque, Dict, Final, Mapping, Optional, Sequence, Tuple

from disttrain_agent import client, contract
from disttrain_agent.environment import Settings
from disttrain_agent.log import log

FAN_OUT: Final = 16
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 1.0
PROBES_WITHOUT_AGENT: Final = 3
MAX_NAMED: Final = 15  # peers named in a message; the rest are counted
MAX_REASON: Final = 100  # characters
REPORT_SECONDS: Final = 10.0  # between log lines that say the same
CHANGE_SECONDS: Final = 1.0  # between log lines that do not

Peer = Tuple[str, int]


class PeersMissingError(Exception):
    """The deadline passed. The text names who is missing and why."""


@dataclass(frozen=True)
class Expected:
    """What a peer's status must say. `attempt` None: any (ParameterServer restarts roles one by one)."""

    uid: str
    role: str
    index: int
    attempt: Optional[int]


def objection(document: Mapping[str, Any], expected: Expected) -> Optional[str]:
    """Why this status is not that of a peer to train with; None when it is."""
    if document.get("uid") != expected.uid:
        return f"answers for another job (uid {_shown(document.get('uid'))}, this job's is {expected.uid})"
    task = (document.get("role"), document.get("index"))
    if task != (expected.role, expected.index):
        return f"answers as {_shown(task[0])}-{_shown(task[1])}"
    attempt = document.get("attempt")
    if expected.attempt is not None and attempt != expected.attempt:
        older = isinstance(attempt, int) and attempt < expected.attempt
        return f"is of {'an older' if older else 'another'} attempt ({_shown(attempt)}, this is {expected.attempt})"
    state = document.get("state")
    finished = state == contract.STATE_EXITED and document.get("exitCode") == 0
    if state in (contract.STATE_GATE, contract.STATE_RUNNING) or finished:
        return None
    return f"is {_shown(state)}"


class Gate:
    """Waits for the peers of one task. `changed` is called whenever `waiting_for` may say something new."""

    def __init__(self, settings: Settings, changed: Callable[[], None]) -> None:
        self._settings = settings
        self._changed = changed
        self._reasons: Dict[Peer, str] = {}
        self._untried: Deque[Peer] = deque(settings.peers())
        self._resolver = ThreadPoolExecutor(FAN_OUT, thread_name_prefix="resolver")

    def waiting_for(self) -> Sequence[str]:
        """`role-index: why`, the first MAX_NAMED of them, then how many more."""
        tried = [f"{role}-{index}: {reason}" for (role, index), reason in sorted(self._reasons.items())]
        untried = [f"{role}-{index}: not tried yet" for role, index in islice(self._untried, MAX_NAMED)]
        named = (tried + untried)[:MAX_NAMED]
        more = len(tried) + len(self._untried) - len(named)
        return [*named, f"and {more} more"] if more else named

    async def wait(self) -> None:
        """Returns when every peer is there. Raises PeersMissingError after the settings' `gate_seconds`."""
        started, peers = time.monotonic(), len(self._untried)
        speaker = asyncio.ensure_future(self._speak())
        try:
            await asyncio.wait_for(
                asyncio.gather(*(self._take() for _ in range(min(FAN_OUT, peers)))), self._settings.gate_seconds
            )
        except asyncio.TimeoutError:
            raise PeersMissingError(
                f"after {self._settings.gate_seconds:g} s ({contract.ENV_GATE_SECONDS}) these peers are missing: "
                f"{'; '.join(self.waiting_for())}. See whether their pods run, and why not"
            ) from None
        finally:
            speaker.cancel()
            # Not waited for: a lookup that hangs in the C library cannot be cancelled.
            self._resolver.shutdown(wait=False)
        if peers:
            log(f"all {peers} peers are there, after {time.monotonic() - started:.1f} s")

    async def _take(self) -> None:
        """One of FAN_OUT: stays with a peer until it is there, then takes the next."""
        while self._untried:
            peer = self._untried.popleft()
            self._reasons[peer] = "has not answered yet"
            await self._until_there(peer)
            del self._reasons[peer]
            self._changed()

    async def _until_there(self, peer: Peer) -> None:
        pause, without_agent = FIRST_PAUSE_SECONDS, 0
        while True:
            try:
                reason = await self._ask(peer)
                without_agent = 0
            except client.RefusedError as error:
                reason = str(error)
                without_agent = without_agent + 1 if await self._trains(peer) else 0
                if without_agent == PROBES_WITHOUT_AGENT:
                    log(f"{peer[0]}-{peer[1]} has no agent; its TensorFlow port accepts, so it counts as there")
                    return
            except client.PeerError as error:
                reason, without_agent = str(error), 0
            if reason is None:
                return
            if self._reasons[peer] != reason[:MAX_REASON]:
                self._reasons[peer] = reason[:MAX_REASON]
                self._changed()
            await asyncio.sleep(pause * random.uniform(0.75, 1.0))  # noqa: S311  (spreads load, guards nothing)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _ask(self, peer: Peer) -> Optional[str]:
        role, index = peer
        expected = Expected(self._settings.identity.uid, role, index, self._settings.gang_attempt)
        document = await client.get_status(self._settings.cluster.agent_address(role, index), self._resolver)
        return objection(document, expected)

    async def _trains(self, peer: Peer) -> bool:
        return await client.accepts(self._settings.cluster.tf_address(*peer), self._resolver)

    async def _speak(self) -> None:
        """One log line when what we wait for changed, and each REPORT_SECONDS when it did not. A short wait: none."""
        said: Sequence[str] = ()
        said_at = time.monotonic()
        while True:
            await asyncio.sleep(CHANGE_SECONDS)
            waiting = self.waiting_for()
            if waiting != said or time.monotonic() - said_at >= REPORT_SECONDS:
                log(f"waiting for {'; '.join(waiting)}")
                said, said_at = waiting, time.monotonic()


def _shown(value: object) -> str:
    """A value that a stranger sent, fit for a message."""
    return "".join(c for c in str(value)[:40] if c.isprintable())
