"""An agent is a value: a name, a model, instructions, tools. Everything a run is opened with is computed from it."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from perdure.core.contracts import Effect, Opening, ToolSpec
from perdure.core.digests import of_record
from perdure.core.labels import TEXT_MODE
from perdure.tools import instructions as texts
from perdure.tools.budget import AgentError as AgentError
from perdure.tools.budget import Budget as Budget
from perdure.tools.builtin import ask_operator, calculator, clock
from perdure.tools.declare import Tool, tool, where
from perdure.tools.parameters import ToolDeclarationError
from perdure.tools.prices import Prices
from perdure.tools.reading import READ_MORE, Outputs, is_read_more
from perdure.tools.schemas import NotStrictError, open_form, strict_form, unions
from perdure.tools.text_prompt import text_prompt

PROTOCOLS: Final = {"anthropic": "anthropic", "openai": "openai-responses", "openai-chat": "openai-chat"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

# Anthropic compiles all strict tools of a request into one grammar, and refuses the whole request when it grows too
# large. Documented: 20 tools, 16 places of several types; ceilings below that have been met. Tools that insist come
# first.
_STRICT_TOOLS = 8
_STRICT_UNIONS = 16


@dataclass(frozen=True, eq=False)
class Agent:
    """What runs are started of.

    Args:
        name: letters, digits, '_', '.', '-'; unique among the agents that a worker serves.
        model: "anthropic:NAME", "openai:NAME" (Responses) or "openai-chat:NAME" (and compatible servers); for a model
            that cannot call tools, the same behind "text+".
        instructions: the author's part of the system prompt.
        tools: declared tools, or plain functions (taken with the cautious defaults).
        budget: what a run may spend.
        settings: what else the provider takes, by its own names: {"max_tokens": 4096}.
        preamble: replaces the instructions that perdure puts first; "" leaves them out.
        compact_at: tokens of a request from which on old observations are cleared and old turns summarised; left out,
            that is done when the model finds the transcript too long.
        prices: of the model, where the vendor's list price is not known or not what you pay. They are the worker's: a
            new price counts from the next turn on, also in open runs.

    Raises:
        AgentError, ToolDeclarationError: it cannot work, and what to do.
    """

    name: str
    model: str = field(kw_only=True)
    instructions: str = field(kw_only=True)
    tools: Sequence[Tool | Callable[..., Any]] = field(default=(), kw_only=True)
    budget: Budget = field(default=Budget(), kw_only=True)
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    preamble: str | None = field(default=None, kw_only=True)
    compact_at: int = field(default=0, kw_only=True)
    prices: Prices | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise AgentError(f"agent name {self.name!r}: use at most 64 letters, digits, '_', '.' and '-'.")
        _split(self.name, self.model)
        try:
            settings = json.loads(json.dumps(dict(self.settings), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AgentError(f"agent {self.name!r}: settings are sent as JSON, and these are not ({error}).") from None
        if isinstance(self.compact_at, bool) or not isinstance(self.compact_at, int) or self.compact_at < 0:
            raise AgentError(f"agent {self.name!r}: compact_at={self.compact_at!r}: give a number of tokens.")
        object.__setattr__(self, "settings", MappingProxyType(settings))
        object.__setattr__(self, "tools", _declared(self.name, self.tools))

    @property
    def toolbox(self) -> Mapping[str, Tool]:
        """The tools by name, in their order."""
        return {each.name: each for each in self.tools if isinstance(each, Tool)}

    @property
    def protocol(self) -> str:
        return _split(self.name, self.model)[0]

    @property
    def system(self) -> str:
        """The system prompt: perdure's part, in text mode the tools and how to call them, then the author's part."""
        in_text = self.protocol.startswith(TEXT_MODE)
        ours = texts.preamble(self.budget.turns, parallel=not in_text) if self.preamble is None else self.preamble
        tools = text_prompt(specs(tuple(self.toolbox.values()), self.protocol)) if in_text else ""
        theirs = self.instructions.strip()
        heading = "Your instructions" if tools and theirs else ""  # or they would read as part of the last tool
        return "\n\n".join(filter(None, (ours.strip(), tools, heading, theirs)))

    def opening(self, *, stored: bool = False) -> Opening:
        """What a run of this agent is opened with, and keeps to its end. `stored`: its workers have a store."""
        protocol, model = _split(self.name, self.model)
        content: dict[str, Any] = {
            "turns": self.budget.turns,
            "stored": stored,
            "compact_at": self.compact_at,
            "limits": self.budget.limits,
            "protocol": protocol,
            "model": model,
            "system": self.system,
            "tools": specs(tuple(self.toolbox.values()), protocol),
            "settings": dict(self.settings),
        }
        opening = Opening(digest="", **content)
        return opening.model_copy(update={"digest": of_record(opening.model_dump(mode="json", exclude={"digest"}))})


def _split(name: str, model: str) -> tuple[str, str]:
    prefix, colon, rest = model.partition(":")
    mode = TEXT_MODE if prefix.startswith(TEXT_MODE) else ""
    protocol = PROTOCOLS.get(prefix.removeprefix(mode))
    if protocol is None or not colon or not rest.strip():
        known = ", ".join(f"'{each}:NAME'" for each in PROTOCOLS)
        raise AgentError(
            f"agent {name!r}: model {model!r} does not say whose it is. Write one of {known}; for a model that cannot "
            f"call tools, with {TEXT_MODE!r} before it."
        )
    return mode + protocol, rest.strip()


def _declared(agent: str, given: Sequence[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    found: dict[str, Tool] = {}
    for each in given:
        declared = each if isinstance(each, Tool) else tool(each)
        if declared.unbound:
            raise ToolDeclarationError(
                f"agent {agent!r}: tool {declared.name!r} is declared in a class and bound to no instance. "
                "Pass tools_of(instance), or instance.method."
            )
        twin = found.get(declared.name)
        if twin is not None:
            raise AgentError(
                f"agent {agent!r} has two tools named {declared.name!r}: {where(twin.function)} and "
                f"{where(declared.function)}. Rename one: tool(function, name=...)."
            )
        if declared.name == READ_MORE and not is_read_more(declared):
            raise AgentError(
                f"agent {agent!r}: {READ_MORE!r} is the name of perdure's own tool for long observations. Rename "
                f"{where(declared.function)}: tool(function, name=...)."
            )
        found[declared.name] = declared
    return tuple(found.values())


def that_reads_on(agent: Agent, outputs: Outputs) -> Agent:
    """The agent with `read_more`, if a tool of its own may return more than the model is shown."""
    long = any(each not in (ask_operator, calculator, clock) for each in agent.tools)
    return replace(agent, tools=(*agent.tools, outputs.reader)) if long else agent


# --- what is sent -----------------------------------------------------------------------------------------------------


def specs(tools: Sequence[Tool], protocol: str) -> tuple[ToolSpec, ...]:
    """The tools as a model is offered them, each strict where it can be and its vendor will take them all."""
    strict = _strict_forms(tools, protocol)
    return tuple(
        ToolSpec(
            name=each.name,
            description=_described(each),
            parameters=strict.get(each.name) or open_form(each.parameters.schema),
            strict=each.name in strict,
            order=tuple(each.parameters.schema.get("properties", ())) if protocol.startswith(TEXT_MODE) else (),
        )
        for each in tools
    )


def _strict_forms(tools: Sequence[Tool], protocol: str) -> dict[str, dict[str, Any]]:
    forms: dict[str, dict[str, Any]] = {}
    places = 0
    if protocol.startswith(TEXT_MODE):
        return forms
    for each in sorted(tools, key=lambda each: each.strict is not True):
        if each.strict is False:
            continue
        try:
            form = strict_form(each.parameters.schema)
        except NotStrictError:
            continue
        places += unions(form)
        if protocol == "anthropic" and each.strict is None and (len(forms) >= _STRICT_TOOLS or places > _STRICT_UNIONS):
            places -= unions(form)
            continue
        forms[each.name] = form
    return forms


def _described(each: Tool) -> str:
    acts = "" if each.effect is Effect.READ else "This tool acts: it changes something outside."
    return " ".join(filter(None, (each.description, acts))) or each.name


# --- warnings ---------------------------------------------------------------------------------------------------------

_VAGUE_NAMES = frozenset(
    {"do", "run", "process", "handle", "execute", "action", "tool", "call", "perform", "get", "set"}
)
_SHORT_DESCRIPTION = 20  # characters
_ALIKE = 0.9  # of the words of two descriptions


def lint(agent: Agent) -> list[str]:
    """What makes the agent's tools hard to choose or to call, one warning each."""
    found = [warning for each in agent.toolbox.values() for warning in _vague(each)]
    listed = list(agent.toolbox.values())
    for place, one in enumerate(listed):
        for other in listed[place + 1 :]:
            if one.description and _alike(one.description, other.description):
                found.append(f"{one.name}, {other.name}: described almost alike. Say when to use which.")
    return found


def _vague(each: Tool) -> list[str]:
    found = []
    if not each.description:
        found.append(f"{each.name}: no docstring. Say what it does, and what it returns.")
    elif len(each.description) < _SHORT_DESCRIPTION:
        found.append(f"{each.name}: described in {len(each.description)} characters ({each.description!r}). Say more.")
    if each.name.lower() in _VAGUE_NAMES:
        found.append(f"{each.name}: a name that says nothing. Name what it does to what.")
    for name, schema in each.parameters.schema.get("properties", {}).items():
        if not schema.get("description"):
            found.append(f"{each.name}: parameter {name!r} is not described. Use the docstring's Args section.")
    return found


def _alike(one: str, other: str) -> bool:
    ours, theirs = (set(re.findall(r"\w+", text.lower())) for text in (one, other))
    return len(ours & theirs) >= _ALIKE * len(ours | theirs)
