"""Anthropic's Messages: what a request must look like, and what it may say.

Sources of the rules: the vendor's pages on the Messages API, tool use and extended thinking, and the messages of its
own 400s. Shapes are pydantic types, as they are at the vendor, so paths and wording agree with its errors; what spans
several blocks is checked in one walk over the transcript.

Thoughts: a signature proves its text. A call's id ends in a digest of all thoughts of its message and where they stand
among the calls, so a thought that was dropped, added or moved shows on the call that stayed.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Discriminator, Field, Tag, TypeAdapter
from typing_extensions import TypedDict

from perdure.testing.anthropic_transcript import Message as Sent
from perdure.testing.known import MOST_MESSAGES, misshaped
from perdure.testing.media import check_block, check_many
from perdure.testing.schemas import format_problem, schema_problem
from perdure.testing.wire import RefusalError, digest, mark_of, sealed

_FORM: Final = ConfigDict(extra="forbid", strict=True)
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_MEDIA: Final = ("image", "document")
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


class PictureBase64(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class PdfBase64(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["base64"]
    media_type: Literal["application/pdf"]
    data: str


class Url(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["url"]
    url: str


class Uploaded(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["file"]
    file_id: str


class PlainText(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["text"]
    media_type: Literal["text/plain"]
    data: str


class Parts(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["content"]
    content: str | list[Any]


class Image(Cached):
    type: Literal["image"]
    source: Annotated[PictureBase64 | Url | Uploaded, Field(discriminator="type")]
    transformations: NotRequired[dict[str, Any] | None]


class Document(Cached):
    type: Literal["document"]
    source: Annotated[PdfBase64 | Url | Uploaded | PlainText | Parts, Field(discriminator="type")]
    title: NotRequired[Annotated[str, Field(min_length=1, max_length=500)] | None]
    context: NotRequired[str | None]
    citations: NotRequired[dict[str, Any] | None]


class Other(TypedDict):
    """A block whose inside is not checked: media, results of server tools, and what the script made up."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    type: str


def _either(content: object) -> str:
    return "text" if isinstance(content, str) else "blocks"


_IN_RESULTS: Final = frozenset(["text", "image", "document"])
_IN_MESSAGES: Final = _IN_RESULTS | {"thinking", "redacted_thinking", "tool_use", "tool_result"}


