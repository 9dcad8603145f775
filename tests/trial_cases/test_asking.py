"""A model asks a person: the question waits like everything that waits for one, and the answer is the observation."""

import pytest

from perdure import tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.core.runs import DecisionRefusedError
from perdure.testing import call, say
from perdure.tools.builtin import ask_operator
from perdure.traces.events import ActivityScheduled
from perdure.traces.turns import trace
from tests.conftest import StageOf

QUESTION = "Which account is it to be paid from?"


async def test_an_answer_is_the_observation_and_names_who_gave_it(stage: StageOf, protocol: str) -> None:
    script = [call("ask_operator", question=QUESTION), say("noted")]
    async with stage(script, [ask_operator], protocol=protocol) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert (request.kind, request.reason) == (RequestKind.QUESTION, QUESTION)
        settled = await desk.decide(run_id, request, Choice.ANSWER, result="From the second one.")
        assert (settled.choice, settled.verified) == (Choice.ANSWER, False)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert desk.texts() == ["an operator (ann) answers: From the second one."]
        events = await desk.runs.events(run_id)
        assert "run_tool" not in {e.activity for e in events if isinstance(e, ActivityScheduled)}
        [asked, _] = trace(events).turns
        assert asked.calls[0].state == "ok"
        assert asked.calls[0].asked[0].settled.result == "From the second one."


async def test_an_answer_is_one_of_the_choices(stage: StageOf) -> None:
    script = [call("ask_operator", question=QUESTION, choices=["first", "second"]), say("noted")]
    async with stage(script, [ask_operator]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        with pytest.raises(DecisionRefusedError, match="'first', 'second'"):
            await desk.decide(run_id, request, Choice.ANSWER, result="third")
        with pytest.raises(DecisionRefusedError, match="needs words"):
            await desk.decide(run_id, request, Choice.ANSWER, result=" ")
        with pytest.raises(DecisionRefusedError, match="does not answer"):
            await desk.decide(run_id, request, Choice.APPROVE)
        await desk.decide_by_signal(run_id, request, Choice.ANSWER, result="third")
        await desk.decide(run_id, request, Choice.ANSWER, result="second")
        await desk.runs.result(run_id)
        assert desk.texts() == ["an operator (ann) answers: second"]


async def test_who_gives_no_answer_says_why(stage: StageOf) -> None:
    async with stage([call("ask_operator", question=QUESTION), say("then not")], [ask_operator]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.REJECT, reason="ask the customer")
        await desk.runs.result(run_id)
        assert "no answer: an operator (ann) declined" in desk.texts()[0]
        assert "'ask the customer'" in desk.texts()[0]
        [asked, _] = trace(await desk.runs.events(run_id)).turns
        assert asked.calls[0].state == "rejected"


async def test_many_questions_wait_at_once_beside_other_calls_and_over_a_restart(stage: StageOf) -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look at something."""
        return "seen"

    calls = [call("ask_operator", question=f"What is {number}?") for number in range(3)]
    async with stage([[*calls, call("look")], say("all known")], [ask_operator, look], cached=0) as desk:
        run_id = await desk.start()
        waiting = await desk.waiting(run_id, 3)
        await desk.rest()
        for request in reversed(waiting[1:]):
            await desk.decide_by_signal(run_id, request, Choice.ANSWER, result=f"to {request.reason}")
        await desk.serve()
        await desk.decide(run_id, waiting[0], Choice.ANSWER, result=f"to {waiting[0].reason}")
        await desk.runs.result(run_id)
        assert [text.partition("answers: ")[2] or text for text in desk.texts()] == [
            *(f"to What is {number}?" for number in range(3)),
            "seen",
        ]


async def test_a_cancelled_run_leaves_no_question_behind(stage: StageOf) -> None:
    async with stage([call("ask_operator", question=QUESTION)], [ask_operator]) as desk:
        run_id = await desk.start()
        await desk.waiting(run_id)
        await desk.runs.cancel(run_id, reason="enough")
        outcome = await desk.runs.result(run_id)
        assert outcome.state is RunState.CANCELLED
        assert "not answered: the run was cancelled first" in outcome.report[0]
        assert (await desk.runs.find(run_id)).requests == ()


async def test_a_tool_of_that_name_that_is_an_authors_own_runs_on_a_worker(stage: StageOf) -> None:
    @tool(effect="read", name="ask_operator")
    async def ask(question: str) -> str:
        """Ask the switchboard."""
        return "the line is busy"

    async with stage([call("ask_operator", question=QUESTION), say("later")], [ask]) as desk:
        await desk.run()
        assert desk.texts() == ["the line is busy"]


async def test_a_question_is_asked_in_text_mode_too(stage: StageOf) -> None:
    action = f'Thought: I ask.\nAction: ask_operator\nAction Input: {{"question": "{QUESTION}", "choices": ["a"]}}'
    async with stage([say(action), say("Final Answer: a")], [ask_operator], protocol="text+openai-chat") as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.ANSWER, result="a")
        assert (await desk.runs.result(run_id)).answer == "a"
        assert "an operator (ann) answers: a" in desk.heard()
