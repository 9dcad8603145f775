"""What many runs of an agent took, from their traces: to set a budget by, and to see which tool gives trouble. Pure.

Only runs that have ended are measured, since of the others nobody knows what they will have taken; all are counted.
Percentiles are by nearest rank: each is a figure that some run really had, and with few runs the 95th is the largest.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_UP, Decimal
from math import ceil
from typing import Any, Final, Generic, TypeVar

from perdure.core.contracts import FINAL_STATES, Limits, RunState
from perdure.providers.prices import price
from perdure.traces.expectations import Expectation, judged
from perdure.traces.shape import Execution, Trace, TracedCall, TracedTurn

N = TypeVar("N", int, float, Decimal)
_LEAST_TIME: Final = 60  # seconds: shorter ones say more of a quiet machine than of the run
_ROOM: Final = Decimal(
    "1.5"
)  # a budget is for the run that goes astray: half as much again as nineteen in twenty needed


@dataclass(frozen=True)
class Spread(Generic[N]):
    """A figure over `count` runs (or calls): the median, the 95th percentile, the largest, and the sum."""

    count: int
    median: N
    p95: N
    most: N
    total: N


def spread(figures: Iterable[N]) -> Spread[N] | None:
    """None of no figures."""
    ranked = sorted(figures)
    if not ranked:
        return None
    total = sum(ranked[1:], start=ranked[0])
    return Spread(len(ranked), _ranked(ranked, 0.5), _ranked(ranked, 0.95), ranked[-1], total)


def _ranked(ranked: Sequence[N], share: float) -> N:
    return ranked[max(ceil(share * len(ranked)), 1) - 1]


@dataclass(frozen=True)
class ToolStats:
    """The calls of one tool, by how they ended: see `CallState`.

    `refused`: not admitted (no such tool, bad arguments). `not_run`: the run ended first. `repeats`: calls that were
    the same as one before in their run, with the same arguments and the same result. `retries`: attempts beyond the
    first. `took`: seconds from sending to the result, of the calls that were sent.
    """

    tool: str
    calls: int
    ok: int
    error: int
    refused: int
    rejected: int
    unknown: int
    not_run: int
    repeats: int
    retries: int
    took: Spread[float] | None


@dataclass(frozen=True)
class Expected:
    """Runs whose task was expected, and in how many the right tools were called. Else: which, in how many runs."""

    runs: int
    right: int
    missing: Mapping[str, int]
    wrong: Mapping[str, int]


@dataclass(frozen=True)
class AgentStats:
    """An agent's runs. Spreads are over the `ended` ones; seconds and US dollars.

    `waited` is for people, several requests at a time counted once; `took` is from start to end, waiting and all.
    Tokens and money are of the runs' own turns: what was handed to other runs is counted with their agents.
    `money` is at list prices or the author's, over those runs whose every turn has one; `unpriced` are the models of
    the others, and in how many runs. `retries` are attempts at asking the model beyond the first of each. `budget` is
    what the newest run may take, in turns, and `limits` the rest of it; `suggested` are fields of a Budget by the
    answered runs, if there are any.
    """

    agent: str
    runs: int
    ended: int
    first: datetime
    last: datetime
    states: Mapping[str, int]
    turns: Spread[int] | None
    calls: Spread[int] | None
    input: Spread[int] | None
    cached: Spread[int] | None
    output: Spread[int] | None
    money: Spread[Decimal] | None
    waited: Spread[float] | None
    took: Spread[float] | None
    retries: int
    tools: tuple[ToolStats, ...]
    unpriced: Mapping[str, int]
    budget: int | None
    suggested: Mapping[str, int | str]
    expected: Expected | None
    limits: Limits | None = None


def stats(traces: Sequence[Trace], expected: Sequence[Expectation] = ()) -> list[AgentStats]:
    """One for each agent, the one with most runs first."""
    agents: dict[str, list[Trace]] = defaultdict(list)
    for each in traces:
        agents[each.agent].append(each)
    found = [_of_agent(agent, of_agent, expected) for agent, of_agent in agents.items()]
    return sorted(found, key=lambda each: (-each.runs, each.agent))


def _of_agent(agent: str, traces: Sequence[Trace], expected: Sequence[Expectation]) -> AgentStats:
    ended = [each for each in traces if each.state in FINAL_STATES]
    costs = [cost(each) for each in ended]
    newest = max(traces, key=lambda each: each.started)

    def over(figure: Callable[[Trace], N]) -> Spread[N] | None:
        return spread(map(figure, ended))

    return AgentStats(
        agent=agent,
        runs=len(traces),
        ended=len(ended),
        first=min(each.started for each in traces),
        last=max(each.started for each in traces),
        states=_counted(each.state.value for each in traces),
        turns=over(lambda each: len(each.turns)),
        calls=over(lambda each: len(_calls(each))),
        input=over(lambda each: each.usage.input),
        cached=over(lambda each: each.usage.cached),
        output=over(lambda each: each.usage.output),
        money=spread(money for money, _ in costs if money is not None),
        waited=over(waited),
        took=over(lambda each: ((each.ended or each.last) - each.started).total_seconds()),
        retries=sum(_retries(turn.executions) for each in ended for turn in each.turns),
        tools=tuple(_tools(ended)),
        unpriced=_counted(model for _, models in costs for model in models),
        budget=newest.budget,
        suggested=_suggested(ended),
        expected=_expected(ended, expected),
        limits=newest.limits,
    )


def _counted(names: Iterable[str]) -> Mapping[str, int]:
    return dict(Counter(names).most_common())


def _calls(trace: Trace) -> list[TracedCall]:
    return [call for turn in trace.turns for call in turn.calls]


def _retries(executions: Iterable[Execution]) -> int:
    return sum(max(execution.attempts - 1, 0) for execution in executions)


# --- money, waiting, budget -------------------------------------------------------------------------------------------


def cost(trace: Trace) -> tuple[Decimal | None, tuple[str, ...]]:
    """What a run cost (in older records: at list prices on its day); None if one of its model calls has no price.

    Then also of which models.
    """
    costs = [paid for turn in trace.turns for paid in _costs(trace, turn)]
    costs += [(trace.model, each.cost) for each in trace.compactions if trace.limits]
    unknown = dict.fromkeys(model for model, each in costs if each is None)
    known = sum((each for _, each in costs if each is not None), Decimal(0))
    return (None if unknown else known), tuple(unknown)


def _costs(trace: Trace, turn: TracedTurn) -> Iterator[tuple[str, Decimal | None]]:
    """Model and price of each model call of a turn: its own, and the critic's.

    As recorded; for older records by the name that the server answered under, else by the one that it was asked for.
    """
    recorded, said = trace.limits is not None, turn.critique
    if turn.stop is not None:
        yield turn.model or trace.model, turn.cost if recorded else _listed(trace, turn)
    if said and said.protocol:
        old = None if recorded else price(said.protocol, said.model, said.usage, at=turn.started)
        yield said.model, said.cost if recorded else old


def _listed(trace: Trace, turn: TracedTurn) -> Decimal | None:
    other = turn.protocol  # that of a model that took over
    names = dict.fromkeys(name for name in (turn.model, "" if other else trace.model) if name)
    found = (price(other or trace.protocol, name, turn.usage, at=turn.started) for name in names)
    return next((each for each in found if each is not None), None)


def waited(trace: Trace) -> float:
    """Seconds for which at least one request waited for a person."""
    spans = sorted((asked.request.since, asked.until or trace.ended or trace.last) for asked in trace.all_asked)
    seconds, until = 0.0, trace.started
    for since, settled in spans:
        seconds += max((settled - max(since, until)).total_seconds(), 0.0)
        until = max(until, settled)
    return seconds


def _suggested(ended: Sequence[Trace]) -> Mapping[str, int | str]:
    """Fields of a Budget. Of the answered runs alone: what a run takes that goes astray is no measure.

    None of money unless every one of them has a price.
    """
    answered = [each for each in ended if each.state is RunState.ANSWERED]
    turns = spread(len(each.turns) for each in answered)
    tokens = spread(_counted_tokens(each) for each in answered)
    worked = spread(map(_worked, answered))
    if not (turns and tokens and worked):
        return {}
    fields: dict[str, int | str] = {"turns": ceil(turns.p95 * _ROOM)}
    if tokens.p95:
        fields["tokens"] = int(_rounded_up(Decimal(tokens.p95) * _ROOM))
    costs = [each.cost if each.handed else cost(each)[0] for each in answered]
    money = spread(each for each in costs if each is not None)
    if money and money.p95 and None not in costs:
        fields["money"] = f"{_rounded_up(money.p95 * _ROOM):f}"
    return fields | {"time": max(int(_rounded_up(Decimal(worked.p95) * _ROOM)), _LEAST_TIME)}


def _counted_tokens(trace: Trace) -> int:
    """What counts against a budget: also the tokens of runs that it handed work to, which have figures of their own."""
    return sum(each.input + each.output for each in (trace.usage, trace.handed) if each)


def _worked(trace: Trace) -> float:
    """Seconds of thinking and acting: as recorded, or in older records, what is left without the waiting."""
    if trace.outcome and trace.outcome.seconds:
        return trace.outcome.seconds
    return (trace.ended or trace.last).timestamp() - trace.started.timestamp() - waited(trace)


def _rounded_up(figure: Decimal) -> Decimal:
    """To two digits: 13,210 is 14,000."""
    unit = Decimal(1).scaleb(figure.adjusted() - 1)
    return figure.quantize(unit, ROUND_UP) if figure else figure


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(ended: Sequence[Trace]) -> Iterator[ToolStats]:
    """Those called most first."""
    calls: dict[str, list[TracedCall]] = defaultdict(list)
    repeats: Counter[str] = Counter()
    for each in ended:
        repeats.update(_repeated(each))
        for call in _calls(each):
            calls[call.tool].append(call)
    for tool, of_tool in sorted(calls.items(), key=lambda item: (-len(item[1]), item[0])):
        yield _of_tool(tool, of_tool, repeats[tool])


def _of_tool(tool: str, calls: Sequence[TracedCall], repeats: int) -> ToolStats:
    ends: dict[str, Any] = Counter(call.state for call in calls)
    shown = {state: ends.pop(state, 0) for state in ("ok", "error", "refused", "rejected", "unknown")}
    sent = [call.executions for call in calls if any(each.took is not None for each in call.executions)]
    return ToolStats(
        tool=tool,
        calls=len(calls),
        **shown,
        not_run=sum(ends.values()),
        repeats=repeats,
        retries=sum(_retries(call.executions) for call in calls),
        took=spread(sum(each.took or 0.0 for each in executions) for executions in sent),
    )


def _repeated(trace: Trace) -> Iterator[str]:
    """The tool of each call that was made before in the run, with the same arguments and the same result."""
    seen: set[tuple[str, str, str]] = set()
    for call in _calls(trace):
        if call.observation is None:
            continue
        same = (call.tool, call.arguments, call.observation)
        if same in seen:
            yield call.tool
        seen.add(same)


# --- expectations -----------------------------------------------------------------------------------------------------


def _expected(ended: Sequence[Trace], expected: Sequence[Expectation]) -> Expected | None:
    found = [each for each in (judged(trace, expected) for trace in ended) if each]
    if not expected:
        return None
    return Expected(
        runs=len(found),
        right=sum(each.right for each in found),
        missing=_counted(tool for each in found for tool in each.missing),
        wrong=_counted(tool for each in found for tool in each.wrong),
    )
