"""One attempt at one call: the worker survives it, and what is said of it is what is known."""

import asyncio
import contextlib
import contextvars
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from perdure.core.contracts import Ending, Observation
from perdure.core.digests import of_record
from perdure.tools.declare import NOT_DONE, UNSURE, Tool, ToolContext, ToolError, tool
from perdure.tools.invoke import Keep, Keeping, RetryTool, ask_probe, invoke

EFFECTS = ("read", "idempotent", "once")


def context(attempt: int = 1) -> ToolContext:
    return ToolContext("key-1", attempt=attempt)


def raising(error: BaseException, *, blocking: bool = False, **options: Any) -> Tool:
    def fail_in_thread() -> str:
        raise error

    async def fail_in_loop() -> str:
        raise error

    return tool(fail_in_thread if blocking else fail_in_loop, **options)


async def last(declared: Tool, arguments: str = "{}") -> Observation:
    """The observation of the last attempt."""
    return await invoke(declared, arguments, context(attempt=declared.attempts))


async def test_a_result_is_observed() -> None:
    @tool(effect="read")
    async def order(ctx: ToolContext, order_id: str) -> dict[str, str]:
        return {"order": order_id, "key": ctx.idempotency_key}

    seen = await invoke(order, '{"order_id":"7"}', context())
    assert (seen.ending, seen.text) == (Ending.OK, '{"order": "7", "key": "key-1"}')
    assert seen.digest == of_record(seen.model_dump(mode="json", exclude={"digest"}))


async def test_a_blocking_tool_leaves_the_loop_free() -> None:
    released = threading.Event()

    @tool(effect="read")
    def wait() -> str:
        return "released" if released.wait(30) else "never"

    running = asyncio.ensure_future(invoke(wait, "{}", context()))
    await asyncio.sleep(0)  # the loop goes on while the tool blocks
    released.set()
    assert (await running).text == "released"


async def test_a_blocking_tool_sees_the_context_variables_of_its_caller() -> None:
    who = contextvars.ContextVar[str]("who")
    who.set("ann")

    @tool(effect="read")
    def whose() -> str:
        return who.get()

    assert (await invoke(whose, "{}", context())).text == "ann"


async def test_what_an_async_tool_yields_is_a_list() -> None:
    @tool(effect="read")
    async def pages() -> AsyncIterator[int]:
        yield 1
        yield 2

    assert (await invoke(pages, "{}", context())).text == "[1, 2]"


async def test_a_decorated_async_tool_stays_in_the_loop() -> None:
    async def inner(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    assert (await invoke(tool(outer, effect="read"), '{"n":3}', context())).text == "3"


async def test_a_coroutine_nobody_awaited_is_no_result() -> None:
    async def inner() -> int:
        return 3

    @tool(effect="read")
    def outer() -> Any:
        return inner()

    seen = await invoke(outer, "{}", context())
    assert seen.ending is Ending.ERROR
    assert "async def" in seen.text


ORDINARY = ValueError("no such order")
DEADLY: tuple[Callable[[], BaseException], ...] = (lambda: SystemExit(3), KeyboardInterrupt, asyncio.CancelledError)


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("make", DEADLY)
async def test_nothing_a_tool_raises_ends_its_worker(
    make: Callable[[], BaseException], effect: str, blocking: bool
) -> None:
    seen = await last(raising(make(), effect=effect, blocking=blocking))
    assert seen.ending is (Ending.ERROR if effect == "read" else Ending.UNKNOWN)


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize(
    ("effect", "error", "ending"),
    [
        ("read", ToolError("no order 7; try find"), Ending.ERROR),
        ("idempotent", ToolError("no order 7; try find"), Ending.ERROR),
        ("once", ToolError("no order 7; try find"), Ending.ERROR),
        ("read", ORDINARY, Ending.ERROR),
        ("idempotent", ORDINARY, Ending.ERROR),
        ("once", ORDINARY, Ending.UNKNOWN),
        ("read", ConnectionError("reset"), Ending.ERROR),
        ("idempotent", ConnectionError("reset"), Ending.UNKNOWN),
        ("once", ConnectionError("reset"), Ending.UNKNOWN),
        ("idempotent", FileNotFoundError(2, "No such file"), Ending.ERROR),
        ("idempotent", ExceptionGroup("two", [ConnectionError("a"), TimeoutError("b")]), Ending.UNKNOWN),
    ],
)
async def test_failed_is_said_only_where_it_is_known(
    effect: str, error: Exception, ending: Ending, blocking: bool
) -> None:
    seen = await last(raising(error, effect=effect, blocking=blocking))
    assert seen.ending is ending
    assert bool(seen.reason) is (ending is Ending.UNKNOWN)


@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError("late"), OSError("busy")])
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_transient_trouble_is_tried_again_while_attempts_are_left(effect: str, error: Exception) -> None:
    with pytest.raises(RetryTool) as again:
        await invoke(raising(error, effect=effect, attempts=2), "{}", context(attempt=1))
    assert again.value.cause is error


