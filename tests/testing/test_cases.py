"""A run of the past, exported and played again: the same calls come out, to the byte."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perdure import ToolContext, tool
from perdure.core.contracts import Choice, RequestKind
from perdure.testing import PlayError, ScriptError, blank, call, ground, load_case, play, say, think
from perdure.testing.chat_grammar import check_request
from perdure.testing.histories import History
from perdure.traces import cases
from perdure.traces.events import Event
from perdure.traces.shape import Trace
from perdure.traces.turns import trace
from tests.conftest import Stage, StageOf

CASE = "case.yaml"


@pytest.fixture(scope="module", autouse=True)
def _server_ends_with_this_file() -> Iterator[None]:
    yield
    asyncio.run(ground.end_server())


@pytest.fixture(params=["anthropic", "openai-responses", "openai-chat"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@tool(effect="read")
def order(order_id: str, fields: Sequence[str] = ("paid",)) -> dict[str, str]:
    """Look up an order: what was bought, and what was paid for it."""
    return {"item": "lamp", "paid": "49.90"}


@tool(effect="idempotent", ask="amount > 20")
def refund(ctx: ToolContext, order_id: str, amount: Decimal, note: str = "") -> str:
    """Pay money back for an order."""
    return f"paid back {amount}"


NOTE = 'Für Zoë, „kaputt“:\n  {"no": [true]} # 1e3 \u202e \\u0041'
SCRIPT = [
    [think("Two orders."), call("order", order_id="17"), say("Looking."), call("order", order_id="18", fields=[])],
    [call("ordr", order_id="17"), call("refund", order="17")],
    blank(),
    call("refund", order_id="17", amount=49.90, note=NOTE),
    call("refund", order_id="18", amount=1e3),
    call("refund", order_id="18", amount=7, note="yes"),
    say("One was paid back: 49.90.\nThe other was not."),
]
RAW = [
    call("order", raw='{"order_id": "17", "order_id": "18"}'),
    call("order", raw='{"order_id": '),
    call("order", raw='{ "fields":["\\u00e9"],"order_id":"17" }'),
    call("refund", raw='{"order_id":"17","amount":12.3000000000000000000001}'),
    say("Enough."),
]


async def decided(played: Stage, run_id: str) -> None:
    """Approve the first that waits, reject the second."""
    [first] = await played.waiting(run_id)
    await played.decide(run_id, first, Choice.APPROVE, reason="photo checked")
    while (second := (await played.waiting(run_id))[0]).id == first.id:
        await asyncio.sleep(0.05)
    await played.decide(run_id, second, Choice.REJECT, reason="no photo: 'yes'")


async def recorded(stage: StageOf, protocol: str) -> tuple[Stage, Sequence[Event]]:
    async with stage(SCRIPT, [order, refund], protocol=protocol) as played:
        run_id = await played.start("Orders 17 and 18 arrived broken:\nrefund them")
        await decided(played, run_id)
        await played.runs.result(run_id)
        return played, await played.runs.events(run_id)


def shown(seen: Trace) -> list[tuple[object, ...]]:
    return [
        (
            turn.number,
            turn.stop,
            turn.answer,
            [part.text for part in turn.claims],
            call.tool,
            call.arguments,
            call.state,
        )
        for turn in seen.turns
        for call in turn.calls
    ]


async def test_the_same_calls_come_out_with_the_same_bytes_and_the_same_decisions(
    stage: StageOf, protocol: str, tmp_path: Path
) -> None:
    played, events = await recorded(stage, protocol)
    before = trace(events)
    (tmp_path / CASE).write_text(cases.case_text(events), encoding="utf-8")
    case = load_case(tmp_path / CASE)
    again = await play(played.agent, case.script, case.task, approve=case.decide, by="ann")
    assert shown(again.trace) == shown(before)
    assert [state for *_, state in shown(before)] == ["ok", "ok", "refused", "refused", "ok", "rejected", "ok"]
    assert again.trace.task == before.task
    taken = {"usage": again.outcome.usage, "seconds": again.outcome.seconds}
    assert again.outcome == (before.outcome and before.outcome.model_copy(update=taken))
    assert [call.observation for call in again.calls] == [
        call.observation for turn in before.turns for call in turn.calls
    ]


async def test_arguments_that_are_no_plain_json_come_out_as_they_were_written(stage: StageOf, tmp_path: Path) -> None:
    async with stage(RAW, [order, refund], protocol="openai-chat") as played:
        run_id = await played.start()
        await played.runs.result(run_id)
        events = await played.runs.events(run_id)
    (tmp_path / CASE).write_text(cases.case_text(events), encoding="utf-8")
    case = load_case(tmp_path / CASE)
    again = await play(played.agent, case.script, case.task)
    assert shown(again.trace) == shown(trace(events))
    assert [each.observation for each in again.calls][:2] == [
        call.observation for turn in trace(events).turns[:2] for call in turn.calls
    ]
    assert "12.3000000000000000000001" in again.calls[3].arguments


async def test_a_conversation_is_one_that_the_vendor_takes(stage: StageOf, protocol: str) -> None:
    """The grammar that refuses a broken transcript refuses none of these, up to the message that is to be learnt."""
    played, events = await recorded(stage, protocol)
    made = cases.conversation(events)
    messages = made["messages"]
    ids = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    check_request({"model": "gpt-6-luna", "messages": messages[:-1], "tools": made["tools"]}, ids)
    assert [message["role"] for message in messages[:5]] == ["system", "user", "assistant", "tool", "tool"]
    assert messages[0]["content"] == played.agent.system
    assert messages[-1] == {"role": "assistant", "content": "One was paid back: 49.90.\nThe other was not."}
    assert [each["function"]["name"] for each in made["tools"]] == ["order", "refund"]
    asked = [call["function"] for message in messages for call in message.get("tool_calls", ())]
    admitted = [(call.tool, call.arguments) for turn in trace(events).turns for call in turn.calls]
    assert [(each["name"], each["arguments"]) for each in asked] == admitted
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert [result for result in results if "no photo" in result and "rejected" in result]


async def test_neither_form_holds_what_only_the_vendor_can_read(stage: StageOf, protocol: str) -> None:
    _, events = await recorded(stage, protocol)
    told = cases.case_text(events) + json.dumps(cases.conversation(events))
    for secret in ("signature", "encrypted", "idempotency", "perdure-"):
        assert secret not in told


async def test_a_case_is_shown_as_inert_text(stage: StageOf) -> None:
    _, events = await recorded(stage, "anthropic")
    text = cases.case_text(events)
    assert text.replace("\n", "").isprintable()
    assert cases.case(events) == yaml.safe_load(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.booleans(), st.booleans())
def test_arguments_of_any_kind_survive_a_file(arguments: dict[str, Any], ascii_only: bool, compact: bool) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii_only, separators=(",", ":") if compact else None)
    spelled = yaml.safe_load(cases._dumped(cases._arguments(text)))
    again = spelled.get("raw", json.dumps(spelled.get("arguments"), ensure_ascii=False))
    assert json.loads(again) == arguments
    assert repr(json.loads(again)) == repr(arguments)


# --- files ------------------------------------------------------------------------------------------------------------


def write(folder: Path, **content: object) -> Path:
    (folder / CASE).write_text(yaml.safe_dump({"turns": ["Hello."], **content}))
    return folder / CASE


def test_a_script_without_a_task_is_no_case(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="needs `task`"):
        load_case(write(tmp_path))


def test_a_wrong_decision_says_which(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"decisions\.0\.choice = 'perhaps'"):
        load_case(write(tmp_path, task="Hello?", decisions=[{"turn": 1, "call": 0, "choice": "perhaps"}]))


async def test_a_call_that_asks_since_fails_the_case_and_says_so(tmp_path: Path, stage: StageOf) -> None:
    path = write(
        tmp_path, task="Refund it", turns=[{"call": {"name": "refund", "arguments": {"order_id": "1", "amount": 50}}}]
    )
    case = load_case(path)
    async with stage(["never asked"], [refund]) as played:
        pass
    with pytest.raises(PlayError, match=r"nobody decided on it.*\{kind: approval, turn: 1, call: 0"):
        await play(played.agent, case.script, case.task, approve=case.decide)


def test_a_run_whose_model_never_answered_is_no_case() -> None:
    history = History("stuck-1")
    history.open()
    history.think_in_vain("NeedsPerson", "the key is revoked")
    history.ask(reason="the key is revoked", kind=RequestKind.STUCK)
    for export in (cases.case, cases.conversation):
        with pytest.raises(cases.NothingToLearnError):
            export(history.events)
