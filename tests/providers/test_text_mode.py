"""Text mode over each protocol, against a server that refuses what the vendors refuse."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.core.contracts import Stop
from perdure.core.transcript import Assistant, Heard, Task
from perdure.providers import PROTOCOLS, provider
from perdure.testing import blank, call, refuse, say, think, truncate
from tests.providers.conftest import Conversation

protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
ACT = 'Thought: I need the record.\nAction: hr_lookup\nAction Input: {"employee": "ann"}'
FICTION = "\nObservation: 28 days\nThought: So I know.\nFinal Answer: 28"


@pytest.fixture
def speak(converse: Any) -> Callable[..., Conversation]:
    """A conversation in text mode. `carrier` is the protocol that carries it."""

    def start(carrier: str, script: Any, **settings: Any) -> Conversation:
        conversation: Conversation = converse(f"text+{carrier}", script, **settings)
        conversation.protocol = carrier  # for what looks at the requests
        return conversation

    return start


def texts(conversation: Conversation) -> list[tuple[str, str]]:
    """(role, text) of every message sent."""
    return [(each["role"], _text(each["content"])) for each in conversation.messages if "role" in each]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each.get("text", "") for each in content)


@protocols
async def test_calls_and_observations_are_texts_and_no_tool_is_declared(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, [ACT, "Thought: I know.\nFinal Answer: 28 days."])
    first = await conversation.turn()
    [asked] = first.calls
    assert (first.stop, asked.name, json.loads(asked.arguments)) == (Stop.CALLS, "hr_lookup", {"employee": "ann"})
    conversation.hear("28 days")
    last = await conversation.turn()
    assert (last.stop, last.answer, last.calls) == (Stop.ANSWER, "28 days.", ())
    assert not conversation.body.keys() & {"tools", "tool_choice"}
    assert texts(conversation)[-2:] == [
        ("assistant", ACT),
        ("user", "Observation: 28 days"),
    ]


@protocols
async def test_requests_have_the_form_of_the_sdks_own_types(protocol: str, speak: Any, vendor_takes: Any) -> None:
    conversation = speak(protocol, [[think("Hm."), say(ACT + FICTION)], ACT, "Final Answer: 28"])
    await conversation.turn()
    conversation.hear("no such record", error=True, notes=["One turn is left."])
    await conversation.turn()
    conversation.hear("28")
    await conversation.turn(tools=False)
    vendor_takes(conversation)


@protocols
@pytest.mark.parametrize("stopping", [True, False], ids=["stop sequence", "none"])
async def test_c55_what_the_model_made_up_is_never_sent_back(protocol: str, stopping: bool, speak: Any) -> None:
    key = {"anthropic": "stop_sequences", "openai-chat": "stop"}.get(protocol)
    settings = {} if stopping or not key else {key: None}
    conversation = speak(protocol, [ACT + FICTION, "Final Answer: 28"], **settings)
    reply = await conversation.turn()
    assert (key in conversation.body) is (stopping and key is not None)
    assert [asked.name for asked in reply.calls] == ["hr_lookup"]
    assert "So I know" not in json.dumps(reply.message)
    conversation.hear("no such record", error=True)
    await conversation.turn()
    assert [text for _, text in texts(conversation)][-2:] == [
        ACT,
        "Observation: error: no such record",
    ]


@protocols
async def test_a_transcript_from_history_is_the_same_to_the_byte(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, [[think("Hm."), say(ACT + FICTION)], "what?", "Final Answer: 28"])
    await conversation.turn()
    conversation.hear("28 days", notes=["Two turns are left."])
    unread = await conversation.turn()
    assert unread.stop is Stop.UNREAD
    conversation.entries.append(Heard(notes=(unread.advice,)))
    await conversation.turn()
    assert conversation.cold() == conversation.provider.encode(conversation.entries)


@protocols
async def test_what_cannot_be_read_is_sent_back_with_advice(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, ["I look ann up.", ACT])
    unread = await conversation.turn()
    assert (unread.stop, unread.calls, unread.answer) == (Stop.UNREAD, (), "")
    assert "neither an action nor a final answer" in unread.advice
    assert "Action Input: {" in unread.advice
    conversation.entries.append(Heard(notes=(unread.advice,)))
    assert (await conversation.turn()).stop is Stop.CALLS
    assert texts(conversation)[-2:] == [("assistant", "I look ann up."), ("user", f"Observation: {unread.advice}")]


@protocols
async def test_a_message_that_only_made_an_observation_up_leaves_nothing(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, lambda seen: ACT if seen.asked() else "Observation: 28 days\nFinal Answer: 28")
    unread = await conversation.turn()
    assert (unread.stop, "28" in json.dumps(unread.message)) == (Stop.UNREAD, False)
    conversation.entries.append(Heard(notes=(unread.advice,)))
    await conversation.turn()
    assert [role for role, _ in texts(conversation) if role != "system"] == ["user", "user"]


@protocols
async def test_a_native_call_that_nobody_offered_is_neither_run_nor_sent_back(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, [[say("So."), call("hr_lookup", employee="ann")], ACT])
    unread = await conversation.turn()
    assert (unread.stop, unread.calls) == (Stop.UNREAD, ())
    conversation.entries.append(Heard(notes=(unread.advice,)))
    assert (await conversation.turn()).stop is Stop.CALLS
    assert texts(conversation)[-2] == ("assistant", "So.")


@protocols
async def test_the_last_turn_takes_only_an_answer(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, [ACT])
    reply = await conversation.turn(tools=False)
    assert "Write your final answer now" in texts(conversation)[-1][1]
    assert (reply.answer, len(reply.calls)) == ("", 1)  # which is refused where calls are admitted


@protocols
async def test_an_answer_cut_at_the_output_limit_is_no_answer_yet(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, [[say("Final Answer: Ann has"), truncate()], "Final Answer: Ann has 9 days."])
    cut = await conversation.turn()
    assert (cut.stop, cut.answer) == (Stop.CUT, "Ann has")
    conversation.entries.append(Heard(notes=("Go on.",)))
    assert (await conversation.turn()).answer == "Ann has 9 days."


@protocols
async def test_an_action_cut_at_the_output_limit_is_not_whole(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, [[say("Action: hr_lookup\nAction Input: ann"), truncate()]])
    [asked] = (await conversation.turn()).calls
    assert not asked.whole


@protocols
async def test_an_object_that_the_output_limit_cut_is_a_cut_turn(protocol: str, speak: Any) -> None:
    conversation = speak(protocol, [[say('Action: hr_lookup\nAction Input: {"employee": "an'), truncate()]])
    assert (await conversation.turn()).stop is Stop.CUT


@protocols
@pytest.mark.parametrize(("part", "stop"), [(blank("text"), Stop.BLANK), (refuse("No."), Stop.REFUSED)])
async def test_blank_turns_and_refusals_are_what_they_were(protocol: str, part: Any, stop: Stop, speak: Any) -> None:
    assert (await speak(protocol, [part]).turn()).stop is stop


async def test_an_author_who_sets_stop_sequences_keeps_them(speak: Any) -> None:
    conversation = speak("openai-chat", ["Final Answer: 28"], stop=["END"])
    await conversation.turn()
    assert conversation.body["stop"] == ["END"]


async def test_a_text_in_parts_is_cut_over_its_parts(speak: Any) -> None:
    said = [
        say("Thought: x\nAction: hr_"),
        say('lookup\nAction Input: {"employee":'),
        say(' "ann"}\n\nI'),
        say(" wait."),
    ]
    conversation = speak("anthropic", [said])
    reply = await conversation.turn()
    assert [block["text"] for block in reply.message] == [*(part.text for part in said[:2]), ' "ann"}']


@protocols
def test_what_is_encoded_never_begins_or_ends_in_a_comma(protocol: str) -> None:
    encode = provider(f"text+{protocol}").encode
    assert encode([]) == encode([Heard()]) == b""
    assert encode([Heard(), Task("a"), Heard()]) == encode([Task("a")])


@protocols
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_words_of_a_model_are_read_and_can_be_sent_back(protocol: str, text: str) -> None:
    from tests.providers.conftest import opening, recorded

    said = text.encode(errors="replace").decode()
    answers = {
        "anthropic": {"content": [{"type": "text", "text": said}], "stop_reason": "end_turn"},
        "openai-chat": {"choices": [{"message": {"content": said}, "finish_reason": "stop"}]},
        "openai-responses": {
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": said}]}],
        },
    }
    spoken = provider(f"text+{protocol}")
    reply = spoken.read(json.dumps(answers[protocol]).encode(), opening(spoken.protocol))
    spoken.encode([Assistant(recorded(spoken.protocol, reply))])
