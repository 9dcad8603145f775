"""A conversation as the model activity leads it, and a server for answers that no script can express."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike
from threading import Thread
from types import UnionType
from typing import IO, Annotated, Any, NotRequired, Required, Union, get_args, get_origin

import pytest
from pydantic import TypeAdapter
from temporalio.converter import DataConverter
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from perdure.core.contracts import AdmittedCall, Opening, RecordedTurn, ToolSpec, Verdict
from perdure.core.transcript import Assistant, Entry, Heard, Result, Task
from perdure.providers import PROTOCOLS, Provider, Reply, provider
from perdure.testing import ScriptedModel

_OBJECT = {
    "type": "object",
    "properties": {"employee": {"type": "string"}},
    "required": ["employee"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec(name="hr_lookup", description="Look an employee up.", parameters=_OBJECT),
    ToolSpec(name="leave_records", description="Leave of an employee.", parameters=_OBJECT, strict=True),
)


def opening(protocol: str, **settings: Any) -> Opening:
    return Opening(
        digest="", turns=12, protocol=protocol, model="scripted", system="Be exact.", tools=TOOLS, settings=settings
    )


def recorded(protocol: str, reply: Reply) -> RecordedTurn:
    """A turn as it is recorded: every call under a legal name and an id of its own."""
    ids: set[str] = set()
    calls = []
    for index, asked in enumerate(reply.calls):
        id = asked.id if asked.id and asked.id not in ids else f"call_again_{index}"
        ids.add(id)
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", asked.name)[:64] or "unnamed"
        calls.append(AdmittedCall(index=index, id=id, name=name, verdict=Verdict.RUN))
    return RecordedTurn(
        digest="", stop=reply.stop, calls=tuple(calls), answer=reply.answer, protocol=protocol, message=reply.message
    )


def from_history(turn: RecordedTurn) -> RecordedTurn:
    """The turn after a pass through Temporal's own converter, which sorts keys."""
    [payload] = DataConverter.default.payload_converter.to_payloads([turn.model_dump(mode="json")])
    return RecordedTurn.model_validate(json.loads(payload.data))


_TYPED_DICT: Any = TypedDict  # types made of values, which type checkers don't follow
_UNION: Any = Union
_LIST: Any = list


def _exact(form: Any, made: dict[Any, Any]) -> Any:
    """An SDK's parameter type for checking by pydantic: lists for iterables, no keys that it doesn't know.

    As they are, iterables are validated only when read, and a string passes for an iterable of anything.
    """
    if is_typeddict(form):
        if form not in made:
            made[form] = Any  # inside itself
            hints = get_type_hints(form, include_extras=True)
            made[form] = _TYPED_DICT(
                form.__name__, {key: _exact(hint, made) for key, hint in hints.items()}, total=False
            )
            made[form].__pydantic_config__ = {"extra": "forbid"}
        return made[form]
    origin, inside = get_origin(form), tuple(_exact(each, made) for each in get_args(form))
    if origin is Iterable or getattr(origin, "__name__", "") == "SequenceNotStr":
        return _LIST[inside[0]]
    if origin in (Union, UnionType):
        return _UNION[inside]
    if origin is Annotated:
        return inside[0]
    if origin in (IO, PathLike):
        return bytes  # files, which JSON has not
    return origin[inside[0]] if origin in (Required, NotRequired) else form


@dataclass
class Conversation:
    """One run's conversation with a model. `entries` is the transcript so far."""

    protocol: str
    provider: Provider
    opening: Opening
    entries: list[Entry] = field(default_factory=lambda: [Task("How many holidays has ann left?")])
    sent: bytes = b""
    encoded: bytes = b""

    async def turn(self, *, tools: bool = True) -> Reply:
        before, self.encoded = len(self.encoded), self.provider.encode(self.entries)
        self.sent = self.provider.body(self.opening, self.encoded, tools=tools, sent=before, run="a" * 32)
        reply = self.provider.read(await self.provider.post(self.sent), self.opening)
        self.entries.append(Assistant(recorded(self.protocol, reply)))
        return reply

    def hear(self, *texts: str, notes: Sequence[str] = (), error: bool = False) -> None:
        [*_, latest] = self.entries
        assert isinstance(latest, Assistant)
        calls = latest.turn.calls
        results = tuple(Result(call.id, call.name, text, error) for call, text in zip(calls, texts, strict=True))
        self.entries.append(Heard(results, tuple(notes)))

    @property
    def body(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.sent)
        return loaded

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["input" if self.protocol == "openai-responses" else "messages"]
        return messages

    def cold(self) -> bytes:
        """The messages as another worker encodes them, one entry at a time, from history."""
        entries = [Assistant(from_history(each.turn)) if isinstance(each, Assistant) else each for each in self.entries]
        return b",".join(filter(None, (self.provider.encode([each]) for each in entries)))


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    """Connections end with the test's event loop."""
    yield
    for protocol in PROTOCOLS:
        await provider(protocol).close()


@pytest.fixture
def converse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Conversation]]:
    """`converse(protocol, script, **settings)`: a conversation with a strict scripted model."""
    with ExitStack() as models:

        def start(protocol: str, script: Any, **settings: Any) -> Conversation:
            for name, value in models.enter_context(ScriptedModel(script)).env().items():
                monkeypatch.setenv(name, value)
            return Conversation(protocol, provider(protocol), opening(protocol, **settings))

        yield start


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`served(body, status, headers)`: what every vendor answers from now on, over real HTTP."""
    answer: dict[str, Any] = {}

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(answer["status"])
            for name, value in answer["headers"].items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, format: str, *args: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")

    def serve(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        length = {"content-length": str(len(encoded))} if not headers or "content-length" not in headers else {}
        answer.update(status=status, headers={"content-type": "application/json", **length, **(headers or {})})
        answer["body"] = encoded

    yield serve
    server.shutdown()
    server.server_close()


@pytest.fixture
def vendor_takes() -> Callable[[Conversation], None]:
    """Checks a request against the SDK's own types for its parameters."""
    from anthropic.types import message_create_params
    from openai.types.chat import completion_create_params
    from openai.types.responses import response_create_params

    forms: dict[str, Any] = {
        "anthropic": message_create_params.MessageCreateParamsNonStreaming,
        "openai-responses": response_create_params.ResponseCreateParamsNonStreaming,
        "openai-chat": completion_create_params.CompletionCreateParamsNonStreaming,
    }

    def check(conversation: Conversation) -> None:
        TypeAdapter(_exact(forms[conversation.protocol], {})).validate_json(conversation.sent)

    return check
