"""C09, and what a run may spend: every limit ends in one last turn without tools, and never in a success."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from perdure import Budget, Critic, Prices, tool
from perdure.core.contracts import Choice, RequestKind, RunState, Steer, Steering
from perdure.testing import Script, blank, call, error, say
from perdure.traces.turns import trace


@tool(effect="read")
async def look(at: int) -> str:
    """Look at something."""
    return f"seen {at}"


@tool(effect="idempotent")
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


def looks(seen):
    """Looks on and on, until no tool can be called any more: then it says so."""
    return say("so far: seen 0") if "can be called any more" in str(seen.body) else call("look", at=seen.turn)


PRICES = Prices(input="10", output="50")


async def test_tokens_are_bounded_on_every_protocol(stage, protocol):
    async with stage(looks, [look], protocol=protocol, budget=Budget(turns=50, tokens=9_000)) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer) == (RunState.LIMITED, "so far: seen 0")
        assert outcome.reason.startswith("the budget of 9,000 tokens is spent (")
        assert outcome.usage.input + outcome.usage.output >= 9_000
        assert 2 < outcome.turns < 50


async def test_money_is_bounded_by_the_price_of_the_list(stage):
    async with stage(looks, [look], budget=Budget(turns=50, money="0.02")) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert outcome.state is RunState.LIMITED
        assert outcome.reason.startswith("the budget of $0.02 is spent ($0.0")
        told = trace(await desk.runs.events(run_id))
        assert told.cost == outcome.cost == sum(turn.cost for turn in told.turns)
        assert outcome.cost >= Decimal("0.02")
        assert told.turns[-1].heard[0].startswith("The budget of $0.02 is spent")


async def test_money_is_bounded_by_the_authors_price(stage, protocol):
    async with stage(looks, [look], protocol=protocol, budget=Budget(turns=50, money="0.10"), prices=PRICES) as desk:
        outcome = await desk.run()
        assert outcome.reason.startswith("the budget of $0.10 is spent")
        assert outcome.cost == PRICES.cost(outcome.usage)


async def test_a_model_that_nobody_can_price_is_not_asked_until_somebody_says_what_it_costs(stage):
    """An open server at another address: what it costs is its owner's business."""
    budget = Budget(turns=50, money="0.10")
    async with stage([call("look", at=1), say("seen")], [look], protocol="openai-chat", budget=budget) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.STUCK
        assert "nobody knows what 'gpt-6-luna' costs" in request.reason
        assert desk.model.requests == []
        await desk.serve(replace(desk.agent, prices=PRICES))
        await desk.decide(run_id, request, Choice.RETRY)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.cost) == (RunState.ANSWERED, PRICES.cost(outcome.usage))


async def test_a_model_that_takes_over_has_its_own_price_and_one_without_is_passed_over(stage):
    first = Script(lambda seen: error(401), model="claude-opus-5-5")
    spare = Script([call("look", at=1), say("seen")], model="gpt-6-luna")
    chain = ["openai-chat:nobody-knows", "openai-chat:gpt-6-luna"]
    prices = {"openai-chat:gpt-6-luna": PRICES}
    budget = Budget(money="0.50")
    async with stage((first, spare), [look], fallbacks=chain, prices=prices, budget=budget) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.cost) == (RunState.ANSWERED, PRICES.cost(outcome.usage))
        assert "nobody knows what 'nobody-knows' costs" in str(trace(await desk.runs.events(run_id)).turns[0].passed)


async def test_a_critic_is_paid_from_the_same_budget(stage):
    def script(seen):
        return say("Go on.") if "You are the critic" in str(seen.body["system"]) else looks(seen)

    async with stage(
        script, [look], critic=Critic((), every=1, notes=9), budget=Budget(turns=50, money="0.03")
    ) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert outcome.reason.startswith("the budget of $0.03 is spent")
        turns = trace(await desk.runs.events(run_id)).turns
        own, critics = sum(t.cost for t in turns), sum(t.critique.cost for t in turns if t.critique)
        assert critics > 0
        assert outcome.cost == own + critics == trace(await desk.runs.events(run_id)).cost


