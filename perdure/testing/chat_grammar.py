"""OpenAI's Chat Completions: what a request must look like, and what it may say.

Sources of the rules: the vendor's pages on chat completions and function calling, and the messages of its own 400s.
Where the vendor is lax and compatible servers are not (an assistant message that says nothing), the strict side wins.
Thoughts do not exist here: they are dropped, and only counted in the usage.
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
from perdure.testing.wire import RefusalError, digest, object_in, observed, text_of

_FORM: Final = ConfigDict(extra="forbid", strict=True)
_ISSUED: Final = ConfigDict(extra="allow", strict=True)

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
Id = Annotated[str, Field(min_length=1)]


class Part(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]
    type: Literal["text", "image_url", "input_audio", "file", "refusal"]


def _either(content: object) -> str:
    return "none" if content is None else "text" if isinstance(content, str) else "parts"


Parts = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[Part], Field(min_length=1), Tag("parts")], Discriminator(_either)
]
PartsOrNone = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[Part], Field(min_length=1), Tag("parts")]
    | Annotated[None, Tag("none")],
    Discriminator(_either),
]


class Spoken(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    role: Literal["system", "developer", "user"]
    content: Parts
    name: NotRequired[str]


class CalledFunction(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    name: Name
    arguments: str


class ToolCall(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    id: Id
    type: Literal["function"]
    function: CalledFunction


class Assistant(TypedDict):
    __pydantic_config__ = _ISSUED  # type: ignore[misc]
    role: Literal["assistant"]
    content: NotRequired[PartsOrNone]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[Annotated[list[ToolCall], Field(min_length=1)]]
    name: NotRequired[str]


class Result(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    role: Literal["tool"]
    content: Parts
    tool_call_id: Id


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if role in ("assistant", "tool") else "spoken"


Message = Annotated[
    Annotated[Spoken, Tag("spoken")] | Annotated[Assistant, Tag("assistant")] | Annotated[Result, Tag("tool")],
    Discriminator(_role),
]
_ASSISTANT_KEYS: Final = frozenset(
    ["role", "content", "refusal", "tool_calls", "name", "annotations", "audio", "function_call"]
)


class Function(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    name: Name
    description: NotRequired[str]
    parameters: NotRequired[dict[str, Any]]
    strict: NotRequired[bool | None]


class Tool(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["function"]
    function: Function


class Named(TypedDict):
    name: str


class NamedChoice(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["function"]
    function: Named


def _choice(choice: object) -> str:
    return "word" if isinstance(choice, str) else "named"


class StreamOptions(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    include_usage: NotRequired[bool]
    include_obfuscation: NotRequired[bool]


class Request(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[Message], Field(min_length=1)]
    tools: NotRequired[Annotated[list[Tool], Field(min_length=1, max_length=128)]]
    tool_choice: NotRequired[
        Annotated[
            Annotated[Literal["none", "auto", "required"], Tag("word")] | Annotated[NamedChoice, Tag("named")],
            Discriminator(_choice),
        ]
    ]
    parallel_tool_calls: NotRequired[bool]
    stream: NotRequired[bool | None]
    stream_options: NotRequired[StreamOptions | None]
    max_completion_tokens: NotRequired[Annotated[int, Field(ge=1)] | None]
    max_tokens: NotRequired[Annotated[int, Field(ge=1)] | None]
    n: NotRequired[Literal[1] | None]
    temperature: NotRequired[Annotated[float, Field(ge=0, le=2)] | None]
    top_p: NotRequired[Annotated[float, Field(ge=0, le=1)] | None]
    audio: NotRequired[Any]
    frequency_penalty: NotRequired[float | None]
    presence_penalty: NotRequired[float | None]
    logit_bias: NotRequired[Any]
    logprobs: NotRequired[bool | None]
    top_logprobs: NotRequired[int | None]
    metadata: NotRequired[Any]
    modalities: NotRequired[Any]
    moderation: NotRequired[Any]
    prediction: NotRequired[Any]
    prompt_cache_key: NotRequired[str]
    prompt_cache_options: NotRequired[Any]
    prompt_cache_retention: NotRequired[Any]
    reasoning_effort: NotRequired[str | None]
    response_format: NotRequired[Any]
    safety_identifier: NotRequired[str]
    seed: NotRequired[int | None]
    service_tier: NotRequired[str | None]
    stop: NotRequired[Any]
    store: NotRequired[bool | None]
    user: NotRequired[str]
    verbosity: NotRequired[str | None]
    web_search_options: NotRequired[Any]


_REQUEST: Final[TypeAdapter[Any]] = TypeAdapter(Request)
_NOISE: Final = frozenset({"spoken", "assistant", "tool", "text", "parts", "none", "word", "named"})


class Sent(known.Message):
    """A message whose shape is right, with what is learnt of it by itself."""

    @cached_property
    def calls(self) -> list[str]:
        """The ids of its calls."""
        return [call["id"] for call in self.get("tool_calls", ())]

    @cached_property
    def observation(self) -> str:
        return observed(self["content"])


def check_request(body: dict[str, Any], issued: set[str]) -> None:
    """Raises RefusalError where the vendor would answer 400."""
    refuse_shape(_REQUEST, body, _NOISE, "messages")
    _check_tools(body)
    _check_format(body.get("response_format"))
    _check_transcript(Sent.of(body["messages"]), issued)


def _check_tools(body: dict[str, Any]) -> None:
    functions = [tool["function"] for tool in body.get("tools", ())]
    names = [function["name"] for function in functions]
    for index, function in enumerate(functions):
        where = f"tools[{index}].function"
        if function["name"] in names[:index]:
            raise RefusalError(f"Duplicate function name {function['name']!r}.", param=f"{where}.name")
        schema = function.get("parameters", {"type": "object", "properties": {}})
        problem = schema_problem(schema, "openai", strict=bool(function.get("strict")))
        if problem:
            raise RefusalError(
                f"Invalid schema for function '{function['name']}': {problem}.",
                param=f"{where}.parameters",
                code="invalid_function_parameters",
            )
    choice = body.get("tool_choice")
    if choice is not None and not names:
        raise RefusalError("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        raise RefusalError("Tool choice names a function that is not in 'tools'.", param="tool_choice")
    if body.get("parallel_tool_calls") is not None and not names:
        raise RefusalError("'parallel_tool_calls' is only allowed when 'tools' are specified.")


def _check_format(form: Any) -> None:
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return
    named = form.get("json_schema")
    if not isinstance(named, dict):
        raise RefusalError("Missing required parameter: 'response_format.json_schema'.", param="response_format")
    problem = format_problem({**named, "type": "json_schema"}, named.get("schema"), "openai")
    if problem:
        raise RefusalError(f"Invalid schema for response_format: {problem}.", param="response_format")


def _check_transcript(messages: list[Sent], issued: set[str]) -> None:
    """Each call is answered once, in the tool messages directly after it, and nothing else is answered."""
    waiting: list[str] = []
    answered: set[str] = set()
    for index, message in enumerate(messages):
        if not message.taken:
            _check_parts(index, message)
        if message["role"] == "tool":
            _check_result(index, message["tool_call_id"], waiting, answered)
            answered.add(message["tool_call_id"])
            continue
        _check_answered(index, waiting, answered)
        waiting, answered = [], set()
        if message["role"] == "assistant":
            if not message.taken:
                _check_assistant(index, message, issued)
            waiting = message.calls
    _check_answered(len(messages), waiting, answered)


def _check_parts(index: int, message: dict[str, Any]) -> None:
    """Pictures and files are a user's to send, and each is what it says it is."""
    for number, part in enumerate(message["content"] if isinstance(message.get("content"), list) else ()):
        where = f"messages[{index}].content[{number}]"
        if part["type"] not in ("text", "refusal") and message["role"] != "user":
            raise RefusalError(
                f"Invalid '{where}'. {part['type']} is only allowed in messages with role 'user', but this message "
                f"with role '{message['role']}' contains one.",
                param=where,
            )
        check_part(part, where)


