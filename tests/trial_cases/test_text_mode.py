"""C51, C53, C55: a model that writes its calls as text is held to what it wrote, and to what really came of it."""

import json
import re

import pytest

from perdure import ToolContext, ToolError, tool
from perdure.core.contracts import Choice, RunState
from perdure.temporal.journal import Journal
from perdure.testing import say, think
from perdure.traces.turns import trace

CARRIERS = ["text+openai-chat", "text+anthropic", "text+openai-responses"]
LOOK = 'Thought: I need the order.\nAction: get_order\nAction Input: {"id": 7}'
DONE = "Thought: I have it.\nFinal Answer: done"


@pytest.fixture(params=CARRIERS)
def spoken(request):
    return request.param


@pytest.fixture
def get_order(ledger):
    @tool(effect="read")
    async def get_order(id: int) -> str:
        """Look an order up.

        Args:
            id: its number.
        """
        ledger.record(f"looked at {id}")
        return f"order {id}: a lamp"

    return get_order


@pytest.fixture
def note(ledger):
    @tool(effect="read")
    async def note(text: str) -> str:
        """Keep a note.

        Args:
            text: what it says.
        """
        ledger.record(json.dumps(text))
        return "kept"

    return note


@pytest.fixture
def refund(ledger):
    @tool(effect="idempotent")
    async def refund(ctx: ToolContext, order: int) -> str:
        """Pay an order back.

        Args:
            order: its number.
        """
        ledger.record(f"tried to refund {order}")
        raise ToolError("the card has expired, nothing was paid back")

    return refund


def said(desk, role, request=-1):
    """The texts of a role's messages in one request, in order."""
    body = desk.model.requests[request].body
    found = [each["content"] for each in body.get("messages", body.get("input")) if each.get("role") == role]
    return [each if isinstance(each, str) else "".join(part.get("text", "") for part in each) for each in found]


def heard(desk, request=-1):
    """What the model was told after the task, whatever letters its marks have."""
    return [re.sub(r"<(/?)data-[0-9a-f]{6}>", r"<\1data>", text) for text in said(desk, "user", request)[1:]]


VARIANTS = {
    "no label on the thought": 'I need the order.\n\nAction: get_order\nAction Input: {"id": 7}',
    "lower case": 'thought: I need it.\naction: get_order\naction input: {"id": 7}',
    "bold": '**Thought:** I need it.\n**Action:** get_order\n**Action Input:** {"id": 7}',
    "a full-width colon": 'Thought\uff1aI need it.\nAction\uff1aget_order\nAction Input\uff1a{"id": 7}',
    "CRLF": 'Thought: I need it.\r\nAction: get_order\r\nAction Input: {"id": 7}\r\n',
    "a byte order mark": '\ufeffAction: get_order\nAction Input: {"id": 7}',
    "blank lines": 'Thought: I need it.\n\n\nAction: get_order\n\n\nAction Input: {"id": 7}',
    "brackets": "Thought: I need it.\nAction: get_order[7]",
    "thinking tags": "<think>\nAction: get_order[8]\n</think>\nAction: get_order(id=7)",
}


@pytest.mark.parametrize("written", VARIANTS.values(), ids=VARIANTS.keys())
async def test_c51_an_action_in_any_dress_runs_once_and_is_never_the_answer(stage, get_order, ledger, written):
    async with stage([written, DONE], [get_order], protocol="text+openai-chat") as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "done")
        assert ledger.lines == ["looked at 7"]
        assert heard(desk) == ["Observation: <data>\norder 7: a lamp\n</data>"]
        assert said(desk, "assistant") == [written.rstrip()]


async def test_c51_over_every_protocol_a_text_without_an_action_is_not_the_answer(stage, get_order, ledger, spoken):
    script = ["I look the order up.", [think("Hm."), say(LOOK)], DONE]
    async with stage(script, [get_order], protocol=spoken) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "done", 3)
        assert ledger.lines == ["looked at 7"]
        [told, seen] = heard(desk)
        assert told.startswith("Observation: Your last message could not be read: it holds neither an action")
        assert "order 7: a lamp" in seen
        assert said(desk, "assistant") == ["I look the order up.", LOOK]


