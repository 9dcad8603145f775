"""Verbs that look at the set-up: agents, doctor."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from perdure import store
from perdure.console import exits
from perdure.console.desk import Desk, Finding, SetupError, desk
from perdure.console.port import UnreachableError
from perdure.console.reading import OutputOption
from perdure.console.screen import Output
from perdure.console.serving import FilesArgument
from perdure.core import inert
from perdure.core.contracts import Effect, Fallback, Opening
from perdure.core.labels import TEXT_MODE
from perdure.providers.prices import listed
from perdure.tools.agents import Agent, lint, that_reads_on
from perdure.tools.builtin import ask_operator
from perdure.tools.declare import Tool
from perdure.tools.delegating import agent_behind
from perdure.tools.discovery import VARIABLE, AgentLoadError
from perdure.tools.reading import Outputs
from perdure.traces.lines import BLANK, Line, Span, Style, said
from perdure.traces.words import limits

_KEYS: Final = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai-responses": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
}
_OLDEST: Final = (3, 11)


def add_to(app: typer.Typer) -> None:
    for verb in (agents, doctor):
        app.command(rich_help_panel="Set up")(verb)


# --- agents -----------------------------------------------------------------------------------------------------------


def agents(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILES] | show NAME [FILES]", help="Files or modules (else those in $PERDURE_AGENTS)."),
    ] = None,
    output: OutputOption = Output.TEXT,
    keys: Annotated[bool, typer.Option("--keys", hidden=True, help="Warn of keys that are not set.")] = False,
) -> None:
    """The agents there are, and what makes their tools hard to use. With `show NAME`: all that a run is opened with.

    \b
    perdure agents leave_desk.py
    perdure agents show leave-desk leave_desk.py
    """
    at = desk(context)
    match words or []:
        case ["show", name, *files]:
            at.do(_show(at, name, files, output))
        case ["show"]:
            raise typer.BadParameter("say which: perdure agents show NAME [FILES]")
        case files:
            at.do(_list(at, files, output, keys=keys))


async def _list(at: Desk, files: Sequence[str], output: Output, *, keys: bool) -> int:
    agents = at.world.agents(files)
    if output is not Output.TEXT:
        at.screen.data([_document(agent) for agent in agents.values()], output)
        return exits.DONE
    for agent in agents.values():
        at.screen.show(_heading(agent))
        at.screen.hint(*_warnings(agent))
    if keys:
        at.screen.hint(*_keyless(agents))
    return exits.DONE


async def _show(at: Desk, name: str, files: Sequence[str], output: Output) -> int:
    found = at.world.agents(files)
    agent = found.get(name)
    if agent is None:
        names = ", ".join(map(repr, found))
        raise SetupError(f"there is no agent {name!r} among these: {names}")
    agent = _as_served(agent)
    if output is not Output.TEXT:
        at.screen.data([_document(agent)], output, one=True)
    else:
        at.screen.show(_whole(agent))
        at.screen.hint(*_warnings(agent))
    return exits.DONE


def _as_served(agent: Agent) -> Agent:
    """As a worker started from here would serve it."""
    try:
        found = store.store_from_env()
    except store.StoreError as error:
        raise SetupError(str(error)) from None
    return that_reads_on(agent, Outputs(found)) if found else agent


def _heading(agent: Agent) -> Iterator[Line]:
    yield Line(
        (
            Span(agent.name, "title"),
            Span(f"  {inert.line(agent.model)}, at most {limits(agent.budget.turns, agent.budget.limits)}"),
        )
    )
    for tool in agent.toolbox.values():
        first = inert.line(tool.description.strip().partition("\n")[0])
        behind = agent_behind(tool)
        kind = f"agent {behind.name}" if behind else tool.effect.value
        yield Line((Span(f"{kind}, {_asks(tool)}"), Span(f"  {first}", "dim")), Span(tool.name, "call"), 2, 22)


def _asks(tool: Tool) -> str:
    """Which of its calls wait for a person, as the policy will judge."""
    if tool.function is ask_operator.function:
        return "always asks"
    match tool.ask:
        case True:
            return "always asks"
        case False:
            return "never asks"
        case str(condition):
            return f"asks if {inert.line(condition)}"
        case _:
            return "never asks" if tool.effect is Effect.READ else "always asks"


def _warnings(agent: Agent) -> Iterator[Line]:
    for warning in _warned(agent):
        yield Line((Span(inert.line(warning)),), Span("warning", "warn"), 2, 11)


def _warned(agent: Agent) -> list[str]:
    """What makes its tools hard to use, and what will keep its runs from going on."""
    if agent.budget.money is None:
        return lint(agent)
    opening = agent.opening()
    asked: list[Opening | Fallback] = [opening, *opening.fallbacks, *([opening.critic] if opening.critic else [])]
    models = dict.fromkeys((each.protocol, each.model) for each in asked)
    unpriced = [
        model for protocol, model in models if not (agent.prices_of(protocol, model) or listed(protocol, model))
    ]
    told = (
        "a budget of money, and nobody knows what {!r} costs: it is not asked. Give the agent prices=...; see Prices."
    )
    return [*lint(agent), *map(told.format, unpriced)]


def _whole(agent: Agent) -> Iterator[Line]:
    opening = agent.opening()
    yield from _heading(agent)
    yield from said("prompt", inert.block(opening.system), indent=2, hang=11)
    if opening.settings:
        yield from said("settings", inert.line(json.dumps(opening.settings, ensure_ascii=False)), indent=2, hang=11)
    if opening.critic:
        asked = f"{opening.critic.model} ({opening.critic.protocol})"
        yield from said("critic", inert.block(f"{asked}\n\n{opening.critic.system}"), indent=2, hang=11)
    for model in agent.models[1:]:
        settings = f"  {json.dumps(model.sent(agent.effort), ensure_ascii=False)}" if model.sent(agent.effort) else ""
        yield from said("then", inert.line(f"{model.name}{settings}"), indent=2, hang=11)
    for spec in opening.tools:
        yield BLANK
        strict = "  enforced by the vendor" if spec.strict else ""
        yield Line((Span(spec.name, "call"), Span(strict, "dim")), Span("tool", "label"), 2, 11)
        yield from said("", inert.block(spec.description), indent=2, hang=11)
        yield from said(
            "schema", inert.block(json.dumps(spec.parameters, indent=2, ensure_ascii=False)), indent=2, hang=11
        )


def _document(agent: Agent) -> dict[str, Any]:
    opening = agent.opening().model_dump(mode="json")
    tools = {name: _policy(tool) for name, tool in agent.toolbox.items()}
    return {"name": agent.name, "opening": opening, "policy": tools, "warnings": _warned(agent)}


def _policy(tool: Tool) -> dict[str, str]:
    behind = agent_behind(tool)
    return {"effect": tool.effect.value, "asks": _asks(tool)} | ({"agent": behind.name} if behind else {})


# --- doctor -----------------------------------------------------------------------------------------------------------


def doctor(context: typer.Context, files: FilesArgument = None, output: OutputOption = Output.TEXT) -> None:
    """What is wrong with the set-up, and the next command. Changes nothing, but tries to write to the store.

    \b
    perdure doctor leave_desk.py
    """
    at = desk(context)
    at.do(_doctor(at, files or [], output))


async def _doctor(at: Desk, files: Sequence[str], output: Output) -> int:
    agents, of_agents = _agents(at, files)
    temporal = [finding async for finding in at.world.survey()]
    served = any(finding.check == "workers" and finding.ok for finding in temporal)
    found = [_python(), of_agents, *temporal, *_keys(agents, served), await _store(at)]
    if output is not Output.TEXT:
        at.screen.data([vars(finding) for finding in found], output)
    else:
        at.screen.show(line for finding in found for line in _told(finding))
        wrong = sum(finding.ok is False for finding in found)
        at.screen.hint(f"{wrong} of {len(found)} to be mended" if wrong else "nothing needs mending")
    return exits.SETUP if any(finding.ok is False for finding in found) else exits.DONE


def _told(finding: Finding) -> Iterator[Line]:
    tones: dict[bool | None, tuple[str, Style]] = {True: ("ok", "ok"), False: ("wrong", "bad"), None: ("?", "warn")}
    word, tone = tones[finding.ok]
    yield Line((Span(f"{finding.check}: ", "label"), Span(inert.line(finding.found))), Span(word, tone), 0, 7)
    if finding.next:
        yield Line((Span(inert.line(finding.next), "command"),), Span("next", "label"), 2, 7)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= _OLDEST
    return Finding("python", ok, version, "" if ok else "install Python 3.11 or later, and perdure into it")


def _agents(at: Desk, files: Sequence[str]) -> tuple[Mapping[str, Agent], Finding]:
    try:
        found = at.world.agents(files)
    except AgentLoadError as error:
        named = bool(files or os.environ.get(VARIABLE))
        return {}, Finding("agents", False if named else None, str(error), "perdure doctor FILE")
    return found, Finding("agents", True, ", ".join(found))


async def _store(at: Desk) -> Finding:
    """As with keys, the store that counts is the worker's. Without one named here, that of `perdure dev`."""
    try:
        found = at.world.store()
        if found is None:
            return Finding("store", True, f"{store.VARIABLE} is not set in this terminal; what is cut is not kept")
        await found.check()
    except (store.StoreError, UnreachableError) as error:
        return Finding(
            "store", False, str(error), f"export {store.VARIABLE}=..., the same for all workers, or unset it"
        )
    whose = "" if os.environ.get(store.VARIABLE) else ", that of `perdure dev`"
    return Finding("store", True, f"{found.url}{whose}, writable from here")


