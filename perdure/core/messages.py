"""What an assistant's recorded message says, read for people.

The message is kept exactly as the provider sent it and is sent back unread; this module only looks. It knows the
blocks of three protocols, and text mode over each of them, names those it does not know, and takes any shape without
raising: a record written by a newer version, or by a provider that departs from its own documentation, must still show
what it can.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from perdure.core.labels import TEXT_MODE, pieces


@dataclass(frozen=True)
class Part:
    """One part of a message.

    `text` is the thinking, the words, the refusal, or a call's arguments (JSON text); for `unknown` the block as JSON.
    `name` is a call's tool, or an unknown block's type. `id` is a call's id as the provider gave it.
    """

    kind: Literal["thinking", "redacted", "text", "refusal", "call", "unknown"]
    text: str = ""
    name: str = ""
    id: str = ""


def thoughts(protocol: str, message: Any) -> tuple[Part, ...]:
    """The parts of a recorded assistant message, in order. Empty words are left out; nothing else is."""
    reader = _READERS.get(protocol.removeprefix(TEXT_MODE), _unread)
    parts = (
        piece for part in reader(message) for piece in (_pieces(part) if protocol.startswith(TEXT_MODE) else (part,))
    )
    return tuple(part for part in parts if part.text or part.kind not in ("text", "thinking", "refusal"))


def _pieces(part: Part) -> Iterator[Part]:
    """A part of a message in text mode: a text holds the thought and the call, or the answer."""
    if part.kind != "text":
        yield part
        return
    kinds: dict[str, Literal["thinking", "call", "text"]] = {"thought": "thinking", "action": "call", "answer": "text"}
    for piece in pieces(part.text):
        yield Part(kinds[piece.kind], piece.text)


def _anthropic(message: Any) -> Iterator[Part]:
    for block in _items(message):
        match _get(block, "type"):
            case "thinking":
                yield Part("thinking", _text(_get(block, "thinking")))
            case "redacted_thinking":
                yield Part("redacted")
            case "text":
                yield Part("text", _text(_get(block, "text")))
            case "tool_use":
                yield Part("call", _json(_get(block, "input")), _text(_get(block, "name")), _text(_get(block, "id")))
            case _:
                yield _unknown(block)


def _responses(message: Any) -> Iterator[Part]:
    for item in _items(message):
        match _get(item, "type"):
            case "reasoning":
                yield from _reasoning(item)
            case "message":
                yield from _words(_get(item, "content"))
            case "function_call":
                name, call_id = _text(_get(item, "name")), _text(_get(item, "call_id"))
                yield Part("call", _text(_get(item, "arguments")), name, call_id)
            case _:
                yield _unknown(item)


def _reasoning(item: Any) -> Iterator[Part]:
    """A reasoning item: its words if the provider shows them, else its summary; else only that there was one."""
    said = [_text(_get(part, "text")) for key in ("content", "summary") for part in _items(_get(item, key))]
    shown = [text for text in said if text]
    yield Part("thinking", "\n\n".join(shown)) if shown else Part("redacted")


def _chat(message: Any) -> Iterator[Part]:
    # Not in OpenAI's protocol, but what compatible servers (vLLM, DeepSeek, llama.cpp) show of a model's reasoning.
    yield Part("thinking", _text(_get(message, "reasoning_content") or _get(message, "reasoning")))
    yield from _words(_get(message, "content"))
    yield Part("refusal", _text(_get(message, "refusal")))
    for call in _items(_get(message, "tool_calls")):
        function = _get(call, "function")
        if function is None:
            yield _unknown(call)
            continue
        yield Part("call", _text(_get(function, "arguments")), _text(_get(function, "name")), _text(_get(call, "id")))
    if message is not None and not isinstance(message, Mapping | str):
        yield _unknown(message)


def _words(content: Any) -> Iterator[Part]:
    """The content of a message: words, or a list of parts that are mostly words."""
    if isinstance(content, str):
        yield Part("text", content)
        return
    for part in _items(content):
        match _get(part, "type"):
            case "output_text" | "text":
                yield Part("text", _text(_get(part, "text")))
            case "refusal":
                yield Part("refusal", _text(_get(part, "refusal")))
            case _:
                yield _unknown(part)


def _unread(message: Any) -> Iterator[Part]:
    if message is not None:
        yield _unknown(message)


def _unknown(block: Any) -> Part:
    if isinstance(block, str):
        return Part("text", block)
    return Part("unknown", _json(block), _text(_get(block, "type")) or type(block).__name__)


def _items(value: Any) -> list[Any]:
    """A list as it is; a whole message for its content; anything else as the one item it is."""
    if isinstance(value, Mapping) and isinstance(value.get("content"), list) and "type" not in value:
        value = value["content"]
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _get(block: Any, key: str) -> Any:
    return block.get(key) if isinstance(block, Mapping) else None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


_READERS = {"anthropic": _anthropic, "openai-responses": _responses, "openai-chat": _chat}
