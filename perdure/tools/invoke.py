"""One attempt at one call. Whatever the tool does, an honest observation comes of it.

What may be said depends on the effect. A read that failed, failed. For a tool that acts, "failed" is only said when it
is known: the tool said so (`ToolError`), or raised an ordinary error while promising idempotence. Lost touch, ran out
of time, died: then it may have happened, and the ending is UNKNOWN.

A blocking tool runs in a thread of its own, not in a pool: one that ignores its time limit is abandoned, and must
neither hold a worker's place nor keep the process from ending. How many run at once is the worker's limit on
activities.
"""

import asyncio
import contextlib
import contextvars
import inspect
import os
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from perdure.core.contracts import Effect, Ending, FileRef, Observation
from perdure.core.digests import of_bytes, of_record
from perdure.files import File
from perdure.tools.declare import NOT_DONE, UNSURE, Tool, ToolContext, ToolError
from perdure.tools.parameters import ArgumentsError, problems
from perdure.tools.results import MOST_BYTES, bounded, fits, visible
from perdure.tools.returned import Returned, returned

MOST_ERROR: Final = 2_000  # characters of an error's text
UNWINDING: Final = 2.0  # seconds a tool has for stopping once its time limit has passed
_KEEPING: Final = 8.0  # seconds for the store to keep a long result; what came of the call must still be recorded
_FILE_TROUBLE = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
_TRANSPORT = {"httpx.TransportError", "httpx2.TransportError"}  # no OSErrors, and raised after the request was sent


class RetryTool(Exception):
    """This attempt met transient trouble, and the tool may be tried again: the activity asks for Temporal's retry.

    `cause` is what was raised.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(error_text(cause))
        self.cause = cause


@dataclass(frozen=True)
class _Raised:
    error: BaseException


_Outcome = Returned | _Raised

Keep = Callable[[str], Awaitable[str]]  # keeps a whole text; the name that the model may read it by, or ""
KeepFiles = Callable[[Sequence[File]], Awaitable[tuple[tuple[FileRef, ...], str]]]


@dataclass(frozen=True)
class Keeping:
    """How to keep what an observation cannot hold: long texts, and files; of those also what is to be said of them."""

    text: Keep
    files: KeepFiles | None = None


async def invoke(tool: Tool, arguments: str, ctx: ToolContext, keep: Keeping | None = None) -> Observation:
    """Run the tool on argument bytes, within its time limit.

    Cancelled from outside, it tells the tool and waits for it, up to the time limit. A result above the tool's limit is
    handed to `keep`, whole, before it is cut.

    Raises:
        RetryTool: transient trouble, and this is not the last attempt.
    """
    try:
        keywords = tool.parameters.parse(arguments)
    except ArgumentsError as error:
        return observation(
            Ending.ERROR,
            f"{tool.name} did not run: it changed since this call was admitted, and no longer takes these arguments "
            f"({_short(str(error))}). If it is still wanted, call it again as it is now.",
        )
    if tool.context is not None:
        keywords[tool.context] = ctx
    work = _in_thread(tool.function, keywords, tool.show) if _blocks(tool.function) else _in_task(tool, keywords)
    outcome, cancelled = await _settled(work, tool, ctx)
    if isinstance(outcome, Returned):
        return await _observed(outcome, tool.limit, keep)
    return _said(tool, outcome.error, last=cancelled or ctx.attempt >= tool.attempts, cancelled=cancelled)


async def observed(text: str, most: int, keep: Keeping | None = None) -> Observation:
    """A text that is a call's result, though no tool returned it, as the observation that it would have been."""
    return await _observed(returned(text, None), most, keep)


async def _observed(outcome: Returned, most: int, keep: Keeping | None) -> Observation:
    text = await _within_limit(outcome.text, most, keep.text if keep else None)
    whole = "" if fits(outcome.text, most) else of_bytes(visible(outcome.text))[:32]
    if not outcome.files:
        return observation(Ending.OK, text, whole=whole)
    files, note = await _kept(outcome.files, keep)
    whole = of_bytes("\n".join((whole, *(file.sha256 for file in files))))[:32] if whole else ""
    return observation(Ending.OK, bounded(text, MOST_BYTES - len(note.encode())) + note, files=files, whole=whole)


async def _kept(files: Sequence[File], keep: Keeping | None) -> tuple[tuple[FileRef, ...], str]:
    """What the history says of files, and what is said of those that are lost. Never raises: as `_within_limit`."""
    if keep is not None and keep.files is not None:
        with contextlib.suppress(Exception, asyncio.CancelledError):
            async with asyncio.timeout(_KEEPING):
                return await keep.files(files)
    return (), "\n[... files not shown: they could not be kept ...]"


