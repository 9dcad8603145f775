"""Anthropic's Messages: its grammar, and how a turn looks in it.

Sources of the rules: the vendor's pages on the Messages API, tool use and extended thinking, and the messages of its
own 400s. Shapes are pydantic types, as they are at the vendor, so paths and wording agree with its errors; what spans
several blocks is checked in one walk over the transcript.

Thoughts: a signature proves its text. A call's id ends in a digest of all thoughts of its message and where they stand
among the calls, so a thought that was dropped, added or moved shows on the call that stayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Discriminator, Field, Tag, TypeAdapter
from typing_extensions import TypedDict

from perdure.testing.schemas import schema_problem
from perdure.testing.script import ABSENT, Blank, Block, Call, Failed, Pause, Refuse, Say, Think, Turn
from perdure.testing.wire import (
    Asked,
    Cue,
    RefusalError,
    digest,
    issue_id,
    mark_of,
    seal,
    sealed,
    text_of,
    tokens,
    validated,
)

_FORM: Final = ConfigDict(extra="forbid", strict=True)
_KINDS: Final = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_CACHE_BREAKPOINTS: Final = 4

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
Id = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$")]


class Ephemeral(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["ephemeral"]
    ttl: NotRequired[Literal["5m", "1h"]]


class Cached(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    cache_control: NotRequired[Ephemeral | None]


class Text(Cached):
    type: Literal["text"]
    text: str
    citations: NotRequired[list[Any] | None]


class Thinking(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinking(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["redacted_thinking"]
    data: str


class ToolUse(Cached):
    type: Literal["tool_use", "server_tool_use"]
    id: Id
    name: Name
    input: dict[str, Any]
    caller: NotRequired[dict[str, Any] | None]
    toolset_name: NotRequired[str | None]


class Other(TypedDict):
    """A block whose inside is not checked: media, results of server tools, and what the script made up."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    type: str


def _either(content: object) -> str:
    return "text" if isinstance(content, str) else "blocks"


def _kind(block: object) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    known = {"server_tool_use": "tool_use", "text": "text", "thinking": "thinking", "tool_use": "tool_use"}
    known |= {"redacted_thinking": "redacted_thinking", "tool_result": "tool_result"}
    return known.get(kind, "other") if isinstance(kind, str) else None


def _result_kind(block: object) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return "text" if kind == "text" else "other" if isinstance(kind, str) else None


class ToolResult(Cached):
    type: Literal["tool_result"]
    tool_use_id: Id
    content: NotRequired[
        Annotated[
            Annotated[str, Tag("text")]
            | Annotated[
                list[
                    Annotated[
                        Annotated[Text, Tag("text")] | Annotated[Other, Tag("other")], Discriminator(_result_kind)
                    ]
                ],
                Tag("blocks"),
            ],
            Discriminator(_either),
        ]
    ]
    is_error: NotRequired[bool]
    toolset_name: NotRequired[str | None]


AnyBlock = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[Thinking, Tag("thinking")]
    | Annotated[RedactedThinking, Tag("redacted_thinking")]
    | Annotated[ToolUse, Tag("tool_use")]
    | Annotated[ToolResult, Tag("tool_result")]
    | Annotated[Other, Tag("other")],
    Discriminator(_kind),
]
_OTHER_BLOCKS: Final = frozenset(
    [
        "image",
        "document",
        "search_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
        "tool_search_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "container_upload",
        "compaction",
    ]
)


