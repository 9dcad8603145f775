"""The Temporal servers that tests play on: one of a kind for the whole session, with a namespace for each process.

A server that does nothing takes a tenth of a core, so pytest's processes share it. Whoever needs it first starts it,
and stops it when the last of them is done; if that process dies, the server goes with it, and the others' tests fail.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.temporal.embedded import DevServer
from perdure.temporal.search_attributes import ensure_search_attributes

_PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "")
_at_the_end: list[Callable[[], None]] = []


@dataclass(frozen=True)
class Place:
    """A namespace on a server."""

    address: str
    namespace: str

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What connects from now on, here and in child processes, connects to it."""
        monkeypatch.setenv("TEMPORAL_ADDRESS", self.address)
        monkeypatch.setenv("TEMPORAL_NAMESPACE", self.namespace)


@asynccontextmanager
async def shared(factory: pytest.TempPathFactory, kind: str, **dynamic_config: Any) -> AsyncIterator[Place]:
    """This process's place on the session's server of this kind."""
    base = factory.getbasetemp()
    folder = (base.parent if _PROCESS else base) / f"server-{kind}"
    folder.mkdir(exist_ok=True)
    in_use = os.open(folder / "in_use.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(in_use, fcntl.LOCK_SH)
    lean = {"metrics.breakdownByTaskQueue": False}  # nobody reads them, and each test has a queue of its own
    server = DevServer(folder, fast=True, ui=False, dynamic_config={**lean, **dynamic_config})

    def end() -> None:
        fcntl.flock(in_use, fcntl.LOCK_EX)  # when nobody else holds it
        asyncio.run(server.stop())
        os.close(in_use)

    try:
        running = await server.start()
        if server.owned:
            _at_the_end.append(end)
        yield Place(running.address, await _namespace(running.address, _PROCESS or running.namespace))
    finally:
        if not server.owned:
            os.close(in_use)


def end_servers() -> None:
    """After the last test, and not in it: the others may take longer than a test may."""
    while _at_the_end:
        _at_the_end.pop()()


async def _namespace(address: str, name: str) -> str:
    client = await Client.connect(address, namespace=name)
    try:
        await client.workflow_service.register_namespace(
            RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=Duration(seconds=86_400))
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
    await ensure_search_attributes(client)
    return name


def suggesting(events: int) -> dict[str, int]:
    """For a server that suggests a new segment after so many events; its own default is 4,096."""
    return {"limit.historyCount.suggestContinueAsNew": events}
