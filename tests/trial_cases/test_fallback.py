"""A vendor is out: the run goes on with the next of its models, and what was said and done is carried over."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise, product

import pytest

from activities import fallback
from perdure import tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.temporal.journal import Journal
from perdure.testing import Script, call, error, pause, say, think
from perdure.traces import lines as rows
from perdure.traces import text
from perdure.traces.turns import trace
from tests.conftest import MODELS, asked

SPARE = {
    "anthropic": "anthropic:claude-haiku-5-5",
    "openai-responses": "openai:gpt-5.5",
    "openai-chat": "openai-chat:gpt-5.6-luna",
    "text+openai-chat": "text+openai-chat:llama3",
}
PAIRS = list(product(("anthropic", "openai-responses", "openai-chat"), SPARE))


@tool(effect="read")
def look(at: int) -> str:
    """Look at something."""
    return f"seen {at}"


def first(reply, protocol="anthropic"):
    return Script(reply, model=MODELS[protocol].partition(":")[2])


def spare(reply, protocol="openai-responses"):
    return Script(reply, model=SPARE[protocol].partition(":")[2])


def models(desk):
    """Which model each request went to, and how it was answered."""
    return [(request.body["model"], request.status) for request in desk.model.requests]


def until(turn, reply, then):
    return lambda seen: reply(seen) if seen.turn < turn else then


def looking(seen):
    return [think(f"thought {seen.turn}"), say("Looking."), call("look", at=seen.turn)]


def written(seen):
    return f'Thought: so\nAction: look\nAction Input: {{"at": {seen.turn}}}'


@pytest.mark.parametrize(("protocol", "other"), PAIRS)
async def test_the_transcript_is_carried_over_without_foreign_thoughts(stage, protocol, other):
    done = "Final Answer: done" if other.startswith("text") else "done"
    carry_on = until(4, written if other.startswith("text") else looking, say(done))
    scripts = (first(until(2, looking, error(401)), protocol), spare(carry_on, other))
    async with stage(scripts, [look], protocol=protocol, fallbacks=[SPARE[other]]) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "done", 5)
        assert all(f"seen {turn}" in desk.heard() for turn in range(4))
        assert "thought 0" not in desk.heard()
        assert "thought 1" not in desk.heard()
        seen = trace(await desk.runs.events(desk.started[0]))
        assert [turn.model for turn in seen.turns] == [MODELS[protocol].partition(":")[2]] * 2 + [
            SPARE[other].partition(":")[2]
        ] * 3
        assert [turn.protocol for turn in seen.turns] == ["", "", other, other, other]


async def test_an_overload_is_sat_out_for_a_while_and_then_the_next_model_is_asked(stage):
    scripts = (first(lambda seen: error(529, retry_after=0.05)), spare(until(2, looking, say("done"))))
    async with stage(scripts, [look], fallbacks=[SPARE["openai-responses"]]) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        out, other = ("claude-opus-5-5", 529), ("gpt-5.5", 200)
        assert models(desk) == [out, out, out, out, out, other, other, other]
        events = await desk.runs.events(desk.started[0])
        assert [each.activity_id for each in asked(events)] == ["think-1", "think-2", "think-3"]
        lines = text.traced(trace(events), text.View(now=datetime.now(UTC), zone=UTC, limit=None))
        told = rows.text(lines)
        assert "anthropic claude-opus-5-5: Anthropic answered 529" in told


async def test_a_short_overload_is_no_reason_to_change(stage):
    scripts = (first([[error(529, retry_after=0.05, times=3), say("done")]]), spare([say("never")]))
    async with stage(scripts, [look], fallbacks=[SPARE["openai-responses"]]) as desk:
        assert (await desk.run()).answer == "done"
        assert [model for model, _ in models(desk)] == ["claude-opus-5-5"] * 4


async def test_a_long_wait_that_the_vendor_asks_for_is_not_sat_out(stage):
    scripts = (first(lambda seen: error(429, retry_after=300)), spare([say("done")]))
    async with stage(scripts, [look], fallbacks=[SPARE["openai-responses"]]) as desk:
        assert (await desk.run()).answer == "done"
        assert models(desk) == [("claude-opus-5-5", 429), ("gpt-5.5", 200)]


async def test_a_refused_request_is_put_to_no_other_model(stage):
    scripts = (first([[error(400), say("mended")]]), spare([say("never")]))
    async with stage(scripts, [look], fallbacks=[SPARE["openai-responses"]]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.STUCK
        await desk.decide(run_id, request, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "mended"
        assert "gpt-5.5" not in dict(models(desk))


async def test_when_all_are_out_a_person_learns_what_each_said(stage):
    scripts = (first([[error(401), say("mended")]]), spare(lambda seen: error(402)))
    async with stage(scripts, [look], fallbacks=[SPARE["openai-responses"]]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert "ANTHROPIC_API_KEY" in request.reason
        assert "openai-responses gpt-5.5: OpenAI answered 402" in request.reason
        await desk.decide(run_id, request, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "mended"


async def test_no_key_for_the_first_model_is_an_outage_too(stage, monkeypatch):
    async with stage((spare([say("done")]),), [look], fallbacks=[SPARE["openai-responses"]]) as desk:
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        assert (await desk.run()).answer == "done"


async def test_the_model_that_took_over_is_asked_on_and_its_prompt_only_grows(stage):
    scripts = (first(until(1, looking, error(401))), spare(until(5, looking, say("done"))))
    async with stage(scripts, [look], fallbacks=[SPARE["openai-responses"]]) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert [model for model, _ in models(desk)] == ["claude-opus-5-5"] * 2 + ["gpt-5.5"] * 5
        sent = [request.body["input"] for request in desk.model.requests[2:]]
        assert all(after[: len(before)] == before for before, after in pairwise(sent))
        assert "thought 4" in desk.heard()


@pytest.mark.parametrize("other", SPARE)
async def test_the_first_model_is_asked_again_later_and_finds_its_own_thoughts(stage, monkeypatch, other):
    monkeypatch.setattr(fallback, "_REST", timedelta(0))
    said = [looking, lambda seen: error(401), looking, lambda seen: say("done")]
    scripts = (
        first(lambda seen: said[seen.turn](seen)),
        spare(lambda seen: written(seen) if other.startswith("text") else looking(seen), other),
    )
    async with stage(scripts, [look], fallbacks=[SPARE[other]]) as desk:
        assert (await desk.run()).answer == "done"
        assert [model for model, _ in models(desk)] == [
            "claude-opus-5-5",
            "claude-opus-5-5",
            SPARE[other].partition(":")[2],
            "claude-opus-5-5",
            "claude-opus-5-5",
        ]
        assert "thought 0" in desk.heard()
        assert "thought 1" not in desk.heard()
        assert desk.texts() == ["seen 0", "seen 1", "seen 2"]


async def test_a_worker_that_keeps_nothing_sends_the_same(stage):
    sent = []
    for journal in (Journal(), Journal(kept_bytes=0)):
        scripts = (first(until(2, looking, error(401))), spare(until(5, looking, say("done"))))
        async with stage(scripts, [look], fallbacks=[SPARE["openai-responses"]], journal=journal) as desk:
            await desk.run()
            sent.append([request.body.get("input", request.body.get("messages")) for request in desk.model.requests])
    assert sent[0] == sent[1]


async def test_a_turn_that_was_paused_is_begun_anew_by_another_model(stage):
    replies = iter([[say("Searching."), pause("web_search", query="x")], error(401)])
    scripts = (first(lambda seen: next(replies)), spare([say("done")], "anthropic"))
    async with stage(scripts, [look], fallbacks=[SPARE["anthropic"]]) as desk:
        assert (await desk.run()).answer == "done"
        assert [message["role"] for message in desk.model.requests[-1].body["messages"]] == ["user"]


async def test_calls_of_two_models_that_share_an_id_are_told_apart(stage):
    twin = "call_of_the_same_long_id_twice"
    mine, other = call("look", at=1, id=twin), call("look", at=2, id=twin)
    scripts = (
        first(lambda seen: mine if seen.turn == 0 else error(401)),
        spare(lambda seen: other if seen.turn == 1 else say("done"), "anthropic"),
    )
    async with stage(scripts, [look], fallbacks=[SPARE["anthropic"]]) as desk:
        assert (await desk.run()).answer == "done"
        turns = trace(await desk.runs.events(desk.started[0])).turns
        ids = [one.id for turn in turns for one in turn.calls]
        assert ids[0] == twin
        assert twin not in ids[1:]
