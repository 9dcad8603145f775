"""A critic looks at the work: what it says is heard, marked as its own, bounded, counted, and decides nothing."""

from dataclasses import replace

import pytest

from perdure import Agent, Critic, ToolError, tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.temporal.journal import Journal
from perdure.testing import blank, call, error, say, think
from perdure.traces.document import document
from perdure.traces.lines import text as as_text
from perdure.traces.narrate import Narration
from perdure.traces.stats import cost
from perdure.traces.text import View, traced
from perdure.traces.turns import trace

PROTOCOLS = ["anthropic", "openai-responses", "openai-chat", "text+openai-chat"]


@tool(effect="read")
async def look(at: int) -> str:
    """Look at something."""
    if at < 0:
        raise ToolError("there is nothing below zero")
    return f"seen {at}"


def system(seen):
    body = seen.body
    told = body.get("system") or body.get("instructions") or body["messages"][0]["content"]
    return str(told)


def is_critic(seen):
    return "You are the critic" in system(seen)


def script(turns, words, protocol="anthropic"):
    """A model that plays these turns, and as its own critic says these words, one after the other."""
    said = iter(words)
    known = {}

    def reply(seen):
        if is_critic(seen):
            if seen.task not in known:  # the same question again gets the same word
                known[seen.task] = next(said)
            return known[seen.task]
        return spoken(turns[seen.turn], protocol)

    return reply


def spoken(turn, protocol):
    if not protocol.startswith("text"):
        return [think("hm"), call("look", at=turn)] if isinstance(turn, int) else say(turn)
    action = f'Action: look\nAction Input: {{"at": {turn}}}'
    return say(f"Thought: hm\n{action}" if isinstance(turn, int) else f"Final Answer: {turn}")


def critics(desk):
    return [request for request in desk.model.requests if "You are the critic" in str(request.body)]


async def seen(desk, run_id):
    return trace(await desk.runs.events(run_id))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_answer_is_sent_back_with_the_critics_note_until_it_approves(stage, protocol):
    words = [say("Say what you saw."), say("APPROVED")]
    model = script([3, "It is there.", "I saw 3."], words, protocol)
    async with stage(model, [look], protocol=protocol, critic=Critic()) as desk:
        run_id = await desk.start("what is at 3?")
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "I saw 3.", 3)
        assert "A critic has read the work so far." in desk.heard(-2)
        assert "Say what you saw." in desk.heard(-2)

        first, _ = critics(desk)
        for part in ("what is at 3?", "seen 3", "It is there.", "meant to be its final answer"):
            assert part in str(first.body)
        assert "tools" not in first.body

        found = await seen(desk, run_id)
        assert [turn.critique and turn.critique.approved for turn in found.turns] == [None, False, True]
        assert found.usage == outcome.usage
        assert sum(turn.usage.input for turn in found.turns) < outcome.usage.input


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_after_an_error_the_critic_says_what_to_change(stage, protocol):
    model = script([-1, 3, "I saw 3."], [say("Look above zero.")], protocol)
    async with stage(model, [look], protocol=protocol, critic=Critic("errors")) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert "nothing below zero" in str(critics(desk)[0].body)
        assert "Look above zero." in desk.heard(2)
        assert "nothing below zero" in desk.heard(2)
        assert len(critics(desk)) == 1


async def test_every_so_many_turns_the_critic_is_asked(stage):
    model = script([1, 2, 3, 4, 5, "done"], [say("APPROVED"), say("Come to an end.")])
    async with stage(model, [look], critic=Critic(when=(), every=2)) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        found = await seen(desk, run_id)
        told = [(turn.number, turn.critique.told) for turn in found.turns if turn.critique]
        assert told == [(2, False), (4, True)]


async def test_the_answer_stands_after_so_many_returns_and_when_the_turns_are_spent(stage):
    grumble = [say(f"Not good enough ({n}).") for n in range(5)]
    async with stage(script([1, "a", "b", "c"], grumble), [look], critic=Critic(returns=2)) as desk:
        assert (await desk.run()).answer == "c"
        assert len(critics(desk)) == 2
    async with stage(script([1, "a"], grumble), [look], turns=2, critic=Critic()) as desk:
        outcome = await desk.run()
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "a")


