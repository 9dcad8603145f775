"""A vendor with a rate is asked on a task queue of its own, which the server hands out at that rate."""

from perdure import tool
from perdure.core.contracts import RunState
from perdure.testing import call, say
from perdure.traces.events import ActivityFailed
from tests.conftest import StageOf, asked


@tool(effect="read")
async def look(at: int) -> str:
    """Look at something."""
    return f"seen {at}"


def looks(count):
    return lambda seen: call("look", at=seen.turn) if seen.turn < count else say("done")


async def test_a_run_is_sent_to_its_vendors_queue_once(stage: StageOf) -> None:
    async with stage(looks(3), [look], rates={"anthropic": 100.0}) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        events = await desk.runs.events(run_id)
        assert [each.activity_id for each in asked(events)] == ["think-1", "think-1r1", "think-2", "think-3", "think-4"]
        [moved] = [each for each in events if isinstance(each, ActivityFailed)]
        assert (moved.activity_id, moved.kind) == ("think-1", "Elsewhere")
        assert len(desk.model.requests) == 4
