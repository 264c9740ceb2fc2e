"""Which API server, and who we are to it: loaded once with `kubernetes.aio`, used by kopf and by our own client.

Both use the same TLS settings and the same authentication, which adds the current token to every request and loads the
credentials again when the API server answers 401 (tokens of service accounts and of exec plugins expire).
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import getproxies_environment

import aiohttp
import yaml
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from typing_extensions import override

from disttrain.controller import logs, version

USER_AGENT: Final = f"disttrain-operator/{version.VERSION}"
DEFAULT_KUBECONFIG: Final = "~/.kube/config"
IN_CLUSTER_ENV: Final = "KUBERNETES_SERVICE_HOST"

_log = logs.logger("connection")


class ConfigError(Exception):
    """The kubeconfig, or the pod's service account, cannot be used. One sentence with the next step."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the credentials are. `kubeconfig` None: the pod's service account."""

    kubeconfig: Path | None = None
    context: str | None = None

    @override
    def __str__(self) -> str:
        return "the pod's service account" if self.kubeconfig is None else f"kubeconfig {self.kubeconfig}"


def find_access(
    kubeconfig: str | None, context: str | None, *, in_cluster: bool, environment: Mapping[str, str] = os.environ
) -> Access:
    """An explicit file, else $KUBECONFIG, else the pod's service account, else ~/.kube/config: as kubectl looks."""
    if in_cluster:
        return Access()
    named = kubeconfig or environment.get("KUBECONFIG")
    if not named and environment.get(IN_CLUSTER_ENV):
        return Access()
    return Access(Path(named or DEFAULT_KUBECONFIG).expanduser(), context)


class Authentication:
    """aiohttp client middleware: the current token on every request; after a 401 fresh credentials and once again.

    A request answered with 401 was not carried out, so that repeating it is safe for every verb.
    """

    def __init__(self, configuration: Configuration, reload: Callable[[], Awaitable[None]]) -> None:
        self._configuration = configuration
        self._reload = reload
        self._one_reload = asyncio.Lock()

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send one request."""
        token = await self._authorize(request)
        response = await handler(request)
        if response.status != 401:
            return response
        response.release()
        async with self._one_reload:
            if await self._token() == token:  # nobody else has renewed it meanwhile
                await self._reload()
        await self._authorize(request)
        return await handler(request)

    async def _authorize(self, request: aiohttp.ClientRequest) -> str | None:
        token = await self._token()
        if token:
            request.headers["Authorization"] = token
        request.headers["User-Agent"] = USER_AGENT
        if self._configuration.tls_server_name:
            request.server_hostname = self._configuration.tls_server_name
        return token

    async def _token(self) -> str | None:
        # Runs the refresh hook of a service account, which reads its file again every minute.
        token: str | None = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return token


class Connection:
    """An API server that we have credentials for. Made by `connect`."""

    def __init__(self, access: Access, configuration: Configuration) -> None:
        self.access = access
        self.configuration = configuration
        self._authentication = Authentication(configuration, self._renew)
        # With trust_env aiohttp reads ~/.netrc in a thread for every single request; only a proxy needs it.
        self._trust_env = bool(getproxies_environment())
        configuration.client_session_kwargs = {"middlewares": (self._authentication,), "trust_env": self._trust_env}
        self.transport = RESTClientObject(configuration)

    @property
    def host(self) -> str:
        """`https://host:port`, without a slash at the end."""
        return str(self.configuration.host).rstrip("/")

    def open_session(self, *middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
        """A session of its own with this connection's credentials, for kopf. The caller closes it."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self.transport.ssl_context),
            middlewares=(self._authentication, *middlewares),
            proxy=self.configuration.proxy,
            trust_env=self._trust_env,
        )

    async def close(self) -> None:
        """Close the transport's connections."""
        await self.transport.close()

    async def _renew(self) -> None:
        try:
            fresh = await _load(self.access)
        except ConfigError as error:
            _log.warning("the credentials cannot be loaded again: %s", error)
            return  # the next answer will be 401 too, and says so
        self.configuration.api_key.update(fresh.api_key)
        self.configuration.refresh_api_key_hook = fresh.refresh_api_key_hook  # the old one holds the old token
        if fresh.cert_file:  # an exec plugin may have made a new client certificate; new connections will use it
            self.transport.ssl_context.load_cert_chain(fresh.cert_file, fresh.key_file)


async def connect(access: Access) -> Connection:
    """Load the credentials. Nothing is sent yet. Raises `ConfigError`."""
    configuration = await _load(access)
    try:
        return Connection(access, configuration)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(f"{access}: the certificates cannot be used: {error}") from error


async def _load(access: Access) -> Configuration:
    configuration = Configuration()
    if access.kubeconfig is None:
        try:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        except (kubernetes_config.ConfigException, OSError) as error:
            raise ConfigError(
                f"not running in a pod with a service account ({error}); give --kubeconfig FILE to run elsewhere"
            ) from error
        return configuration
    for path in _files(access.kubeconfig):
        _check_file(path)
    try:
        await kubernetes_config.load_kube_config(
            config_file=str(access.kubeconfig),
            context=access.context,
            client_configuration=configuration,
            persist_config=False,
        )
    # The loader takes the file's structure for granted; whatever it trips over is a fault of the file.
    except (kubernetes_config.ConfigException, OSError, TypeError, AttributeError, KeyError, ValueError) as error:
        raise ConfigError(f"{access}: {error}".replace("\n", " ")) from error
    return configuration


def _files(kubeconfig: Path) -> list[Path]:
    """$KUBECONFIG may be several files, joined as in PATH; those that do not exist do not count, as for kubectl."""
    paths = [Path(part).expanduser() for part in str(kubeconfig).split(os.pathsep) if part]
    return [path for path in paths if path.exists()] or paths[:1]


def _check_file(path: Path) -> None:
    try:
        content = yaml.safe_load(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(f"kubeconfig {path} does not exist; give --kubeconfig FILE or set KUBECONFIG") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"kubeconfig {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"kubeconfig {path} is not YAML: {error}".replace("\n", " ")) from error
    if not isinstance(content, dict) or not content.get("clusters"):
        raise ConfigError(f"kubeconfig {path} names no clusters; is it a kubeconfig?")
