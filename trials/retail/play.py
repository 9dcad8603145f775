"""Playing one case: the script that the model follows, the operator who approves, and what is compared afterwards."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx2

from perdure.console.port import RunsPort
from perdure.core.contracts import FINAL_STATES, Choice, Decision, Request, RequestKind, RunState
from perdure.core.runs import DecisionRefusedError, RunNotFoundError, RunRow
from perdure.testing import Reply, Script, Seen, call, say
from perdure.traces.turns import trace
from trials.retail.cases import Case

_LOOKS_EVERY = 0.2  # seconds between an operator's looks at one run
_CASE = re.compile(r"\bCase (\S+)\. ")

# The operator approves every write. A write whose answer was lost too often is run again (the shop knows the key), and
# what got stuck is tried again: that is what a person would do here, and it is counted.
_SAYS: Mapping[RequestKind, Choice] = {
    RequestKind.APPROVAL: Choice.APPROVE,
    RequestKind.UNKNOWN: Choice.RERUN,
    RequestKind.STUCK: Choice.RETRY,
}


def script(cases: Sequence[Case]) -> Script:
    """The model: each case's reference calls, one a turn, then an answer."""
    calls = {case.task_id: case.calls for case in cases}

    def turn(seen: Seen) -> Reply:
        found = _CASE.search(seen.task)
        due = calls[found[1] if found else ""]
        if seen.turn == len(due):
            return say("Done, as far as the shop allowed.")
        return call(due[seen.turn].name, due[seen.turn].arguments)

    return Script(turn, name="reference")


@dataclass(frozen=True)
class Played:
    """What came of one case. `faults` says where it differs from the reference; none: it passed."""

    case: Case
    calls: int
    writes: int
    attempts: int  # executions of calls, lost ones included
    decisions: Mapping[RequestKind, int]
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults


async def play(case: Case, runs: RunsPort, shop: httpx2.AsyncClient) -> Played:
    """Run a case to its end on a branch of its own, and compare what the shop and the model saw with the reference."""
    run_id = f"retail-{case.task_id}"
    (await shop.post(f"/branches/{run_id}")).raise_for_status()
    await runs.start("retail", case.task, run_id=run_id)
    operator = Operator(runs)
    row = await operator.attend(run_id)
    found = await shop.delete(f"/branches/{run_id}")
    traced = trace(await runs.events(run_id))
    calls = [each for turn in traced.turns for each in turn.calls]
    heard = [(each.tool, each.observation if each.state != "ok" else None) for each in calls]
    return Played(
        case,
        calls=len(calls),
        writes=sum(each.effect == "idempotent" for each in calls),
        attempts=sum(each.attempts for each in calls),
        decisions=Counter(operator.decided.values()),
        faults=tuple(differences(case, row, heard, found.raise_for_status().json()["hash"])),
    )


def differences(case: Case, row: RunRow, heard: Sequence[tuple[str, str | None]], shop_hash: str) -> list[str]:
    """Where a run differs from its case. `heard`: each call's tool, and the error that the model was told, if any."""
    found = []
    if row.state is not RunState.ANSWERED:
        found.append(f"ended {row.state}: {row.outcome.reason if row.outcome else 'no outcome'}")
    if shop_hash != case.expected_hash:
        found.append("the shop's database differs")
    if [tool for tool, _ in heard] != [each.name for each in case.calls]:
        found.append(f"{len(heard)} calls instead of {len(case.calls)}")
    for number, ((tool, error), due) in enumerate(zip(heard, case.calls, strict=False), 1):
        if error != due.error:
            found.append(f"call {number}, {tool}: the model was told {error!r} instead of {due.error!r}")
    return found


class Operator:
    """Decides through `Runs.decide` whatever one run asks, until it ends. `decided`: what was asked, by request id."""

    def __init__(self, runs: RunsPort) -> None:
        self._runs = runs
        self.decided: dict[str, RequestKind] = {}

    async def attend(self, run_id: str) -> RunRow:
        """The run's last row. A request may be seen again until a worker has taken the decision: it is made again."""
        while True:
            row = await self._runs.find(run_id)
            if row.state in FINAL_STATES:
                return row
            for request in row.requests:
                await self._decide(run_id, request)
            await asyncio.sleep(_LOOKS_EVERY)

    async def _decide(self, run_id: str, request: Request) -> None:
        decision = Decision(
            id=f"trial-{request.id}",  # one a request, so that making it again is the same decision
            request=request.id,
            choice=_SAYS[request.kind],
            by="trial operator",
            digest=request.digest,
        )
        with suppress(DecisionRefusedError, RunNotFoundError):  # settled or withdrawn meanwhile: the next look tells
            await self._runs.decide(run_id, decision)
        self.decided[request.id] = request.kind
