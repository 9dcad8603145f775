"""The scripted model's HTTP server: one loopback port, three protocols, in a thread of its own.

A request passes four doors, in this order: key and headers, JSON, grammar, script. Each may refuse it in the vendor's
form; what was refused, and why, stays readable in `violations`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Final

import uvicorn
from pydantic_core import from_json, to_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from perdure.testing.anthropic_messages import AnthropicMessages
from perdure.testing.known import Message, told_in_text
from perdure.testing.media import seen
from perdure.testing.openai_chat import OpenAIChat
from perdure.testing.openai_responses import OpenAIResponses
from perdure.testing.prompt_cache import PromptCache, Used
from perdure.testing.prompter import Prompter
from perdure.testing.script import Block, Compute, Cut, Error, Failed, Fault, Pause, Raw, Reply, Script, Turn
from perdure.testing.wire import Asked, Cue, Dialect, RefusalError, digest

_LOOPBACK: Final = "127.0.0.1"
_START_SECONDS: Final = 10
_SECRET_HEADERS: Final = frozenset({"authorization", "x-api-key", "cookie"})
_LARGEST_BODY: Final = 32_000_000  # Anthropic's documented limit for a Messages request
_TOLD: Final = {
    401: "invalid x-api-key", 403: "Your account does not have access to this resource.", 404: "Not found",
    413: "Request exceeds the maximum size", 429: "Number of requests has exceeded your rate limit.",
    500: "Internal server error", 529: "Overloaded",
}  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """One request as it arrived, and how it was answered. Keys are never recorded."""

    protocol: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    status: int
    refusal: str | None = None
    model: str = ""
    turn: int | None = None

    @cached_property
    def body(self) -> Any:
        """The JSON body; None when it was not JSON."""
        try:
            return from_json(self.raw)
        except ValueError:
            return None


@dataclass
class Record:
    """The latest requests, bounded by the bytes of their bodies, so that long runs don't fill memory."""

    most_bytes: int
    requests: deque[Recorded] = field(default_factory=deque)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, recorded: Recorded) -> None:
        with self._lock:
            self.requests.append(recorded)
            self._bytes += len(recorded.raw)
            while self._bytes > self.most_bytes and len(self.requests) > 1:
                self._bytes -= len(self.requests.popleft().raw)

    def all(self) -> list[Recorded]:
        with self._lock:
            return list(self.requests)


