"""The embedded server, for real: every test starts Temporal's own binary in a state folder of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from asyncio import gather, run
from pathlib import Path
from socket import SO_REUSEADDR, SOL_SOCKET, socket

import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, ListTaskQueuePartitionsRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from perdure.core.contracts import AGENT_ATTRIBUTE
from perdure.temporal.children import command_line
from perdure.temporal.connect import client_store
from perdure.temporal.embedded import DevServer, DevServerError, Running, StateHeldError, running

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")

# What another terminal does; ends only when it is killed.
ANOTHER_OWNER = """
import asyncio, sys
from pathlib import Path
from perdure.temporal.embedded import DevServer
async def main():
    async with DevServer(Path(sys.argv[1]), fast=True, ui=False) as server:
        print(server.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
ANOTHER_READER = "import sys; from pathlib import Path; from perdure.temporal.embedded import running\n"
ANOTHER_READER += "print(running(Path(sys.argv[1])).address)"


def gone(pid: int, *, within: float = 20) -> bool:
    end = time.monotonic() + within
    while command_line(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return command_line(pid) is None


async def start_a_run(server: Running, run_id: str) -> None:
    """No worker is needed: the server accepts it, with our search attribute, and keeps it."""
    client = await Client.connect(server.address)
    key = SearchAttributeKey.for_keyword(AGENT_ATTRIBUTE)
    found_by = TypedSearchAttributes([SearchAttributePair(key, "leave")])
    await client.start_workflow("Any", id=run_id, task_queue="none", search_attributes=found_by)


def listening_beyond_loopback(pid: int) -> list[str]:
    sockets = {os.readlink(p) for p in Path(f"/proc/{pid}/fd").iterdir() if p.is_symlink()}
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    six = Path("/proc/net/tcp6")
    table += six.read_text().splitlines()[1:] if six.exists() else []
    rows = [line.split() for line in table]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    assert listening, "the server listens somewhere"
    return [place for place in listening if not place.startswith("0100007F:")]  # 127.0.0.1


async def test_it_answers_keeps_runs_for_ninety_days_and_knows_our_attributes(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True) as server:
        client = await Client.connect(server.address)
        told = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
        assert told.config.workflow_execution_retention_ttl.ToTimedelta().days == 90
        await start_a_run(server, "one")
        assert server.ui_url
        queue = ListTaskQueuePartitionsRequest(namespace="default", task_queue=TaskQueue(name="none"))
        parts = await client.workflow_service.list_task_queue_partitions(queue)
        assert len(parts.activity_task_queue_partitions) == 1  # a rate of a queue is that of the whole queue


@ON_LINUX
async def test_nothing_outside_this_machine_can_reach_it(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True) as server:
        assert listening_beyond_loopback(server.pid) == []


async def test_another_process_finds_it(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        found = subprocess.run([sys.executable, "-c", ANOTHER_READER, str(tmp_path)], capture_output=True, text=True)
        assert found.stdout.strip() == server.address, found.stderr


async def test_a_second_start_joins_and_its_stop_stops_nothing(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        second = DevServer(tmp_path)
        assert await second.start() == server
        assert not second.owned
        await second.stop()
        assert running(tmp_path) == server


async def test_of_two_that_start_at_once_one_starts_and_the_other_joins(tmp_path: Path) -> None:
    both = [DevServer(tmp_path, fast=True, ui=False) for _ in range(2)]
    try:
        first, second = await gather(*(server.start() for server in both))
        assert first == second
        assert [server.owned for server in both].count(True) == 1
    finally:
        for server in both:
            await server.stop()


async def test_a_restart_keeps_the_runs_and_the_ports(tmp_path: Path) -> None:
    async with DevServer(tmp_path) as first:
        await start_a_run(first, "kept")
    async with DevServer(tmp_path) as second:
        client = await Client.connect(second.address)
        assert (await client.get_workflow_handle("kept").describe()).workflow_type == "Any"
        assert (second.address, second.ui_url) == (first.address, first.ui_url)


async def test_stopped_it_is_gone_and_not_found(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        assert command_line(server.pid)
    assert command_line(server.pid) is None
    assert running(tmp_path) is None


@ON_LINUX
def test_a_killed_parent_leaves_no_server(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ANOTHER_OWNER, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert command_line(pid)
        parent.kill()
    assert gone(pid)
    assert running(tmp_path) is None


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ANOTHER_OWNER, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert os.getsid(pid) != os.getsid(parent.pid)
        parent.kill()


@ON_LINUX  # elsewhere Python cannot wait for a process to be stopped
async def test_a_server_that_does_not_answer_is_named_with_its_process(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        os.kill(server.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)  # a busy machine takes its time to stop all threads
        try:
            with pytest.raises(StateHeldError, match=f"kill {server.pid}"):
                await DevServer(tmp_path).start()
        finally:
            os.kill(server.pid, signal.SIGCONT)


async def test_a_file_left_behind_is_no_server_and_the_next_start_replaces_it(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        pass
    reused = server.model_copy(update={"pid": os.getpid()})  # the system gave the process id to somebody else
    (tmp_path / "server.json").write_text(reused.model_dump_json())
    assert running(tmp_path) is None
    async with DevServer(tmp_path, fast=True, ui=False) as fresh:
        assert running(tmp_path) == fresh


@pytest.mark.slow  # four servers
@ON_LINUX
@pytest.mark.parametrize("checked", [False, True])
async def test_a_port_taken_while_the_server_starts_is_replaced(tmp_path: Path, checked: bool) -> None:
    """Before the server looked whether it is free, and after it: then it panics."""
    database = tmp_path / "temporal.sqlite"
    async with DevServer(tmp_path, fast=True, ui=False) as first:
        port = int(first.address.rpartition(":")[2])
    database.unlink()
    with socket() as competitor:
        competitor.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)

        def has_begun() -> bool:
            return any(f"--port {port} " in each for each in _commands(tmp_path))

        def take_it() -> None:
            until = time.monotonic() + 60
            while not (database.exists() if checked else has_begun()):
                assert time.monotonic() < until
                time.sleep(0.001)
            competitor.bind(("127.0.0.1", port))
            competitor.listen()

        thread = threading.Thread(target=take_it, daemon=True)
        thread.start()
        async with DevServer(tmp_path, fast=True, ui=False) as second:
            thread.join()
            assert running(tmp_path) == second
            assert second.address != first.address
    log = (tmp_path / "server.log").read_text()
    assert "address already in use" in log
    assert ("panic" in log) == checked


def _commands(folder: Path) -> list[str]:
    found = [command_line(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [command for command in found if command and str(folder) in command]


async def test_a_server_that_cannot_start_says_why_and_where_its_log_is(tmp_path: Path) -> None:
    (tmp_path / "temporal.sqlite").mkdir()
    with pytest.raises(DevServerError, match=r"server\.log"):
        await DevServer(tmp_path, ui=False).start()
    assert running(tmp_path) is None


def test_only_the_main_thread_may_start_one(tmp_path: Path) -> None:
    raised: list[BaseException] = []

    def start() -> None:
        try:
            run(DevServer(tmp_path, ui=False).start())
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(raised)


async def test_who_starts_runs_beside_it_finds_its_workers_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STATE", str(tmp_path))
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "PERDURE_STORE"):
        monkeypatch.delenv(name, raising=False)
    assert client_store() is None
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        found = client_store()
        assert found is not None
        assert found.url == str(tmp_path / "store")
        monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
        assert client_store() is None
        monkeypatch.setenv("PERDURE_STORE", str(tmp_path / "other"))
        named = client_store()
        assert named is not None
        assert named.url == str(tmp_path / "other")