def _check_result(index: int, call_id: str, waiting: list[str], answered: set[str]) -> None:
    where = f"messages[{index}].tool_call_id"
    if not waiting:
        raise RefusalError(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            param=f"messages[{index}].role",
        )
    if call_id not in waiting:
        raise RefusalError(f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous "
                           "message.", param=where)  # fmt: skip
    if call_id in answered:
        raise RefusalError(f"Duplicate value for 'tool_call_id' of '{call_id}'.", param=where)


def _check_answered(index: int, waiting: list[str], answered: set[str]) -> None:
    missing = [call_id for call_id in waiting if call_id not in answered]
    if missing:
        raise RefusalError(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}",
            param=f"messages[{index}].role",
        )


def _check_assistant(index: int, message: dict[str, Any], issued: set[str]) -> None:
    where = f"messages[{index}]"
    for key in message.keys() - _ASSISTANT_KEYS:
        if digest(message[key]) not in issued:
            raise RefusalError(f"Unknown parameter: '{where}.{key}'.", param=f"{where}.{key}", code="unknown_parameter")
    calls = message.get("tool_calls", ())
    if not calls and not text_of(message.get("content")).strip() and not message.get("refusal"):
        raise RefusalError(
            f"Invalid value for '{where}.content': an assistant message must say or call something.",
            param=f"{where}.content",
        )
    seen: set[str] = set()
    for number, call in enumerate(calls):
        if call["id"] in seen:
            raise RefusalError(f"Duplicate value for 'id' of '{call['id']}'.", param=f"{where}.tool_calls[{number}].id")
        seen.add(call["id"])
        if not object_in(call["function"]["arguments"]):
            raise RefusalError(
                f"Invalid '{where}.tool_calls[{number}].function.arguments': expected a JSON object in a string.",
                param=f"{where}.tool_calls[{number}].function.arguments",
            )
