"""What can go wrong between us and the API server, by what is to be done about it."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from disttrain.controller.keys import Resource


@dataclass(frozen=True, slots=True)
class Target:
    """What a request was about, for errors, logs and metrics."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""

    @override
    def __str__(self) -> str:
        where = f" {self.namespace}/{self.name}" if self.namespace else ""
        return f"{self.verb} {self.resource.kind}{where.rstrip('/')}"


class ApiError(Exception):
    """A request failed. `code` is the HTTP status, 0 where there was no answer; `reason` is metav1.Status' word."""

    def __init__(self, target: Target, code: int, reason: str, message: str) -> None:
        self.target = target
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(f"cannot {target}: {message or reason} ({code or 'no answer'} {reason})".replace("\n", " "))


class AlreadyExists(ApiError):  # noqa: N818  Kubernetes' word for it
    """409 on a create: the name is taken."""


class Conflict(ApiError):  # noqa: N818
    """409 on another request: the object is not the one, or not as new, as we took it for."""


class NotFound(ApiError):  # noqa: N818
    """404: the object, or the namespace it should be in, is not there."""


class Refused(ApiError):  # noqa: N818
    """400, 403, 413 or 422: the API server understood and will not do it; the same request will fail again."""


class Unauthorized(ApiError):  # noqa: N818
    """401: our credentials are not, or no longer, accepted."""


class Throttled(ApiError):  # noqa: N818
    """429, also after having waited as asked."""


class Unavailable(ApiError):  # noqa: N818
    """No answer, a time-out or a 5xx: whether it was done is not known."""


REASON_ALREADY_EXISTS = "AlreadyExists"
_BY_CODE: dict[int, type[ApiError]] = {
    400: Refused,
    401: Unauthorized,
    403: Refused,
    404: NotFound,
    409: Conflict,
    413: Refused,
    422: Refused,
    429: Throttled,
}


def api_error(target: Target, code: int, reason: str, message: str) -> ApiError:
    """The error for an answer that is not a success."""
    if code == 409 and reason == REASON_ALREADY_EXISTS:
        return AlreadyExists(target, code, reason, message)
    return _BY_CODE.get(code, Unavailable)(target, code, reason, message)
