"""The board: what operators see of a run without asking it. The memo, the search attribute, and Temporal's own UI."""

from collections.abc import Callable
from itertools import count
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from perdure.core.contracts import (
    STANDING,
    STATE_ATTRIBUTE,
    WAITING_PREFIX,
    Request,
    RunState,
    Standing,
    State,
)
from perdure.core.limits import in_force
from perdure.core.loop import unsettled
from workflows import calls

_STATE = SearchAttributeKey.for_keyword(STATE_ATTRIBUTE)
_SETTLED_SHOWN = 5  # so that a second click learns who was first


class Board:
    """Publishes once for all that changes in a step. `look`: the run's state as it is now, with what waits in it."""

    def __init__(self, shown: tuple[Request, ...], look: Callable[[], State]) -> None:
        self._look = look
        self._stale = False
        self._shown: dict[int, Request | None] = dict(enumerate(shown))  # what the memo holds, by slot

    def changed(self) -> None:
        self._stale = True

    async def publish_changes(self) -> None:
        while True:
            await workflow.wait_condition(lambda: self._stale)
            self.publish()

    def publish(self) -> None:
        self._stale = False
        state = self._look()
        self.detail(state)
        slots = {_slot(slot): request for slot, request in self._reshown(state.requests).items()}
        workflow.upsert_memo({STANDING: _standing(state), **slots})
        workflow.upsert_search_attributes([_STATE.value_set(_stands(state))])

    def detail(self, state: State) -> None:
        """Where the run stands, in markdown, for Temporal's own UI."""
        budget = f" of {in_force(state).turns}" if state.opened else ""
        lines = [f"**{_stands(state)}** after {state.turn}{budget} turns"]
        for request in state.requests:
            what = f" {calls.code(request.title)}" if request.title else ""
            lines.append(f"- waits for a person, request {request.id}: {request.kind}{what}")
        workflow.set_current_details("\n".join(lines))

    def _reshown(self, requests: tuple[Request, ...]) -> dict[int, Request | None]:
        """The memo's slots that change, so that each waiting request stands in one and no other stands in any."""
        waiting = {request.id: request for request in requests}
        held = {shown.id for shown in self._shown.values() if shown}
        changes: dict[int, Request | None] = {
            slot: None for slot, shown in self._shown.items() if shown and shown.id not in waiting
        }
        free = (slot for slot in count() if slot in changes or self._shown.get(slot) is None)
        for request_id in [each for each in waiting if each not in held]:
            changes[next(free)] = waiting[request_id]
        self._shown |= changes
        return changes


def memo(state: State) -> dict[str, Any]:
    """What a new segment shows from its first moment: each waiting request in a slot of its own."""
    return {STANDING: _standing(state), **{_slot(slot): request for slot, request in enumerate(state.requests)}}


def _slot(number: int) -> str:
    return f"{WAITING_PREFIX}{number}"


def _standing(state: State) -> Standing:
    outcome = state.outcome
    return Standing(
        settled=state.decided[-_SETTLED_SHOWN:],
        began=state.began,
        outcome=outcome.model_copy(update={"answer": ""}) if outcome else None,
        paused=None if outcome else state.course.paused,
    )


def _stands(state: State) -> RunState:
    if state.outcome:
        return state.outcome.state
    if state.course.paused:
        return RunState.PAUSED
    if state.requests:
        return RunState.WAITING
    return RunState.ACTING if unsettled(state) else RunState.THINKING