def _tag(block: object, checked: frozenset[str]) -> str | None:
    """Which of the shapes a block is held against: its own, or "other"; None: it is no block."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return None
    kind = "tool_use" if kind == "server_tool_use" else kind
    return kind if kind in checked else "other"


def _kind(block: object) -> str | None:
    return _tag(block, _IN_MESSAGES)


def _result_kind(block: object) -> str | None:
    return _tag(block, _IN_RESULTS)


class ToolResult(Cached):
    type: Literal["tool_result"]
    tool_use_id: Id
    content: NotRequired[
        Annotated[
            Annotated[str, Tag("text")]
            | Annotated[
                list[
                    Annotated[
                        Annotated[Text, Tag("text")]
                        | Annotated[Image, Tag("image")]
                        | Annotated[Document, Tag("document")]
                        | Annotated[Other, Tag("other")],
                        Discriminator(_result_kind),
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
    | Annotated[Image, Tag("image")]
    | Annotated[Document, Tag("document")]
    | Annotated[Other, Tag("other")],
    Discriminator(_kind),
]
_OTHER_BLOCKS: Final = frozenset(
    [
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


class OutputFormat(TypedDict):
    __pydantic_config__ = _FORM  # type: ignore[misc]
    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]
    format: NotRequired[OutputFormat | None]


class Counted(TypedDict):
    """What `count_tokens` takes."""

    __pydantic_config__ = _FORM  # type: ignore[misc]
    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES)]
    system: NotRequired[str | list[Text]]
    tools: NotRequired[list[Tool]]
    tool_choice: NotRequired[ToolChoice]
    thinking: NotRequired[ThinkingConfig]
    output_config: NotRequired[OutputConfig]
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


def check_request(body: dict[str, Any], issued: set[str]) -> None:
    """Raises RefusalError where `POST /v1/messages` would answer 400."""
    _check_shape(body, _REQUEST)
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled" and "budget_tokens" not in thinking:
        raise RefusalError("thinking.enabled.budget_tokens: Field required")
    budget = thinking.get("budget_tokens", 0)
    if budget >= body["max_tokens"]:
        raise RefusalError("`max_tokens` must be greater than `thinking.budget_tokens`.")
    _check_content(body, issued)


def check_counted(body: dict[str, Any], issued: set[str]) -> None:
    """The same for `count_tokens`."""
    _check_shape(body, _COUNTED)
    _check_content(body, issued)


def _check_shape(body: dict[str, Any], shape: TypeAdapter[Any]) -> None:
    if body.get("messages") == []:
        raise RefusalError("messages: at least one message is required")
    wrong = misshaped(shape, body, _NOISE, "messages")
    if wrong:
        path, _, message = wrong
        raise RefusalError(f"{'.'.join(map(str, path))}: {message}")


def _check_content(body: dict[str, Any], issued: set[str]) -> None:
    for block in body["system"] if isinstance(body.get("system"), list) else ():
        _check_text(block["text"], "system")
    _check_tools(body)
    _check_format(body.get("output_config", {}).get("format"))
    messages = Sent.of(body["messages"])
    _check_transcript(messages, issued)
    check_many(media for each in messages for media in each.media)
    _check_thoughts(messages, latest=body.get("thinking", {}).get("type") != "disabled")
    _check_last(messages[-1])
    _check_cache(body, messages)
    if not body.get("tools") and any(each.calls or each.results for each in messages):
        raise RefusalError("Requests which have `tool_use` or `tool_result` blocks in `messages` must define `tools`.")


def signature(text: str) -> str:
    return f"EqQB{digest('thought', text, size=60)}"


def layout_mark(blocks: list[dict[str, Any]]) -> str:
    """Stands for a message's thoughts and their places among its calls."""
    layout: list[object] = []
    for block in blocks:
        if block["type"] in _THOUGHTS:
            layout.append([block.get("signature"), block.get("data")])
        elif block["type"] in ("tool_use", "server_tool_use"):
            layout.append("call")
    return digest("layout", layout, size=8)


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


def _check_format(form: dict[str, Any] | None) -> None:
    if problem := form and format_problem(form, form["schema"], "anthropic"):
        raise RefusalError(f"output_config.format.schema: {problem}")


def _check_transcript(messages: list[Sent], issued: set[str]) -> None:
    if messages[0]["role"] != "user":
        raise RefusalError('messages: first message must use the "user" role')
    seen: set[str] = set()
    before: Sent | None = None
    for index, message in enumerate(messages):
        if not message.taken:
            _check_blocks(index, message, issued)
        if message.results or (before and before.calls):
            _check_results(index, message.results, before)
        for number, call_id in message.calls:
            if call_id in seen:
                raise RefusalError(f"messages.{index}.content.{number}: `tool_use` ids must be unique")
            seen.add(call_id)
        before = message
    _check_results(len(messages), [], before)


