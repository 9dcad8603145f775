"""A run's models, in the order in which they are asked: the first one, and those that take over when it is out.

Their number in that order, from 0, is a model's *place*. A turn is recorded with the place that answered it.
"""

from typing import Final

from perdure.core.contracts import Opening

# What perdure itself writes into a request, by protocol: no author's setting may.
OWN_KEYS: Final[dict[str, frozenset[str]]] = {
    "anthropic": frozenset({"messages", "model", "stream", "system", "tool_choice", "tools"}),
    "openai-responses": frozenset({
        "background", "conversation", "input", "instructions", "model", "previous_response_id", "store", "stream",
        "tool_choice", "tools",
    }),
    "openai-chat": frozenset({"messages", "model", "n", "store", "stream", "tool_choice", "tools"}),
}  # fmt: skip


def at_place(opening: Opening, place: int) -> Opening:
    """What the model at `place` is offered. A place that the opening does not hold is the first one's."""
    if not 0 < place <= len(opening.fallbacks):
        return opening
    other = opening.fallbacks[place - 1]
    return opening.model_copy(
        update={
            "protocol": other.protocol,
            "model": other.model,
            "settings": other.settings,
            "system": opening.system if other.system is None else other.system,
            "tools": opening.tools if other.tools is None else other.tools,
            "fallbacks": (),
        }
    )


def names(opening: Opening) -> tuple[str, ...]:
    """Every model of the run, by place: "anthropic claude-opus-5-5"."""
    others = (f"{each.protocol} {each.model}" for each in opening.fallbacks)
    return (f"{opening.protocol} {opening.model}", *others)