class ScriptedModel:
    """A model that plays scripts, over HTTP, strictly.

    `scripts`: Script objects (several are told apart by their `model=`), or one list of replies, or one function of
    `Seen`. `key`: the only API key accepted; by default any. `strict_models`: names no script answers to get a 404.
    `record_bytes`: how many bytes of request bodies stay readable in `requests`.

    Use it as a context manager, or call `start` and `close`. Raises ScriptError for scripts that don't fit together.
    """

    def __init__(
        self,
        *scripts: Script | Sequence[Reply | Compute] | Compute,
        host: str = _LOOPBACK,
        port: int = 0,
        key: str | None = None,
        strict_models: bool = False,
        record_bytes: int = 64_000_000,
    ) -> None:
        made = [each if isinstance(each, Script) else Script(each) for each in scripts]
        self._prompter = Prompter(made, strict_models=strict_models)
        self._key = key
        self._model = next((script.model for script in made if script.model), "scripted")
        self._issued = {digest(dict(part.content)) for each in made for turn in each.turns for part in _unknown(turn)}
        self._record = Record(record_bytes)
        self._cache = PromptCache()
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{host}:{self.port}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                log_level="critical",
                lifespan="off",
                ws="none",
                access_log=False,
                timeout_keep_alive=120,
                timeout_graceful_shutdown=1,
            )
        )
        self._closing = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve_until_closed()), name="scripted-model", daemon=True
        )

    # ---- as its users see it ----

    @property
    def anthropic_url(self) -> str:
        """The base URL as the anthropic SDK wants it."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The base URL as the openai SDK wants it."""
        return f"{self.url}/v1"

    def env(self) -> dict[str, str]:
        """The environment variables that point both SDKs at this server."""
        key = self._key or "scripted-model-key"
        return {
            "ANTHROPIC_BASE_URL": self.anthropic_url,
            "ANTHROPIC_API_KEY": key,
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": key,
        }

    @property
    def requests(self) -> list[Recorded]:
        """The requests so far, oldest first; the oldest are forgotten beyond `record_bytes`."""
        return self._record.all()

    @property
    def violations(self) -> list[Recorded]:
        """The requests this server refused on its own, `refusal` says why. Scripted errors are not among them."""
        return [each for each in self.requests if each.refusal is not None]

    def start(self) -> ScriptedModel:
        """Serves until `close`. Returns once requests are answered."""
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RuntimeError(f"the scripted model did not start on {self.url!r}; is the port free?")
            time.sleep(0.002)
        return self

    def serve(self) -> None:
        """Serves in this thread until interrupted."""
        self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Stops serving, dropping requests in flight."""
        if self._thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(timeout=_START_SECONDS)
        self._socket.close()

    def __enter__(self) -> ScriptedModel:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ---- how a request is answered ----

    @cached_property
    def app(self) -> Starlette:
        """The ASGI application, for those who bring their own server."""
        messages = AnthropicMessages()
        routes = [
            Route(each.path, partial(self._answer, each), methods=["POST"])
            for each in (messages, OpenAIResponses(), OpenAIChat())
        ]
        count = Route("/v1/messages/count_tokens", partial(self._count, messages), methods=["POST"])
        return Starlette(routes=[count, *routes])

    async def _answer(self, dialect: Dialect, request: Request) -> Response:
        raw = await request.body()
        note = partial(_recorded, dialect, request, raw)
        try:
            key, body = self._admitted(dialect, request, raw)
            dialect.check(body, self._issued)
            dialect.known.take(body)
            messages = Message.of(body[dialect.known.within])
            files = seen(media for each in messages for media in each.media)
            asked = replace(told_in_text(dialect.ask(body), messages), files=files)
            script, number, turn = self._prompter.due(asked, body, raw)
            fault = self._prompter.fault(asked, script, number, turn)
            await asyncio.sleep(turn.seconds)
            unread = isinstance(fault, Error | Failed | Raw)
            used = Used(0) if unread else self._cache.serve(key, dialect.prompt(body))
            cue = Cue(script.name, number, asked.model, used, body)
            response = self._response(dialect, turn, fault, cue, asked)
        except RefusalError as refusal:
            self._record.add(note(status=refusal.status, refusal=refusal.message))
            return _error(dialect, refusal)
        self._record.add(note(status=response.status_code, model=asked.model, turn=number))
        return response

    async def _count(self, dialect: AnthropicMessages, request: Request) -> Response:
        raw = await request.body()
        note = partial(_recorded, dialect, request, raw)
        try:
            _, body = self._admitted(dialect, request, raw)
            counted = dialect.count(body, self._issued)
            dialect.known.take(body)
        except RefusalError as refusal:
            self._record.add(note(status=refusal.status, refusal=refusal.message))
            return _error(dialect, refusal)
        self._record.add(note(status=200))
        return JSONResponse(counted)

    def _admitted(self, dialect: Dialect, request: Request, raw: bytes) -> tuple[str, dict[str, Any]]:
        """The API key and the body. Raises RefusalError."""
        key = dialect.admit(request.headers)
        if self._key is not None and key != self._key:
            raise RefusalError(_TOLD[401], status=401)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise RefusalError("Content-Type must be application/json", status=415)
        if len(raw) > _LARGEST_BODY:
            raise RefusalError(_TOLD[413], status=413)
        try:
            body = dialect.known.parsed(raw)
        except ValueError as broken:
            raise RefusalError(f"The request body is not valid JSON: {broken}") from broken
        if not isinstance(body, dict):
            raise RefusalError("The request body is not a JSON object")
        return key, body

    def _response(self, dialect: Dialect, turn: Turn, fault: Fault | None, cue: Cue, asked: Asked) -> Response:
        match fault:
            case Error():
                return _scripted_error(dialect, fault, asked)
            case Raw():
                return Response(fault.body, fault.status, media_type=fault.content_type)
            case Failed():
                reply = dialect.fail(fault, cue)
            case _:
                _refuse_foreign(dialect, turn)
                self._issued |= {digest(dict(part.content)) for part in _unknown(turn)}
                reply = dialect.render(turn, cue)
        headers = {"request-id": f"req_{digest(cue.script, cue.number, asked.conversation)}"}
        media_type = "text/event-stream" if asked.stream else "application/json"
        content = b"".join(map(_event, dialect.stream(reply, cue))) if asked.stream else to_json(reply)
        if isinstance(fault, Cut):
            return _cut(content, fault, headers, media_type)
        return Response(content, headers=headers, media_type=media_type)

    async def _serve_until_closed(self) -> None:
        """Ends at once, where uvicorn's own way out takes two ticks of 100 ms: tests start and end many servers."""
        self._loop = asyncio.get_running_loop()
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        closing = asyncio.create_task(self._closing.wait())
        await asyncio.wait((serving, closing), return_when=asyncio.FIRST_COMPLETED)
        for task in (serving, closing, *self._server.server_state.tasks):
            task.cancel()
        for listening in self._server.servers:
            listening.close()
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await asyncio.wait((serving, closing))


