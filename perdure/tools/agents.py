"""An agent is a value: a name, a model, instructions, tools. Everything a run is opened with is computed from it."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from perdure.core.contracts import Effect, Fallback, Opening, ToolSpec
from perdure.core.digests import of_record
from perdure.core.labels import TEXT_MODE
from perdure.tools import instructions as texts
from perdure.tools.answers import AnswerForm, AnswerFormError, answer_form
from perdure.tools.budget import Budget as Budget
from perdure.tools.builtin import ask_operator, calculator, clock
from perdure.tools.critics import Critic
from perdure.tools.declare import Tool, tool, where
from perdure.tools.delegating import delegating
from perdure.tools.models import AgentError, Effort, Model
from perdure.tools.parameters import ToolDeclarationError
from perdure.tools.prices import Prices
from perdure.tools.reading import READ_MORE, Outputs, is_read_more
from perdure.tools.schemas import NotStrictError, open_form, strict_form, unions
from perdure.tools.text_prompt import text_prompt

_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "instructions": ((str,), "give a text"),
    "preamble": ((str, type(None)), "give a text"),
    "tools": ((list, tuple), "give a list of tools"),
    "budget": ((Budget,), "give a Budget, such as Budget(turns=12)"),
    "critic": ((Critic, type(None)), "give a Critic, such as Critic('answer')"),
    "prices": ((Prices, Mapping), "give Prices, or a mapping from the names of models to theirs"),
}
"""What an option is made of, where another kind would only show in a run."""

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
        tools: declared tools, plain functions (taken with the cautious defaults), or other agents' `as_tool`.
        budget: what a run may spend.
        settings: what else the provider takes, by its own names: {"max_tokens": 4096}.
        preamble: replaces the instructions that perdure puts first; "" leaves them out.
        compact_at: tokens of a request from which on old observations are cleared and old turns summarised; left out,
            that is done when the model finds the transcript too long.
        answer: the form of the answer, any type that pydantic takes: a model, a dataclass, list[Line]. Left out: text.
        critic: who looks at the work meanwhile, and before an answer counts.
        effort: how much the models are to think: "low", "medium" or "high". Left to the vendor unless said.
        parallel: whether a turn may hold several calls.
        fallbacks: models that are asked, in this order, while those before them are out: names, or a `Model` each,
            with settings of its own.
        prices: of `model`, where the vendor's list price is not known or not what you pay; of several models, by name.
            They are the worker's: a new price counts from the next turn on, also in open runs.

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
    answer: Any = field(default=None, kw_only=True)
    critic: Critic | None = field(default=None, kw_only=True)
    effort: Effort | None = field(default=None, kw_only=True)
    parallel: bool = field(default=True, kw_only=True)
    fallbacks: Sequence[str | Model] = field(default=(), kw_only=True)
    form: AnswerForm | None = field(init=False, repr=False)
    prices: Prices | Mapping[str, Prices] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise AgentError(f"agent name {self.name!r}: use at most 64 letters, digits, '_', '.' and '-'.")
        for option, (kinds, advice) in _KINDS.items():
            if not isinstance(given := getattr(self, option), kinds):
                raise AgentError(f"agent {self.name!r}: {option}={given!r}: {advice}.")
        try:
            first, *others = _chain(self)
            Model(self._critics_model)
            _ = self._priced
        except AgentError as error:
            raise AgentError(f"agent {self.name!r}: {error}") from None
        object.__setattr__(self, "settings", first.settings)
        object.__setattr__(self, "fallbacks", tuple(others))
        if isinstance(self.compact_at, bool) or not isinstance(self.compact_at, int) or self.compact_at < 0:
            raise AgentError(f"agent {self.name!r}: compact_at={self.compact_at!r}: give a number of tokens.")
        object.__setattr__(self, "tools", _declared(self.name, self.tools))
        object.__setattr__(self, "form", _form(self.name, self.answer))

    def as_tool(self, description: str, *, name: str | None = None, ask: bool | str | None = None) -> Tool:
        """This agent as a tool of another one, who gives it a task and is told its answer.

        Each call is a run of its own: with this agent's model, tools and budget, at most its share of what is left of
        the other's. What it does to the world is gated there, as in any run.

        Args:
            description: what it does, and what to give it: all that the other agent knows of it.
            name: instead of the agent's.
            ask: whether a person is asked before work is handed to it. Not, unless said.

        Raises:
            AgentError, ToolDeclarationError: it is not described, or no vendor takes the name.
        """
        return delegating(self, description, name=name, ask=ask)

    def prices_of(self, protocol: str, model: str) -> Prices | None:
        """What the author says that a model costs. `model`: the vendor's own name; in text mode it costs the same."""
        return self._priced.get((protocol.removeprefix(TEXT_MODE), model))

    @property
    def _priced(self) -> dict[tuple[str, str], Prices]:
        given = {self.model: self.prices} if isinstance(self.prices, Prices) else self.prices
        models = ((Model(name), prices) for name, prices in given.items())
        return {(each.protocol.removeprefix(TEXT_MODE), each.wire_name): prices for each, prices in models}

    @property
    def toolbox(self) -> Mapping[str, Tool]:
        """The tools by name, in their order."""
        return {each.name: each for each in self.tools if isinstance(each, Tool)}

    @property
    def models(self) -> tuple[Model, ...]:
        """All that it may ask, the first one first."""
        return _chain(self)

    @property
    def protocols(self) -> tuple[str, ...]:
        """What these models speak, each once."""
        return tuple(dict.fromkeys(model.protocol for model in self.models))

    @property
    def system(self) -> str:
        """The system prompt for the first model."""
        return self._system(self.models[0].protocol)

    def _system(self, protocol: str) -> str:
        """Perdure's part, in text mode the tools and how to call them, the form of the answer, then the author's."""
        in_text = protocol.startswith(TEXT_MODE)
        ours = self.preamble
        if ours is None:
            parallel = self.parallel and not in_text
            ours = texts.preamble(self.budget.turns, parallel=parallel, form=self.form is not None)
        tools = text_prompt(specs(tuple(self.toolbox.values()), protocol)) if in_text else ""
        form = self.form.prompt(protocol) if self.form else ""
        theirs = self.instructions.strip()
        heading = "Your instructions" if (tools or form) and theirs else ""  # or they would read as part of those
        return "\n\n".join(filter(None, (ours.strip(), tools, form, heading, theirs)))

    def _fallback(self, model: Model, opening: Opening) -> Fallback:
        """What differs for a model that takes over."""
        system, tools = self._system(model.protocol), specs(tuple(self.toolbox.values()), model.protocol)
        return Fallback(
            protocol=model.protocol,
            model=model.wire_name,
            settings=self._settings(model),
            system=None if system == opening.system else system,
            tools=None if tools == opening.tools else tools,
        )

    def opening(self, *, stored: bool = False) -> Opening:
        """What a run of this agent is opened with, and keeps to its end. `stored`: its workers have a store."""
        first, *others = self.models
        opening = Opening(
            digest="",
            turns=self.budget.turns,
            stored=stored,
            compact_at=self.compact_at,
            limits=self.budget.limits,
            protocol=first.protocol,
            model=first.wire_name,
            system=self._system(first.protocol),
            tools=specs(tuple(self.toolbox.values()), first.protocol),
            settings=self._settings(first),
            answer=self.form.schema if self.form else None,
            reviewing=self.critic.reviewing if self.critic else None,
            critic=self._critics_opening(self.critic) if self.critic else None,
            parallel=self.parallel,
        )
        fallbacks = tuple(self._fallback(model, opening) for model in others)
        return _digested(opening.model_copy(update={"fallbacks": fallbacks}))

    @property
    def _critics_model(self) -> str:
        """The critic's own, or the agent's, and then its fallbacks too; without tools, text mode is of no use to it."""
        return ((self.critic and self.critic.model) or self.model).removeprefix(TEXT_MODE)

    def _critics_opening(self, critic: Critic) -> Opening:
        model = Model(self._critics_model, {} if critic.model else self.settings)
        form = self.form.prompt(model.protocol) if self.form else ""
        system = critic.system("\n\n".join(filter(None, (self.instructions, form))))
        settings = model.sent(None)
        others = () if critic.model else tuple(_as_critic(other) for other in self.models[1:])
        return _digested(
            Opening(
                digest="",
                turns=1,
                protocol=model.protocol,
                model=model.wire_name,
                system=system,
                settings=settings,
                fallbacks=others,
            )
        )

    def _settings(self, model: Model) -> dict[str, Any]:
        """The author's settings, and the vendor's own for the form of the answer; the author's win."""
        settings = model.sent(self.effort)
        ours = self.form.settings(model.protocol) if self.form and not self.tools else {}
        for key, value in ours.items():
            given = settings.get(key, {})
            settings[key] = {**value, **given} if isinstance(given, dict) else given
        return settings


