"""The wire between the operator (or `disttrain run`), the agent and the training process: every name once.

Stdlib only and Python >= 3.9, because this package runs in any image that has a Python.
`disttrain.names` re-exports what the operator writes into pods, so each name still has one home.
"""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = 1

# --- ports of a training pod (the same in every pod; `disttrain run` gives each role and index its own) ---
TF_PORT: Final = 2222
AGENT_PORT: Final = 2223

# --- environment that the operator (or the local executor) gives to the trainer container ---
ENV_JOB: Final = "DISTTRAIN_JOB"  # job name
ENV_JOB_UID: Final = "DISTTRAIN_JOB_UID"
ENV_NAMESPACE: Final = "DISTTRAIN_NAMESPACE"
ENV_STRATEGY: Final = "DISTTRAIN_STRATEGY"  # Mirrored | MultiWorkerMirrored | ParameterServer
ENV_ROLE: Final = "DISTTRAIN_ROLE"  # chief | worker | ps | evaluator
ENV_INDEX: Final = "DISTTRAIN_INDEX"  # 0..replicas-1 within the role
ENV_ATTEMPT: Final = "DISTTRAIN_ATTEMPT"  # 1, 2, ...: the pod generation, status.attempt when the pod was made
ENV_CLUSTER: Final = "DISTTRAIN_CLUSTER"  # JSON of `disttrain_agent.cluster.Cluster`, about 300 bytes
ENV_RUN_DIR: Final = "DISTTRAIN_RUN_DIR"  # the job's directory in storage; absent: no durable storage
ENV_CHECKPOINT: Final = "DISTTRAIN_CHECKPOINT"  # JSON {everySteps, everySeconds, keep, restoreFrom}
ENV_GRACE_SECONDS: Final = "DISTTRAIN_GRACE_SECONDS"  # the pod's terminationGracePeriodSeconds
ENV_AGENT_PORT: Final = "DISTTRAIN_AGENT_PORT"  # only where it is not AGENT_PORT
ENV_GATE_SECONDS: Final = "DISTTRAIN_GATE_SECONDS"  # how long to wait for the peers; default GATE_SECONDS
ENV_TERMINATION_LOG: Final = "DISTTRAIN_TERMINATION_LOG"  # where the last word goes; default TERMINATION_LOG
ENV_PARENT_FD: Final = "DISTTRAIN_PARENT_FD"  # `disttrain run` only: a pipe; its end of file: the parent is gone
ENV_TF_CONFIG: Final = "TF_CONFIG"

# --- environment that a person may set for the training process ---
ENV_CPU_DEVICES: Final = "DISTTRAIN_CPU_DEVICES"  # Mirrored without a GPU: train on so many logical CPU devices

# --- environment that the agent gives to the training process ---
ENV_REPORT_FD: Final = "DISTTRAIN_REPORT_FD"  # an inherited datagram socket; one JSON object a datagram

GATE_SECONDS: Final = 600
TERMINATION_LOG: Final = "/dev/termination-log"
TERMINATION_LOG_MAX_BYTES: Final = 4096  # Kubernetes keeps no more (container.terminationMessagePath)
REPORT_MAX_BYTES: Final = 8192

# One string of an execve may not be longer on Linux (MAX_ARG_STRLEN = 32 pages); past it exec fails with E2BIG.
MAX_ENV_STRING_BYTES: Final = 131_072
# Up to here the operator also writes the literal TF_CONFIG, so that an image without the agent works.
MAX_PODS_WITH_LITERAL_TF_CONFIG: Final = 128

# --- exit codes of the agent; a training process's own code (or 128 + signal) passes through unchanged ---
EXIT_SAVED: Final = 42  # the training process saved on SIGTERM; not counted as a failure
EXIT_USAGE: Final = 64  # sysexits EX_USAGE: the environment or the arguments are wrong; a restart cannot help
EXIT_INTERNAL_ERROR: Final = 70  # sysexits EX_SOFTWARE: a fault of the agent's own; its log has the traceback
EXIT_CANNOT_SERVE: Final = 71  # sysexits EX_OSERR: the agent's port is taken by somebody else
EXIT_PEERS_MISSING: Final = 75  # sysexits EX_TEMPFAIL: the gate's deadline passed; the message names the peers
EXIT_CANNOT_EXECUTE: Final = 126  # as a shell has it
EXIT_NOT_FOUND: Final = 127  # as a shell has it: the program to run does not exist

# --- files in the job's directory (ENV_RUN_DIR) ---
CHECKPOINT_DIR: Final = "checkpoints"
MODEL_DIR: Final = "model"
EVALUATION_FILE: Final = "evaluation.jsonl"
DONE_FILE: Final = "DONE"  # JSON {"step": int, "time": RFC 3339}; written last: training is complete

# --- datagrams training process -> agent: {"event": <one of these>, ...} ---
EVENT_PHASE: Final = "phase"  # {phase: starting|compiling|training|evaluating|saving|exporting}
EVENT_RESUMED: Final = "resumed"  # {step: int}: training continues from this checkpoint (0: from nothing)
EVENT_STEP: Final = "step"  # {step: int, totalSteps?: int, epoch?: int, loss?: float}
EVENT_SAVED: Final = "saved"  # {step: int, location: str}
EVENT_EVALUATED: Final = "evaluated"  # {step: int, metrics: {name: float}}
EVENT_EXPORTED: Final = "exported"  # {location: str, metrics?: {name: float}}
EVENT_ERROR: Final = "error"  # {message: str}: why the process is about to fail, one line
EVENT_FINISHED: Final = "finished"  # {}: the program reached its end

# --- states of an agent in GET /v1/status ---
STATE_GATE: Final = "waiting"  # for its peers; `waitingFor` names them
STATE_RUNNING: Final = "running"
STATE_STOPPING: Final = "stopping"  # SIGTERM was received and passed on (or is held for the leader's save)
STATE_EXITED: Final = "exited"

# --- how it ended: `reason` in GET /v1/status and in the termination message ---
REASON_CANNOT_SERVE: Final = "CannotServe"
REASON_COMPLETED: Final = "Completed"  # exit 0
REASON_ERROR: Final = "Error"  # the program's own failure, or a signal that the agent did not pass on
REASON_INTERNAL_ERROR: Final = "InternalError"
REASON_KILLED: Final = "Killed"  # by the agent: it did not end within the grace period
REASON_PEERS_MISSING: Final = "PeersMissing"
REASON_SAVED: Final = "Saved"  # exit 42
REASON_STOPPED: Final = "Stopped"  # it ended after a stop signal
REASON_USAGE_ERROR: Final = "UsageError"
