"""A recorded message can be read whatever provider wrote it, and whatever shape it has."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.messages import Part, thoughts

READ: dict[str, tuple[str, Any, list[Part]]] = {
    "anthropic": (
        "anthropic",
        [
            {"type": "thinking", "thinking": "Two lookups.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": "toolu_1", "name": "hr_lookup", "input": {"name": "Zoë"}},
            {"type": "server_tool_use", "id": "s1", "name": "web"},
        ],
        [
            Part("thinking", "Two lookups."),
            Part("redacted"),
            Part("text", "I will look."),
            Part("call", '{"name": "Zoë"}', "hr_lookup", "toolu_1"),
            Part("unknown", '{"type": "server_tool_use", "id": "s1", "name": "web"}', "server_tool_use"),
        ],
    ),
    "responses": (
        "openai-responses",
        [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look first."}]},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "eA=="},
            {"type": "message", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
            {"type": "function_call", "call_id": "call_1", "name": "hr_lookup", "arguments": '{"name":'},
        ],
        [
            Part("thinking", "Look first."),
            Part("redacted"),
            Part("text", "Looking."),
            Part("refusal", "No."),
            Part("call", '{"name":', "hr_lookup", "call_1"),
        ],
    ),
    "chat": (
        "openai-chat",
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Look first.",
            "tool_calls": [{"id": "", "type": "function", "function": {"name": "health", "arguments": ""}}],
        },
        [Part("thinking", "Look first."), Part("call", "", "health", "")],
    ),
    "text": (
        "text+anthropic",
        [
            {"type": "thinking", "thinking": "Hm."},
            {"type": "text", "text": "<think>Or so.</think>Thought: I look.\n**Action:** hr_lookup[7]"},
        ],
        [
            Part("thinking", "Hm."),
            Part("thinking", "Or so."),
            Part("thinking", "I look."),
            Part("call", "**Action:** hr_lookup[7]"),
        ],
    ),
    "an answer in text": (
        "text+openai-chat",
        {"content": "I know.\nThought: yes.\nFinal Answer: 42\nor so"},
        [Part("thinking", "I know.\n yes."), Part("text", "42\nor so")],
    ),
    "a protocol nobody knows": ("smoke-signals", {"type": "puff"}, [Part("unknown", '{"type": "puff"}', "puff")]),
}


@pytest.mark.parametrize(("protocol", "message", "parts"), READ.values(), ids=READ.keys())
def test_a_message_reads_in_order_with_nothing_dropped(protocol: str, message: Any, parts: list[Part]) -> None:
    assert list(thoughts(protocol, message)) == parts


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["type", "content", "text", "function", "tool_calls", "summary", "input", "x"]),
            inner | st.sampled_from(["thinking", "text", "message", "reasoning", "tool_use", "function_call"]),
        )
    ),
)


PROTOCOLS = ["anthropic", "openai-responses", "openai-chat", "other"]


@given(st.sampled_from([*PROTOCOLS, *(f"text+{protocol}" for protocol in PROTOCOLS)]), ANYTHING)
def test_no_shape_raises(protocol: str, message: Any) -> None:
    assert all(isinstance(part.text, str) for part in thoughts(protocol, message))