def _keys(agents: Mapping[str, Agent], served: bool) -> Iterator[Finding]:
    """The keys that count are the worker's: where one runs already, a key missing here need not be wrong."""
    for protocol, keys in _wanted(agents):
        held = next((key for key in keys if os.environ.get(key)), "")
        if held or not keys:
            told = f"{held} is set in this terminal; only the vendor knows if it is right" if held else "none needed"
            yield Finding(f"key for {protocol}", True, told)
        else:
            wanted = f"export {keys[0]}=..., then start the worker anew"
            yield Finding(f"key for {protocol}", None if served else False, "none in this terminal", wanted)


def _wanted(agents: Mapping[str, Agent]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each protocol that these agents speak, and the variables that may hold a key for it."""
    for protocol in dict.fromkeys(protocol for agent in agents.values() for protocol in _spoken(agent)):
        yield protocol, _KEYS.get(protocol.removeprefix(TEXT_MODE), ())


def _spoken(agent: Agent) -> Sequence[str]:
    """The protocols that its runs speak: its models', and its critic's."""
    critic = agent.opening().critic
    known = {protocol.removeprefix(TEXT_MODE) for protocol in agent.protocols}
    other = critic.protocol if critic and critic.protocol not in known else ""
    return [each for each in (*agent.protocols, other) if each]


def _keyless(agents: Mapping[str, Agent]) -> Iterator[Line]:
    """What a worker started from here would lack."""
    for protocol, keys in _wanted(agents):
        if keys and not any(os.environ.get(key) for key in keys):
            names = ", ".join(inert.line(agent.name) for agent in agents.values() if protocol in _spoken(agent))
            told = f"{keys[0]} is not set: runs of {names} will be stuck. Set it, or play a model from a script:"
            yield Line((Span(told),), Span("warning", "warn"), 2, 11)
            yield Line((Span("perdure model --help", "command"),), Span(""), 2, 11)
