"""A stand-in for a training program: counts steps, reports and saves like one, and fails on request. No TensorFlow.

    python program.py [--steps N] [--fail REPLICA ATTEMPT] [--hold ATTEMPT] [--deaf]

The leader saves its step every 5 steps. `--fail worker-1 1`: worker-1 exits 3 at step 12 in attempt 1, where the others
wait for it, as in a collective. `--hold 1`: all stay at step 12 in attempt 1 until a signal comes. `--deaf` ignores
SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from disttrain_agent import contract
from disttrain_agent.cluster import Cluster

TURN = 12  # the step at which it fails or holds: past the checkpoint of step 10


def main() -> None:
    flags = _flags()
    replica = f"{os.environ[contract.ENV_ROLE]}-{os.environ[contract.ENV_INDEX]}"
    attempt = int(os.environ[contract.ENV_ATTEMPT])
    role, index = Cluster.from_json(os.environ[contract.ENV_CLUSTER]).leader()
    training = _Training(leader=replica == f"{role}-{index}", steps=flags.steps)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if flags.deaf else training.stop)
    holding = (flags.hold, int(flags.fail[1]) if flags.fail else None)
    print(f"{replica} begins attempt {attempt}", flush=True)
    training.begin()
    while training.step < flags.steps:
        training.advance()
        if training.step == TURN and flags.fail == [replica, str(attempt)]:
            training.tell("error", message="the data ran out")
            sys.exit(3)
        while training.step == TURN and attempt in holding:
            time.sleep(0.05)
    training.end()
    print(f"{replica} ends at step {training.step}", flush=True)


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--fail", nargs=2, default=[])
    parser.add_argument("--hold", type=int)
    parser.add_argument("--deaf", action="store_true")
    return parser.parse_args()


class _Training:
    def __init__(self, leader: bool, steps: int) -> None:
        self.step = 0
        self._leader = leader
        self._steps = steps
        run_dir = Path(os.environ[contract.ENV_RUN_DIR])
        self._checkpoints = run_dir / contract.CHECKPOINT_DIR
        self._model = run_dir / contract.MODEL_DIR
        self._agent = socket.socket(fileno=int(os.environ[contract.ENV_REPORT_FD]))

    def tell(self, event: str, **what: object) -> None:
        self._agent.send(json.dumps({"event": event, **what}).encode())

    def begin(self) -> None:
        self._checkpoints.mkdir(exist_ok=True)
        saved = [int(path.name) for path in self._checkpoints.iterdir()]
        self.step = max(saved, default=0)
        self.tell("resumed", step=self.step)
        self.tell("phase", phase="training")

    def advance(self) -> None:
        self.step += 1
        self.tell("step", step=self.step, totalSteps=self._steps, loss=1 / self.step)
        if self.step % 5 == 0:
            self._save()

    def end(self) -> None:
        if self._leader:
            self._model.mkdir(exist_ok=True)
            self.tell("exported", location=str(self._model), metrics={"accuracy": 0.96875})
        self.tell("finished")

    def stop(self, *_: object) -> None:
        self._save()
        sys.exit(contract.EXIT_SAVED)

    def _save(self) -> None:
        if self._leader:
            (self._checkpoints / str(self.step)).touch()
            self.tell("saved", step=self.step, location=str(self._checkpoints))


if __name__ == "__main__":
    main()
