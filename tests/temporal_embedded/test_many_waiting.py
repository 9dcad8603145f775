"""A request is found however many others wait."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from perdure import Runs
from perdure.core.contracts import RUN, STANDING, STATE_ATTRIBUTE, WAITING_PREFIX, Request, RequestKind, Standing, Start
from perdure.temporal.connect import connect
from perdure.temporal.embedded import DevServer

MORE = 1_001
_WAITING = TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword(STATE_ATTRIBUTE), "waiting")])


async def _waits(client: Client, run_id: str, *requests: Request) -> None:
    """A run that waits, as it is seen from outside."""
    each = {f"{WAITING_PREFIX}{request.id}": request for request in requests}
    await client.start_workflow(
        RUN,
        Start(agent="desk", task="pay"),
        id=run_id,
        task_queue="nobody",
        memo={STANDING: Standing(requests=requests), **each},
        search_attributes=_WAITING,
    )


@pytest.mark.slow
async def test_a_request_is_found_behind_a_thousand_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
        client = await connect()
        wanted = Request(id="a1b2c3d4", kind=RequestKind.APPROVAL, reason="it acts", since=datetime.now(UTC), turn=1)
        await _waits(client, "the-first", wanted)
        for begun in range(0, MORE, 50):
            await asyncio.gather(*(_waits(client, f"run-{number}") for number in range(begun, min(begun + 50, MORE))))
        while (await client.count_workflows(f"{STATE_ATTRIBUTE} = 'waiting'")).count <= MORE:
            await asyncio.sleep(0.05)
        row, request = await Runs(client).find_request("a1b2")
        assert (row.run_id, request) == ("the-first", wanted)
