"""An answer has the form that its agent declares, or the run is not answered."""

import json
from decimal import Decimal

import pytest
from pydantic import BaseModel

from perdure import Agent, tool
from perdure.core.contracts import Choice, RunState
from perdure.temporal.journal import Journal
from perdure.testing import call, say, think
from perdure.traces.document import document
from perdure.traces.lines import text as as_text
from perdure.traces.text import View, ending
from perdure.traces.turns import trace

PROTOCOLS = ["anthropic", "openai-responses", "openai-chat"]
ALL = [*PROTOCOLS, "text+openai-chat", "text+anthropic", "text+openai-responses"]


class Refund(BaseModel):
    order: int
    amount: Decimal
    address2: str | None = None


GOOD = '{"order": 7, "amount": 49.9}'
CANONICAL = '{"order":7,"amount":"49.9","address2":null}'
WORDS = "The refund for order 7 is 49.90."


@tool(effect="read")
async def get_order(id: int) -> str:
    """Look an order up."""
    return f"order {id}: paid 49.90"


def spoken(protocol, *answers):
    """The tool, then these answers, as the protocol says them."""
    if protocol.startswith("text"):
        looks = say('Thought: I look.\nAction: get_order\nAction Input: {"id": 7}')
        return [looks, *(say(f"Thought: I have it.\nFinal Answer: {answer}") for answer in answers)]
    return [[think("I look."), say("I look order 7 up."), call("get_order", {"id": 7})], *map(say, answers)]


async def seen(desk, run_id):
    return trace(await desk.runs.events(run_id))


@pytest.mark.parametrize("protocol", ALL)
async def test_an_answer_that_does_not_fit_goes_back_with_what_is_wrong_and_the_next_is_taken(stage, protocol):
    script = spoken(protocol, WORDS, f"```json\n{GOOD}\n```")
    async with stage(script, [get_order], protocol=protocol, answer=Refund) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, CANONICAL, 3)
        assert outcome.answer_as(Refund) == Refund(order=7, amount=Decimal("49.9"))
        assert "does not have the form it must have: it is not one JSON value" in desk.heard()

        _, unfit, fit = (await seen(desk, run_id)).turns
        assert (unfit.stop, unfit.answer, fit.stop) == ("unread", "", "answer")
        assert WORDS in [part.text for part in unfit.claims]
        assert fit.heard[0].startswith("Your answer does not have the form")


@pytest.mark.parametrize("protocol", ALL)
async def test_three_answers_in_a_row_that_do_not_fit_end_the_run_limited(stage, protocol):
    bad = '{"order": 7, "amount": "much"}'
    async with stage(spoken(protocol, bad, bad, bad, GOOD), [get_order], protocol=protocol, answer=Refund) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, "", 4)
        assert "3 turns in a row" in outcome.reason
        assert "'amount': input should be" in outcome.reason
        with pytest.raises(ValueError, match="not answered"):
            outcome.answer_as(Refund)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("said", "answer", "why"), [(GOOD, CANONICAL, ""), (WORDS, WORDS, "is no answer")])
async def test_the_last_turn_is_held_against_the_form_once(stage, protocol, said, answer, why):
    async with stage(spoken(protocol, said), [get_order], protocol=protocol, turns=1, answer=Refund) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, answer, 2)
        assert outcome.reason.startswith("the budget of 1 turn is spent")
        assert why in outcome.reason


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_vendor_is_told_the_form_alike_on_every_turn_where_there_is_no_tool(stage, protocol):
    key = {"anthropic": "output_config", "openai-responses": "text", "openai-chat": "response_format"}[protocol]
    async with stage([say(WORDS), say(GOOD)], protocol=protocol, answer=Refund) as desk:
        assert (await desk.run()).answer == CANONICAL
        first, second = (request.body for request in desk.model.requests)
        assert "address2" in json.dumps(first[key])
        assert first[key] == second[key]


@pytest.mark.parametrize("protocol", ["anthropic", "text+openai-chat"])
async def test_a_cold_worker_holds_it_against_the_same_form(stage, protocol):
    script = spoken(protocol, WORDS, GOOD)
    async with stage(
        script, [get_order], protocol=protocol, answer=Refund, cached=0, journal=Journal(kept_bytes=0)
    ) as desk:
        assert (await desk.run()).answer == CANONICAL


class Other(BaseModel):
    colour: str


@pytest.mark.parametrize("later", [None, Other])
async def test_a_run_keeps_its_form_over_a_deploy(stage, later):
    """The next worker's agent has no form any more, or another."""

    @tool(effect="read", ask=True)
    async def look() -> str:
        """Look."""
        return "seen"

    async with stage([call("look"), say('{"colour": "red"}'), say(GOOD)], [look], answer=Refund) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.serve(Agent(desk.agent.name, model=desk.agent.model, instructions="", tools=[look], answer=later))
        await desk.decide(run_id, request, Choice.APPROVE)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, json.loads(outcome.answer)) == (RunState.ANSWERED, {"order": 7, "amount": 49.9})
        assert "'order' is a required property" in desk.heard()


async def test_programs_read_a_value_and_people_read_it_laid_out(stage):
    async with stage(spoken("anthropic", GOOD), [get_order], answer=Refund) as desk:
        run_id = await desk.start("refund order 7")
        await desk.runs.result(run_id)
        found = await seen(desk, run_id)
        assert document(found)["answer"] == {"order": 7, "amount": "49.9", "address2": None}
        assert document(found)["outcome"]["answer"] == CANONICAL
        assert '"amount"' in as_text(ending(found, View(found.last)))
        assert found.unsupported == ()


async def test_figures_are_marked_in_values_and_not_in_keys(stage):
    said = '{"order": 7, "amount": 1234.5, "address2": "floor\\n93"}'
    async with stage(spoken("anthropic", said), [get_order], answer=Refund) as desk:
        run_id = await desk.start("refund order 7")
        answer = (await desk.runs.result(run_id)).answer
        found = (await seen(desk, run_id)).unsupported
        assert [figure.text for figure in found] == ["1234.5", "93"]
        assert [answer[figure.start : figure.end] for figure in found] == ["1234.5", "93"]