async def test_a_critic_without_a_word_neither_approves_nor_sends_back(stage):
    async with stage(script([1, "a"], [blank()]), [look], critic=Critic()) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "a"
        critique = (await seen(desk, run_id)).turns[-1].critique
        assert (critique.approved, critique.told, critique.text) == (False, False, "")


async def test_a_critic_may_be_another_vendors_model(stage):
    critic = Critic(model="openai:gpt-6-luna", instructions="Mind the figures.")
    async with stage(script([3, "I saw 3."], [say("APPROVED")]), [look], critic=critic) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        [asked] = critics(desk)
        assert (asked.protocol, asked.body["model"]) == ("openai-responses", "gpt-6-luna")
        assert "Mind the figures." in asked.body["instructions"]


@pytest.mark.parametrize("protocol", ["anthropic", "openai-responses", "text+openai-chat"])
async def test_a_cold_worker_shows_the_critic_and_the_model_the_same(stage, protocol):
    heard = []
    for options in ({}, {"cached": 0, "journal": Journal(kept_bytes=0)}):
        words = [say("Above zero."), say("Say what."), say("APPROVED")]
        model = script([-1, 3, "It is there.", "I saw 3."], words, protocol)
        async with stage(model, [look], protocol=protocol, critic=Critic(["errors", "answer"]), **options) as desk:
            assert (await desk.run()).answer == "I saw 3."
            heard.append([{k: v for k, v in r.body.items() if k != "prompt_cache_key"} for r in desk.model.requests])
    assert heard[0] == heard[1]


async def test_a_deploy_that_takes_the_critic_away_changes_nothing_in_flight(stage):
    @tool(effect="read", ask=True)
    async def look(at: int) -> str:
        """Look."""
        return f"seen {at}"

    async with stage(script([3, "a", "b"], [say("Again."), say("APPROVED")]), [look], critic=Critic()) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.serve(Agent(desk.agent.name, model=desk.agent.model, instructions="", tools=[look]))
        await desk.decide(run_id, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).answer == "b"
        assert len(critics(desk)) == 2


async def test_a_critic_that_cannot_be_asked_makes_the_run_wait_until_it_is_mended(stage):
    words = [[error(401, times=1), say("APPROVED")]]
    async with stage(script([3, "a"], words), [look], critic=Critic(), strictly=False) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.STUCK
        await desk.decide(run_id, request, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "a"


async def test_a_critic_for_whom_the_work_is_too_long_has_nothing_to_say(stage):
    words = [error(413, times=None)]
    async with stage(script([3, "a"], words), [look], critic=Critic(), strictly=False) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "a"
        assert (await seen(desk, run_id)).turns[-1].critique.executions[0].failure.startswith("TooLong")


async def test_an_answer_with_a_form_is_checked_before_the_critic_sees_it(stage):
    model = script([3, "some", '{"a": 1}', '{"a": 2}'], [say("It is 2."), say("APPROVED")])
    async with stage(model, [look], critic=Critic(), answer=dict[str, int]) as desk:
        assert (await desk.run()).answer == '{"a":2}'
        assert len(critics(desk)) == 2


async def test_what_the_critic_costs_is_part_of_what_the_run_costs(stage):
    async with stage(script([3, "I saw 3."], [say("APPROVED")]), [look], critic=Critic()) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        found = await seen(desk, run_id)
        alone = replace(found, turns=tuple(replace(turn, critique=None) for turn in found.turns))
        assert cost(found)[0] > cost(alone)[0] > 0


async def test_the_trace_tells_what_the_critic_said(stage):
    model = script([3, "It is there.", "I saw 3."], [say("Say what you saw."), say("APPROVED")])
    async with stage(model, [look], critic=Critic()) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        events = await desk.runs.events(run_id)
        found = trace(events)
        whole = as_text(traced(found, View(found.last)))
        assert "critic   Say what you saw." in whole
        assert "has nothing to change" in whole
        narration = Narration()
        told = as_text(line for event in events for line in narration.feed(event))
        assert "Say what you saw." in told
        assert document(found)["turns"][1]["critique"]["text"] == "Say what you saw."