@pytest.mark.slow  # waits for many seconds
async def test_time_stands_still_while_a_run_is_paused(stage):
    async with stage([call("look", at=1), say("seen")], [look], budget=Budget(time=4)) as desk:
        await desk.rest()
        run_id = await desk.start()
        await desk.runs.steer(run_id, Steering(id="p", steer=Steer.PAUSE, by="ann"))
        await desk.serve()
        await asyncio.sleep(4.5)
        await desk.runs.steer(run_id, Steering(id="r", steer=Steer.RESUME, by="ann"))
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


async def test_without_a_budget_of_money_an_unknown_price_is_said_and_stops_nothing(stage):
    async with stage([call("look", at=1), say("seen")], [look], protocol="openai-chat") as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.cost) == (RunState.ANSWERED, None)


async def test_time_in_which_tools_run_counts(stage):
    @tool(effect="read")
    async def dig(at: int) -> str:
        """Dig, which takes a while."""
        await asyncio.sleep(0.6)
        return f"dug {at}"

    async with stage([call("dig", at=1), say("that far")], [dig], budget=Budget(time=timedelta(seconds=0.5))) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, "that far", 2)
        assert "s of thinking and acting)" in outcome.reason
        assert desk.texts() == ["dug 1"]


async def test_time_in_which_people_are_waited_for_does_not_count(stage):
    async with stage([call("pay", to="ann"), say("paid")], [pay], budget=Budget(time=4)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await asyncio.sleep(4.5)
        await desk.decide(run_id, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


async def test_an_operator_is_asked_at_a_limit_and_gives_more(stage, protocol):
    script = [*(call("look", at=n) for n in range(3)), say("all seen")]
    async with stage(script, [look], protocol=protocol, budget=Budget(turns=2, ask=True)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert (request.kind, request.reason) == (RequestKind.LIMIT, "the budget of 2 turns is spent")
        assert len(desk.model.requests) == 2
        await desk.serve()
        await desk.decide(run_id, request, Choice.EXTEND)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "all seen", 4)
        told = trace(await desk.runs.events(run_id))
        [asked] = told.turns[2].asked
        assert (asked.settled.choice, asked.settled.by, told.extended) == (Choice.EXTEND, "ann", True)


async def test_an_operator_who_gives_no_more_ends_it_with_a_last_answer(stage):
    async with stage(looks, [look], budget=Budget(turns=2, ask=True)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.FINISH)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, "so far: seen 0", 3)


async def test_each_limit_that_is_reached_again_is_asked_about_again(stage):
    async with stage(looks, [look], budget=Budget(turns=1, ask=True)) as desk:
        run_id = await desk.start()
        for choice in (Choice.EXTEND, Choice.EXTEND, Choice.FINISH):
            [request] = await desk.waiting(run_id)
            await desk.decide(run_id, request, choice)
        assert (await desk.runs.result(run_id)).turns == 4


@pytest.mark.parametrize("choice", [Choice.APPROVE, Choice.RETRY, Choice.STOP])
async def test_a_limit_takes_no_other_choice(stage, choice):
    async with stage(looks, [look], budget=Budget(turns=1, ask=True)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        with pytest.raises(Exception, match="does not answer a request of kind limit"):
            await desk.decide(run_id, request, choice)
        await desk.runs.cancel(run_id)
        assert (await desk.runs.result(run_id)).state is RunState.CANCELLED


async def test_c09_a_blank_end_is_no_success_on_the_last_turn_either(stage, protocol):
    script = [call("look", at=1), blank()]
    async with stage(script, [look], protocol=protocol, budget=Budget(turns=1)) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer) == (RunState.LIMITED, "")
        assert outcome.reason == "the budget of 1 turn is spent; it gave no answer when asked for one"


async def test_c09_blank_turns_alone_end_without_an_answer(stage, protocol):
    async with stage([blank(), blank(), blank()], [look], protocol=protocol) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer) == (RunState.LIMITED, "")
        assert outcome.reason == "no answer: 3 empty turns in a row"
