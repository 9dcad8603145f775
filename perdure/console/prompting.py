"""Asking the operator at a terminal, while the run goes on being told.

A prompt is shown for a request that still waits after a moment: one that somebody decided long ago, in a history that
is only being read again, never asks. It can be left by an empty line, and by the run going on without it.
"""

import asyncio
import contextlib
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

from perdure.console.deciding import chosen, shown_digest
from perdure.console.desk import Desk
from perdure.console.port import DecisionRefusedError, RunNotFoundError, RunsPort, UnreachableError
from perdure.core import inert
from perdure.core.contracts import CHOICES, MOST_SAID, WORDED, Choice, Decision, Request, RequestKind
from perdure.traces import text
from perdure.traces.narrate import Narration
from perdure.traces.turns import trace

_MOMENT = 0.4  # seconds until what waits is taken to wait now


class Prompter:
    """Decides what waits: by asking (`prompt`), or by approving approvals (`approve_all`)."""

    def __init__(
        self, desk: Desk, runs: RunsPort, run_id: str, narration: Narration, *, approve_all: bool, prompt: bool
    ) -> None:
        self._desk, self._runs, self._run_id, self._narration = desk, runs, run_id, narration
        self._approve_all, self._prompt = approve_all, prompt
        self._seen: set[str] = set()
        self._one = asyncio.Lock()  # one prompt at a time
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Something may wait now."""
        for request in self._narration.requests.values():
            wanted = self._prompt or (self._approve_all and request.kind is RequestKind.APPROVAL)
            if wanted and request.id not in self._seen:
                self._seen.add(request.id)
                task = asyncio.create_task(self._settle(request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settle(self, request: Request) -> None:
        await asyncio.sleep(_MOMENT)
        async with self._one:
            if request.id not in self._narration.requests:
                return
            if decision := await self._decision(request):
                try:
                    if await self._runs.decide(self._run_id, decision) is None:
                        self._desk.screen.hint("no worker answers: left with the run; takes effect when one is up")
                except (DecisionRefusedError, RunNotFoundError, UnreachableError) as refused:
                    self._desk.screen.error(inert.line(str(refused)))

    async def _decision(self, request: Request) -> Decision | None:
        seen = trace(self._narration.told)
        digest = shown_digest(seen, request)
        choice: Choice | None
        if self._approve_all and request.kind is RequestKind.APPROVAL:
            choice, words = Choice.APPROVE, "approved by --yes"
        else:
            asked = [asked for asked in seen.waiting if asked.request.id == request.id]
            self._desk.screen.hint(
                *(line for one in asked for line in text.request(seen, one, self._desk.view(), commands=False))
            )
            call = seen.call(request)
            choices = call.choices if call else ()
            choice, words = await answered(request.kind, line, later=" (nothing: later)", choices=choices)
        if choice is None:
            self._desk.screen.hint("left waiting, and still following (Ctrl-C ends that). To decide later:")
            self._desk.screen.hint(text.next_command("show", request.id))
            return None
        return Decision(
            id=str(uuid4()),
            request=request.id,
            choice=choice,
            by=self._desk.operator,
            digest=digest,
            reason="" if choice in WORDED else words,
            result=words if choice in WORDED else "",
        )


Ask = Callable[[str], Awaitable[str]]


async def answered(
    kind: RequestKind, ask: Ask, *, later: str = "", choices: Sequence[str] = ()
) -> tuple[Choice | None, str]:
    """What the operator chooses, with words to it; no choice leaves it waiting. `ask` shows a prompt, gives a line.

    `later` is what is said of an empty line, `choices` are what may be answered to a question.
    """
    if kind is RequestKind.APPROVAL:
        return await _approval(ask, later)
    if kind is RequestKind.QUESTION:
        return await _words(ask, later, choices)
    fit = CHOICES[kind]
    while said := (await ask(f"{', '.join(fit)}{later} > ")).strip():
        word, _, words = said.partition(" ")
        choice = next((each for each in fit if word.lower() == each), None)
        if choice is Choice.HAPPENED and not words.strip():
            words = await ask("what would the tool have returned? > ")
            choice = choice if words.strip() else None
        if choice and len(words.strip()) <= MOST_SAID:
            return choice, words.strip()
    return None, ""


async def _words(ask: Ask, later: str, choices: Sequence[str]) -> tuple[Choice | None, str]:
    """To decline is a verb of its own: any word may be an answer."""
    fit = f"one of {', '.join(map(inert.line, choices))}" if choices else "your answer"
    while said := (await ask(f"{fit}{later} > ")).strip():
        answer = chosen(choices, said)
        if answer and len(answer) <= MOST_SAID:
            return Choice.ANSWER, answer
    return None, ""


async def _approval(ask: Ask, later: str) -> tuple[Choice | None, str]:
    """Only a plain yes or no decides. Anything else may be a reason, so that is asked: `ok` is no rejection."""
    while said := (await ask(f"approve? y, n, or why not{later} > ")).strip():
        if said.lower() in _WORDS:
            return _WORDS[said.lower()], ""
        why = re.sub(r"^(?:no?)[\s,:]+", "", said, flags=re.IGNORECASE)[:MOST_SAID]
        confirmed = (await ask(f"reject with the reason {inert.line(why, 200)!r}? y, n > ")).strip().lower()
        if _WORDS.get(confirmed) is Choice.APPROVE:
            return Choice.REJECT, why
    return None, ""


_WORDS = {"y": Choice.APPROVE, "yes": Choice.APPROVE, "n": Choice.REJECT, "no": Choice.REJECT}


async def line(prompt: str) -> str:
    """A line from the terminal. Its thread may be left behind, blocked: it keeps no process alive."""
    loop = asyncio.get_running_loop()
    read: asyncio.Future[str] = loop.create_future()

    def settle(said: str) -> None:
        if not read.done():
            read.set_result(said)

    def wait() -> None:
        said = sys.stdin.readline()
        with contextlib.suppress(RuntimeError):  # the loop ended meanwhile: nobody waits for this line
            loop.call_soon_threadsafe(settle, said)

    sys.stderr.write(prompt)
    sys.stderr.flush()
    threading.Thread(target=wait, daemon=True).start()
    return await read