async def _within_limit(text: str, most: int, keep: Keep | None) -> str:
    """The text, or head and tail of it. Never raises: the tool has acted, and what came of it must be told."""
    if keep is None or fits(text, most):
        return bounded(text, most)
    name = ""
    with contextlib.suppress(Exception, asyncio.CancelledError):  # cancelled: no time is left for keeping it
        async with asyncio.timeout(_KEEPING):
            name = await keep(text)
    return bounded(text, most, name)


def observation(
    ending: Ending, text: str, reason: str = "", files: tuple[FileRef, ...] = (), whole: str = ""
) -> Observation:
    """An observation under its own digest. `text` and `reason` are bounded and made storable here.

    `whole` is the digest of what `text` was cut from.
    """
    seen = Observation(
        digest="", ending=ending, reason=_short(reason), text=bounded(visible(text)), files=files, whole=whole
    )
    return seen.model_copy(update={"digest": of_record(seen.model_dump(mode="json", exclude={"digest"}))})


async def ask_probe(tool: Tool, ctx: ToolContext, keep: Keeping | None = None) -> Observation | None:
    """What the tool's probe says of a call whose answer was lost. Its result is shown as the tool's own would be.

    Returns:
        OK with the result: it happened. ERROR: it surely did not, and may be run again. None: nobody can tell.
    """
    if tool.probe is None:
        return None
    takes_context = len(inspect.signature(tool.probe).parameters) > 1
    given = (ctx.idempotency_key, ctx) if takes_context else (ctx.idempotency_key,)
    answers: list[Any] = []
    work: asyncio.Future[_Outcome]
    if inspect.iscoroutinefunction(tool.probe):
        work = asyncio.ensure_future(_framed(tool.probe, given, answers))
    else:
        work = _in_thread(lambda: answers.append(tool.probe(*given)), {})  # type: ignore[misc]
    outcome, _ = await _settled(work, tool, ctx)
    if isinstance(outcome, _Raised) or not answers or answers[0] is UNSURE:
        return None
    if answers[0] is NOT_DONE:
        return observation(Ending.ERROR, f"{tool.name} surely did not happen.", "the probe says it did not happen")
    return await _observed(returned(answers[0], tool.show), tool.limit, keep)


# --- running ----------------------------------------------------------------------------------------------------------


def _blocks(function: Callable[..., Any]) -> bool:
    """Whether a function runs to its end when called; a decorator around an async one changes nothing."""
    inner = inspect.unwrap(function)
    return not (inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner))


def _in_task(tool: Tool, keywords: dict[str, Any]) -> "asyncio.Future[_Outcome]":
    return asyncio.ensure_future(_in_loop(tool, keywords))


async def _in_loop(tool: Tool, keywords: dict[str, Any]) -> _Outcome:
    try:
        came = tool.function(**keywords)
        drawn = [each async for each in came] if inspect.isasyncgen(came) else await came
        return returned(drawn, tool.show)
    except BaseException as error:  # also a cancellation, SystemExit, KeyboardInterrupt: they end the tool, not us
        return _Raised(error)


async def _framed(function: Callable[..., Awaitable[Any]], given: tuple[Any, ...], answers: list[Any]) -> _Outcome:
    try:
        answers.append(await function(*given))
        return Returned("")
    except BaseException as error:
        return _Raised(error)


def _in_thread(
    function: Callable[..., Any], keywords: dict[str, Any], show: Callable[[Any], Any] | None = None
) -> "asyncio.Future[_Outcome]":
    loop = asyncio.get_running_loop()
    work: asyncio.Future[_Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: _Outcome) -> None:
        if not work.done():
            work.set_result(outcome)

    def called() -> Returned:
        came = function(**keywords)
        if inspect.iscoroutine(came):
            came.close()
            raise TypeError("it returned a coroutine that it had not awaited. Declare the tool with `async def`")
        return returned(came, show)

    def run() -> None:
        try:
            outcome: _Outcome = context.run(called)
        except BaseException as error:
            outcome = _Raised(error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name=f"perdure-{function.__name__}", daemon=True).start()
    return work


