"""A test of an agent in a few lines: its run, played for real, from a scripted model to an outcome.

    played = await play(desk, [call("book_leave", days=3), say("Booked.")], "Book 3 days", approve=True)
    assert played.outcome.answer == "Booked."

Everything but the model is what production has: a Temporal server, a worker, the agent's own tools, the gate. Nothing
waits for ever: what nobody decides, what a vendor would refuse and what takes too long ends in a PlayError, which is an
AssertionError, so that every test runner shows it as a failed test.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from perdure.core.contracts import CHOICES, WORDED, Choice, Decision, Outcome, Request, RequestKind
from perdure.core.runs import RunNotFoundError, RunRow
from perdure.files import File
from perdure.testing.script import Compute, Reply, Script
from perdure.testing.server import Recorded, ScriptedModel
from perdure.testing.team import cast
from perdure.tools.agents import Agent
from perdure.tools.delegating import with_delegates
from perdure.traces.shape import Trace, TracedCall
from perdure.traces.turns import trace

if TYPE_CHECKING:
    from perdure.temporal.runs import Runs

_LOOK_AGAIN: Final = 0.03  # seconds
_MOST_LISTED: Final = 200  # runs, the newest
_CANCELLED_WITHIN: Final = 5.0  # seconds, for the tools of a play that failed

Answer: TypeAlias = "bool | Choice | tuple[bool | Choice, str]"
Approve: TypeAlias = "bool | Callable[[Request], Answer] | None"


class PlayError(AssertionError):
    """The play did not come to an end that a test could look at; the text says where it stands and what to do."""


class UnexpectedWaitError(PlayError):
    """Something waits for a person, and `approve` has no answer. `requests` is what waits."""

    def __init__(self, message: str, requests: Sequence[Request]) -> None:
        super().__init__(message)
        self.requests = tuple(requests)


class RefusedRequestError(PlayError):
    """The scripted model refused what was sent to it, as the vendor would have. `violations`: what, and why."""

    def __init__(self, message: str, violations: Sequence[Recorded]) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


@dataclass(frozen=True)
class Played:
    """A run that has ended.

    `observations`: what the model was told of its calls, in the order of the calls. `calls`: every call, with its exact
    arguments (JSON text), its state and who was asked. `requests`: what was sent to the model, oldest first.
    `violations`: those of them that a vendor would have refused; empty unless `strict=False`.
    """

    outcome: Outcome
    trace: Trace
    observations: list[str]
    calls: list[TracedCall]
    requests: list[Recorded]
    violations: list[Recorded]


async def play(
    agent: Agent,
    script: Script | Sequence[Reply | Compute] | Compute | Mapping[str, Sequence[Reply | Compute] | Compute],
    task: str,
    *,
    approve: Approve = None,
    by: str = "tester",
    strict: bool = True,
    within: float = 60.0,
    files: Sequence[File | str | Path] = (),
) -> Played:
    """Run `agent` on `task`, with `script` for its model, to the run's end.

    An agent that hands work to others takes a script for each, by the agents' names. They are told apart by their
    prompts.

    `approve` stands for the person who decides, by the name of `by`. True approves the calls that ask, False rejects
    them; both answer nothing else. A function of the request answers anything: with a bool, a Choice, or a pair of one
    of these and the reason (with Choice.HAPPENED or ANSWER: the result). None answers nothing, and what waits fails the
    test.

    `files`: what the task is about; there is no store, so 256,000 bytes of them. `within`: seconds, for the run alone.
    One play at a time: the model is found through the process's environment, which is as before when this returns.

    Raises:
        UnexpectedWaitError: something waits that `approve` does not answer.
        RefusedRequestError: the model refused a request; not with `strict=False`.
        PlayError: the run did not end `within` its time, or `approve` answered what cannot be answered so.
        ScriptError: the script is wrong.
        FileError: a file is not taken.
        DevServerError, RuntimeError: no server came up; it is started once, from the main thread.
    """
    from perdure.testing.ground import ground  # Temporal, which other users of this package need not load

    with ScriptedModel(cast(agent, script) if isinstance(script, Mapping) else script) as model:
        async with ground(agent, model.env()) as runs:
            run_id = (await runs.start(agent.name, task, files=files)).run_id
            alone = len(with_delegates([agent])) == 1
            playing = _Playing(runs, model, run_id, approve, by, strict, alone)
            outcome = await playing.to_its_end(within)
            traced = trace(await runs.events(run_id))
    calls = [call for turn in traced.turns for call in turn.calls]
    observations = [call.observation for call in calls if call.observation is not None]
    return Played(outcome, traced, observations, calls, model.requests, model.violations)


@dataclass
class _Playing:
    """One run, and the operator that `approve` stands for."""

    runs: Runs
    model: ScriptedModel
    run_id: str
    approve: Approve
    by: str
    strict: bool
    alone: bool  # it hands work to nobody
    decided: set[str] = field(default_factory=set)  # ids of requests

    async def to_its_end(self, within: float) -> Outcome:
        limit = asyncio.timeout(within)
        try:
            async with limit:
                return await self._outcome()
        except Exception:
            told = await self._late(within) if limit.expired() else ""
            await self._cancel()
            if told:
                raise PlayError(told) from None
            raise

    async def _outcome(self) -> Outcome:
        while (row := await self.runs.find(self.run_id)).ended is None:
            self._refuse()  # first: what the model refuses makes the run wait as well
            for each in [row] if self.alone else await self._team(row):
                if new := [request for request in each.requests if request.id not in self.decided]:
                    await self._decide(new[0], each)  # one a look: it may have been the last that the run waited for
            await asyncio.sleep(_LOOK_AGAIN)
        self._refuse()
        return await self.runs.result(self.run_id)

    async def _team(self, row: RunRow) -> Sequence[RunRow]:
        """The run, and those that work for it, or for one of these."""
        team, others = [row], list(await self.runs.list(limit=_MOST_LISTED))
        for one in team:
            team += [each for each in others if each.parent == one.run_id]
        return team

    def _refuse(self) -> None:
        if self.strict and (violations := self.model.violations):
            told = "\n".join(f"  {each.protocol}: {each.refusal}" for each in violations)
            raise RefusedRequestError(f"the scripted model refused a request, as the vendor would:\n{told}", violations)

    async def _decide(self, request: Request, row: RunRow) -> None:
        self.decided.add(request.id)
        choice, words = self._answer(request, row)
        worded = choice in WORDED
        decision = Decision(
            id=str(uuid.uuid4()),
            request=request.id,
            choice=choice,
            by=self.by,
            digest=request.digest,
            reason="" if worded else words,
            result=words if worded else "",
        )
        with suppress(RunNotFoundError):  # it ended meanwhile
            await self.runs.decide(row.run_id, decision)

    def _answer(self, request: Request, row: RunRow) -> tuple[Choice, str]:
        if callable(self.approve):
            return _chosen(self.approve(request), request)
        if self.approve is None or request.kind is not RequestKind.APPROVAL:
            raise UnexpectedWaitError(_waits(row), row.requests)
        return _chosen(self.approve, request)

    async def _cancel(self) -> None:
        """So that the tools of a failed play are told, and its worker need not wait for them."""
        with suppress(RunNotFoundError, TimeoutError):
            async with asyncio.timeout(_CANCELLED_WITHIN):
                await self.runs.cancel(self.run_id, reason="its test failed")
                await self.runs.result(self.run_id)

    async def _late(self, within: float) -> str:
        calls = [call for turn in trace(await self.runs.events(self.run_id)).turns for call in turn.calls]
        told = "; ".join(f"{call.title} ({call.state})" for call in calls) or "none"
        return (
            f"the run {self.run_id!r} had not ended after {within:g} s, and was cancelled. The model's requests: "
            f"{len(self.model.requests)}; its calls: {told}. If it needs longer: play(..., within=...)"
        )


def _chosen(answer: Answer, request: Request) -> tuple[Choice, str]:
    choice, words = answer if isinstance(answer, tuple) else (answer, "")
    if isinstance(choice, bool):
        choice = Choice.APPROVE if choice else Choice.REJECT
    possible = CHOICES[request.kind]
    if choice not in possible:
        named = ", ".join(f"Choice.{each.name}" for each in possible)
        raise PlayError(
            f"approve answered {answer!r} to {_named(request)}. Return one of {named}, or a pair of it and the reason"
        )
    return Choice(choice), words


def _waits(row: RunRow) -> str:
    told = "\n".join(f"  {_named(request)}" for request in row.requests)
    return (
        f"nobody decides on what waits in the run {row.run_id!r}:\n{told}\n"
        "Pass approve=True or approve=False for calls that ask, or a function of the request for all that may wait"
    )


def _named(request: Request) -> str:
    subject = request.title or request.tool or f"turn {request.turn}"
    return f"{request.kind.value}: {subject}, because {request.reason}"