async def test_a_tool_that_acts_once_is_never_tried_again() -> None:
    assert (await invoke(raising(ConnectionError("reset")), "{}", context())).ending is Ending.UNKNOWN


async def test_an_author_names_what_is_transient() -> None:
    with pytest.raises(RetryTool):
        await invoke(raising(ORDINARY, effect="read", retry_on=(ValueError,)), "{}", context())


async def test_a_lost_http_answer_is_transient_although_it_is_no_oserror() -> None:
    httpx = pytest.importorskip("httpx")
    seen = await last(raising(httpx.ReadTimeout("no answer"), effect="idempotent"))
    assert seen.ending is Ending.UNKNOWN


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_tool_that_outlasts_its_time_is_told_and_left(effect: str, blocking: bool) -> None:
    told = threading.Event()

    def wait_in_thread(ctx: ToolContext) -> None:
        ctx.wait_cancelled(30)
        told.set()

    async def wait_in_loop(ctx: ToolContext) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            told.set()

    seen = await last(tool(wait_in_thread if blocking else wait_in_loop, effect=effect, timeout=0.05))
    assert await asyncio.to_thread(told.wait, 10)
    assert seen.ending is (Ending.ERROR if effect == "read" else Ending.UNKNOWN)
    assert "0.05 s" in seen.text


async def test_a_time_limit_is_transient() -> None:
    @tool(effect="idempotent", timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(30)

    with pytest.raises(RetryTool):
        await invoke(slow, "{}", context(attempt=1))


async def cancelled_while_running(declared: Tool, started: threading.Event) -> Observation:
    running = asyncio.ensure_future(invoke(declared, "{}", context()))
    assert await asyncio.to_thread(started.wait, 10)
    running.cancel()
    return await running


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_cancelled_tool_that_stops_leaves_no_false_word(effect: str, blocking: bool) -> None:
    started = threading.Event()

    def stop_in_thread(ctx: ToolContext) -> None:
        started.set()
        if ctx.wait_cancelled(30):
            raise RuntimeError("stopped")

    async def stop_in_loop() -> None:
        started.set()
        await asyncio.sleep(30)

    seen = await cancelled_while_running(tool(stop_in_thread if blocking else stop_in_loop, effect=effect), started)
    assert seen.ending is (Ending.ERROR if effect == "read" else Ending.UNKNOWN)
    assert "cancelled" in seen.text


@pytest.mark.parametrize("blocking", [True, False])
async def test_returning_nothing_after_being_told_to_stop_is_not_taken_for_done(blocking: bool) -> None:
    started = threading.Event()

    def stop_in_thread(ctx: ToolContext) -> None:
        started.set()
        ctx.wait_cancelled(30)

    async def stop_in_loop() -> None:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)

    seen = await cancelled_while_running(tool(stop_in_thread if blocking else stop_in_loop), started)
    assert seen.ending is Ending.UNKNOWN


async def test_a_blocking_tool_that_never_looks_and_finishes_after_a_cancel_is_done() -> None:
    started, released = threading.Event(), threading.Event()

    @tool
    def finish() -> None:
        started.set()
        released.wait(30)

    running = asyncio.ensure_future(invoke(finish, "{}", context()))
    assert await asyncio.to_thread(started.wait, 10)
    running.cancel()
    await asyncio.sleep(0)
    released.set()
    assert (await running).ending is Ending.OK


async def test_a_tool_that_did_nothing_may_say_so_when_told_to_stop() -> None:
    @tool(timeout=0.05)
    def careful(ctx: ToolContext) -> None:
        if ctx.wait_cancelled(30):
            raise ToolError("nothing was sent")

    seen = await invoke(careful, "{}", context())
    assert (seen.ending, seen.text) == (Ending.ERROR, "nothing was sent")


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_cancelled_tool_may_finish_and_its_result_counts(blocking: bool) -> None:
    started = threading.Event()

    def finish_in_thread(ctx: ToolContext) -> str:
        started.set()
        return "undone" if ctx.wait_cancelled(30) else "never told"

    async def finish_in_loop() -> str:
        started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "undone"
        return "never told"

    seen = await cancelled_while_running(tool(finish_in_thread if blocking else finish_in_loop), started)
    assert (seen.ending, seen.text) == (Ending.OK, "undone")


async def test_a_cancelled_tool_that_does_not_stop_is_waited_for_until_its_own_time_limit() -> None:
    started, released = threading.Event(), threading.Event()

    @tool(effect="once", timeout=0.2)
    def deaf() -> None:
        started.set()
        released.wait(30)

    seen = await cancelled_while_running(deaf, started)
    released.set()
    assert seen.ending is Ending.UNKNOWN


async def test_arguments_of_an_older_declaration_are_refused_with_the_reason() -> None:
    @tool
    def pay(amount: int) -> None:
        raise AssertionError("ran")

    seen = await invoke(pay, '{"sum":3}', context())
    assert seen.ending is Ending.ERROR
    assert "changed since" in seen.text
    assert "'amount'" in seen.text