async def _settled(work: "asyncio.Future[_Outcome]", tool: Tool, ctx: ToolContext) -> tuple[_Outcome, bool]:
    """The outcome, and whether the run was cancelled meanwhile. Never raises."""
    cancelled = await _waited(work, tool.timeout, ctx)
    late = not work.done()
    if late:
        _tell(work, ctx)
        listens = isinstance(work, asyncio.Task) or tool.context is not None
        cancelled = await _waited(work, UNWINDING if listens else 0, ctx) or cancelled
    outcome = _outcome(work, ctx)
    if late and not isinstance(outcome, Returned) and not isinstance(outcome.error, ToolError):
        outcome = _Raised(TimeoutError(f"no answer within {tool.timeout:g} s"))
    return outcome, cancelled


async def _waited(work: "asyncio.Future[_Outcome]", seconds: float, ctx: ToolContext) -> bool:
    """Wait for the tool. Cancelled from outside, tell it once, wait on, and return True: it may finish."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    cancelled = False
    while not work.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait({work}, timeout=left)
        except asyncio.CancelledError:
            if not ctx.told:
                _tell(work, ctx)
            cancelled = True
    return cancelled


def _tell(work: "asyncio.Future[_Outcome]", ctx: ToolContext) -> None:
    ctx.cancel()
    if isinstance(work, asyncio.Task):
        work.cancel()


def _outcome(work: "asyncio.Future[_Outcome]", ctx: ToolContext) -> _Outcome:
    """What came of it. Nothing returned by a tool that saw it should stop is not read as done."""
    if not work.done():
        return _Raised(asyncio.CancelledError())
    if work.cancelled():
        return _Raised(ToolError("cancelled before it began"))
    outcome = work.result()
    told = ctx.heeded or (isinstance(work, asyncio.Task) and work.cancelling() > 0)
    return _Raised(asyncio.CancelledError()) if isinstance(outcome, Returned) and outcome.nothing and told else outcome


# --- wording ----------------------------------------------------------------------------------------------------------


def _said(tool: Tool, error: BaseException, *, last: bool, cancelled: bool) -> Observation:
    """What an attempt that raised means, by the tool's effect."""
    text = error_text(error)
    if isinstance(error, ToolError):
        return observation(Ending.ERROR, text)
    transient = _transient(error, tool.retry_on)
    if transient and not last and tool.effect is not Effect.ONCE:
        raise RetryTool(error)
    if tool.effect is Effect.READ:
        return observation(Ending.ERROR, "cancelled: the run is being stopped" if cancelled else text)
    ordinary = isinstance(error, Exception) and not isinstance(error, ExceptionGroup) and not cancelled
    if tool.effect is Effect.IDEMPOTENT and ordinary and not transient:
        return observation(Ending.ERROR, text)
    why = f"cancelled while it ran ({text})" if cancelled else text
    return observation(Ending.UNKNOWN, f"Nobody knows yet whether {tool.name} took effect: {why}", why)


def _transient(error: BaseException, retry_on: tuple[type[Exception], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_transient(each, retry_on) for each in error.exceptions)
    if isinstance(error, _FILE_TROUBLE) and not any(issubclass(each, _FILE_TROUBLE) for each in retry_on):
        return False
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    return isinstance(error, (*retry_on, TimeoutError)) or bool(kinds & _TRANSPORT)


def error_text(error: BaseException) -> str:
    """An error for the model and the record: type and message; no traceback, no path, no secret of the environment."""
    if isinstance(error, BaseExceptionGroup):
        return _short("; ".join(error_text(each) for each in error.exceptions))
    if isinstance(error, ValidationError):
        said = problems(error)
    else:
        try:
            said = str(error)
        except Exception:
            said = ""
    said = _without_paths(_without_secrets(said)).strip()
    if isinstance(error, ToolError):
        return _short(visible(said) or "the tool refused, and gave no reason")
    return _short(visible(f"{type(error).__name__}: {said}" if said else type(error).__name__))


def _short(text: str) -> str:
    return text if len(text) <= MOST_ERROR else text[: MOST_ERROR - 4] + " ..."


_PATH = re.compile(r"(?<![\w:/.])(?:~?/[\w.@+~-]+/|[A-Za-z]:\\)(?:[\w.@+~ -]+[/\\])*(?=[\w.@+~-])")
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")


def _without_paths(text: str) -> str:
    return _PATH.sub(".../", text)


def _without_secrets(text: str) -> str:
    """The text, with values of variables that are named like secrets masked: an error may echo its request."""
    for name, value in os.environ.items():
        if len(value) >= 8 and _SECRET.search(name.upper()):
            text = text.replace(value, f"[{name}]")
    return text
