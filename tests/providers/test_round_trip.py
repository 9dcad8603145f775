"""Three turns of tools with each protocol, against a server that refuses what the vendors refuse."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import turnsafe

from perdure.core.contracts import Stop
from perdure.core.transcript import Assistant, Heard, Result, Task
from perdure.providers import PROTOCOLS, provider
from perdure.testing import block, call, pause, say, think, truncate

protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
_LOOP = [
    [
        think("Two facts are missing: entitlement and what is taken. \u00fc\u4e2d"),
        call("hr_lookup", employee="ann"),
        think("", redacted=True),
        call("leave_records", employee="ann"),
    ],
    [think("One more."), say("Let me see."), call("leave_records", employee="ann")],
    [think("28 - 19 = 9"), say("Ann has 9 days left.")],
]


async def _play(conversation: Any) -> None:
    first = await conversation.turn()
    assert [asked.name for asked in first.calls] == ["hr_lookup", "leave_records"]
    conversation.hear("28 days", "19 taken", notes=["Two turns are left."])
    await conversation.turn()
    conversation.hear("no such record", error=True)
    last = await conversation.turn(tools=False)
    assert (last.stop, last.answer) == (Stop.ANSWER, "Ann has 9 days left.")
    assert last.usage.input > 0
    assert last.usage.output > 0
    assert last.model == "scripted"


@protocols
async def test_a_strict_server_takes_every_turn_of_a_tool_loop(protocol: str, converse: Any) -> None:
    await _play(converse(protocol, _LOOP))


@protocols
async def test_a_transcript_from_history_is_the_same_to_the_byte(protocol: str, converse: Any) -> None:
    conversation = converse(protocol, _LOOP)
    await _play(conversation)
    warm = conversation.provider.encode(conversation.entries)
    assert conversation.cold() == warm
    assert warm.startswith(conversation.provider.encode(conversation.entries[:3]))


@protocols
async def test_requests_have_the_form_of_the_sdks_own_types(
    protocol: str, converse: Any, vendor_takes: Callable[[Any], None]
) -> None:
    conversation = converse(protocol, _LOOP)
    await _play(conversation)
    vendor_takes(conversation)


@pytest.mark.parametrize("protocol", ["anthropic", "openai-chat"])
async def test_a_second_opinion_finds_no_fault_in_the_transcript(protocol: str, converse: Any) -> None:
    conversation = converse(protocol, _LOOP)
    await _play(conversation)
    format = "anthropic" if protocol == "anthropic" else "openai"
    assert turnsafe.validate(conversation.messages, provider=format).violations == ()


@pytest.mark.parametrize("protocol", ["anthropic", "openai-responses"])
async def test_an_unknown_block_goes_back_as_it_came(protocol: str, converse: Any) -> None:
    novelty = {"type": "novelty_2027", "note": None, "z": {"b": [1, 2.5], "a": ""}, "id": "nov_1"}
    conversation = converse(protocol, [[block(novelty), call("hr_lookup", employee="ann")], say("Done.")])
    await conversation.turn()
    conversation.hear("28 days")
    await conversation.turn()
    items = conversation.messages
    sent = items if protocol == "openai-responses" else items[1]["content"]
    assert novelty in sent


async def test_a_paused_turn_goes_back_unchanged_and_goes_on(converse: Any) -> None:
    conversation = converse("anthropic", [[say("Searching."), pause("web_search", query="leave")], say("Found.")])
    paused = await conversation.turn()
    assert (paused.stop, paused.calls, paused.answer) == (Stop.PAUSED, (), "")
    assert (await conversation.turn()).answer == "Found."
    assert conversation.messages[-1] == {"role": "assistant", "content": paused.message}


@protocols
def test_what_is_encoded_never_begins_or_ends_in_a_comma(protocol: str) -> None:
    encode = provider(protocol).encode
    assert encode([]) == b""
    assert encode([Heard()]) == b""
    assert encode([Heard(), Task("a"), Heard()]) == encode([Task("a")])


@protocols
def test_results_come_before_notes_and_keep_their_text(protocol: str) -> None:
    text = '  Ignore this.\r\n<b>\u2028 \u00e9\u4e2d\x00 {"a": 1}'
    heard = Heard((Result("c1", "f", text, False), Result("c2", "g", "Error: no", True)), ("note one", "note two"))
    messages = json.loads(b"[" + provider(protocol).encode([heard]) + b"]")
    match protocol:
        case "anthropic":
            [message] = messages
            kinds = [each["type"] for each in message["content"]]
            assert kinds == ["tool_result", "tool_result", "text", "text"]
            first, second = message["content"][:2]
            assert (first["content"], "is_error" in first) == (text, False)
            assert (second["content"], second["is_error"]) == ("Error: no", True)
        case "openai-responses":
            assert [each.get("call_id") for each in messages] == ["c1", "c2", None]
            assert [each["output"] for each in messages[:2]] == [text, "Error: no"]
            assert messages[2] == {"role": "user", "content": "note one\n\nnote two"}
        case "openai-chat":
            assert [each["role"] for each in messages] == ["tool", "tool", "user"]
            assert [each["content"] for each in messages[:2]] == [text, "Error: no"]


@pytest.mark.parametrize("protocol", ["openai-responses", "openai-chat"])
def test_an_error_says_so_where_the_protocol_has_no_flag(protocol: str) -> None:
    heard = Heard((Result("c1", "f", "No employee 'bob'.", True),))
    assert b"\"error: No employee 'bob'.\"" in provider(protocol).encode([heard])


@protocols
async def test_without_tools_they_stay_declared_and_none_may_be_called(protocol: str, converse: Any) -> None:
    conversation = converse(protocol, [say("9 days.")])
    await conversation.turn(tools=False)
    body = conversation.body
    assert len(body["tools"]) == 2
    assert body["tool_choice"] == ({"type": "none"} if protocol == "anthropic" else "none")


@protocols
async def test_settings_go_out_under_the_vendors_own_names(protocol: str, converse: Any) -> None:
    name = {"openai-responses": "max_output_tokens", "openai-chat": "max_completion_tokens"}.get(protocol, "max_tokens")
    conversation = converse(protocol, [say("9 days.")], **{name: 4321})
    await conversation.turn()
    assert conversation.body[name] == 4321
    assert not conversation.body.get("stream")


@protocols
async def test_a_cut_answer_is_taken_back_with_a_note(protocol: str, converse: Any) -> None:
    conversation = converse(protocol, [[think("Long."), say("Ann has"), truncate()], say(" 9 days left.")])
    cut = await conversation.turn()
    assert (cut.stop, cut.answer) == (Stop.CUT, "Ann has")
    conversation.entries.append(Heard(notes=("Go on.",)))
    assert (await conversation.turn()).stop is Stop.ANSWER


@protocols
async def test_a_call_cut_at_the_output_limit_is_answered_but_not_whole(protocol: str, converse: Any) -> None:
    cut_off = [call("hr_lookup", employee="ann"), call("leave_records", employee="ann"), truncate()]
    conversation = converse(protocol, [cut_off, say("9 days.")])
    reply = await conversation.turn()
    assert reply.stop is Stop.CALLS
    assert [asked.whole for asked in reply.calls] == [True, False]
    conversation.hear("28 days", "cut off, ask again", error=True)
    assert (await conversation.turn()).stop is Stop.ANSWER


@pytest.mark.parametrize("protocol", ["openai-responses", "openai-chat"])
async def test_nulls_that_only_answers_hold_are_not_sent_back(protocol: str, converse: Any) -> None:
    conversation = converse(protocol, [[say("Wait."), call("hr_lookup", employee="ann")], say("9 days.")])
    await conversation.turn()
    [*_, latest] = conversation.entries
    assert isinstance(latest, Assistant)
    assert b":null" not in conversation.provider.encode([latest])
