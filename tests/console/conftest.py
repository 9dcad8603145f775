"""The verbs over runs in memory: every part is the shipped one, Temporal alone is not there."""

from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC

import pytest
from typer.testing import CliRunner, Result

from perdure import Agent
from perdure.console.desk import Desk, Finding, World
from perdure.console.entry import app
from perdure.console.port import RunsPort, UnreachableError
from perdure.core.contracts import Choice, Decision, Effect, Question, Request, RequestKind, RunState
from perdure.store import Store, store_from_env
from perdure.testing.histories import History, call
from perdure.testing.runs import InMemoryRuns, Play
from perdure.tools import discovery
from perdure.traces.events import Event


@dataclass
class InMemoryWorld(World):
    port: InMemoryRuns
    reachable: bool = True
    worked: int = 0
    findings: list[Finding] = field(default_factory=list)
    kept: Store | None = None  # that of `perdure dev`
    saved: Mapping[str, Sequence[Event]] = field(default_factory=dict)

    async def runs(self) -> RunsPort:
        if not self.reachable:
            raise UnreachableError("no Temporal server answers at 'localhost:7233'")
        return self.port

    async def history_json(self, run_id: str) -> str:
        return f'{{"saved": "{run_id}"}}'

    async def read_history(self, text: str) -> Sequence[Event]:
        try:
            return self.saved[text]
        except KeyError:
            raise ValueError("it holds no Temporal history as JSON") from None

    def agents(self, specs: Sequence[str]) -> Mapping[str, Agent]:
        return discovery.load(specs)

    @asynccontextmanager
    async def server(self, told: Callable[[str], None]) -> AsyncIterator[str]:
        yield "in memory"

    async def survey(self) -> AsyncIterator[Finding]:
        for finding in self.findings:
            yield finding

    def store(self) -> Store | None:
        return self.kept or store_from_env()

    async def work(self, specs: Sequence[str]) -> int:
        return self.worked

    def command(self, *words: str) -> Sequence[str]:
        return ["true", *words]


def leave_desk(history: History) -> Play:
    """Looks up, asks before it books, answers."""
    history.open()
    history.think("I need the entitlement.", calls=[call("hr_lookup", {"name": "Zoë"})])
    history.act(0, '{"left": 7}')
    booking = call("book_leave", {"days": 3, "from": "2026-12-14"}, ask="it acts", effect=Effect.ONCE)
    history.think("3 of 7 can be booked.", calls=[booking])
    decision = yield history.ask(call=0, reason="it acts", request_id="a1b2c3d4")
    if decision.choice is Choice.APPROVE:
        history.act(0, '{"booking": "LV-1042"}')
        history.think(answer="Booked as LV-1042.")
        history.end(answer="Booked as LV-1042.")
    else:
        history.say(0, f"not run: an operator rejected this call: {decision.reason!r}")
        history.think(answer="Nothing was booked.")
        history.end(answer="Nothing was booked.")


def stuck(history: History) -> Play:
    """Cannot ask its model until somebody mends the key."""
    history.open()
    history.think_in_vain("NeedsPerson", "the key is revoked")
    yield history.ask(reason="the key is revoked", kind=RequestKind.STUCK, request_id="57ac0000")
    history.think(answer="Hello.")
    history.end(answer="Hello.")


def lost(history: History) -> Play:
    """A payment whose outcome nobody knows."""
    history.open()
    history.think("Pay.", calls=[call("pay", {"amount": 5}, effect=Effect.ONCE)])
    history.lose(0, "timeout:heartbeat", "activity Heartbeat timeout")
    decision = yield history.ask(call=0, reason="lost", kind=RequestKind.UNKNOWN, request_id="10570000")
    history.say(0, f"done: {decision.result}", ok=True)
    history.think(answer=f"Paid: {decision.result}")
    history.end(answer=f"Paid: {decision.result}")


def still_stuck(history: History) -> Play:
    """Cannot ask its model, however often somebody says that it is mended."""
    history.open()
    for again in range(9):
        history.think_in_vain("NeedsPerson", "the key is revoked")
        decision = yield history.ask(
            reason="the key is revoked", kind=RequestKind.STUCK, request_id=f"57ac{str(again + (again > 0)) * 4}"
        )
        if decision.choice is Choice.STOP:
            history.end(RunState.FAILED, reason="ApplicationError: Stopped: stopped by 'ann': the key is revoked")
            return


