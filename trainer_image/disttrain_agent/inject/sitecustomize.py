"""Sets TF_CONFIG inside a Python process whose TF_CONFIG is too long for an environment string.

`disttrain_agent.environment` puts this directory first on PYTHONPATH only then. Python imports `sitecustomize` before
the program; a user's own `sitecustomize`, which ours hides, is run next.
"""

# This runs at the start of every Python process of the job: no more imports than needed, so no pathlib.
# ruff: noqa: PTH100, PTH120

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))


def _compose() -> None:
    root = os.path.dirname(os.path.dirname(_HERE))
    sys.path.insert(0, root)
    try:
        from disttrain_agent import contract
        from disttrain_agent.cluster import Cluster, tf_config

        if contract.ENV_TF_CONFIG in os.environ or contract.ENV_CLUSTER not in os.environ:
            return  # the program's own doing, or not a process of a job
        role, index = os.environ[contract.ENV_ROLE], int(os.environ[contract.ENV_INDEX])
        config = tf_config(Cluster.from_json(os.environ[contract.ENV_CLUSTER]), role, index)
        if config is not None:
            os.environ[contract.ENV_TF_CONFIG] = config
            # Out of the C environment again: TensorFlow reads os.environ, and every program started from here would
            # fail with "Argument list too long".
            os.unsetenv(contract.ENV_TF_CONFIG)
    except Exception as error:  # noqa: BLE001
        # `site` would print this and go on, and TensorFlow without TF_CONFIG trains alone, in silence.
        os.write(2, f"disttrain-agent: cannot compose TF_CONFIG: {error!r}\n".encode("utf-8", "replace"))
        os._exit(64)
    finally:
        sys.path.remove(root)
        for name in [name for name in sys.modules if name.split(".")[0] == "disttrain_agent"]:
            del sys.modules[name]  # the program may bring another version


def _chain() -> None:
    """Run the `sitecustomize` that would have been found without ours, in our place."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    ours = sys.modules["sitecustomize"]
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = ours
        raise


_compose()
_chain()
