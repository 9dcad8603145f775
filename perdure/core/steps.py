"""What may happen next in a run: the sum type that `perdure.core.loop` computes and the workflow acts on.

Declarations only, like `perdure.core.contracts`: it passes through the workflow sandbox, where making a dataclass anew
for every run costs more than a step.
"""

from dataclasses import dataclass

from perdure.core.contracts import AskCritic, Call, CallModel, CompactTranscript, Outcome


@dataclass(frozen=True)
class Think:
    """Ask the model for its next turn."""

    call: CallModel


@dataclass(frozen=True)
class Act:
    """Settle these calls, all at once."""

    calls: tuple[Call, ...]


@dataclass(frozen=True)
class AskForMore:
    """Ask an operator whether the run gets more of what is spent."""

    reason: str


@dataclass(frozen=True)
class Compact:
    """Go on from a compacted transcript."""

    asked: CompactTranscript


@dataclass(frozen=True)
class Hold:
    """Ask nothing: the run is paused."""


@dataclass(frozen=True)
class Criticise:
    """Ask the critic about the latest turn."""

    asked: AskCritic


@dataclass(frozen=True)
class RollOver:
    """Go on in a new segment, with what this makes of the transcript."""

    carry: CompactTranscript


@dataclass(frozen=True)
class Finish:
    outcome: Outcome


NextStep = Think | Act | Hold | Criticise | AskForMore | Compact | RollOver | Finish
