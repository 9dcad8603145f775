"""An agent works for another one: its run is its own, and what came of it is an observation."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from perdure import Agent, Budget, ToolContext, tool
from perdure.core.contracts import RUN, Choice, Delegated, RequestKind, RunState, Start, Steer
from perdure.core.runs import SteeringRefusedError
from perdure.temporal.delegated import NotDelegatedError, outcome_of
from perdure.testing import call, error, say
from perdure.traces.lines import Line, Span
from perdure.traces.narrate import Narration
from perdure.traces.stats import stats
from perdure.traces.text import View
from perdure.traces.text import traced as traced_text
from tests.conftest import MODELS, StageOf
from tests.trial_cases.team import ASK, cast, children, endless, look, payroll, raise_pay, stood, traced

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("protocol", ["anthropic", "openai-responses", "openai-chat"])
async def test_what_another_agent_answers_is_the_observation(stage: StageOf, protocol: str) -> None:
    script = cast([ASK, lambda seen: say(f"She is paid {seen.observations[-1]}")], [say("4,000")])
    tools = [payroll(protocol=protocol).as_tool("Knows what everybody is paid.")]
    async with stage(script, tools, protocol=protocol) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "She is paid 4,000")
        [child] = await children(desk, run_id)
        row = await desk.runs.find(child)
        assert (row.agent, row.parent, row.state) == ("payroll", run_id, RunState.ANSWERED)
        assert [each.run_id for each in await desk.runs.list(agent="payroll") if each.parent == run_id] == [child]
        theirs = await traced(desk, child)
        assert (theirs.parent, theirs.task, theirs.tools) == (run_id, "What is ann paid?", None)
        assert "do it" not in str(theirs)
        [body] = [each.body for each in desk.model.requests if "You are payroll." in str(each.body)]
        assert "You are tested." not in str(body)


async def test_a_text_mode_agent_hands_work_on(stage: StageOf) -> None:
    action = 'Thought: they know.\nAction: payroll\nAction Input: {"task": "What is ann paid?"}'
    final = "Thought: fine.\nFinal Answer: 4,000"
    script = cast([say(action), say(final)], [say("Thought: I know.\nFinal Answer: 4,000")])
    tools = [payroll(protocol="text+openai-chat").as_tool("Knows what everybody is paid.")]
    async with stage(script, tools, protocol="text+openai-chat") as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "4,000"
        [child] = await children(desk, run_id)
        assert (await traced(desk, child)).protocol == "text+openai-chat"
        assert (await traced(desk, run_id)).turns[0].calls[0].observation == "4,000"


async def test_what_the_other_agent_does_waits_in_the_same_inbox_over_a_restart(stage: StageOf) -> None:
    script = cast([ASK, say("fine")], [call("raise_pay", to=5000), lambda seen: say(seen.observations[-1])])
    async with stage(script, [payroll([raise_pay]).as_tool("Raises pay.")], cached=0) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [request] = await desk.waiting(child)
        assert (request.kind, request.tool) == (RequestKind.APPROVAL, "raise_pay")
        found, _ = await desk.listed(request)
        assert (found.run_id, found.parent) == (child, run_id)
        above = await desk.runs.find(run_id)
        assert (above.state, above.requests) == (RunState.ACTING, ())
        seen_above = await traced(desk, run_id)
        told = [line.spans for line in traced_text(seen_above, View(now=seen_above.last))]
        assert [Span(f"perdure show {child}", "command")] in [list(spans) for spans in told]
        await desk.rest()
        await desk.decide_by_signal(child, request, Choice.APPROVE)
        await desk.serve()
        assert (await desk.runs.result(run_id)).answer == "fine"
        [seen] = (await traced(desk, run_id)).turns[0].calls
        assert (seen.state, seen.observation, seen.by) == ("ok", "she is paid 5000 now", child)


async def test_an_operator_may_be_asked_before_work_is_handed_on(stage: StageOf) -> None:
    script = cast([ASK, say("then not")])
    async with stage(script, [payroll().as_tool("Knows what everybody is paid.", ask=True)]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.REJECT, reason="none of its business")
        await desk.runs.result(run_id)
        assert "none of its business" in desk.texts()[0]
        assert [each for each in await desk.runs.list() if each.parent == run_id] == []


async def test_approved_work_is_handed_on(stage: StageOf) -> None:
    script = cast([ASK, say("fine")], [say("4,000")])
    async with stage(script, [payroll().as_tool("Knows what everybody is paid.", ask=True)]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.APPROVE)
        await desk.runs.result(run_id)
        assert desk.texts() == ["4,000"]


@pytest.mark.parametrize(("task", "why"), [("x" * 20_001, "20000 characters"), (" \n ", "at least 1 character")])
async def test_a_task_that_is_too_long_or_none_is_refused_with_advice(stage: StageOf, task: str, why: str) -> None:
    script = cast([call("payroll", task=task), say("then not")])
    async with stage(script, [payroll().as_tool("Knows what everybody is paid.")]) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        assert why in desk.texts()[0]
        assert (await traced(desk, run_id)).turns[0].calls[0].state == "refused"


# --- ends ------------------------------------------------------------------------------------------------------------


async def test_an_incomplete_answer_says_so(stage: StageOf) -> None:
    script = cast([ASK, say("hm")], lambda seen: call("look") if seen.turn == 0 else say("perhaps 4,000"))
    async with stage(script, [payroll([look], budget=Budget(turns=1)).as_tool("Knows.")]) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        [told] = desk.texts()
        assert told.startswith("[not complete: the agent's run ended limited, since the budget of 1 turn is spent")
        assert told.endswith("]\nperhaps 4,000")


async def test_a_run_that_is_stopped_by_a_person_is_an_error_for_the_other_which_goes_on(stage: StageOf) -> None:
    script = cast([ASK, say("without it, then")], [error(401)])
    async with stage(script, [payroll().as_tool("Knows.")]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [request] = await desk.waiting(child)
        assert request.kind is RequestKind.STUCK
        await desk.decide(child, request, Choice.STOP)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "without it, then")
        [seen] = (await traced(desk, run_id)).turns[0].calls
        assert seen.state == "error"
        assert "no answer: the agent's run ended failed (" in (seen.observation or "")
        assert "stopped by 'ann'" in (seen.observation or "")
        with pytest.raises(SteeringRefusedError, match="which was told that it failed"):
            await desk.runs.retry(child, by="ann")


async def test_a_run_that_is_cancelled_alone_is_an_error_for_the_other_which_goes_on(stage: StageOf) -> None:
    script = cast([ASK, say("without it, then")], [[call("look"), call("raise_pay", to=1)]])
    async with stage(script, [payroll([look, raise_pay]).as_tool("Raises pay.")]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        await desk.waiting(child)
        await desk.runs.cancel(child, reason="not today")
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "without it, then")
        [told] = desk.texts()
        assert "no answer: the agent's run ended cancelled (not today)" in told
        assert "- raise_pay(to=1): not run: the run was cancelled first" in told
        assert outcome.usage == (await traced(desk, run_id)).usage + (await desk.runs.result(child)).usage


async def test_a_run_that_is_terminated_is_an_error_and_its_tokens_count(stage: StageOf) -> None:
    script = cast([ASK, say("without it, then")], [call("raise_pay", to=1)])
    async with stage(script, [payroll([raise_pay]).as_tool("Raises pay.")]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        await desk.waiting(child)
        await desk.client.get_workflow_handle(child).terminate(reason="away with it")
        outcome = await desk.runs.result(run_id)
        assert "ended failed (terminated: away with it)" in desk.texts()[0]
        ours, theirs = await traced(desk, run_id), await traced(desk, child)
        assert outcome.usage == ours.usage + theirs.usage
        assert outcome.cost == sum(turn.cost or Decimal(0) for each in (ours, theirs) for turn in each.turns)


async def test_a_cancel_goes_down_and_is_reported(stage: StageOf) -> None:
    ended = []

    @tool(effect="once", ask=False)
    async def slow() -> str:
        """Do it slowly."""
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)
        return "done"

    other = Agent("clerk", model=MODELS["anthropic"], instructions="You are a clerk.", tools=[slow])
    script = cast([ASK], [call("clerk", task="1 go")], [call("slow")])
    async with stage(script, [payroll([other.as_tool("Does it.")]).as_tool("Knows.")]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [below] = await children(desk, child)
        await stood(desk, below, RunState.ACTING)
        while not [each for each in (await traced(desk, below)).turns if each.calls]:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        await desk.runs.cancel(run_id, reason="enough")
        outcome = await desk.runs.result(run_id)
        assert outcome.state is RunState.CANCELLED
        assert ended == [True]
        states = {each: (await desk.runs.find(each)).state for each in (child, below)}
        assert states == {child: RunState.CANCELLED, below: RunState.CANCELLED}
        [line] = outcome.report
        assert f"run {child} ended cancelled: the run that it works for ended first" in line
        assert f"run {below} ended cancelled" in (await desk.runs.result(child)).report[0]
        assert "slow(): outcome unknown" in (await desk.runs.result(below)).report[0]
        assert outcome.usage == sum(
            [(await traced(desk, each)).usage for each in (child, below)], (await traced(desk, run_id)).usage
        )


async def test_a_run_that_fails_ends_those_that_work_for_it_first(stage: StageOf) -> None:
    peek = tool(look.function, effect="read", ask=True, name="peek")
    script = cast([[ASK, call("peek")]], [call("raise_pay", to=1)])
    helping = payroll([raise_pay]).as_tool("Raises pay.")
    async with stage(script, [helping, peek]) as desk:
        whole = desk.agent
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        await desk.waiting(child)
        [request] = await desk.waiting(run_id)
        await desk.serve(Agent(whole.name, model=whole.model, instructions="You are tested.", tools=[helping]))
        await desk.decide(run_id, request, Choice.APPROVE)
        while (waits := await desk.waiting(run_id))[0].kind is not RequestKind.STUCK:
            await asyncio.sleep(0.05)
        await desk.decide(run_id, waits[0], Choice.STOP)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, (await desk.runs.find(child)).state) == (RunState.FAILED, RunState.CANCELLED)
        assert f"run {child} ended cancelled" in outcome.report[0]


async def test_a_paused_run_is_cancelled_with_those_that_work_for_it(stage: StageOf) -> None:
    script = cast([ASK], [call("raise_pay", to=1)])
    async with stage(script, [payroll([raise_pay]).as_tool("Raises pay.")]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        await desk.waiting(child)
        await desk.steer(run_id, Steer.PAUSE)
        await desk.runs.cancel(run_id, reason="enough")
        async with asyncio.timeout(30):
            outcome = await desk.runs.result(run_id)
        assert (outcome.state, (await desk.runs.find(child)).state) == (RunState.CANCELLED, RunState.CANCELLED)
        assert f"run {child} ended cancelled" in outcome.report[0]


async def test_who_just_starts_a_run_chooses_no_keys(stage: StageOf) -> None:
    keys = []

    @tool(effect="idempotent", ask=False)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return "paid"

    async with stage([call("pay"), say("paid")], [pay]) as desk:
        start = Start(agent=desk.agent.name, task="do it", root="chosen")
        for run_id in (f"first-{desk.task_queue}", f"second-{desk.task_queue}"):
            await desk.client.execute_workflow(RUN, start, id=run_id, task_queue=desk.task_queue)
            desk.started.append(run_id)
        assert len(set(keys)) == 2


# --- budgets ---------------------------------------------------------------------------------------------------------


def both(*more: Any) -> Any:
    return [[call("payroll", task="0 go"), call("clerk", task="1 go"), *more], say("enough")]


async def test_two_at_once_share_what_is_left_and_the_other_pays_for_both(stage: StageOf) -> None:
    clerk = Agent("clerk", model=MODELS["anthropic"], instructions="You are a clerk.", tools=[look])
    tools = [payroll([look]).as_tool("Knows."), clerk.as_tool("Writes.")]
    async with stage(cast(both(), endless, endless), tools, budget=Budget(tokens=8_000)) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        found = await children(desk, run_id, 2)
        ours = await traced(desk, run_id)
        theirs = [await desk.runs.result(each) for each in found]
        left = 8_000 - ours.turns[0].usage.input - ours.turns[0].usage.output
        for each in theirs:
            assert each.state is RunState.LIMITED
            assert f"the budget of {left // 2:,} tokens, its share of its parent's, is spent" in each.reason
        assert outcome.usage == ours.usage + theirs[0].usage + theirs[1].usage
        assert (outcome.state, outcome.reason.startswith("the budget of 8,000 tokens is spent")) == (
            RunState.LIMITED,
            True,
        )
        assert outcome.cost == ours.cost
        assert all("not complete: the agent's run ended limited" in text for text in desk.texts())


async def test_nobody_is_asked_for_more_of_a_share(stage: StageOf) -> None:
    tools = [payroll([look], budget=Budget(tokens=100_000, ask=True)).as_tool("Knows.")]
    async with stage(cast([ASK, say("enough")], endless), tools, budget=Budget(tokens=4_000)) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        [child] = await children(desk, run_id)
        assert (await traced(desk, child)).all_asked == ()
        assert "its share of its parent's" in (await desk.runs.result(child)).reason


async def test_where_nothing_is_left_work_is_not_handed_on(stage: StageOf) -> None:
    async with stage(cast([ASK, say("enough")]), [payroll().as_tool("Knows.")], budget=Budget(tokens=10)) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.LIMITED
        assert "nothing is left of this run's budget" in desk.texts()[0]
        assert (await traced(desk, run_id)).turns[0].calls[0].by == ""


async def test_while_the_other_waits_for_a_person_no_time_is_spent(stage: StageOf) -> None:
    script = cast([ASK, say("fine")], [call("raise_pay", to=1), say("raised")])
    async with stage(script, [payroll([raise_pay]).as_tool("Raises pay.")], budget=Budget(time=3)) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [request] = await desk.waiting(child)
        await asyncio.sleep(4)
        await desk.decide(child, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


async def test_the_time_that_the_other_works_counts(stage: StageOf) -> None:
    @tool(effect="read")
    async def slow() -> str:
        """Look slowly."""
        await asyncio.sleep(2)
        return "seen"

    script = cast([ASK, say("late")], [call("slow"), say("seen")])
    async with stage(script, [payroll([slow]).as_tool("Knows.")], budget=Budget(time=1.5)) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        [child] = await children(desk, run_id)
        assert (outcome.state, (await desk.runs.result(child)).state) == (RunState.LIMITED, RunState.LIMITED)
        assert "s is spent" in outcome.reason


# --- what keeps it ----------------------------------------------------------------------------------------------------


async def test_a_worker_without_the_other_agent_makes_its_run_wait(stage: StageOf) -> None:
    script = cast([ASK, say("fine")], [say("4,000")])
    async with stage(script, [payroll().as_tool("Knows.", ask=True)]) as desk:
        whole = desk.agent
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.serve(Agent(whole.name, model=whole.model, instructions="You are tested.", tools=[look]))
        await desk.decide(run_id, request, Choice.APPROVE)
        [child] = await children(desk, run_id)
        [stuck] = await desk.waiting(child)
        assert (stuck.kind, "serves no agent 'payroll'" in stuck.reason) == (RequestKind.STUCK, True)
        await desk.serve(whole)
        await desk.decide(child, stuck, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "fine"


async def test_a_paused_run_hands_nothing_on(stage: StageOf) -> None:
    script = cast([ASK, say("fine")], [say("4,000")])
    async with stage(script, [payroll().as_tool("Knows.", ask=True)]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.steer(run_id, Steer.PAUSE)
        await desk.decide(run_id, request, Choice.APPROVE)
        await asyncio.sleep(0.5)
        assert (await traced(desk, run_id)).turns[0].calls[0].by == ""
        await desk.steer(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).answer == "fine"
        assert desk.texts() == ["4,000"]


async def test_only_the_run_that_works_for_the_call_is_believed(stage: StageOf) -> None:
    async with stage(cast([ASK, say("fine")], [say("4,000")]), [payroll().as_tool("Knows.")]) as desk:
        run_id, another = await desk.start(), await desk.start()
        await desk.runs.result(run_id)
        [child] = await children(desk, run_id)
        key = (await traced(desk, run_id)).turns[0].calls[0].key
        by = Delegated(run_id=child, segment_id=(await desk.runs.find(child)).segment_id)
        assert (await outcome_of(desk.client, by, parent=run_id, root=key)).answer == "4,000"
        for parent, root in ((another, key), (run_id, "another")):
            with pytest.raises(NotDelegatedError, match="no run that works for this call"):
                await outcome_of(desk.client, by, parent=parent, root=root)
        gone = by.model_copy(update={"run_id": "nobody"})
        with pytest.raises(NotDelegatedError, match="holds no run"):
            await outcome_of(desk.client, gone, parent=run_id, root=key)
        await desk.runs.result(another)


# --- what is seen of it -----------------------------------------------------------------------------------------------


def written(line: Line) -> str:
    return line.head + "".join(span.text for span in line.spans)


async def test_each_trace_names_the_other_run_and_tokens_are_counted_once(stage: StageOf) -> None:
    async with stage(cast([ASK, say("fine")], [say("4,000")]), [payroll().as_tool("Knows.")]) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        [child] = await children(desk, run_id)
        ours, theirs = await traced(desk, run_id), await traced(desk, child)
        view = View(now=ours.last)
        shown = {each.run_id: [written(line) for line in traced_text(each, view)] for each in (ours, theirs)}
        assert f"  by       run {child}" in shown[run_id]
        assert f"  for      run {run_id}" in shown[child]
        tokens = f"{theirs.usage.input:,} tokens in, {theirs.usage.output:,} out"
        assert f"           of that, {tokens} by the runs that it handed work to" in shown[run_id]
        assert ours.handed == theirs.usage
        assert outcome.usage == ours.usage + theirs.usage
        assert ours.cost == outcome.cost == sum(turn.cost or Decimal(0) for turn in (*ours.turns, *theirs.turns))
        found = {each.agent: each.input.total for each in stats([ours, theirs]) if each.input}
        assert sum(found.values()) == outcome.usage.input
        narration = Narration()
        told = [written(line) for event in await desk.runs.events(run_id) for line in narration.feed(event)]
        assert [line for line in told if f"by        run {child}" in line]
