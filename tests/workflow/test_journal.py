"""What a worker keeps of its runs is bounded, and is never the only copy."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import Client

from perdure import tool
from perdure.core.contracts import CallModel, Choice, FileRef, Opening
from perdure.providers.registry import provider
from perdure.temporal.connect import connect
from perdure.temporal.history import Decoder
from perdure.temporal.journal import Conversation, Encode, Journal, Segment
from perdure.testing import call, say
from tests.conftest import Stage, StageOf, asked
from tests.servers import Place


@tool(effect="once")
async def pay(to: str) -> str:
    """Pay somebody.

    Args:
        to: whom.
    """
    return f"paid {to}"


def _department(number: int) -> Any:
    async def look(name: str, year: int, wanted: list[str]) -> str:
        """Look somebody up in the department's books.

        Args:
            name: whom, as the books spell it.
            year: of the books.
            wanted: the columns that are to be shown.
        """
        return name

    look.__name__ = f"look_{number}"
    return tool(effect="read")(look)


TOOLS = [pay, *(_department(number) for number in range(14))]
PAID = [call("pay", to="ann"), say("done")]
LOOKED = [call("look_3", name="ann", year=2026, wanted=["iban"]), *PAID]


def _encoder(opening: Opening) -> Encode:
    return provider(opening.protocol).encode


async def no_files(file: FileRef) -> FileRef:
    raise AssertionError(f"there are none, and {file} is asked for")


async def _waiting(desk: Stage) -> tuple[str, Callable[[Client, Journal], Any]]:
    """A run that waits, and how a journal whose agent has changed since comes to its conversation."""
    run_id = await desk.start()
    await desk.waiting(run_id)
    latest = asked(await desk.runs.events(run_id))[-1]
    segment = Segment(run_id, (await desk.runs.find(run_id)).segment_id)
    changed = desk.agent.opening().model_copy(update={"digest": "changed", "system": "Otherwise."})

    async def read(client: Client, journal: Journal) -> Conversation:
        wanted = CallModel.model_validate(latest.input).model_copy(update={"task": ""})  # so it has to read
        return await journal.conversation(client, segment, latest.activity_id, wanted, changed, _encoder, no_files)

    return run_id, read


async def _end(desk: Stage, *run_ids: str) -> None:
    for run_id in run_ids:
        for request in (await desk.runs.find(run_id)).requests:
            await desk.decide(run_id, request, Choice.APPROVE)
        await desk.runs.result(run_id)


async def test_of_a_run_that_ended_nothing_is_kept(stage: StageOf) -> None:
    journal = Journal()
    async with stage(PAID, [pay], journal=journal) as desk:
        run_id, _ = await _waiting(desk)
        assert journal.runs == 1
        await _end(desk, run_id)
        assert (journal.runs, journal.bytes) == (0, 0)


async def test_what_is_counted_is_about_what_is_held(stage: StageOf) -> None:
    async with stage(LOOKED, TOOLS) as desk:
        run_id, read = await _waiting(desk)
        await read(desk.client, Journal())
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            journals = [Journal() for _ in range(40)]
            for journal in journals:
                await read(desk.client, journal)
            held = (tracemalloc.get_traced_memory()[0] - before) / len(journals)
        finally:
            tracemalloc.stop()
        assert held / 2 < journals[0].bytes < held * 2
        await _end(desk, run_id)


async def test_runs_of_one_agent_share_its_opening(stage: StageOf) -> None:
    journal = Journal()
    async with stage([*LOOKED], TOOLS) as desk:
        run_id, read = await _waiting(desk)
        first = await read(desk.client, journal)
        alone = journal.bytes
        await _end(desk, run_id)
    async with stage([*LOOKED], TOOLS) as other:
        again, read = await _waiting(other)
        second = await read(other.client, journal)
        await _end(other, again)
    assert second.opening is first.opening
    assert journal.bytes < 1.5 * alone


async def test_no_more_runs_are_kept_than_allowed_and_the_others_go_on(stage: StageOf) -> None:
    journal = Journal(kept_runs=2)
    script = lambda seen: PAID[seen.turn]  # noqa: E731 - which run asks next is anyone's guess
    async with stage(script, [pay], journal=journal) as desk:
        waiting = [(await _waiting(desk))[0] for _ in range(5)]
        assert journal.runs == 2
        await _end(desk, *waiting)


async def test_a_decoder_holds_nothing_of_what_is_over(stage: StageOf) -> None:
    async with stage(PAID, [pay]) as desk:
        run_id, _ = await _waiting(desk)
        await _end(desk, run_id)
        decoder = Decoder(desk.client.data_converter, run_id)
        ids = set()
        async for raw in desk.client.get_workflow_handle(run_id).fetch_history_events():
            await decoder.decode(raw)
            ids |= set(decoder.running.values())
        assert {"think-1", "think-2"} < ids
        assert (decoder.running, decoder.deciding) == ({}, {})


async def test_many_readers_of_one_history_take_each_event_once(stage: StageOf) -> None:
    journal = Journal()
    async with stage(PAID, [pay]) as desk:
        run_id, read = await _waiting(desk)
        found = await asyncio.gather(*(read(desk.client, journal) for _ in range(8)))
        assert len({each.messages for each in found}) == 1
        await _end(desk, run_id)


@pytest.fixture
async def line(place: Place) -> Any:
    """A line to the server that can be cut: what is connected breaks, and the next connections are not taken."""
    host, _, port = place.address.partition(":")

    class Line:
        def __init__(self) -> None:
            self.refusing, self.address = 0, ""
            self.open: list[asyncio.StreamWriter] = []

        async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self.refusing:
                self.refusing -= 1
                writer.transport.abort()
                return
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            self.open += [writer, far_writer]
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

        def cut(self) -> None:
            self.refusing = 2
            for each in self.open:
                each.transport.abort()
            self.open.clear()

    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()

    line = Line()
    listening = await asyncio.start_server(line.carry, "127.0.0.1", 0)
    line.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield line
    listening.close()


async def test_a_server_that_goes_away_for_a_moment_costs_no_attempt(
    stage: StageOf, line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(PAID, [pay]) as desk:
        run_id, read = await _waiting(desk)
        monkeypatch.setenv("TEMPORAL_ADDRESS", line.address)
        client = await connect()
        line.cut()
        assert b"do it" in (await read(client, Journal())).messages
        assert line.refusing < 2
        await _end(desk, run_id)
