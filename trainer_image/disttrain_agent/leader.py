"""Waiting, during a stop, until the leader has nothing left to save from this process."""

from __future__ import annotations

import asyncio
from typing import Final

from disttrain_agent import client, contract
from disttrain_agent.environment import Settings
from disttrain_agent.log import log

POLL_SECONDS: Final = 0.5
MEMBERS_A_SECOND: Final = 1000  # so many requests the leader's agent answers beside its own work
FAILURES: Final = 3  # in a row: one lost request is not a dead leader
SHARED_STOP_SECONDS: Final = 5.0  # a stop of the whole job reaches the leader within this


async def until_gone(settings: Settings, shared_stop_seconds: float = SHARED_STOP_SECONDS) -> None:
    """Returns when the leader's process has ended, has not begun, or its agent does not answer as this job's.

    Also when the leader simply trains on after `shared_stop_seconds`: then only this pod is being stopped (a deleted
    or drained worker), nobody is saving, and holding on would keep its replacement waiting.
    No deadline of its own: the caller has one.
    """
    role, index = settings.cluster.leader()
    pause = max(POLL_SECONDS, len(settings.cluster.members()) / MEMBERS_A_SECOND)
    clock = asyncio.get_running_loop().time
    alone_at = clock() + shared_stop_seconds
    failures = 0
    while failures < FAILURES:
        try:
            document = await client.get_status(settings.cluster.agent_address(role, index))
            failures = 0
            if document.get("uid") != settings.identity.uid:
                log(f"the address of {role}-{index} answers for another job")
                return
            if document.get("state") in (contract.STATE_EXITED, contract.STATE_GATE):
                log(f"{role}-{index} is {document['state']}")
                return
            if document.get("state") == contract.STATE_RUNNING and clock() >= alone_at:
                log(f"{role}-{index} trains on: only this replica is being stopped")
                return
        except client.BusyError:
            failures = 0
        except client.PeerError as error:
            failures += 1
            if failures == FAILURES:
                log(f"{role}-{index} {error}")
        await asyncio.sleep(pause)