def spent(history: History) -> Play:
    """Its budget is spent, and a person may give more."""
    history.open()
    history.think("I look.", calls=[call("order", {"id": 17})])
    history.act(0, "paid 49.90")
    reason = "the budget of 1 turn is spent"
    decision = yield history.ask(reason=reason, kind=RequestKind.LIMIT, request_id="11111700")
    if decision.choice is Choice.EXTEND:
        history.think(answer="It was 49.90.")
        history.end(answer="It was 49.90.")
    else:
        history.note("The budget of 1 turn is spent: no tool can be called any more.")
        history.think(answer="Paid, I think.")
        history.end(RunState.LIMITED, answer="Paid, I think.", reason=reason)


def gated_pay(history: History) -> Generator[Request, Decision, None]:
    history.open()
    history.think("Pay.", calls=[call("pay", {"amount": 5}, ask="it acts", effect=Effect.ONCE)])
    yield history.ask(call=0, reason="it acts", request_id="d00d0000")


def dropped_tool(history: History) -> Play:
    """A call is approved, and then no worker has its tool."""
    yield from gated_pay(history)
    history.lose(0, "NeedsPerson", "this worker has no tool 'pay'")
    yield history.ask(call=0, reason="this worker has no tool 'pay'", kind=RequestKind.STUCK, request_id="57ac1111")


def lost_after(history: History) -> Play:
    """A call is approved, and lost."""
    yield from gated_pay(history)
    history.lose(0, "timeout:heartbeat", "activity Heartbeat timeout")
    yield history.ask(call=0, reason="activity Heartbeat timeout", kind=RequestKind.UNKNOWN, request_id="10570000")


def asking(history: History) -> Play:
    """Asks which account, and goes on with the answer."""
    history.open()
    question = Question(text="Which account?", choices=("first", "second"))
    asked = {"question": question.text, "choices": list(question.choices)}
    history.think("I ask.", calls=[call("ask_operator", asked, question=question)])
    decision = yield history.ask(call=0, reason=question.text, kind=RequestKind.QUESTION, request_id="a5ced000")
    history.say(0, f"an operator (ann) answers: {decision.result}", ok=True)
    history.think(answer=f"From the {decision.result or 'none'}.")
    history.end(answer=f"From the {decision.result or 'none'}.")


def wondering(history: History) -> Play:
    """Asks for words of one's own."""
    history.open()
    question = Question(text="Which account?")
    history.think("I ask.", calls=[call("ask_operator", {"question": question.text}, question=question)])
    yield history.ask(call=0, reason=question.text, kind=RequestKind.QUESTION, request_id="a5ced001")


def given_up(history: History) -> Play:
    """A payment whose outcome nobody finds out; what the model is told of it is not recorded yet."""
    history.open()
    history.think("Pay.", calls=[call("pay", {"amount": 5}, effect=Effect.ONCE)])
    history.lose(0, "timeout:heartbeat", "activity Heartbeat timeout")
    yield history.ask(call=0, reason="lost", kind=RequestKind.UNKNOWN, request_id="10570001")


def ending(state: RunState) -> Callable[[History], Play]:
    def play(history: History) -> Play:
        history.open()
        history.end(state, answer="7" if state is RunState.ANSWERED else "", reason="as the test wants it")
        yield from ()

    return play


_DESKS: dict[str, Callable[[History], Play]] = {
    each.__name__: each
    for each in (leave_desk, stuck, still_stuck, spent, lost, given_up, dropped_tool, lost_after, asking, wondering)
}
PLAYS = {**_DESKS, **{state.value: ending(state) for state in RunState}}


@dataclass
class Console:
    """`console("list", "-o", "json")`"""

    world: InMemoryWorld
    runner: CliRunner = field(default_factory=CliRunner)

    def __call__(self, *words: str, input: str | None = None) -> Result:
        return self.runner.invoke(app(lambda: Desk(self.world, zone=UTC)), list(words), input=input)


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setenv("PERDURE_OPERATOR", "ann")
    monkeypatch.delenv("PERDURE_AGENTS", raising=False)
    return Console(InMemoryWorld(InMemoryRuns(plays=PLAYS)))
