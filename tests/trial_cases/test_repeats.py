"""C47: the same call for ever. A warning, then an end with the reason; real polling is left alone."""

import pytest

from perdure import Budget, ToolError, ask_operator, tool
from perdure.core.contracts import Choice, RunState
from perdure.store import Store
from perdure.testing import call, say
from perdure.traces.turns import trace

WARNING = "You are repeating yourself"


@tool(effect="read")
async def find(q: str) -> list[str]:
    """Find something."""
    return []


@tool(effect="once", ask=False)
async def write(text: str) -> str:
    """Write it down."""
    raise ToolError("the disk is full")


@tool(effect="once")
async def send(to: str) -> str:
    """Send it."""
    raise AssertionError("never approved")


def forever(name, **arguments):
    """The same call, until no tool can be called any more."""

    def reply(seen):
        return say("there is none") if "can be called any more. Answer" in str(seen.body) else call(name, **arguments)

    return reply


@pytest.mark.parametrize(("name", "arguments"), [("find", {"q": "x"}), ("write", {"text": "x"}), ("nonsense", {})])
async def test_c47_the_same_call_with_the_same_result_is_warned_about_then_ends(stage, protocol, name, arguments):
    async with stage(forever(name, **arguments), [find, write], protocol=protocol, budget=Budget(turns=40)) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, "there is none", 5)
        assert outcome.reason == f"it repeated itself: {name} brought the same result 4 times, also after a warning"
        heard = [turn.heard for turn in trace(await desk.runs.events(run_id)).turns]
        assert [len(notes) for notes in heard] == [0, 0, 0, 1, 1]
        assert heard[3][0].startswith(f"{WARNING}: {name} brought the same result 3 times")
        assert heard[4][0].startswith("It repeated itself: ")
        assert desk.heard(3).count(WARNING) == 1  # the model sees what the trace shows


async def test_c47_in_text_mode_too(stage):
    def script(seen):
        last = "can be called any more. Answer" in str(seen.body)
        return say("Final Answer: none" if last else 'Thought: hm\nAction: find\nAction Input: {"q": "x"}')

    async with stage(script, [find], protocol="text+openai-chat", budget=Budget(turns=40)) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, "none", 5)


async def test_c47_an_operator_is_not_asked_again_about_what_was_rejected(stage, protocol):
    async with stage(forever("send", to="bob"), [send], protocol=protocol, budget=Budget(turns=40)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.REJECT, reason="not bob")
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.turns) == (RunState.LIMITED, 5)
        assert "not bob" in desk.texts()[0]
        assert all("rejected this very call before" in text for text in desk.texts()[1:])
        told = trace(await desk.runs.events(run_id))
        assert [asked.request.id for asked in told.all_asked] == [request.id]
        assert [call.state for turn in told.turns for call in turn.calls] == ["rejected"] * 4


async def test_a_declined_question_is_not_asked_again(stage):
    async with stage(forever("ask_operator", question="Which one?"), [ask_operator], budget=Budget(turns=40)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.REJECT)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.turns) == (RunState.LIMITED, 5)
        assert all("declined to answer this very question before" in text for text in desk.texts()[1:])
        assert len(trace(await desk.runs.events(run_id)).all_asked) == 1


async def test_with_other_arguments_the_operator_is_asked(stage):
    script = [call("send", to="bob"), call("send", to="ann"), say("neither")]
    async with stage(script, [send]) as desk:
        run_id = await desk.start()
        for _ in range(2):
            [request] = await desk.waiting(run_id)
            await desk.decide(run_id, request, Choice.REJECT)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


async def test_c47_a_poll_whose_result_changes_is_left_alone(stage):
    polls = iter(range(1, 100))

    @tool(effect="read")
    async def status() -> str:
        """How far it is."""
        return f"{next(polls)} of 9 done"

    def script(seen):
        return say("done") if seen.observations[-1:] == ["9 of 9 done"] else call("status")

    async with stage(script, [status], budget=Budget(turns=40)) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.turns) == (RunState.ANSWERED, 10)
        assert WARNING not in desk.heard()


async def test_the_same_call_many_times_in_one_turn_is_one(stage):
    script = [[call("find", q="x")] * 6, [call("find", q="x")] * 6, say("none")]
    async with stage(script, [find]) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert WARNING not in desk.heard()


async def test_a_model_that_heeds_the_warning_goes_on(stage):
    def script(seen):
        return call("find", q="x" if seen.turn < 3 else "y") if seen.turn < 4 else say("none")

    async with stage(script, [find]) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert desk.heard().count(WARNING) == 1


async def test_a_long_result_that_is_cut_under_a_new_name_each_time_is_known_again(stage, tmp_path):
    @tool(effect="read", limit=600)
    async def log() -> str:
        """The log."""
        return "line\n" * 1_000

    async with stage(forever("log"), [log], store=Store(str(tmp_path)), budget=Budget(turns=40)) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.turns) == (RunState.LIMITED, 5)
