"""Every label, reason, environment variable, port and limit of DistTrain: once.

What the agent must know too is defined in `disttrain_agent.contract` (it runs in images that have no operator code)
and re-exported here.
"""

from __future__ import annotations

from typing import Final, Literal

from disttrain_agent import __version__, contract

# --- the resource ---
GROUP: Final = "disttrain.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "DistTrainJob"
PLURAL: Final = "disttrainjobs"
SINGULAR: Final = "disttrainjob"
SHORT_NAME: Final = "dtj"
OPERATOR: Final = "disttrain.dev/operator"  # our value of spec.managedBy
MANAGED_BY_MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
FIELD_MANAGER: Final = "disttrain-operator"

# --- strategies and roles ---
Strategy = Literal["Mirrored", "MultiWorkerMirrored", "ParameterServer"]
MIRRORED: Final = "Mirrored"
MULTI_WORKER_MIRRORED: Final = "MultiWorkerMirrored"
PARAMETER_SERVER: Final = "ParameterServer"

Role = Literal["chief", "worker", "ps", "evaluator"]
CHIEF: Final = "chief"
WORKER: Final = "worker"
PS: Final = "ps"
EVALUATOR: Final = "evaluator"
ROLES: Final[tuple[Role, ...]] = (CHIEF, WORKER, PS, EVALUATOR)  # the order of pods, status rows and displays

# --- labels of everything we make ---
LABEL_JOB_NAME: Final = "disttrain.dev/job-name"
LABEL_JOB_UID: Final = "disttrain.dev/job-uid"
LABEL_ROLE: Final = "disttrain.dev/role"
LABEL_INDEX: Final = "disttrain.dev/index"
LABEL_ATTEMPT: Final = "disttrain.dev/attempt"
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
APP_NAME: Final = "disttrain"

TRAINER_CONTAINER: Final = "trainer"
TRAINER_IMAGE: Final = f"disttrain-trainer:{__version__}"  # for trainer containers that name none
AGENT_IMAGE: Final = f"disttrain-agent:{__version__}"  # from which the agent is put into other images
AGENT_INIT_CONTAINER: Final = "disttrain-agent"
AGENT_VOLUME: Final = "disttrain-agent"
AGENT_MOUNT_PATH: Final = "/disttrain-agent"
STORAGE_VOLUME: Final = "disttrain-storage"
DEFAULT_MOUNT_PATH: Final = "/disttrain"
PORT_NAME_TF: Final = "tf"
PORT_NAME_AGENT: Final = "agent"
TF_PORT: Final = contract.TF_PORT
AGENT_PORT: Final = contract.AGENT_PORT

# --- limits ---
MAX_NAME_LENGTH: Final = 50  # so that <name>-evaluator-<index> and <name>-worker-9999 stay DNS labels (63)
NAME_PATTERN: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"  # RFC 1035 label, as a Service's name must be
MAX_WORKERS: Final = 10_000
MAX_PARAMETER_SERVERS: Final = 1_000
MAX_PODS: Final = MAX_WORKERS + MAX_PARAMETER_SERVERS + 2  # and a chief and an evaluator
DEFAULT_BACKOFF_LIMIT: Final = 6  # batch/v1 Job's
DEFAULT_GRACE_SECONDS: Final = 120  # time to save a checkpoint; used where the user's template sets none
DEFAULT_EVALUATOR_GRACE_SECONDS: Final = 300
MAX_MESSAGE_LENGTH: Final = 1024
RETRY_SECONDS: Final = 10  # between tries of a create that was refused, or whose name is taken

# --- condition types (metav1.Condition) ---
SUSPENDED: Final = "Suspended"
PODS_READY: Final = "PodsReady"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

# --- phases, derived from the conditions, for the printer column only ---
PHASE_PENDING: Final = "Pending"

# --- reasons of conditions and events ---
REASON_CREATED: Final = "Created"  # the job was accepted; its pods are being made
REASON_PODS_PENDING: Final = "PodsPending"
REASON_PODS_READY: Final = "PodsReady"
REASON_RUNNING: Final = "JobRunning"
REASON_SUSPENDED: Final = "JobSuspended"
REASON_RESUMED: Final = "JobResumed"
REASON_CHIEF_SUCCEEDED: Final = "ChiefSucceeded"
REASON_ALL_WORKERS_SUCCEEDED: Final = "AllWorkersSucceeded"
REASON_BACKOFF_LIMIT: Final = "BackoffLimitExceeded"  # batch/v1 Job's
REASON_INVALID_SPEC: Final = "InvalidSpec"
REASON_ROLE_FAILED: Final = "RoleFailed"  # a counted restart
REASON_DISRUPTED: Final = "Disrupted"  # an uncounted one
REASON_RESIZED: Final = "Resized"  # the number of replicas changed
REASON_RECOVERED: Final = "Recovered"
REASON_FINISHED: Final = "JobFinished"
REASON_WAITING_FOR_PREDECESSOR: Final = "WaitingForPredecessor"
REASON_NAME_IN_USE: Final = "NameInUse"
REASON_CREATE_REFUSED: Final = "CreateRefused"  # quota, Pod Security Admission, a webhook
REASON_POD_DELETED: Final = "PodDeleted"
REASON_POD_EXITED: Final = "PodExited"
REASON_SAVED_ON_SIGNAL: Final = "SavedOnSignal"  # exit 42
REASON_PEERS_MISSING: Final = "PeersMissing"  # the agent's gate gave up
REASON_USAGE_ERROR: Final = "UsageError"  # exit 64: the same again would fail the same way
REASON_INIT_CONTAINER_FAILED: Final = "InitContainerFailed"
REASON_EVALUATOR_FAILED: Final = "EvaluatorFailed"  # restarted by itself, never counted
EVENT_POD_CREATED: Final = "PodsCreated"
EVENT_PODS_DELETED: Final = "PodsDeleted"
