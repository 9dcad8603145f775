"""OpenAI's Responses: what a request must look like, and what it may say.

Sources of the rules: the vendor's pages on the Responses API, function calling and reasoning, and the messages of its
own 400s. A turn is a run of output items (reasoning, messages, calls) between inputs.

Reasoning: its encrypted content proves itself. The id of every item issued after a reasoning item ends in a digest of
that item's id, so that a dropped or moved reasoning item shows on the item that stayed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Discriminator, Field, Tag, TypeAdapter
from typing_extensions import TypedDict

from perdure.testing import known
from perdure.testing.media import check_part
from perdure.testing.openai_errors import refuse_shape
from perdure.testing.schemas import format_problem, schema_problem
from perdure.testing.wire import NO_MARK, RefusalError, digest, mark_of, object_in, observed, sealed, text_of

_FORM: Final = ConfigDict(extra="forbid", strict=True)
_OPEN: Final = ConfigDict(extra="allow", strict=True)
OUTPUT: Final = ("reasoning", "function_call", "output_message", "other")

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


def item_kind(item: object) -> str | None:
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
    Discriminator(item_kind),
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


def check_request(body: dict[str, Any], issued: set[str]) -> None:
    """Raises RefusalError where the vendor would answer 400."""
    refuse_shape(_REQUEST, body, _NOISE, "input")
    _check_state(body)
    _check_tools(body)
    _check_format(body.get("text", {}).get("format"))
    items = items_of(body)
    for index, item in enumerate(items):
        if not item.taken:
            _check_item(index, item, issued)
    _check_pairs(items)
    _check_reasoning(items)


class Sent(known.Message):
    """An item whose shape is right, with what is learnt of it by itself."""

    @cached_property
    def kind(self) -> str | None:
        return item_kind(self)

    @cached_property
    def mark(self) -> str:
        """Of the reasoning that it was issued after."""
        return mark_of(self.get("id")) or NO_MARK

    @cached_property
    def led_to(self) -> str:
        """The mark of what was issued after this reasoning."""
        return reasoning_mark(self["id"])

    @cached_property
    def observation(self) -> str:
        return observed(self["output"])


def items_of(body: dict[str, Any]) -> list[Sent]:
    given = body["input"]
    return Sent.of([{"role": "user", "content": given}] if isinstance(given, str) else given)


def turns_in(items: list[Sent]) -> int:
    outputs = [each.kind in OUTPUT for each in items]
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


def _check_format(form: Any) -> None:
    if problem := isinstance(form, dict) and format_problem(form, form.get("schema"), "openai"):
        raise RefusalError(f"Invalid schema for response_format: {problem}.", param="text.format.schema")


def _check_item(index: int, item: Sent, issued: set[str]) -> None:
    where = f"input[{index}]"
    kind = item.kind
    for key in ("content", "output") if kind in ("input_message", "function_call_output") else ():
        for number, part in enumerate(item[key] if isinstance(item.get(key), list) else ()):
            check_part(part, f"{where}.{key}[{number}]")
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


def _check_pairs(items: list[Sent]) -> None:
    """Each call is answered once, by an output after it."""
    waiting: list[str] = []
    ids: set[str] = set()
    for index, item in enumerate(items):
        if item.get("id") in ids:
            raise RefusalError(f"Duplicate item found with id {item['id']}. Remove duplicate items from your input and "
                               "try again.", param="input")  # fmt: skip
        if item.get("id"):
            ids.add(item["id"])
        if item.kind == "function_call":
            if item["call_id"] in waiting:
                raise RefusalError(f"Duplicate call_id {item['call_id']}.", param=f"input[{index}].call_id")
            waiting.append(item["call_id"])
        elif item.kind == "function_call_output":
            if item["call_id"] not in waiting:
                raise RefusalError(
                    f"No tool call found for function call output with call_id {item['call_id']}.", param="input"
                )
            waiting.remove(item["call_id"])
        elif item.get("role") == "user" and waiting:
            break
    if waiting:
        raise RefusalError(f"No tool output found for function call {waiting[0]}.", param="input")


def _check_reasoning(items: list[Sent]) -> None:
    """Reasoning proves itself, is followed by what it led to, and what it led to is not without it.

    Items that carry no id are nobody's: they may retell a turn in which other reasoning, or another model's, was.
    """
    led_to = NO_MARK
    for index, item in enumerate(items):
        if item.kind == "reasoning":
            if not item.taken:
                _check_sealed(index, item)
            led_to = item.led_to
            if index + 1 == len(items) or items[index + 1].kind not in OUTPUT:
                raise RefusalError(
                    f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.",
                    param="input",
                )
        elif item.kind not in OUTPUT:
            led_to = NO_MARK
        if item.kind in ("function_call", "output_message") and item.mark not in (NO_MARK, led_to):
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


def reasoning_mark(reasoning_id: str) -> str:
    return digest("led to", reasoning_id, size=8) if reasoning_id else NO_MARK
