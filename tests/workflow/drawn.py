"""Runs that are drawn by lot: what the model says, what the agent is, what operators do meanwhile.

One number gives one plan. Plans hold what each feature's own tests hold, in any order and side by side; what must be
true of every run, whatever it was, stands in test_together.py.
"""

import asyncio
import contextlib
import json
import random
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from perdure import Budget, Critic, File, Prices, ToolContext, ToolError, tool
from perdure.core.contracts import Choice, Outcome, Request, RequestKind, Steer
from perdure.core.runs import DecisionRefusedError, RunNotFoundError, SteeringRefusedError
from perdure.store import Store
from perdure.temporal.journal import Journal
from perdure.testing import Script, Seen, blank, call, error, pause, refuse, say, think, truncate
from perdure.testing.script import Error
from perdure.tools.builtin import ask_operator
from perdure.traces.events import Event
from tests.conftest import MODELS, Stage, StageOf
from tests.samples import CSV, pdf, png

PROTOCOLS: Final = ("anthropic", "openai-responses", "openai-chat", "text+openai-chat")
SPARES: Final = (
    "anthropic:claude-haiku-5-5",
    "openai:gpt-5.5",
    "openai-chat:gpt-5.6-luna",
    "text+openai-chat:gpt-5.6-luna",
)
TOO_LONG: Final = "prompt is too long: 210000 tokens > 200000 maximum"
ANSWER: Final = '{"order": 7}'
_NAMED: Final = re.compile(r'read_more\(observation="(\S+?)", offset=(\d+)\)')


class Found(BaseModel):
    """The form of an answer, where one is asked for."""

    order: int


@dataclass(frozen=True)
class Plan:
    """One run. `script` names what the model says, turn by turn; after it, it answers."""

    seed: int
    protocol: str
    spare: str
    script: tuple[str, ...]
    meanwhile: dict[int, str]  # what an operator does while the model thinks about this turn
    settings: dict[str, Any]
    cached: int
    keeps: bool
    stored: bool
    files: int
    structured: bool

    @property
    def text_models(self) -> frozenset[str]:
        """The names of those models that write their calls as text."""
        names = (MODELS[self.protocol], self.spare)
        return frozenset(name.partition(":")[2] for name in names if name.startswith("text+"))


_TURNS: Final = {
    "look": 6, "looks": 3, "pay": 3, "send": 2, "note": 2, "shaky": 1, "question": 2, "fails": 2, "unknown": 1,
    "unfit": 1, "dump": 2, "more": 2, "photo": 2, "mixed": 4, "same": 3, "blank": 1, "cut": 1, "pause": 1, "early": 1,
    "misfit": 1, "refuse": 0.2, "out": 1, "busy": 1, "too long": 1.5, "wrong": 0.5,
}  # fmt: skip
_MEANWHILE: Final = {"say": 3, "pause": 2, "pause and say": 1, "cancel": 0.4}


def drawn(seed: int) -> Plan:
    """The plan of this number."""
    dice = random.Random(seed)
    length, protocol = dice.randint(1, 11), dice.choice(PROTOCOLS)
    script = tuple(dice.choices([*_TURNS], [*_TURNS.values()], k=length))
    steered = [place for place in range(length + 1) if dice.random() < 0.12]
    spare = dice.choice(SPARES) if dice.random() < 0.4 else ""
    structured = dice.random() < 0.3
    budget = Budget(
        turns=dice.choice([3, 6, 9, 30]),
        tokens=dice.choice([None, None, None, 8_000]),
        money=dice.choice([None, None, "0.08"]),
        ask=dice.random() < 0.5,
    )
    settings: dict[str, Any] = {
        "budget": budget,
        "compact_at": dice.choice([0, 0, 600, 2_500]),
        "critic": dice.choice([None, None, Critic(("errors", "answer")), Critic("answer", every=2)]),
        "parallel": dice.random() < 0.85,
        "answer": Found if structured else None,
        "fallbacks": [spare] if spare else [],
        "prices": dict.fromkeys([MODELS[protocol], *([spare] if spare else [])], Prices(input=2, output=10)),
    }
    return Plan(
        seed=seed,
        protocol=protocol,
        spare=spare,
        script=script,
        meanwhile={place: dice.choices([*_MEANWHILE], [*_MEANWHILE.values()])[0] for place in steered},
        settings=settings,
        cached=dice.choice([1000, 0]),
        keeps=dice.random() < 0.7,
        stored=dice.random() < 0.6,
        files=dice.choice([0, 0, 1, 2]),
        structured=structured,
    )