def _listen(host: str, port: int) -> socket.socket:
    # The protocol is named so that asyncio switches Nagle's algorithm off: else each answer waits 40 ms for an ACK.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # whoever read the URL may connect, and waits until requests are served
    except OSError:
        listening.close()
        raise
    return listening


def _unknown(turn: Turn) -> list[Block]:
    return [part for part in turn.content if isinstance(part, Block)]


def _refuse_foreign(dialect: Dialect, turn: Turn) -> None:
    if dialect.name != AnthropicMessages.name and any(isinstance(part, Pause) for part in turn.content):
        raise RefusalError(f"scripted model: pause() is Anthropic's; {dialect.name} has no paused turns")


def _recorded(dialect: Dialect, request: Request, raw: bytes, **outcome: Any) -> Recorded:
    headers = {name: value for name, value in request.headers.items() if name not in _SECRET_HEADERS}
    return Recorded(dialect.name, request.url.path, headers, raw, **outcome)


def _error(dialect: Dialect, refusal: RefusalError, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(dialect.error(refusal), refusal.status, headers=headers)


def _scripted_error(dialect: Dialect, fault: Error, asked: Asked) -> Response:
    message = fault.message or (f"model: {asked.model}" if fault.status == 404 else _TOLD.get(fault.status, "Error"))
    headers = {"request-id": f"req_{digest(fault.status, asked.conversation)}"}
    if fault.retry_after is not None:
        headers["retry-after"] = f"{fault.retry_after:g}"
    if fault.should_retry is not None:
        headers["x-should-retry"] = str(fault.should_retry).lower()
    return _error(dialect, RefusalError(message, status=fault.status, kind=fault.kind), headers)


def _event(event: tuple[str | None, object]) -> bytes:
    kind, data = event
    named = f"event: {kind}\n" if kind else ""
    return f"{named}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _cut(content: bytes, cut: Cut, headers: dict[str, str], media_type: str) -> Response:
    if cut.clean:
        whole_events = content.rfind(b"\n\n", 0, cut.after_bytes) + 2 if b"\n\n" in content[: cut.after_bytes] else 0
        kept = content[:whole_events] if media_type == "text/event-stream" else content[: cut.after_bytes]
        return Response(kept, headers=headers, media_type=media_type)

    async def part() -> AsyncIterator[bytes]:
        yield content[: cut.after_bytes]
        await asyncio.sleep(0.01)  # lets the bytes leave before the connection breaks
        raise ConnectionAbortedError("cut by the script")

    promised = {} if media_type == "text/event-stream" else {"content-length": str(len(content))}
    return StreamingResponse(part(), headers=headers | promised, media_type=media_type)