async def test_c51_three_messages_in_a_row_that_cannot_be_read_are_no_answer(stage, get_order, ledger, spoken):
    async with stage([LOOK, "It is a lamp.", "A lamp!", "Action: lamp it is"], [get_order], protocol=spoken) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, "", 4)
        assert "3 turns in a row that could not be read" in outcome.reason
        assert "follows the tool's name" in outcome.reason


async def test_c51_what_was_read_in_between_starts_the_count_anew(stage, get_order):
    script = ["what?", "hm", LOOK, "what?", "hm", DONE]
    async with stage(script, [get_order], protocol="text+openai-chat") as desk:
        assert (await desk.run()).state is RunState.ANSWERED


EXACT = {
    "nested brackets": ('Action: note["a [b] {c}"]', "a [b] {c}"),
    "braces and quotes": ('Action: note\nAction Input: {"text": "} \\" {"}', '} " {'),
    "lines and prose": ('Action: note\nAction Input: {\n  "text": "x"\n}\n\nNow I wait.', "x"),
    "single quotes": ("Action: note\nAction Input: {'text': 'it\\'s'}", "it's"),
    "code": ('Action: note("for (x in y) {\\n  print(\\")\\")\\n}")', 'for (x in y) {\n  print(")")\n}'),
    "a text over lines": ('Action: note\nAction Input: {"text": "one\ntwo"}', "one\ntwo"),
    "no quotes": ("Action: note[Paris, France [FR]]", "Paris, France [FR]"),
}


@pytest.mark.parametrize(("written", "meant"), EXACT.values(), ids=EXACT.keys())
async def test_c53_the_tool_gets_exactly_what_was_written(stage, note, ledger, written, meant):
    async with stage([written, DONE], [note], protocol="text+openai-chat") as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert ledger.lines == [json.dumps(meant)]


SHORTENED = ["Action: note[a] b]", 'Action: note["a" b"]', 'Action: note\nAction Input: {"text": "a"}\nb"}']


@pytest.mark.parametrize("written", SHORTENED)
async def test_c53_what_could_be_a_shortened_value_reaches_no_tool_and_the_model_is_told_the_form(
    stage, note, ledger, written
):
    async with stage([written, DONE], [note], protocol="text+openai-chat") as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert ledger.lines == []
        [told] = heard(desk)
        assert "Nothing of it ran" in told
        assert "Action Input: {" in told


async def test_c53_misspelt_arguments_and_tools_are_named_as_of_any_other_call(stage, note, ledger):
    script = ['Action: note\nAction Input: {"texts": "a"}', "Action: notes[a]", DONE]
    async with stage(script, [note], protocol="text+openai-chat") as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert ledger.lines == []
        misspelt, unknown = heard(desk)
        assert misspelt.startswith("Observation: error: ")
        assert "unknown argument 'texts'" in misspelt
        assert "Did you mean 'note'?" in unknown


REFUND = 'Thought: pay it back.\nAction: refund\nAction Input: {"order": 7}'
FICTION = f"{REFUND}\nObservation: refunded\nFinal Answer: It is refunded."


async def test_c55_the_true_result_counts_and_the_gate_holds(stage, refund, ledger, spoken):
    def reply(seen):
        return FICTION if seen.turn == 0 else "Final Answer: It could not be refunded."

    async with stage(reply, [refund], protocol=spoken) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert (request.tool, ledger.lines) == ("refund", [])
        await desk.decide(run_id, request, Choice.APPROVE)
        outcome = await desk.runs.result(run_id)

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "It could not be refunded.")
        assert ledger.lines == ["tried to refund 7"]
        [told] = heard(desk)
        assert told.startswith("Observation: error: <data>")
        assert "the card has expired" in told
        history = await desk.client.get_workflow_handle(run_id).fetch_history()
        assert not [event for event in history.events if b"refunded\\n" in event.SerializeToString()]