class Effects:
    """The tools of a drawn run, and what they did: (tool, key), in order."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self._shaken: set[str] = set()

    @property
    def tools(self) -> Sequence[Any]:
        effects = self

        @tool(effect="read")
        async def look(at: int) -> str:
            """Look at something."""
            return f"seen {at}: " + "x" * 300

        @tool(effect="read", limit=2_000)
        async def dump(at: int) -> str:
            """Look at something large."""
            return f"dump {at}: " + "0123456789" * 2_500

        @tool(effect="read")
        async def photo(at: int) -> list[Any]:
            """Take a picture."""
            return [f"picture {at}", File("shot.png", png(30 + at % 3, 25))]

        @tool(effect="read")
        async def fails(at: int) -> str:
            """Fail."""
            raise ToolError(f"there is no {at}")

        @tool(effect="idempotent")
        async def pay(ctx: ToolContext, to: int) -> str:
            """Pay somebody."""
            effects.done.append(("pay", ctx.idempotency_key))
            return f"paid {to}"

        @tool(effect="once")
        async def send(ctx: ToolContext, to: int) -> str:
            """Send something."""
            effects.done.append(("send", ctx.idempotency_key))
            return f"sent {to}"

        @tool(effect="idempotent", ask=False)
        async def note(ctx: ToolContext, text: str) -> None:
            """Keep a note."""
            effects.done.append(("note", ctx.idempotency_key))

        @tool(effect="once", ask=False)
        async def shaky(ctx: ToolContext) -> str:
            """Do it, or get lost on the way there: the first time."""
            if ctx.idempotency_key not in effects._shaken:
                effects._shaken.add(ctx.idempotency_key)
                raise ConnectionResetError("no answer")
            effects.done.append(("shaky", ctx.idempotency_key))
            return "done"

        return [look, dump, photo, fails, pay, send, note, shaky, ask_operator]


class Models:
    """What the run's models say: the plan's turns, one for each question that was not asked before."""

    def __init__(self, plan: Plan, meanwhile: Callable[[str], None]) -> None:
        self._plan, self._meanwhile = plan, meanwhile
        self._dice = random.Random(plan.seed)
        self._next = 0
        self._said: dict[str, tuple[int, Any]] = {}  # by question: place in the script, and reply
        self._times: Counter[str] = Counter()

    def reply(self, seen: Seen) -> Any:
        body = json.dumps(seen.body, sort_keys=True)
        system = body[:40_000]
        if "You will not be shown it any more" in system:
            return error(529) if self._dice.random() < 0.2 else say("what went, in brief")
        if "You are the critic of an agent" in system:
            return say("APPROVED") if self._dice.random() < 0.5 else say("Look once more.")
        if body in self._said and not self._is_over(body):
            return self._said[body][1]
        place, self._next = self._next, self._next + 1
        if doing := self._plan.meanwhile.get(place):
            self._meanwhile(doing)
        made = self._turn(place, seen)
        self._said[body] = (place, made)
        return made

    def _is_over(self, body: str) -> bool:
        """Whether the fault that answered this question has been met often enough."""
        self._times[body] += 1
        said = self._said[body][1]
        return isinstance(said, Error) and self._times[body] >= (said.times or 1)

    def _turn(self, place: int, seen: Seen) -> Any:
        kind = self._plan.script[place] if place < len(self._plan.script) else "answer"
        in_text = seen.model in self._plan.text_models
        if not seen.tools and not in_text:
            kind = "answer"
        match kind:
            case "blank":
                return blank()
            case "refuse":
                return refuse()
            case "out":
                return error(401)
            case "busy":
                return error(529, retry_after=0.05, times=2)
            case "wrong":
                return error(400)
            case "too long":
                return error(400, None if "max_tokens" in seen.body else "context_length_exceeded", TOO_LONG)
            case "answer" | "early" | "misfit":
                return self._answer(in_text, fits=kind != "misfit")
            case "pause" if "max_tokens" in seen.body and not in_text:
                return [say("Searching."), pause("web_search", query="x")]
            case "cut":
                return [say("I was about"), truncate()]
        calls = [call(*each) for each in self._calls(kind, place, seen)]
        return self._written(calls[0]) if in_text else [think(f"thought {place}"), say(f"step {place}"), *calls]

    def _answer(self, in_text: bool, *, fits: bool) -> Any:
        said = (ANSWER if self._plan.structured else "done") if fits else "it is 7, or so"
        return say(f"Thought: I have it.\nFinal Answer: {said}" if in_text else said)

    def _written(self, asked: Any) -> Any:
        arguments = asked.raw if isinstance(asked.raw, str) else json.dumps(asked.arguments)
        return say(f"Thought: so\nAction: {asked.name}\nAction Input: {arguments}")

    def _calls(self, kind: str, place: int, seen: Seen) -> Sequence[tuple[str, dict[str, Any]]]:
        match kind:
            case "looks":
                return [("look", {"at": place * 10 + number}) for number in range(4)]
            case "same":
                return [("look", {"at": 1})]
            case "note":
                return [("note", {"text": f"note {place}"})]
            case "shaky":
                return [("shaky", {})]
            case "question":
                return [("ask_operator", {"question": f"which, at {place}?", "choices": ["a", "b"]})]
            case "unknown":
                return [("nothing", {"at": 1})]
            case "unfit":
                return [("look", {"at": "there"})]
            case "more" if named := _NAMED.search("\n".join(seen.observations)):
                return [("read_more", {"observation": named[1], "offset": int(named[2])})]
            case "mixed":
                return [
                    ("pay", {"to": place}), ("look", {"at": place}), ("ask_operator", {"question": f"and {place}?"}),
                    ("send", {"to": 1}), ("fails", {"at": place}),
                ]  # fmt: skip
            case "pay" | "send":
                return [(kind, {"to": self._dice.choice([1, 2, place])})]
            case "photo" | "dump" | "fails":
                return [(kind, {"at": place})]
        return [("look", {"at": place})]


class Operators:
    """People who decide whatever waits, late or twice or with words that do not count, and steer unasked."""

    def __init__(self, desk: Stage, run_id: str, seed: int) -> None:
        self._desk, self._run_id = desk, run_id
        self._dice = random.Random(-seed)
        self._stuck = self._extended = 0
        self._resuming: list[asyncio.Task[None]] = []

    async def steer(self, doing: str) -> None:
        with contextlib.suppress(SteeringRefusedError, RunNotFoundError):
            if doing == "cancel":
                await self._desk.runs.cancel(self._run_id, reason="enough")
            if "pause" in doing:
                await self._desk.steer(self._run_id, Steer.PAUSE)
                self._resuming.append(asyncio.create_task(self._resume()))
            if "say" in doing:
                await self._desk.steer(self._run_id, Steer.SAY, "go on, please")

    async def _resume(self) -> None:
        await asyncio.sleep(0.5)
        with contextlib.suppress(SteeringRefusedError, RunNotFoundError):
            await self._desk.steer(self._run_id, Steer.RESUME)

    async def work(self) -> None:
        """Until the run has ended."""
        decided: set[str] = set()
        while (row := await self._desk.runs.find(self._run_id)).ended is None:
            for request in row.requests:
                if request.id not in decided:
                    decided.add(request.id)
                    with contextlib.suppress(RunNotFoundError):
                        await self._decide(request)
            await asyncio.sleep(0.03)
        await asyncio.gather(*self._resuming)

    async def _decide(self, request: Request) -> None:
        for _ in range(self._dice.choice([0, 0, 0, 1, 6, 14])):  # words that only make the history grow
            with contextlib.suppress(DecisionRefusedError):
                await self._desk.decide(self._run_id, request, self._choice(request.kind), by=" ", result="a")
        choice = self._choice(request.kind)
        match self._dice.choice(["update", "signal", "both"]):
            case "update":
                await self._word(request, choice)
            case "signal":
                await self._desk.decide_by_signal(self._run_id, request, choice, result="a")
            case _:
                await asyncio.gather(self._word(request, choice), self._word(request, self._choice(request.kind)))

    async def _word(self, request: Request, choice: Choice) -> None:
        with contextlib.suppress(DecisionRefusedError, RunNotFoundError):
            await self._desk.decide(self._run_id, request, choice, result="a", reason="as I see it")

    def _choice(self, kind: RequestKind) -> Choice:
        match kind:
            case RequestKind.APPROVAL:
                return self._dice.choice([Choice.APPROVE, Choice.APPROVE, Choice.REJECT])
            case RequestKind.QUESTION:
                return self._dice.choice([Choice.ANSWER, Choice.REJECT])
            case RequestKind.UNKNOWN:
                return self._dice.choice([Choice.HAPPENED, Choice.RERUN, Choice.GIVE_UP])
            case RequestKind.LIMIT:
                self._extended += 1
                return self._dice.choice([Choice.EXTEND, Choice.FINISH]) if self._extended < 6 else Choice.FINISH
        self._stuck += 1
        return Choice.RETRY if self._stuck < 40 else Choice.STOP


@dataclass
class Played:
    """What is left of a drawn run."""

    plan: Plan
    desk: Stage
    run_id: str
    outcome: Outcome
    events: Sequence[Event]
    effects: Effects


@contextlib.asynccontextmanager
async def played(plan: Plan, stage: StageOf, store: Store) -> AsyncIterator[Played]:
    """The run of this plan, at its end."""
    loop, effects = asyncio.get_running_loop(), Effects()
    operators: list[Operators] = []

    def meanwhile(doing: str) -> None:
        with contextlib.suppress(TimeoutError):  # a run may hear it only when this turn is over
            asyncio.run_coroutine_threadsafe(operators[0].steer(doing), loop).result(timeout=3)

    models = Models(plan, meanwhile)
    names = [MODELS[plan.protocol], *([plan.spare] if plan.spare else [])]
    scripts = tuple(Script(models.reply, model=name.partition(":")[2]) for name in names)
    journal = Journal() if plan.keeps else Journal(kept_bytes=0)
    kept = store if plan.stored or plan.files else None
    async with stage(
        scripts, effects.tools, protocol=plan.protocol, cached=plan.cached, journal=journal, store=kept, **plan.settings
    ) as desk:
        run_id = f"run-{plan.seed}-{uuid.uuid4().hex[:6]}"
        operators.append(Operators(desk, run_id, plan.seed))
        files = [File("invoice.pdf", pdf(2)), File("lines.csv", CSV.encode())][: plan.files]
        await desk.start("do it, and keep MARKER-17 in mind", run_id, files=files)
        await asyncio.wait_for(operators[0].work(), 60)
        outcome = await desk.runs.result(run_id)
        yield Played(plan, desk, run_id, outcome, await desk.runs.events(run_id), effects)
