"""OpenAI's Responses: its grammar, and how a turn looks in it.

Sources of the rules: the vendor's pages on the Responses API, function calling and reasoning, and the messages of its
own 400s. A turn is a run of output items (reasoning, messages, calls) between inputs.

Reasoning: its encrypted content proves itself. The id of every item issued after a reasoning item ends in a digest of
that item's id, so that a dropped or moved reasoning item shows on the item that stayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Discriminator, Field, Tag, TypeAdapter
from typing_extensions import TypedDict

from perdure.testing.openai_errors import bearer, error_body, refuse_shape
from perdure.testing.schemas import schema_problem
from perdure.testing.script import ABSENT, Blank, Block, Call, Failed, Refuse, Say, Think, Turn
from perdure.testing.wire import (
    Asked,
    Cue,
    RefusalError,
    digest,
    issue_id,
    mark_of,
    object_in,
    seal,
    sealed,
    text_of,
    tokens,
)

_FORM: Final = ConfigDict(extra="forbid", strict=True)
_OPEN: Final = ConfigDict(extra="allow", strict=True)
_NO_MARK: Final = "0" * 8
_OUTPUT: Final = ("reasoning", "function_call", "output_message", "other")

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
Id = Annotated[str, Field(min_length=1, max_length=64)]
Status = Literal["in_progress", "completed", "incomplete"]


class InputPart(TypedDict):
    __pydantic_config__ = _OPEN  # type: ignore[misc]
    type: Literal["input_text", "input_image", "input_file", "input_audio"]


class OutputPart(TypedDict):
    __pydantic_config__ = _OPEN  # type: ignore[misc]
    type: Literal["output_text", "refusal"]


def _either(content: object) -> str:
    return "text" if isinstance(content, str) else "parts"


InputParts = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[InputPart], Field(min_length=1), Tag("parts")], Discriminator(_either)
]
OutputParts = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[OutputPart], Field(min_length=1), Tag("parts")], Discriminator(_either)
]


class InputMessage(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: NotRequired[Literal["message"]]
    role: Literal["user", "system", "developer"]
    content: InputParts
    id: NotRequired[str]
    status: NotRequired[Status]


class OutputMessage(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: NotRequired[Literal["message"]]
    role: Literal["assistant"]
    content: OutputParts
    id: NotRequired[str]
    status: NotRequired[Status]
    phase: NotRequired[Literal["commentary", "final_answer"] | None]


class FunctionCall(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["function_call"]
    call_id: Id
    name: Name
    arguments: str
    id: NotRequired[str | None]
    status: NotRequired[Status | None]
    caller: NotRequired[Any]
    namespace: NotRequired[str | None]


class FunctionCallOutput(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["function_call_output"]
    call_id: Id
    output: InputParts
    id: NotRequired[str | None]
    status: NotRequired[Status | None]
    caller: NotRequired[Any]
    name: NotRequired[str | None]
    namespace: NotRequired[str | None]


class Summary(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["summary_text"]
    text: str


class Reasoning(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["reasoning"]
    id: str
    summary: list[Summary]
    content: NotRequired[list[dict[str, Any]] | None]
    encrypted_content: NotRequired[str | None]
    status: NotRequired[Status | None]


class Other(TypedDict):
    """An item whose inside is not checked: built-in tools, compaction, and what the script made up."""

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    type: str


def _kind(item: object) -> str | None:
    if not isinstance(item, dict):
        return None
    kind = item.get("type", "message")
    if kind == "message":
        return "output_message" if item.get("role") == "assistant" else "input_message"
    known = ("function_call", "function_call_output", "reasoning")
    return kind if kind in known else "other" if isinstance(kind, str) else None


Item = Annotated[
    Annotated[InputMessage, Tag("input_message")]
    | Annotated[OutputMessage, Tag("output_message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[Reasoning, Tag("reasoning")]
    | Annotated[Other, Tag("other")],
    Discriminator(_kind),
]
_OTHER_ITEMS: Final = frozenset(
    [
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "computer_call_output",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "compaction",
        "custom_tool_call",
        "custom_tool_call_output",
        "tool_search_call",
        "tool_search_output",
    ]
)


class FunctionTool(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["function"]
    name: Name
    parameters: dict[str, Any] | None
    strict: bool | None
    description: NotRequired[str | None]
    allowed_callers: NotRequired[list[str] | None]
    defer_loading: NotRequired[bool]
    output_schema: NotRequired[dict[str, Any] | None]


class NamedChoice(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["function"]
    name: str


def _choice(choice: object) -> str:
    return "word" if isinstance(choice, str) else "named"


class Request(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    model: Annotated[str, Field(min_length=1)]
    input: Annotated[
        Annotated[str, Field(min_length=1), Tag("text")] | Annotated[list[Item], Field(min_length=1), Tag("parts")],
        Discriminator(_either),
    ]
    instructions: NotRequired[str | None]
    tools: NotRequired[Annotated[list[FunctionTool], Field(max_length=128)]]
    tool_choice: NotRequired[
        Annotated[
            Annotated[Literal["none", "auto", "required"], Tag("word")] | Annotated[NamedChoice, Tag("named")],
            Discriminator(_choice),
        ]
    ]
    parallel_tool_calls: NotRequired[bool | None]
    stream: NotRequired[bool | None]
    store: NotRequired[bool | None]
    previous_response_id: NotRequired[str | None]
    conversation: NotRequired[Any]
    max_output_tokens: NotRequired[Annotated[int, Field(ge=16)] | None]
    max_tool_calls: NotRequired[Annotated[int, Field(ge=1)] | None]
    temperature: NotRequired[Annotated[float, Field(ge=0, le=2)] | None]
    top_p: NotRequired[Annotated[float, Field(ge=0, le=1)] | None]
    include: NotRequired[list[str] | None]
    reasoning: NotRequired[dict[str, Any] | None]
    text: NotRequired[dict[str, Any]]
    truncation: NotRequired[Literal["auto", "disabled"] | None]
    access_programs: NotRequired[Any]
    background: NotRequired[Literal[False] | None]
    background_options: NotRequired[Any]
    context_management: NotRequired[Any]
    image: NotRequired[Any]
    metadata: NotRequired[Any]
    moderation: NotRequired[Any]
    prompt: NotRequired[Any]
    prompt_cache_key: NotRequired[str | None]
    prompt_cache_options: NotRequired[Any]
    prompt_cache_retention: NotRequired[Any]
    safety_identifier: NotRequired[str | None]
    service_tier: NotRequired[str | None]
    stream_options: NotRequired[dict[str, Any] | None]
    top_logprobs: NotRequired[int | None]
    user: NotRequired[str]


_REQUEST: Final[TypeAdapter[Any]] = TypeAdapter(Request)
_NOISE: Final = frozenset(
    {"text", "parts", "word", "named", "input_message", "output_message", "other"}
    | {"function_call", "function_call_output", "reasoning"}
)


class OpenAIResponses:
    """The dialect of `POST /v1/responses`."""

    name = "openai-responses"
    path = "/v1/responses"

    def admit(self, headers: Mapping[str, str]) -> str:
        return bearer(headers)

    def check(self, body: dict[str, Any], issued: set[str]) -> None:
        refuse_shape(_REQUEST, body, _NOISE)
        _check_state(body)
        _check_tools(body)
        items = _items(body)
        for index, item in enumerate(items):
            _check_item(index, item, issued)
        _check_pairs(items)
        _check_reasoning(items)

    def ask(self, body: dict[str, Any]) -> Asked:
        items = _items(body)
        task = next((text_of(each["content"]) for each in items if each.get("role") == "user"), "")
        system = [text_of(each["content"]) for each in items if each.get("role") in ("system", "developer")]
        results = [(index, text_of(each["output"])) for index, each in enumerate(items) if "output" in each]
        last = max((index for index, each in enumerate(items) if _kind(each) in _OUTPUT), default=-1)
        offered = body.get("tools", []) if body.get("tool_choice") != "none" else []
        return Asked(
            model=body["model"],
            conversation=digest(body["model"], body.get("instructions"), system[:1], task),
            task=task,
            turns=_turns(items),
            stream=bool(body.get("stream")),
            tools=[tool["name"] for tool in offered],
            observations=[text for _, text in results],
            latest=[text for index, text in results if index > last],
        )

    def render(self, turn: Turn, cue: Cue) -> dict[str, Any]:
        thought = sum(tokens(part.text) for part in turn.content if isinstance(part, Think))
        output = _output(turn, cue)
        status: object = "incomplete" if turn.truncated else "completed"
        return {
            **_envelope(cue),
            "status": status if turn.stop is ABSENT else turn.stop,
            "incomplete_details": {"reason": "max_output_tokens"} if turn.truncated else None,
            "output": output,
            "usage": _usage(cue, tokens(output or "") + thought, thought),
        }

    def fail(self, failure: Failed, cue: Cue) -> dict[str, Any]:
        error = {"code": failure.code, "message": failure.message}
        return {**_envelope(cue), "status": "failed", "error": error, "output": [], "usage": None}

    def stream(self, reply: dict[str, Any], cue: Cue) -> Iterator[tuple[str | None, object]]:
        for number, (kind, more) in enumerate(_events(reply)):
            yield kind, {"type": kind, "sequence_number": number, **more}

    def error(self, refusal: RefusalError) -> dict[str, Any]:
        return error_body(refusal)


# ---- grammar ---------------------------------------------------------------------------------------------------------


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _turns(items: list[dict[str, Any]]) -> int:
    outputs = [_kind(each) in _OUTPUT for each in items]
    return sum(now and not before for before, now in zip([False, *outputs], outputs, strict=False))


def _check_state(body: dict[str, Any]) -> None:
    """The scripted model keeps no responses, as the vendor doesn't under `store: false`."""
    previous = body.get("previous_response_id")
    if previous is not None:
        raise RefusalError(
            f"Previous response with id '{previous}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    if body.get("conversation") is not None:
        raise RefusalError("Conversation not found.", param="conversation", status=404)


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools", [])
    names = [tool["name"] for tool in tools]
    for index, tool in enumerate(tools):
        if tool["name"] in names[:index]:
            raise RefusalError(f"Duplicate function name {tool['name']!r}.", param=f"tools[{index}].name")
        schema = tool["parameters"] or {"type": "object", "properties": {}}
        problem = schema_problem(schema, "openai", strict=bool(tool["strict"]))
        if problem:
            raise RefusalError(
                f"Invalid schema for function '{tool['name']}': {problem}.",
                param=f"tools[{index}].parameters",
                code="invalid_function_parameters",
            )
    choice = body.get("tool_choice", "auto")
    if choice == "required" and not tools:
        raise RefusalError("Tool choice 'required' must be specified with 'tools' parameter.", param="tool_choice")
    if isinstance(choice, dict) and choice["name"] not in names:
        raise RefusalError(f"Tool choice '{choice['name']}' not found in 'tools' parameter.", param="tool_choice")


def _check_item(index: int, item: dict[str, Any], issued: set[str]) -> None:
    where = f"input[{index}]"
    kind = _kind(item)
    if kind == "output_message" and not text_of(item["content"]).strip() and not _refusal_in(item):
        raise RefusalError(f"Invalid '{where}.content': an assistant message must say something.", param=where)
    if kind == "function_call" and not object_in(item["arguments"]):
        raise RefusalError(
            f"Invalid '{where}.arguments': expected a JSON object in a string.", param=f"{where}.arguments"
        )
    if kind == "other" and item["type"] not in _OTHER_ITEMS and digest(item) not in issued:
        raise RefusalError(
            f"Invalid value: '{item['type']}'. Supported values are: 'message', 'function_call', "
            "'function_call_output', 'reasoning', ...",
            param=f"{where}.type",
            code="invalid_value",
        )


def _refusal_in(item: dict[str, Any]) -> bool:
    return not isinstance(item["content"], str) and any(part.get("refusal") for part in item["content"])


def _check_pairs(items: list[dict[str, Any]]) -> None:
    """Each call is answered once, by an output after it."""
    waiting: list[str] = []
    ids: set[str] = set()
    for index, item in enumerate(items):
        if item.get("id") in ids:
            raise RefusalError(f"Duplicate item found with id {item['id']}. Remove duplicate items from your input and "
                               "try again.", param="input")  # fmt: skip
        if item.get("id"):
            ids.add(item["id"])
        if _kind(item) == "function_call":
            if item["call_id"] in waiting:
                raise RefusalError(f"Duplicate call_id {item['call_id']}.", param=f"input[{index}].call_id")
            waiting.append(item["call_id"])
        elif _kind(item) == "function_call_output":
            if item["call_id"] not in waiting:
                raise RefusalError(
                    f"No tool call found for function call output with call_id {item['call_id']}.", param="input"
                )
            waiting.remove(item["call_id"])
        elif item.get("role") == "user" and waiting:
            break
    if waiting:
        raise RefusalError(f"No tool output found for function call {waiting[0]}.", param="input")


def _check_reasoning(items: list[dict[str, Any]]) -> None:
    """Reasoning proves itself, is followed by what it led to, and what it led to is not without it."""
    thought: str | None = None
    for index, item in enumerate(items):
        kind = _kind(item)
        if kind == "reasoning":
            _check_sealed(index, item)
            thought = item["id"]
            if index + 1 == len(items) or _kind(items[index + 1]) not in _OUTPUT:
                raise RefusalError(
                    f"Item '{thought}' of type 'reasoning' was provided without its required following item.",
                    param="input",
                )
        elif kind not in _OUTPUT:
            thought = None
        needed = next((mark for mark in map(mark_of, (item.get("id"), item.get("call_id"))) if mark), _NO_MARK)
        if kind in ("function_call", "output_message") and needed not in (_NO_MARK, _reasoning_mark(thought)):
            raise RefusalError(
                f"Item '{item.get('id') or item.get('call_id')}' of type '{item.get('type', 'message')}' was provided "
                "without its required 'reasoning' item.",
                param="input",
            )


def _check_sealed(index: int, item: dict[str, Any]) -> None:
    encrypted = item.get("encrypted_content")
    if encrypted is None:
        raise RefusalError(
            f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. Send the "
            "reasoning item with its encrypted_content.",
            status=404,
            param=f"input[{index}].encrypted_content",
        )
    if not encrypted.startswith("gAAAAA") or not sealed(encrypted[6:]):
        raise RefusalError(
            f"The encrypted content for item {item['id']} could not be verified.", code="invalid_encrypted_content"
        )


# ---- rendering -------------------------------------------------------------------------------------------------------


def _reasoning_mark(reasoning_id: str | None) -> str:
    return digest("led to", reasoning_id, size=8) if reasoning_id else _NO_MARK


def _output(turn: Turn, cue: Cue) -> list[dict[str, Any]] | None:
    if Blank("null") in turn.content:
        return None
    items: list[dict[str, Any]] = []
    mark = _NO_MARK
    for index, part in enumerate(turn.content):
        item = _item(part, (cue.script, cue.number, index), mark)
        if item is not None:
            items.append(item)
        if isinstance(part, Think) and item is not None:
            mark = _reasoning_mark(item["id"])
    if turn.truncated and items:
        items[-1]["status"] = "incomplete"
        if "arguments" in items[-1]:
            items[-1]["arguments"] = items[-1]["arguments"][: len(items[-1]["arguments"]) // 2]
    return items


def _item(part: object, facts: tuple[object, ...], mark: str) -> dict[str, Any] | None:
    match part:
        case Think(text, redacted):
            summary = [] if redacted else [{"type": "summary_text", "text": text}]
            sealed_text = "gAAAAA" + seal(text, *facts)
            return {"id": f"rs_{digest(*facts)}", "type": "reasoning", "summary": summary,
                    "encrypted_content": sealed_text}  # fmt: skip
        case Call():
            arguments = json.dumps(dict(part.arguments)) if part.raw is ABSENT else part.raw
            call_id = part.id if part.id is not None else issue_id("call", mark, *facts)
            return {"id": issue_id("fc", mark, *facts), "type": "function_call", "status": "completed",
                    "call_id": call_id, "name": part.name, "arguments": arguments}  # fmt: skip
        case Say(text):
            return _message(facts, mark, {"type": "output_text", "text": text, "annotations": [], "logprobs": []})
        case Blank("text"):
            return _message(facts, mark, {"type": "output_text", "text": "", "annotations": [], "logprobs": []})
        case Refuse(text):
            return _message(facts, mark, {"type": "refusal", "refusal": text})
        case Block(content):
            return dict(content)
    return None


def _message(facts: tuple[object, ...], mark: str, content: dict[str, Any]) -> dict[str, Any]:
    message_id = issue_id("msg", mark, *facts)
    return {"id": message_id, "type": "message", "status": "completed", "role": "assistant", "content": [content]}


def _envelope(cue: Cue) -> dict[str, Any]:
    asked = cue.body
    return {
        "id": f"resp_{digest('response', cue.script, cue.number, size=32)}",
        "object": "response",
        "created_at": 1_764_000_000,
        "model": cue.model,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "temperature": asked.get("temperature"),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "top_p": asked.get("top_p"),
        "store": asked.get("store", True),
    }


def _usage(cue: Cue, spoken: int, thought: int) -> dict[str, Any]:
    return {
        "input_tokens": cue.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": spoken,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": cue.input_tokens + spoken,
    }


def _events(reply: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    opening = {**reply, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    yield "response.created", {"response": opening}
    yield "response.in_progress", {"response": opening}
    for index, item in enumerate(reply["output"] or ()):
        hollow: dict[str, Any] = {
            key: [] if key == "content" else "" if key == "arguments" else value for key, value in item.items()
        }
        yield "response.output_item.added", {"output_index": index, "item": hollow}
        where = {"item_id": item.get("id", ""), "output_index": index}
        if item["type"] == "function_call":
            yield from _argument_events(item["arguments"] or "", where, item["name"])
        parts = item["content"] if item["type"] == "message" else []
        for number, part in enumerate(parts):
            yield from _part_events(part, {**where, "content_index": number})
        yield "response.output_item.done", {"output_index": index, "item": item}
    if reply["status"] is not None:
        yield f"response.{reply['status']}", {"response": reply}


def _argument_events(arguments: str, where: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in re.findall(r".{1,16}", arguments, re.DOTALL):
        yield "response.function_call_arguments.delta", {**where, "delta": piece}
    yield "response.function_call_arguments.done", {**where, "name": name, "arguments": arguments}


def _part_events(part: dict[str, Any], where: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, key = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
    extra: dict[str, Any] = {"logprobs": []} if key == "text" else {}
    yield "response.content_part.added", {**where, "part": {**part, key: ""}}
    for piece in re.findall(r".{1,16}", part[key], re.DOTALL):
        yield f"response.{kind}.delta", {**where, "delta": piece, **extra}
    yield f"response.{kind}.done", {**where, key: part[key], **extra}
    yield "response.content_part.done", {**where, "part": part}