@pytest.mark.parametrize(
    ("error", "hidden", "shown"),
    [
        (FileNotFoundError(2, "No such file or directory", "/srv/data/hr.db"), "/srv/data", "hr.db"),
        (RuntimeError("see /opt/app/current/run.py line 3"), "/opt/app", "run.py"),
        (RuntimeError("GET https://shop.example/orders/7 gave 500"), "\x00", "https://shop.example/orders/7"),
        (RuntimeError("key abcdefgh12345678 refused"), "abcdefgh12345678", "[SHOP_API_KEY]"),
        (RuntimeError("x" * 100_000), "x" * 2001, "RuntimeError: xxx"),
        (RuntimeError("\x1b[31m\ud800"), "\x1b", "\\ud800"),
        (RuntimeError(), "()", "RuntimeError"),
    ],
)
async def test_an_error_is_told_short_and_without_what_is_nobodys_business(
    error: Exception, hidden: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SHOP_API_KEY", "abcdefgh12345678")
    seen = await last(raising(error, effect="read"))
    assert hidden not in seen.text
    assert shown in seen.text
    assert "Traceback" not in seen.text
    assert len(seen.text) <= 2_000


async def test_a_tool_error_is_passed_on_in_its_own_words() -> None:
    assert (await last(raising(ToolError("no order 7; try find")))).text == "no order 7; try find"


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize(
    ("answer", "ending"),
    [("receipt 9", Ending.OK), (NOT_DONE, Ending.ERROR), (UNSURE, None), (ConnectionError(), None)],
)
async def test_a_probe_tells_what_became_of_a_lost_call(answer: Any, ending: Ending | None, blocking: bool) -> None:
    def blocking_probe(key: str) -> Any:
        assert key == "key-1"
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def probe(key: str, ctx: ToolContext) -> Any:
        assert ctx.idempotency_key == key
        return blocking_probe(key)

    def pay() -> None: ...

    seen = await ask_probe(tool(pay, probe=blocking_probe if blocking else probe), context())
    assert (seen.ending if seen else None) is ending


LONG = "begin " + "x" * 10_000 + " end"


def long_tool(**options: Any) -> Tool:
    @tool(effect="once", limit=1_000, **options)
    async def page() -> str:
        """Read a page."""
        return LONG

    return page


async def test_a_long_result_is_handed_over_whole_before_it_is_cut() -> None:
    kept: list[str] = []

    async def keep(text: str) -> str:
        kept.append(text)
        return "act-1-0.1f9e03ab"

    seen = await invoke(long_tool(), "{}", context(), Keeping(keep))
    assert kept == [LONG]
    assert len(seen.text.encode()) <= 1_000
    assert 'read_more(observation="act-1-0.1f9e03ab", offset=600)' in seen.text
    assert seen.text.startswith("begin ")
    assert seen.text.endswith(" end")


async def test_a_result_within_the_limit_is_not_kept() -> None:
    async def keep(text: str) -> str:
        raise AssertionError("nothing is cut")

    assert (await invoke(long_tool(show=len), "{}", context(), Keeping(keep))).text == str(len(LONG))


async def failing(text: str) -> str:
    raise OSError("the disk is full")


async def hanging(text: str) -> str:
    await asyncio.sleep(3600)
    return "never"


@pytest.mark.parametrize("keep", [failing, hanging])
async def test_a_store_in_trouble_costs_the_rest_and_never_the_outcome(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.tools.invoke._KEEPING", 0.05)
    seen = await invoke(long_tool(), "{}", context(), Keeping(keep))
    assert seen.ending is Ending.OK
    assert "bytes left out here ...]" in seen.text


async def test_a_cancel_while_the_store_keeps_a_result_does_not_lose_it() -> None:
    begun = asyncio.Event()

    async def keep(text: str) -> str:
        begun.set()
        return await hanging(text)

    running = asyncio.ensure_future(invoke(long_tool(), "{}", context(), Keeping(keep)))
    await begun.wait()
    running.cancel()
    seen = await running
    assert (seen.ending, seen.text[:6]) == (Ending.OK, "begin ")


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_projection_that_fails_does_not_undo_what_the_tool_did(blocking: bool) -> None:
    done: list[int] = []

    def pay() -> dict[str, str]:
        """Pay."""
        done.append(1)
        return {"receipt": "R7"}

    async def pay_async() -> dict[str, str]:
        """Pay."""
        return pay()

    seen = await invoke(tool(pay if blocking else pay_async, show=lambda it: it["no"]), "{}", context())
    assert (seen.ending, done) == (Ending.OK, [1])
    assert '"R7"' in seen.text
    assert "shown whole" in seen.text


async def test_what_a_probe_found_is_shown_as_the_tool_would_show_it() -> None:
    async def probe(key: str) -> dict[str, str]:
        return {"receipt": "R7", "log": LONG}

    def pay() -> None:
        """Pay."""

    seen = await ask_probe(tool(pay, probe=probe, show=lambda paid: paid["receipt"]), context())
    assert seen
    assert (seen.ending, seen.text) == (Ending.OK, "R7")
