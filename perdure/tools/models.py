"""Which models an agent asks, and with what settings. What is surely wrong is refused when the agent is declared.

Settings go to the vendor by the vendor's own names, unread: it may take more than is known here. But a name that
belongs to another vendor, one that perdure writes itself, and a value that no vendor takes would only fail in a run,
hours later, one turn after it was opened. Of what a model may be asked for in general there are two words of ours,
`effort` and `parallel`, which mean the same everywhere; each vendor's spelling of them stands here and in its provider.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from perdure.core.labels import TEXT_MODE
from perdure.core.models import OWN_KEYS

PROTOCOLS: Final = {"anthropic": "anthropic", "openai": "openai-responses", "openai-chat": "openai-chat"}
Effort = Literal["low", "medium", "high"]

_NO_SAMPLING = "which Anthropic's models take no more: leave it out, and say in the instructions what you want of them"
_EFFORT = "which is Agent(effort='low'), 'medium' or 'high' for every vendor"
_PARALLEL = "which is Agent(parallel=False) for every vendor"
_CALLED = "which is called {!r} there"
_MISTAKEN: Final[dict[str, dict[str, str]]] = {
    "anthropic": {
        **dict.fromkeys(("temperature", "top_p", "top_k"), _NO_SAMPLING),
        **dict.fromkeys(("max_output_tokens", "max_completion_tokens"), _CALLED.format("max_tokens")),
        **dict.fromkeys(("reasoning", "reasoning_effort"), _EFFORT),
        "stop": _CALLED.format("stop_sequences"),
        "parallel_tool_calls": _PARALLEL,
    },
    "openai-responses": {
        **dict.fromkeys(("max_tokens", "max_completion_tokens"), _CALLED.format("max_output_tokens")),
        **dict.fromkeys(("reasoning_effort", "output_config", "thinking"), _EFFORT),
        **dict.fromkeys(("stop", "stop_sequences"), "which the Responses API has none of"),
        "response_format": _CALLED.format("text"),
        "parallel_tool_calls": _PARALLEL,
    },
    "openai-chat": {
        "max_output_tokens": _CALLED.format("max_completion_tokens") + ", or 'max_tokens' by many servers",
        "stop_sequences": _CALLED.format("stop"),
        "output_config": _EFFORT,
        "parallel_tool_calls": _PARALLEL,
    },
}
_LIMITS: Final = ("max_tokens", "max_output_tokens", "max_completion_tokens")
_RANGES: Final = {"temperature": 2, "top_p": 1}
_THINKING: Final = ("adaptive", "enabled", "disabled", "between_tools")
_LEAST_THINKING: Final = 1_024  # tokens; Anthropic's documentation of extended thinking
_ANTHROPIC_MOST: Final = 16_000  # tokens of output, unless the settings say otherwise


class AgentError(Exception):
    """An agent that cannot be run as declared: what, why, what to do."""


@dataclass(frozen=True)
class Model:
    """A model and what its vendor is to be told: `Model("openai:gpt-6-luna", settings={"max_output_tokens": 4096})`.

    Args:
        name: "anthropic:NAME", "openai:NAME" (Responses) or "openai-chat:NAME", alone or behind "text+".
        settings: by the vendor's own names; values are what JSON holds.

    Raises:
        AgentError: nobody has such a model, or its vendor takes no such setting.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        protocol, _ = _split(self.name)
        try:
            settings = json.loads(json.dumps(dict(self.settings), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AgentError(f"model {self.name!r}: settings are sent as JSON, and these are not ({error}).") from None
        if wrong := _mistake(protocol.removeprefix(TEXT_MODE), settings):
            raise AgentError(f"model {self.name!r}: {wrong}.")
        object.__setattr__(self, "settings", MappingProxyType(settings))

    @property
    def protocol(self) -> str:
        return _split(self.name)[0]

    @property
    def wire_name(self) -> str:
        """The vendor's own name for it."""
        return _split(self.name)[1]

    def sent(self, effort: Effort | None) -> dict[str, Any]:
        """The settings as the vendor takes them, with the effort in its own spelling.

        Raises:
            AgentError: there is no such effort, or the settings name one as well.
        """
        settings = dict(self.settings)
        if effort is None:
            return settings
        if effort not in get_args(Effort):
            raise AgentError(f"effort {effort!r}: give 'low', 'medium' or 'high'; what else a vendor has, in settings.")
        key, inner = _SPELT[self.protocol.removeprefix(TEXT_MODE)]
        held = settings.get(key)
        if held is not None and (not inner or not isinstance(held, dict) or inner in held):
            raise AgentError(f"model {self.name!r}: effort={effort!r} and the setting {key!r} say the same. Drop one.")
        settings[key] = {**(held or {}), inner: effort} if inner else effort
        return settings

    @property
    def thinks_first(self) -> bool:
        """Whether the vendor demands its own thinking before every call of the transcript's end."""
        thinking = self.settings.get("thinking")
        return self.protocol == "anthropic" and isinstance(thinking, dict) and thinking.get("type") == "enabled"


_SPELT: Final = {
    "anthropic": ("output_config", "effort"),
    "openai-responses": ("reasoning", "effort"),
    "openai-chat": ("reasoning_effort", ""),
}


def _split(name: str) -> tuple[str, str]:
    """Protocol, and the vendor's own name."""
    prefix, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    mode = TEXT_MODE if prefix.startswith(TEXT_MODE) else ""
    protocol = PROTOCOLS.get(prefix.removeprefix(mode))
    if protocol is None or not colon or not rest.strip():
        known = ", ".join(f"'{each}:NAME'" for each in PROTOCOLS)
        raise AgentError(
            f"model {name!r} does not say whose it is. Write one of {known}; for a model that cannot call tools, with "
            f"{TEXT_MODE!r} before it."
        )
    return mode + protocol, rest.strip()


def _mistake(protocol: str, settings: Mapping[str, Any]) -> str:
    """What is wrong with these settings, if anything surely is."""
    for key, value in settings.items():
        if key in OWN_KEYS[protocol]:
            return f"the settings hold {key!r}, which perdure sets itself. Remove it"
        if value is not None and (advice := _MISTAKEN[protocol].get(key)):
            return f"the settings hold {key!r}, {advice}"
        if (
            key in _LIMITS
            and value is not None
            and (isinstance(value, bool) or not isinstance(value, int) or value < 1)
        ):
            return f"{key} is {value!r}: give a whole number of tokens, 1 or more"
        if key in _RANGES and value is not None and not _within(value, _RANGES[key]):
            return f"{key} is {value!r}: give a number from 0 to {_RANGES[key]}"
    return _anthropic_mistake(settings) if protocol == "anthropic" else ""


def _within(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _anthropic_mistake(settings: Mapping[str, Any]) -> str:
    most = settings.get("max_tokens", _ANTHROPIC_MOST)
    if most is None:
        return f"max_tokens is None, and Anthropic's API demands it. Leave it out for {_ANTHROPIC_MOST:,}"
    thinking = settings.get("thinking")
    if thinking is None:
        return ""
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in _THINKING:
        return f"thinking is {thinking!r}: give {{'type': ...}} with one of {', '.join(map(repr, _THINKING))}"
    budget = thinking.get("budget_tokens")
    if kind == "enabled" and not (isinstance(budget, int) and _LEAST_THINKING <= budget < most):
        return (
            f"thinking has budget_tokens={budget!r}: give at least {_LEAST_THINKING:,}, and less than max_tokens "
            f"({most:,})"
        )
    return ""