def _as_critic(model: Model) -> Fallback:
    return Fallback(
        protocol=model.protocol.removeprefix(TEXT_MODE), model=model.wire_name, settings=dict(model.sent(None))
    )


def _digested(opening: Opening) -> Opening:
    return opening.model_copy(update={"digest": of_record(opening.model_dump(mode="json", exclude={"digest"}))})


def _form(name: str, answer: Any) -> AnswerForm | None:
    try:
        return None if answer is None else answer_form(answer)
    except AnswerFormError as error:
        raise AgentError(f"agent {name!r}: {error}") from None


def _chain(agent: Agent) -> tuple[Model, ...]:
    """The agent's models, checked.

    Raises:
        AgentError: one cannot be asked as declared, or not in turn with the others.
    """
    if isinstance(agent.fallbacks, str):
        raise AgentError(f"fallbacks={agent.fallbacks!r}: give a list of models.")
    if not isinstance(agent.parallel, bool):
        raise AgentError(f"parallel={agent.parallel!r}: give True or False.")
    others = (each if isinstance(each, Model) else Model(each) for each in agent.fallbacks)
    models = (Model(agent.model, agent.settings), *others)
    if twice := [name for name, times in Counter(model.name for model in models).items() if times > 1]:
        raise AgentError(f"model {twice[0]!r} is to take over from itself: name it once.")
    for model in models:
        model.sent(agent.effort)
        if len(models) > 1 and model.thinks_first:
            raise AgentError(
                f"model {model.name!r} thinks before every call (thinking: enabled), and would refuse a transcript in "
                "which another model called. Beside fallbacks use {'type': 'adaptive'}, or effort."
            )
    return models


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


def scoped(agent: Agent, only: Collection[str]) -> Agent:
    """The agent with these of its tools alone, in its own order; `read_more` goes along, which reads the run itself.

    Raises:
        AgentError: it has no such tool; the text lists those it has.
    """
    if unknown := [name for name in only if name not in agent.toolbox]:
        known = ", ".join(agent.toolbox) or "none"
        raise AgentError(f"agent {agent.name!r} has no tool {unknown[0]!r}; it has: {known}.")
    return replace(agent, tools=[each for name, each in agent.toolbox.items() if name in only or is_read_more(each)])


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