def _check_blocks(index: int, message: Sent, issued: set[str]) -> None:
    """What one message may hold: something, no blank text, blocks that belong to its role."""
    if not message["content"]:
        raise RefusalError(f"messages.{index}: all messages must have non-empty content")
    role = message["role"]
    for number, block in enumerate(message.blocks):
        kind = block["type"]
        if kind == "text":
            _check_text(block["text"])
        elif kind == "tool_result":
            for place, part in enumerate(block["content"] if isinstance(block.get("content"), list) else ()):
                if part["type"] == "text":
                    _check_text(part["text"])
                elif part["type"] in _MEDIA:
                    check_block(part, f"messages.{index}.content.{number}.tool_result.content.{place}")
        elif kind in _MEDIA:
            check_block(block, f"messages.{index}.content.{number}")
        if kind in _MEDIA and role != "user":
            raise RefusalError(f"messages.{index}: `{kind}` blocks can only be in `user` messages")
        if kind in ("tool_use", "server_tool_use", *_THOUGHTS) and role != "assistant":
            raise RefusalError(f"messages.{index}: `{kind}` blocks can only be in `assistant` messages")
        if kind == "tool_result" and role != "user":
            raise RefusalError(f"messages.{index}: `tool_result` blocks can only be in `user` messages")
        if _kind(block) == "other" and kind not in _OTHER_BLOCKS and digest(block) not in issued:
            raise RefusalError(
                f"messages.{index}.content.{number}: Input tag '{kind}' found using 'type' does not match any of the "
                "expected tags"
            )
    if role == "assistant" and message.blocks[-1]["type"] in _THOUGHTS:
        raise RefusalError(f"messages.{index}: The final block in an assistant message cannot be `thinking`.")


def _check_text(text: str, where: str = "messages") -> None:
    if not text:
        raise RefusalError(f"{where}: text content blocks must be non-empty")
    if not text.strip():
        raise RefusalError(f"{where}: text content blocks must contain non-whitespace text")


def _check_results(index: int, results: list[tuple[int, str]], before: Sent | None) -> None:
    """The results of the calls in the message before stand first in this one, each once, and there are no others."""
    if results == (before.answers if before else []):
        return
    waiting = [call_id for _, call_id in before.calls] if before else []
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


def _check_thoughts(messages: list[Sent], *, latest: bool) -> None:
    """Every signature proves its text; the thoughts of the `latest` assistant turn are all there, and in place."""
    for index, message in [(index, each) for index, each in enumerate(messages) if not each.taken]:
        for number, block in enumerate(message.blocks):
            where = f"messages.{index}.content.{number}"
            if block["type"] == "thinking" and block["signature"] != signature(block["thinking"]):
                raise RefusalError(f"{where}: Invalid `signature` in `thinking` block")
            if block["type"] == "redacted_thinking" and not sealed(block["data"]):
                raise RefusalError(f"{where}: Invalid `data` in `redacted_thinking` block")
    last = next((index for index in reversed(range(len(messages))) if messages[index]["role"] == "assistant"), None)
    if last is None or not latest:
        return
    mark = layout_mark(messages[last].blocks)
    for number, block in enumerate(messages[last].blocks):
        if mark_of(block.get("id")) not in (None, mark):
            raise RefusalError(
                f"messages.{last}.content.{number}: `thinking` or `redacted_thinking` blocks in the latest assistant "
                "message cannot be modified. These blocks must remain as they were in the original response."
            )


def _check_last(message: Sent) -> None:
    if message["role"] != "assistant":
        return
    last = message.blocks[-1]
    if last["type"] == "text" and last["text"] != last["text"].rstrip():
        raise RefusalError("messages: final assistant content cannot end with trailing whitespace")
    if not message.of_kind("server_tool_use", "compaction"):  # sent back as it is, and goes on
        raise RefusalError(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _check_cache(body: dict[str, Any], messages: list[Sent]) -> None:
    system = body["system"] if isinstance(body.get("system"), list) else []
    before = [each.get("cache_control") for each in (*body.get("tools", ()), *system)]
    inside = [mark for message in messages for mark in message.marks]
    at_the_end = body.get("cache_control")  # the top level's
    marks = [mark for mark in (*before, *inside, at_the_end) if mark]
    if len(marks) > _CACHE_BREAKPOINTS:
        raise RefusalError(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.")
    hours = [mark.get("ttl") == "1h" for mark in marks]
    if hours != sorted(hours, reverse=True):
        raise RefusalError(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are "
            "processed in the following order: `tools`, `system`, `messages`."
        )
