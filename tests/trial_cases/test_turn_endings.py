"""However a vendor ends a turn, the run does what that means: goes on, asks again, or ends in the right state."""

import pytest

from perdure import tool
from perdure.core.contracts import RunState
from perdure.testing import block, call, refuse, say, stop, think, truncate


@pytest.fixture
def note(ledger):
    @tool(effect="once", ask=False)
    def note(text: str) -> str:
        """Write a line.

        Args:
            text: the line.
        """
        ledger.record(text)
        return f"wrote {text}"

    return note


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


FILTERED = {"anthropic": "refusal", "openai-responses": "content_filter", "openai-chat": "content_filter"}


async def test_a_refusal_ends_the_run_refused_with_the_words_that_came_with_it(stage, protocol):
    async with stage([call("look"), refuse("I can't do that.")], [look], protocol=protocol) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.REFUSED, "I can't do that.", 2)
        assert (await desk.runs.find(desk.started[0])).state is RunState.REFUSED


async def test_a_filter_that_strikes_in_the_middle_of_words_is_no_answer(stage, protocol):
    script = [[say("The recipe is"), stop(FILTERED[protocol])]]
    async with stage(script, [look], protocol=protocol) as desk:
        assert (await desk.run()).state is RunState.REFUSED


async def test_a_call_that_a_filter_broke_off_never_runs(stage, protocol, ledger, note):
    script = [[say("I write"), call("note", text="a"), stop(FILTERED[protocol])]]
    async with stage(script, [note], protocol=protocol) as desk:
        assert (await desk.run()).state is RunState.REFUSED
        assert ledger.lines == []


async def test_a_call_cut_at_the_output_limit_never_runs_and_the_whole_ones_before_it_do(stage, protocol, ledger, note):
    script = [[call("note", text="a"), call("note", text="b"), truncate()], call("note", text="c"), say("done")]
    async with stage(script, [note], protocol=protocol) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.turns) == (RunState.ANSWERED, 3)
        assert ledger.lines == ["a", "c"]
        assert desk.texts(1)[0] == "wrote a"
        assert "cut at the output limit and did not run" in desk.texts(1)[1]


@pytest.mark.parametrize("said", [say("So far: 1, 2,"), think("Hm.")], ids=["words", "thoughts"])
async def test_a_turn_cut_at_the_output_limit_is_no_answer_and_the_model_goes_on(stage, protocol, said):
    async with stage([[said, truncate()], say("3.")], [look], protocol=protocol) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "3.", 2)
        assert "cut at the output limit" in desk.heard()


async def test_turns_cut_without_end_use_up_the_budget(stage, protocol):
    async with stage(lambda seen: [say("on and on"), truncate()], [look], protocol=protocol, turns=3) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.turns) == (RunState.LIMITED, 4)
        assert outcome.answer == "on and on"


async def test_a_response_that_is_incomplete_for_any_other_reason_is_no_answer(stage):
    script = [[say("Half of"), stop("max_messages")], say("All of it.")]
    async with stage(script, [look], protocol="openai-responses") as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "All of it.", 2)


@pytest.mark.parametrize("reason", ["error", "abort"])
async def test_a_reply_that_a_server_broke_off_is_asked_for_again_and_its_calls_never_run(stage, reason, ledger, note):
    replies = iter([[call("note", text="a"), stop(reason)], [call("note", text="b")], say("done")])
    async with stage(lambda seen: next(replies), [note], protocol="openai-chat") as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.turns) == (RunState.ANSWERED, 2)
        assert ledger.lines == ["b"]


async def test_a_filter_that_says_after_a_colon_what_it_was_is_a_refusal(stage):
    script = [[say("The recipe is"), stop("content_filter: PROHIBITED_CONTENT")]]
    async with stage(script, [look], protocol="openai-chat") as desk:
        assert (await desk.run()).state is RunState.REFUSED


async def test_a_stop_sequence_ends_an_answer_and_breaks_off_a_call(stage, ledger, note):
    script = [[call("note", text="a"), stop("stop_sequence")], say("done. END and more")]
    async with stage(script, [note], settings={"stop_sequences": ["END"]}) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "done. ")
        assert ledger.lines == []


async def test_a_turn_that_the_vendor_compacted_goes_back_unchanged_and_the_run_goes_on(stage):
    summary = {"type": "compaction", "content": "What was before.", "encrypted_content": "EqQB"}
    async with stage([[block(summary), stop("compaction")], say("found")], [look]) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "found", 2)
        assert desk.model.requests[-1].body["messages"][-1]["content"] == [summary]
