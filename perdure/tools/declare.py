"""How a function becomes a tool: annotations are its schema, the docstring is its text, the effect is its promise.

A tool is declared cautiously unless told otherwise: it acts once, and a person is asked first. What cannot work is
refused here, at import, with what to do about it; never in a run.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from inspect import getattr_static, iscoroutinefunction
from types import FunctionType, MethodType
from typing import Any, Final, overload

from perdure.core.contracts import Effect
from perdure.tools import conditions
from perdure.tools.parameters import Parameters, Signature, ToolDeclarationError, read_signature
from perdure.tools.results import LEAST_LIMIT, MOST_BYTES
from perdure.tools.schemas import NotStrictError, strict_form

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # OpenAI's rule for function names, the strictest


class ToolError(Exception):
    """Raised by a tool that surely did nothing. Its text goes to the model, so word it as advice."""


class _Word:
    """A probe's answer that is no result."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NOT_DONE: Final = _Word("NOT_DONE")  # a probe: it surely did not happen
UNSURE: Final = _Word("UNSURE")  # a probe: cannot tell; an operator is asked


@dataclass(eq=False)
class ToolContext:
    """What a tool may know about the call it serves. Asked for by annotation; the model never sees it.

    `idempotency_key` is the same for every attempt at one approved call, over crashes and restarts: hand it to what
    you call. `attempt` counts the tool's own tries from 1, without those lost with their worker; `turn` from 1.
    """

    idempotency_key: str
    run_id: str = ""
    agent: str = ""
    turn: int = 0
    attempt: int = 1
    _stop: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    heeded: bool = field(default=False, init=False, repr=False)  # the tool has seen that it should stop

    @property
    def cancelled(self) -> bool:
        """The result is no longer waited for, or the run is being cancelled: a blocking tool looks here and stops.

        A tool that stops says so: it raises ToolError if it did nothing, returns a result if it finished. Returning
        nothing after looking here counts as stopped halfway.
        """
        self.heeded = self.heeded or self._stop.is_set()
        return self._stop.is_set()

    @property
    def told(self) -> bool:
        return self._stop.is_set()

    def cancel(self) -> None:
        self._stop.set()

    def wait_cancelled(self, seconds: float) -> bool:
        """Sleep in a blocking tool, for up to `seconds`; True as soon as it should stop."""
        self._stop.wait(seconds)
        return self.cancelled


