"""Exit codes: what a script needs to tell apart. Stable; the same for every verb."""

from typing import Final

from perdure.core.contracts import RunState

DONE: Final = 0  # the run answered; the verb did what it says
BUG: Final = 1  # a fault of perdure's own
USAGE: Final = 2
FAILED: Final = 3
WAITING: Final = 4  # the run has not ended: it waits for a person (again, after a decision), or --timeout is over
LIMITED: Final = 5
REFUSED: Final = 6  # by the model's provider
CANCELLED: Final = 7
NOT_FOUND: Final = 8  # no such run, request or file, or more than one
NOT_TAKEN: Final = 9  # a decision (decided otherwise before, withdrawn, not allowed, other bytes), or a --id in use
UNREACHABLE: Final = 10  # no Temporal server, or it refuses us
SETUP: Final = 11  # agents that do not load, or what `perdure doctor` found
INTERRUPTED: Final = 130  # Ctrl-C: runs go on without us

OF_STATE: Final = {
    RunState.ANSWERED: DONE,
    RunState.FAILED: FAILED,
    RunState.LIMITED: LIMITED,
    RunState.REFUSED: REFUSED,
    RunState.CANCELLED: CANCELLED,
}

TOLD: Final = """Exit codes: 0 answered or done · 1 a bug of perdure · 2 usage · 3 the run failed · 4 it has not ended \
(waits for a person, or --timeout is over) · 5 limited · 6 refused by the provider · 7 cancelled · 8 not found · \
9 not taken (a decision; an --id in use) · 10 no server · 11 set-up is wrong · 130 Ctrl-C (runs go on)"""


def of(state: RunState) -> int:
    return OF_STATE.get(state, WAITING)
