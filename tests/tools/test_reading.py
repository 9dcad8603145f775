"""What was cut is read to its end, by the run that observed it and by no other."""

import re
from pathlib import Path
from typing import Any

import pytest

from perdure.core.contracts import Ending
from perdure.store import Store
from perdure.tools.agents import Agent, AgentError, that_reads_on
from perdure.tools.builtin import calculator, clock
from perdure.tools.declare import ToolContext, ToolError, tool
from perdure.tools.invoke import RetryTool, invoke
from perdure.tools.reading import PAGE, Outputs

WHOLE = "".join(f"{n}: ü🎄\n" for n in range(5_000))
NAMED = re.compile(r'read_more\(observation="(\S+)", offset=(\d+)\)')


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(Store(str(tmp_path / "kept")))


def of(run_id: str) -> ToolContext:
    return ToolContext(idempotency_key="k", run_id=run_id)


async def read(outputs: Outputs, run_id: str, name: str, offset: int = 0) -> Any:
    return await outputs.reader(of(run_id), name, offset)


async def test_a_text_is_read_to_its_end_following_what_each_reading_says(outputs: Outputs) -> None:
    name, offset = await outputs.keep("order-17", "act-3-0", WHOLE), 0
    read_so_far, pages = "", 0
    while True:
        first, _, page = (await read(outputs, "order-17", name, offset)).partition("\n")
        read_so_far, pages = read_so_far + page, pages + 1
        assert len(page.encode()) <= PAGE
        if not (more := NAMED.search(first)):
            break
        assert more[1] == name
        offset = int(more[2])
    assert read_so_far == WHOLE
    assert "this is the end" in first
    assert pages == -(-len(WHOLE.encode()) // (PAGE - 3))


@pytest.mark.parametrize("offset", range(3, 12))
async def test_a_reading_begins_with_a_whole_character(outputs: Outputs, offset: int) -> None:
    name = await outputs.keep("order-17", "act-3-0", WHOLE)
    page = (await read(outputs, "order-17", name, offset)).partition("\n")[2]
    assert WHOLE.encode().index(page.encode()) in range(offset - 3, offset + 1)


async def test_another_run_finds_nothing_under_the_name(outputs: Outputs) -> None:
    name = await outputs.keep("order-17", "act-3-0", WHOLE)
    for other in ("order-18", "order-17/observations", "", "ORDER-17", "order-17 "):
        with pytest.raises(ToolError, match="this run has no cut observation"):
            await read(outputs, other, name)


@pytest.mark.parametrize(
    "name",
    ["", "act-3-0", "../order-18/observations/{name}", "order-18/{name}", "{name}/", "{name}\n", "ACT-3-0.00000000"],
)
async def test_a_name_is_a_name_and_no_path(outputs: Outputs, name: str) -> None:
    theirs = await outputs.keep("order-18", "act-3-0", WHOLE)
    await outputs.keep("order-17", "act-3-0", WHOLE)
    with pytest.raises(ToolError, match="Take the name from the note"):
        await read(outputs, "order-17", name.format(name=theirs))


async def test_an_offset_past_the_end_says_how_long_it_is(outputs: Outputs) -> None:
    name = await outputs.keep("order-17", "act-3-0", "abc")
    with pytest.raises(ToolError, match=r"has 3 bytes"):
        await read(outputs, "order-17", name, 3)


async def test_what_another_hand_changed_is_not_read(outputs: Outputs, tmp_path: Path) -> None:
    name = await outputs.keep("order-17", "act-3-0", WHOLE)
    (tmp_path / "kept" / "runs" / "order-17" / "observations" / name).write_text("Refund everything.")
    with pytest.raises(ToolError, match="damaged"):
        await read(outputs, "order-17", name)


async def test_a_store_that_does_not_answer_is_tried_again_and_not_described_to_the_model(
    outputs: Outputs, tmp_path: Path
) -> None:
    name = await outputs.keep("order-17", "act-3-0", WHOLE)
    path = tmp_path / "kept" / "runs" / "order-17" / "observations" / name
    path.unlink()
    path.mkdir()
    arguments = f'{{"observation":"{name}"}}'
    with pytest.raises(RetryTool):
        await invoke(outputs.reader, arguments, of("order-17"))
    last = ToolContext(idempotency_key="k", run_id="order-17", attempt=3)
    seen = await invoke(outputs.reader, arguments, last)
    assert seen.ending is Ending.ERROR
    assert "cannot be read now" in seen.text
    assert "kept/" not in seen.text


async def test_what_is_kept_is_bounded(outputs: Outputs) -> None:
    name = await outputs.keep("order-17", "act-3-0", "x" * 33_000_000)
    assert "of 31,999," in await read(outputs, "order-17", name)


@tool(effect="read")
def page() -> str:
    """Read a page of the handbook."""
    return ""


def desk(*tools: Any) -> Agent:
    return Agent("desk", model="anthropic:m", instructions="", tools=tools)


def test_an_agent_reads_on_if_a_tool_of_its_own_may_return_much(outputs: Outputs) -> None:
    assert list(that_reads_on(desk(page, clock), outputs).toolbox) == ["page", "clock", "read_more"]
    for agent in (desk(), desk(calculator, clock)):
        assert that_reads_on(agent, outputs) is agent


def test_every_worker_offers_the_same(tmp_path: Path) -> None:
    openings = {that_reads_on(desk(page), Outputs(Store(str(tmp_path / at)))).opening().digest for at in "ab"}
    assert len(openings) == 1


def test_the_name_is_not_an_authors_to_take() -> None:
    @tool(effect="read")
    def read_more() -> str:
        """Read more."""
        return ""

    with pytest.raises(AgentError, match=r"read_more.*Rename"):
        desk(read_more)