@dataclass(frozen=True, eq=False)
class Tool:
    """A declared tool; calling it calls the function. `timeout` is in seconds, `limit` in UTF-8 bytes of its result."""

    function: Callable[..., Any]
    name: str
    description: str
    parameters: Parameters
    context: str | None = None
    effect: Effect = Effect.ONCE
    ask: bool | str | None = None
    timeout: float = 60.0
    attempts: int = 3
    retry_on: tuple[type[Exception], ...] = (OSError,)
    probe: Callable[..., Any] | None = None
    strict: bool | None = None
    unbound: bool = False
    limit: int = MOST_BYTES
    show: Callable[[Any], Any] | None = None

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> "Tool":
        """A tool declared in a class body, bound to its instance as a method would be."""
        if instance is None or not self.unbound:
            return self
        bound = partial(MethodType, self.function)(instance)
        return replace(self, function=bound, unbound=False)

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}, {self.effect}, {where(self.function)}>"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    effect: Effect | str = ...,
    ask: bool | str | None = ...,
    timeout: float | timedelta = ...,
    attempts: int | None = ...,
    retry_on: tuple[type[Exception], ...] = ...,
    probe: Callable[..., Any] | None = ...,
    name: str | None = ...,
    description: str | None = ...,
    strict: bool | None = ...,
    limit: int = ...,
    show: Callable[[Any], Any] | None = ...,
    like: Callable[..., Any] | None = ...,
) -> Tool: ...
@overload
def tool(
    *,
    effect: Effect | str = ...,
    ask: bool | str | None = ...,
    timeout: float | timedelta = ...,
    attempts: int | None = ...,
    retry_on: tuple[type[Exception], ...] = ...,
    probe: Callable[..., Any] | None = ...,
    name: str | None = ...,
    description: str | None = ...,
    strict: bool | None = ...,
    limit: int = ...,
    show: Callable[[Any], Any] | None = ...,
    like: Callable[..., Any] | None = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect | str = Effect.ONCE,
    ask: bool | str | None = None,
    timeout: float | timedelta = 60.0,
    attempts: int | None = None,
    retry_on: tuple[type[Exception], ...] = (OSError,),
    probe: Callable[..., Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    limit: int = MOST_BYTES,
    show: Callable[[Any], Any] | None = None,
    like: Callable[..., Any] | None = None,
) -> Any:
    """Declare a function, sync or async, or a bound method as a tool.

    Args:
        effect: what running it does to the world: "read", "idempotent" (hand on `ctx.idempotency_key`) or "once".
        ask: whether a person is asked first. None: reads run freely, everything that acts asks. A text is a
            condition over the arguments: "amount > 100".
        timeout: seconds for one attempt.
        attempts: how often it is tried, 3 unless it acts once.
        retry_on: what counts as transient trouble. Connection and time-out errors are OSErrors; errors about files
            (not found, not permitted) count only if named themselves.
        probe: given the idempotency key (and a ToolContext, if it takes two), says what became of a call whose answer
            was lost: returns the result, or NOT_DONE, or UNSURE.
        name, description: instead of the function's name and docstring.
        strict: True insists that vendors enforce the schema, False never asks them to, None asks where it can work.
        limit: UTF-8 bytes of a result that the model sees: 500 to 64,000, which is what a run records of one result. A
            longer one is cut to head and tail, with a note between them of what was left out.
        show: given what the tool returned, returns what the model sees of it: what it needs, and no more. If it raises,
            the model sees the whole result, so it is no way to keep something secret.
        like: take name, docstring and parameters from this function instead, and call the tool with them by name:
            how a toolkit that runs elsewhere is adopted, through `async def forward(ctx: ToolContext, **arguments)`.

    Raises:
        ToolDeclarationError: it cannot work, and what to do.
    """
    options = {
        "effect": effect,
        "ask": ask,
        "timeout": timeout.total_seconds() if isinstance(timeout, timedelta) else timeout,
        "attempts": attempts,
        "retry_on": retry_on,
        "probe": probe,
        "strict": strict,
        "limit": limit,
        "show": show,
    }
    declare = partial(_declared, name=name, description=description, like=like, options=options)
    return declare if function is None else declare(function)


def _declared(
    function: Callable[..., Any],
    *,
    name: str | None,
    description: str | None,
    like: Callable[..., Any] | None,
    options: dict[str, Any],
) -> Tool:
    if isinstance(function, Tool):
        raise ToolDeclarationError(f"tool {function.name!r} is declared already. Use @tool once, with all its options.")
    if not isinstance(function, FunctionType | MethodType):
        raise ToolDeclarationError(
            f"{function!r} is no function or bound method. Write a small function that calls it, and declare that."
        )
    name = name if name is not None else (like or function).__name__
    if not NAME.fullmatch(name):
        raise ToolDeclarationError(
            f"tool name {name!r} is refused by model vendors. Use at most 64 letters, digits, '_' and '-': "
            "@tool(name=...)."
        )
    signature = read_signature(function, name, ToolContext, like)
    _check(name, signature, options)
    acts_once = Effect(options["effect"]) is Effect.ONCE
    attempts = options["attempts"] if options["attempts"] is not None else (1 if acts_once else 3)
    return Tool(
        function,
        name,
        description if description is not None else signature.description,
        signature.parameters,
        signature.context,
        unbound=signature.in_class,
        **{**options, "effect": Effect(options["effect"]), "attempts": attempts},
    )


def _check(name: str, signature: Signature, options: dict[str, Any]) -> None:
    """Refuse options that contradict themselves or each other."""
    effect, ask, attempts = options["effect"], options["ask"], options["attempts"]
    if effect not in list(Effect):
        raise ToolDeclarationError(f"tool {name!r}: effect {effect!r} is unknown. Say 'read', 'idempotent' or 'once'.")
    if attempts is not None and (isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1):
        raise ToolDeclarationError(f"tool {name!r}: attempts is {attempts!r}. It counts tries: 1 or more.")
    if effect == Effect.ONCE and attempts not in (None, 1):
        raise ToolDeclarationError(
            f"tool {name!r} acts once, so it is never tried {attempts} times. If trying again with the same "
            "ctx.idempotency_key is safe, say effect='idempotent'; otherwise leave attempts out."
        )
    if not isinstance(options["timeout"], int | float) or not 0 < options["timeout"] < float("inf"):
        raise ToolDeclarationError(f"tool {name!r}: timeout {options['timeout']!r} is no positive number of seconds.")
    _check_retry_on(name, options["retry_on"])
    _check_result(name, options["limit"], options["show"])
    if isinstance(ask, str):
        try:
            conditions.check(ask, signature.parameters.fields)
        except conditions.ConditionError as error:
            raise ToolDeclarationError(f"tool {name!r}: the condition {ask!r} cannot be judged: {error}.") from None
    if options["strict"]:
        try:
            strict_form(signature.parameters.schema)
        except NotStrictError as error:
            raise ToolDeclarationError(
                f"tool {name!r} says strict=True, but its schema has no strict form: {error}. "
                "Change the type, or leave strict out."
            ) from None


def _check_retry_on(name: str, classes: Any) -> None:
    good = isinstance(classes, tuple) and all(
        isinstance(each, type) and issubclass(each, Exception) for each in classes
    )
    if not good:
        raise ToolDeclarationError(f"tool {name!r}: retry_on={classes!r} is no tuple of exception classes.")


def _check_result(name: str, limit: Any, show: Any) -> None:
    """Refuse what could only fail after the tool has acted."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not LEAST_LIMIT <= limit <= MOST_BYTES:
        raise ToolDeclarationError(
            f"tool {name!r}: limit {limit!r} is no number of UTF-8 bytes from {LEAST_LIMIT} to {MOST_BYTES:,}."
        )
    if show is not None and (not callable(show) or iscoroutinefunction(show)):
        raise ToolDeclarationError(
            f"tool {name!r}: show={show!r} is no plain function of the result. Wait for things in the tool itself."
        )


def tools_of(toolkit: Any) -> tuple[Tool, ...]:
    """The methods of an object that its class declares with @tool, bound to it, in the order of their names."""
    declared = [name for name in dir(type(toolkit)) if isinstance(getattr_static(type(toolkit), name), Tool)]
    return tuple(getattr(toolkit, name) for name in declared)


def where(function: Callable[..., Any]) -> str:
    """module.qualified_name, for messages that must tell two functions apart."""
    return f"{function.__module__}.{getattr(function, '__qualname__', '?')}"