async def test_c55_without_a_stop_sequence_what_the_model_made_up_is_dropped_all_the_same(stage, refund, ledger):
    settings = {"settings": {"stop": None}}
    async with stage([FICTION, "Final Answer: no"], [refund], protocol="text+openai-chat", **settings) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.REJECT, reason="no receipt")
        outcome = await desk.runs.result(run_id)

        assert (outcome.answer, ledger.lines) == ("no", [])
        assert said(desk, "assistant") == [REFUND]
        assert "no receipt" in heard(desk)[0]


async def test_c55_a_model_may_think_the_word_observation(stage, get_order, ledger, spoken):
    thought = "Thought: my Observation is that the order is missing. Observation: so be it."
    async with stage([f"{thought}\nAction: get_order[7]", DONE], [get_order], protocol=spoken) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert ledger.lines == ["looked at 7"]
        assert said(desk, "assistant") == [f"{thought}\nAction: get_order[7]"]


async def test_c55_a_thought_that_is_cut_at_the_label_is_told_so(stage, get_order, spoken):
    script = ["Thought: I sum up.\nObservation: all is well.\nFinal Answer: well", LOOK, DONE]
    async with stage(script, [get_order], protocol=spoken) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "done", 3)
        assert "'Observation:'" in heard(desk)[0]
        assert "all is well" not in desk.heard()


async def test_an_approved_call_runs_once_though_its_worker_died(housed, ledger):
    send = 'Thought: tell her.\nAction: send\nAction Input: {"to": "ann"}\nObservation: sent'
    async with housed([send, DONE], protocol="text+openai-chat") as (desk, process):
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        process.kill()
        await desk.decide_by_signal(run_id, request, Choice.APPROVE)
        process.start()
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        assert ledger.lines == ["send ann"]
        assert len(desk.model.requests) == 2
        assert heard(desk) == ["Observation: <data>\nsent to ann\n</data>"]


async def test_a_worker_that_keeps_nothing_sends_the_model_the_very_same_bytes(stage, get_order, spoken):
    script = [[think("Hm."), say(LOOK)], "what?", LOOK, DONE]

    async def sent(**more):
        async with stage(script, [get_order], protocol=spoken, **more) as desk:
            assert (await desk.run()).state is RunState.ANSWERED
            return [each.body.get("messages", each.body.get("input")) for each in desk.model.requests]

    assert await sent() == await sent(cached=0, journal=Journal(kept_bytes=0))


@pytest.mark.parametrize(
    ("last", "answer"),
    [("Final Answer: as far as I got", "as far as I got"), (LOOK, ""), ("As far as I got.", "")],
)
async def test_when_the_turns_are_spent_only_a_final_answer_is_taken(stage, get_order, ledger, spoken, last, answer):
    async with stage([LOOK, last], [get_order], protocol=spoken, turns=1) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer) == (RunState.LIMITED, answer)
        assert ledger.lines == ["looked at 7"]
        insisted = "Write your final answer now" in heard(desk)[-1]
        assert insisted is (not answer)  # what was no answer is asked for once more


async def test_a_trace_shows_thoughts_and_calls_apart(stage, get_order, spoken):
    async with stage(["Who knows?", LOOK, DONE], [get_order], protocol=spoken) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        unread, acting, last = trace(await desk.runs.events(run_id)).turns

        assert [(each.kind, each.text) for each in unread.claims] == [("thinking", "Who knows?")]
        assert unread.stop == "unread"
        assert [(each.kind, each.text) for each in acting.claims] == [("thinking", "I need the order.")]
        assert [(each.tool, each.arguments) for each in acting.calls] == [("get_order", '{"id":7}')]
        assert [(each.kind, each.text) for each in last.claims] == [("thinking", "I have it."), ("text", "done")]
        assert acting.heard[0].startswith("Your last message could not be read")
