"""What must be true before the operator begins: asked once, so that what is wrong is said in one line and not in a
thousand failed requests."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from disttrain import names
from disttrain.controller.api_client import ApiClient
from disttrain.controller.api_errors import ApiError, Unauthorized, Unavailable
from disttrain.controller.connection import Connection
from disttrain.controller.keys import EVENT, JOB, NETWORK_POLICY, POD, RESOURCES, SERVICE

NEEDED: Final = (
    *((verb, JOB, "") for verb in ("list", "watch")),
    ("patch", JOB, "status"),
    *((verb, kind, "") for kind in (POD, SERVICE, NETWORK_POLICY) for verb in ("create", "delete", "list", "watch")),
    ("create", EVENT, ""),
)
"""All that the operator ever does, as (verb, kind, subresource)."""

EXIT_UNAVAILABLE: Final = os.EX_UNAVAILABLE  # the API server does not answer, or does not know our resource
EXIT_NO_PERMISSION: Final = os.EX_NOPERM
EXIT_CONFIG: Final = os.EX_CONFIG


class NotReady(Exception):  # noqa: N818  it is the cluster that is not
    """The operator cannot begin: one sentence with the next step, and the exit code (sysexits.h)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


async def check(api: ApiClient, connection: Connection, namespaces: tuple[str, ...]) -> None:
    """Is the API server there, does it know us and our resource, and may we do what we must? Raises `NotReady`."""
    try:
        if not await api.serves(RESOURCES[JOB]):
            raise NotReady(
                f"the API server {connection.host} does not know {names.PLURAL}.{names.GROUP}/{names.VERSION}; "
                "install the CRD: kubectl apply -f manifests/crd.yaml",
                EXIT_UNAVAILABLE,
            )
        denied = await _denied(api, namespaces)
    except Unauthorized as error:
        raise NotReady(
            f"the API server {connection.host} does not accept the credentials of {connection.access}: {error.message}",
            EXIT_NO_PERMISSION,
        ) from error
    except Unavailable as error:
        raise NotReady(
            f"the API server {connection.host} does not answer: {error.message or error.reason}; "
            f"is the address in {connection.access} right?",
            EXIT_UNAVAILABLE,
        ) from error
    except ApiError as error:
        raise NotReady(str(error), EXIT_NO_PERMISSION) from error
    if denied:
        raise NotReady(
            f"permission denied: cannot {'; '.join(denied)}; bind the roles of manifests/rbac.yaml", EXIT_NO_PERMISSION
        )


async def _denied(api: ApiClient, namespaces: tuple[str, ...]) -> list[str]:
    """What we may not do, in words: `create, delete pods in all namespaces`."""
    scopes: tuple[str | None, ...] = namespaces or (None,)
    asked = [(scope, *needed) for scope in scopes for needed in NEEDED]
    answers = await asyncio.gather(
        *(api.may(verb, RESOURCES[kind], subresource, scope) for scope, verb, kind, subresource in asked)
    )
    missing: dict[str, list[str]] = {}
    for (scope, verb, kind, subresource), allowed in zip(asked, answers, strict=True):
        if not allowed:
            what = "/".join(part for part in (RESOURCES[kind].plural, subresource) if part)
            missing.setdefault(f"{what} in {scope or 'all namespaces'}", []).append(verb)
    return [f"{', '.join(verbs)} {what}" for what, verbs in missing.items()]
