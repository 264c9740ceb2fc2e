"""`disttrain-operator`: puts the parts together, runs them, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from disttrain.controller import logs, options, preflight, version
from disttrain.controller.api_client import ApiClient
from disttrain.controller.cache import Cache
from disttrain.controller.connection import ConfigError, Connection, connect
from disttrain.controller.health import Health, LoopLag, health_app
from disttrain.controller.intake import Intake
from disttrain.controller.keys import RESOURCES, WATCHED, JobKey
from disttrain.controller.metrics import LiveState, Metrics
from disttrain.controller.options import Options
from disttrain.controller.preflight import NotReady
from disttrain.controller.rate_limit import RateLimiter
from disttrain.controller.reconcile import Reconciler, Surroundings
from disttrain.controller.streams import StreamKey, Streams
from disttrain.controller.watcher import Watcher
from disttrain.controller.work_queue import WorkQueue
from disttrain.core.plan import plan

FINISH_SECONDS: Final = 2.5
"""For what runs when the operator is told to stop; with what follows, it ends within 5 s."""

_log = logs.logger("main")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT. Gives back the exit code: 0, or why it could not run (sysexits.h)."""
    chosen = options.parse(sys.argv[1:] if arguments is None else arguments)
    logs.configure(chosen.log_level, chosen.log_format)
    try:
        return asyncio.run(_run(chosen))
    except (ConfigError, NotReady) as error:
        _log.error("%s", error)
        return error.exit_code if isinstance(error, NotReady) else preflight.EXIT_CONFIG
    except KeyboardInterrupt:  # before our own signal handlers were there
        return 0


async def _run(chosen: Options) -> int:
    connection = await connect(chosen.access)
    try:
        return await Operator(chosen, connection).run()
    finally:
        await connection.close()


class Operator:
    """One operator process: built once, run once."""

    def __init__(self, chosen: Options, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._chosen = chosen
        self._connection = connection
        self._metrics = Metrics()
        limiter = RateLimiter(chosen.api_qps, chosen.api_burst, time=loop.time)
        self._api = ApiClient(connection, limiter, self._metrics.observe_request)
        self._cache = Cache(loop.time)
        surroundings = Surroundings(chosen.settings, chosen.reporter)
        self._reconciler = Reconciler(self._cache, self._api, plan, surroundings, self._metrics)
        self._queue: WorkQueue[JobKey] = WorkQueue(self._reconciler.reconcile, self._reconciler.failed, timers=loop)
        intake = Intake(self._cache, self._queue.add)
        self._streams = Streams(_expected(chosen.namespaces), time=loop.time, on_relist=intake.relisted)
        self._lag = LoopLag(loop)
        self._health = Health(self._streams, self._queue, self._lag)
        self._watcher = Watcher(connection, self._streams, intake, chosen.namespaces)
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Run until told to stop. Raises `NotReady` if it cannot begin."""
        self._catch_signals()
        if not await self._may_begin():
            return 0
        async with self._ports():
            self._queue.start(self._chosen.concurrency)
            self._lag.start()
            fault = await self._watch()
            self._health.stopping = True
            self._lag.stop()
            self._reconciler.stop()
            if not await self._queue.stop(FINISH_SECONDS):
                _log.warning("some reconciles did not end within %s s and were cancelled", FINISH_SECONDS)
        ended = await self._watcher.stop()
        if fault:
            _log.error("%s", fault)
        else:
            _log.info("stopped")
        if not ended:
            _exit_now(1 if fault else 0)
        return 1 if fault else 0

    async def _may_begin(self) -> bool:
        """False if told to stop while asking. Raises `NotReady`."""
        checking = asyncio.create_task(preflight.check(self._api, self._connection, self._chosen.namespaces))
        stopping = asyncio.create_task(self._stop.wait())
        done, pending = await asyncio.wait({checking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if checking not in done:
            return False
        checking.result()
        return True

    async def _watch(self) -> str:
        """Watch until told to stop, or until it fails; gives back why it failed."""
        stopping = asyncio.create_task(self._stop.wait())
        await self._watcher.start()
        self._catch_signals()  # kopf has just set handlers of its own, which end everything at once
        failing = asyncio.create_task(self._watcher.failure())
        await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        fault = failing.result() if failing.done() else ""
        for task in (stopping, failing):
            task.cancel()
        await asyncio.gather(stopping, failing, return_exceptions=True)
        return fault

    def _catch_signals(self) -> None:
        """SIGTERM and SIGINT stop the parts in order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        _log.info("%s: stopping", number.name)
        self._stop.set()

    @contextlib.asynccontextmanager
    async def _ports(self) -> AsyncIterator[None]:
        self._metrics.registry.register(
            LiveState(
                lambda: (self._queue.depth, self._queue.oldest_age),
                lambda: ((stream.plural, silence) for stream, silence in self._streams.silences().items()),
                self._cache.jobs,
            )
        )
        async with contextlib.AsyncExitStack() as stack:
            address = self._chosen.listen_address
            apps = (
                (health_app(self._health), self._chosen.health_port),
                (self._metrics_app(), self._chosen.metrics_port),
            )
            ports = [await stack.enter_async_context(_serve(app, address, port)) for app, port in apps]
            _log.info(
                "started",
                extra={
                    "version": version.VERSION,
                    "api_server": self._connection.host,
                    "namespaces": list(self._chosen.namespaces) or "all",
                    "health_port": ports[0],
                    "metrics_port": ports[1],
                },
            )
            yield

    def _metrics_app(self) -> web.Application:
        async def scrape(_: web.Request) -> web.Response:
            return web.Response(
                body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
            )

        app = web.Application()
        app.router.add_get("/metrics", scrape)
        return app


def _expected(namespaces: tuple[str, ...]) -> list[StreamKey]:
    return [StreamKey(RESOURCES[kind].plural, namespace) for kind in WATCHED for namespace in namespaces or ("",)]


@contextlib.asynccontextmanager
async def _serve(app: web.Application, address: str | None, port: int) -> AsyncIterator[int]:
    """Serve HTTP; gives the port. Raises `NotReady` if it is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            raise NotReady(f"cannot listen on port {port}: {error.strerror}", preflight.EXIT_CONFIG) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _exit_now(code: int) -> None:
    """End the process although tasks are left that do not let themselves be cancelled (kopf's, after a failure)."""
    logging.shutdown()
    os._exit(code)
