"""What a real server tells: the order of a list, who works, what is stuck; and what is said when there is none."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from perdure import Runs
from perdure.console.entry import Real
from perdure.core.contracts import (
    RUN,
    STANDING,
    STATE_ATTRIBUTE,
    WAITING_PREFIX,
    Request,
    RequestKind,
    Standing,
    Start,
)
from perdure.core.runs import RunNotFoundError, UnreachableError
from perdure.store import store_from_env
from perdure.temporal.connect import connect
from perdure.temporal.embedded import DevServer
from perdure.temporal.survey import survey, unlike

_WAITING = TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword(STATE_ATTRIBUTE), "waiting")])


@pytest_asyncio.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
        yield await connect()


async def test_a_list_is_ordered_by_start_also_across_open_and_ended_runs(client: Client) -> None:
    runs = Runs(client)
    for run_id in ("a-ended-last", "b-open", "c-ended-first", "d-open"):
        await runs.start("desk", "pay", run_id=run_id)
    for run_id in ("c-ended-first", "a-ended-last"):
        await client.get_workflow_handle(run_id).terminate()
    while (await client.count_workflows("ExecutionStatus = 'Terminated'")).count < 2:
        pass
    newest = ["d-open", "c-ended-first", "b-open", "a-ended-last"]
    assert [row.run_id for row in await runs.list()] == newest
    assert [row.run_id for row in await runs.list(limit=3)] == newest[:3]


async def test_nobody_works_where_nobody_polls(client: Client) -> None:
    runs = Runs(client)
    assert (await runs.workers(), await runs.served()) == ([], None)
    for find in (runs.find, runs.find_request):
        with pytest.raises(RunNotFoundError, match="names no"):
            await find("")


async def test_doctor_tells_of_a_run_that_is_stuck(client: Client) -> None:
    request = Request(id="57ac0000", kind=RequestKind.STUCK, reason="no key", since=datetime.now(UTC), turn=1)
    await client.start_workflow(
        RUN,
        Start(agent="desk", task="pay"),
        id="pay-1",
        task_queue="nobody",
        memo={STANDING: Standing(), f"{WAITING_PREFIX}{request.id}": request},
        search_attributes=_WAITING,
    )
    while not await Runs(client).list():
        pass
    found = {each.check: each async for each in survey()}
    assert (found["runs"].ok, found["runs"].next) == (False, "perdure inbox")
    assert found["runs"].found == "1 run is stuck: pay-1: no key"


def test_workers_that_serve_different_agents_are_found() -> None:
    assert unlike(["1@host [billing, leave_desk]", "2@host [leave_desk]"]) == ["billing"]
    assert unlike(["1@host [billing]", "2@host [billing]", "3@elsewhere"]) == []
    assert unlike([]) == []


SETTINGS = [
    ({"TEMPORAL_ADDRESS": "127.0.0.1:1"}, "connection refused"),
    ({"TEMPORAL_ADDRESS": "garbage::"}, "invalid port number"),
    ({"TEMPORAL_PROFILE": "nosuch"}, "'nosuch'"),
    ({"TEMPORAL_TLS_CLIENT_CERT_PATH": "/nonexistent"}, "'/nonexistent'"),
    ({"PERDURE_STATE": "/proc/nonexistent"}, "PERDURE_STATE"),
]


@pytest.mark.parametrize(("settings", "said"), SETTINGS, ids=lambda case: next(iter(case)) if case else "")
async def test_what_keeps_us_from_a_server_is_told_in_words(
    settings: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STATE", str(tmp_path))
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnreachableError) as raised:
        await connect()
    assert said in str(raised.value)
    for inner in ("tonic", "transport::", "ConnectError", "Os {", "doctor"):
        assert inner not in str(raised.value)


async def test_where_no_server_is_named_the_state_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_STATE", str(tmp_path))
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    monkeypatch.setattr("perdure.temporal.connect.DEFAULT_ADDRESS", "127.0.0.1:1")
    with pytest.raises(UnreachableError, match=str(tmp_path)):
        await connect()


@pytest.mark.parametrize("named", ["", "memory://mine"])
async def test_workers_of_dev_have_a_store_in_its_state_folder_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    for variable in ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PERDURE_STATE", str(tmp_path))
    monkeypatch.setenv("PERDURE_STORE", named)
    async with Real().server(lambda told: None):
        store = store_from_env()
        assert store
        assert store.url == (named or str(tmp_path / "store"))