class Message(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    role: Literal["user", "assistant", "system"]
    content: Annotated[Annotated[str, Tag("text")] | Annotated[list[AnyBlock], Tag("blocks")], Discriminator(_either)]


class Tool(Cached):
    name: Name
    input_schema: dict[str, Any]
    type: NotRequired[Literal["custom"] | None]
    description: NotRequired[str]
    strict: NotRequired[bool]
    allowed_callers: NotRequired[list[str]]
    defer_loading: NotRequired[bool]
    eager_input_streaming: NotRequired[bool | None]
    input_examples: NotRequired[list[dict[str, Any]]]


class ToolChoice(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["auto", "any", "tool", "none"]
    name: NotRequired[str]
    disable_parallel_tool_use: NotRequired[bool]


class ThinkingConfig(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["adaptive", "enabled", "disabled", "between_tools"]
    budget_tokens: NotRequired[Annotated[int, Field(ge=1024)]]
    display: NotRequired[str | None]


class Counted(TypedDict):
    """What `count_tokens` takes."""

    __pydantic_config__ = _FORM  # type: ignore[misc]
    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[Message], Field(min_length=1, max_length=100_000)]
    system: NotRequired[str | list[Text]]
    tools: NotRequired[list[Tool]]
    tool_choice: NotRequired[ToolChoice]
    thinking: NotRequired[ThinkingConfig]
    output_config: NotRequired[dict[str, Any]]
    cache_control: NotRequired[Ephemeral | None]


class Request(Counted):
    max_tokens: Annotated[int, Field(ge=1)]
    stream: NotRequired[bool]
    metadata: NotRequired[dict[str, Any]]
    stop_sequences: NotRequired[list[str]]
    service_tier: NotRequired[Literal["auto", "standard_only"]]
    container: NotRequired[str | dict[str, Any] | None]
    diagnostics: NotRequired[dict[str, Any] | None]
    inference_geo: NotRequired[str | None]
    speed: NotRequired[Literal["standard", "fast"] | None]
    user_profile_id: NotRequired[str]
    workspace_id: NotRequired[str]


_REQUEST: Final[TypeAdapter[Any]] = TypeAdapter(Request)
_COUNTED: Final[TypeAdapter[Any]] = TypeAdapter(Counted)
_NOISE: Final = frozenset({"blocks", "other", "str", "list[Text]"})


class AnthropicMessages:
    """The dialect of `POST /v1/messages`."""

    name = "anthropic"
    path = "/v1/messages"

    def admit(self, headers: Mapping[str, str]) -> str:
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not key:
            raise RefusalError("x-api-key header is required", status=401)
        if "anthropic-version" not in headers:
            raise RefusalError("anthropic-version: header is required")
        return key

    def check(self, body: dict[str, Any], issued: set[str]) -> None:
        self._check_shape(body, _REQUEST)
        budget = body.get("thinking", {}).get("budget_tokens", 0)
        if budget >= body["max_tokens"]:
            raise RefusalError("`max_tokens` must be greater than `thinking.budget_tokens`.")
        self._check_content(body, issued)

    def count(self, body: dict[str, Any], issued: set[str]) -> dict[str, Any]:
        """The answer of `count_tokens`, under the same grammar."""
        self._check_shape(body, _COUNTED)
        self._check_content(body, issued)
        return {"input_tokens": tokens(body)}

    @staticmethod
    def _check_shape(body: dict[str, Any], shape: TypeAdapter[Any]) -> None:
        if body.get("messages") == []:
            raise RefusalError("messages: at least one message is required")
        wrong = validated(shape, body, _NOISE)
        if wrong:
            path, _, message = wrong
            raise RefusalError(f"{'.'.join(map(str, path))}: {message}")

    @staticmethod
    def _check_content(body: dict[str, Any], issued: set[str]) -> None:
        _check_tools(body)
        _check_transcript(body["messages"], issued)
        _check_thoughts(body)
        _check_last(body["messages"][-1])
        _check_cache(body)
        if not body.get("tools") and any(_of_kind(each, "tool_use", "tool_result") for each in body["messages"]):
            raise RefusalError(
                "Requests which have `tool_use` or `tool_result` blocks in `messages` must define `tools`."
            )

    def ask(self, body: dict[str, Any]) -> Asked:
        messages = body["messages"]
        task = text_of(messages[0]["content"])
        results = [[text_of(block.get("content")) for block in _of_kind(each, "tool_result")] for each in messages]
        offered = body.get("tool_choice", {}).get("type") != "none"
        return Asked(
            model=body["model"],
            conversation=digest(body["model"], text_of(body.get("system")), task),
            task=task,
            turns=sum(each["role"] == "assistant" for each in messages),
            stream=body.get("stream", False),
            tools=[tool["name"] for tool in body.get("tools", ())] if offered else [],
            observations=[text for texts in results for text in texts],
            latest=results[-1],
        )

    def render(self, turn: Turn, cue: Cue) -> dict[str, Any]:
        content = _content(turn, cue)
        thought = sum(tokens(part.text) for part in turn.content if isinstance(part, Think))
        spoken = tokens(content or "") + thought
        refused = any(isinstance(part, Refuse) for part in turn.content)
        return {
            "id": f"msg_01{digest('message', cue.script, cue.number, size=22)}",
            "type": "message",
            "role": "assistant",
            "model": cue.model,
            "content": content,
            "stop_reason": _stop_reason(turn) if turn.stop is ABSENT else turn.stop,
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": None} if refused else None,
            "usage": _usage(cue, spoken, thought),
        }

    def fail(self, failure: Failed, cue: Cue) -> dict[str, Any]:
        return self.error(RefusalError(failure.message, status=500, kind="api_error"))

    def stream(self, reply: dict[str, Any], cue: Cue) -> Iterator[tuple[str | None, object]]:
        def event(kind: str, **more: object) -> tuple[str, object]:
            return kind, {"type": kind, **more}

        if reply["type"] == "error":
            yield "error", reply
            return
        opening = {**reply, "content": [], "stop_reason": None, "stop_details": None}
        yield event("message_start", message={**opening, "usage": {**reply["usage"], "output_tokens": 1}})
        for index, block in enumerate(reply["content"] or ()):
            bare, deltas = _deltas(block)
            yield event("content_block_start", index=index, content_block=bare)
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        if reply["stop_reason"] is None:
            return
        ending = {key: reply[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
        yield event("message_delta", delta=ending, usage=reply["usage"])
        yield event("message_stop")

    def error(self, refusal: RefusalError) -> dict[str, Any]:
        status_kind = _KINDS.get(refusal.status, "api_error" if refusal.status >= 500 else "invalid_request_error")
        known = refusal.kind is None or refusal.kind.endswith("_error") or refusal.kind in _KINDS.values()
        error: dict[str, Any] = {"type": (known and refusal.kind) or status_kind, "message": refusal.message}
        if not known:
            error["details"] = {"error_code": refusal.kind}
        return {"type": "error", "error": error, "request_id": f"req_{digest('request', refusal.message)}"}


# ---- grammar ---------------------------------------------------------------------------------------------------------


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _of_kind(message: dict[str, Any], *kinds: str) -> list[dict[str, Any]]:
    return [block for block in _blocks(message) if block["type"] in kinds]


def _check_tools(body: dict[str, Any]) -> None:
    tools, choice = body.get("tools", []), body.get("tool_choice")
    names = [tool["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise RefusalError("tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        problem = schema_problem(tool["input_schema"], "anthropic", strict=tool.get("strict", False))
        if problem:
            raise RefusalError(f"tools.{index}.custom.input_schema: {problem}")
    if choice is None:
        return
    if not tools:
        raise RefusalError("tool_choice: tool_choice may only be specified while providing tools.")
    if (choice["type"] == "tool") != ("name" in choice):
        raise RefusalError("tool_choice: `name` belongs to, and is required by, type `tool`")
    if choice["type"] == "tool" and choice["name"] not in names:
        raise RefusalError(f"tool_choice.tool: Tool '{choice['name']}' not found in provided tools")
    thinks = body.get("thinking", {}).get("type", "disabled") != "disabled"
    if thinks and choice["type"] in ("any", "tool"):
        raise RefusalError("Thinking may not be enabled when tool_choice forces tool use.")


def _check_transcript(messages: list[dict[str, Any]], issued: set[str]) -> None:
    if messages[0]["role"] != "user":
        raise RefusalError('messages: first message must use the "user" role')
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        _check_blocks(index, message, issued)
        _check_results(index, message, waiting)
        waiting = [block["id"] for block in _of_kind(message, "tool_use")]
        for number, block in enumerate(_blocks(message)):
            if block["type"] == "tool_use":
                if block["id"] in seen:
                    raise RefusalError(f"messages.{index}.content.{number}: `tool_use` ids must be unique")
                seen.add(block["id"])
    _check_results(len(messages), None, waiting)


def _check_blocks(index: int, message: dict[str, Any], issued: set[str]) -> None:
    """What one message may hold: something, no blank text, blocks that belong to its role."""
    if not message["content"]:
        raise RefusalError(f"messages.{index}: all messages must have non-empty content")
    role = message["role"]
    for number, block in enumerate(_blocks(message)):
        kind = block["type"]
        if kind == "text":
            _check_text(block["text"])
        elif kind == "tool_result":
            for part in block["content"] if isinstance(block.get("content"), list) else ():
                if part["type"] == "text":
                    _check_text(part["text"])
        if kind in ("tool_use", "server_tool_use", *_THOUGHTS) and role != "assistant":
            raise RefusalError(f"messages.{index}: `{kind}` blocks can only be in `assistant` messages")
        if kind == "tool_result" and role != "user":
            raise RefusalError(f"messages.{index}: `tool_result` blocks can only be in `user` messages")
        if _kind(block) == "other" and kind not in _OTHER_BLOCKS and digest(block) not in issued:
            raise RefusalError(
                f"messages.{index}.content.{number}: Input tag '{kind}' found using 'type' does not match any of the "
                "expected tags"
            )
    if role == "assistant" and _blocks(message)[-1]["type"] in _THOUGHTS:
        raise RefusalError(f"messages.{index}: The final block in an assistant message cannot be `thinking`.")


def _check_text(text: str) -> None:
    if not text:
        raise RefusalError("messages: text content blocks must be non-empty")
    if not text.strip():
        raise RefusalError("messages: text content blocks must contain non-whitespace text")


def _check_results(index: int, message: dict[str, Any] | None, waiting: list[str]) -> None:
    """The results of the last message's calls stand first in this one, each once, and there are no others."""
    blocks = _blocks(message) if message and message["role"] == "user" else []
    results = [(number, block["tool_use_id"]) for number, block in enumerate(blocks) if block["type"] == "tool_result"]
    answered: set[str] = set()
    for number, call_id in results:
        if call_id not in waiting:
            raise RefusalError(
                f"messages.{index}.content.{number}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{call_id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous "
                "message."
            )
        if call_id in answered:
            raise RefusalError(
                f"messages.{index}.content.{number}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {call_id}"
            )
        if number == len(answered):
            answered.add(call_id)
    missing = [call_id for call_id in waiting if call_id not in answered]
    if missing:
        raise RefusalError(
            f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )


def _check_thoughts(body: dict[str, Any]) -> None:
    """Every signature proves its text; the thoughts of the latest assistant turn are all there, and in place."""
    messages = body["messages"]
    for index, message in enumerate(messages):
        for number, block in enumerate(_blocks(message)):
            where = f"messages.{index}.content.{number}"
            if block["type"] == "thinking" and block["signature"] != _signature(block["thinking"]):
                raise RefusalError(f"{where}: Invalid `signature` in `thinking` block")
            if block["type"] == "redacted_thinking" and not sealed(block["data"]):
                raise RefusalError(f"{where}: Invalid `data` in `redacted_thinking` block")
    if body.get("thinking", {}).get("type") == "disabled":
        return
    latest = max((index for index, each in enumerate(messages) if each["role"] == "assistant"), default=None)
    if latest is None:
        return
    mark = _mark(_blocks(messages[latest]))
    for number, block in enumerate(_blocks(messages[latest])):
        if mark_of(block.get("id")) not in (None, mark):
            raise RefusalError(
                f"messages.{latest}.content.{number}: `thinking` or `redacted_thinking` blocks in the latest assistant "
                "message cannot be modified. These blocks must remain as they were in the original response."
            )


def _check_last(message: dict[str, Any]) -> None:
    if message["role"] != "assistant":
        return
    last = _blocks(message)[-1]
    if last["type"] == "text" and last["text"] != last["text"].rstrip():
        raise RefusalError("messages: final assistant content cannot end with trailing whitespace")
    if not _of_kind(message, "server_tool_use"):  # a paused turn is sent back as it is, and goes on
        raise RefusalError(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _check_cache(body: dict[str, Any]) -> None:
    system = body["system"] if isinstance(body.get("system"), list) else []
    blocks = [block for message in body["messages"] for block in _blocks(message)]
    marked = sum(bool(each.get("cache_control")) for each in (body, *system, *body.get("tools", ()), *blocks))
    if marked > _CACHE_BREAKPOINTS:
        raise RefusalError(f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")


# ---- rendering -------------------------------------------------------------------------------------------------------


def _signature(text: str) -> str:
    return f"EqQB{digest('thought', text, size=60)}"


def _mark(blocks: list[dict[str, Any]]) -> str:
    """Stands for a message's thoughts and their places among its calls."""
    layout: list[object] = []
    for block in blocks:
        if block["type"] in _THOUGHTS:
            layout.append([block.get("signature"), block.get("data")])
        elif block["type"] in ("tool_use", "server_tool_use"):
            layout.append("call")
    return digest("layout", layout, size=8)


def _content(turn: Turn, cue: Cue) -> list[dict[str, Any]] | None:
    if Blank("null") in turn.content:
        return None
    mark = _mark(_said(turn, cue, mark=""))  # of thoughts and places, not of ids: so it can go into the ids
    blocks = _said(turn, cue, mark)
    if turn.truncated and blocks and blocks[-1]["type"] == "tool_use":
        blocks[-1]["input"] = {}
    return blocks


def _said(turn: Turn, cue: Cue, mark: str) -> list[dict[str, Any]]:
    blocks = (_block(part, (cue.script, cue.number, index), mark) for index, part in enumerate(turn.content))
    return [block for block in blocks if block is not None]


def _block(part: object, facts: tuple[object, ...], mark: str) -> dict[str, Any] | None:
    match part:
        case Say(text) | Refuse(text):
            return {"type": "text", "text": text, "citations": None}
        case Think(text, redacted=True):
            return {"type": "redacted_thinking", "data": seal(text)}
        case Think(text):
            return {"type": "thinking", "thinking": text, "signature": _signature(text)}
        case Call():
            call_id = part.id or issue_id("toolu", mark, *facts)
            return {"type": "tool_use", "id": call_id, "name": part.name, "input": _input(part)}
        case Pause():
            used = issue_id("srvtoolu", mark, *facts)
            return {"type": "server_tool_use", "id": used, "name": part.name, "input": dict(part.input)}
        case Block(content):
            return dict(content)
        case Blank("text"):
            return {"type": "text", "text": "", "citations": None}
    return None


def _input(call: Call) -> Any:
    """Anthropic sends objects; a raw argument string is what it parses to, or `{}`."""
    if not isinstance(call.raw, str):
        return dict(call.arguments)
    try:
        return json.loads(call.raw)
    except ValueError:
        return {}


def _stop_reason(turn: Turn) -> str:
    kinds = {type(part) for part in turn.content}
    reasons = ((Refuse, "refusal"), (Pause, "pause_turn"), (Call, "tool_use"))
    return "max_tokens" if turn.truncated else next((reason for kind, reason in reasons if kind in kinds), "end_turn")


def _usage(cue: Cue, spoken: int, thought: int) -> dict[str, Any]:
    return {
        "input_tokens": cue.input_tokens,
        "output_tokens": spoken,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens_details": {"thinking_tokens": thought},
        "service_tier": "standard",
    }


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it starts, and what is then added to it."""
    match block["type"]:
        case "text":
            pieces = re.findall(r".{1,16}", block["text"], re.DOTALL)
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [thought, signed]
        case "tool_use" | "server_tool_use":
            pieces = re.findall(r".{1,16}", json.dumps(block["input"]), re.DOTALL)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []
