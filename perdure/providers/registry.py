"""Which provider speaks which protocol. A protocol's module is imported when it is first asked for."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from perdure.core.labels import TEXT_MODE
from perdure.providers.protocol import Provider

PROTOCOLS = ("anthropic", "openai-responses", "openai-chat")

_VENDORS = {"anthropic": "anthropic", "openai-responses": "openai", "openai-chat": "openai"}  # named as their SDKs


def vendor(protocol: str) -> str:
    """Whose account a protocol is spoken with."""
    return _VENDORS[protocol.removeprefix(TEXT_MODE)]


def warm(protocols: Iterable[str]) -> None:
    """Import the SDKs that these protocols need, and prices: seconds, on a small machine, that no turn should take."""
    for protocol in protocols:
        import_module(vendor(protocol))
    import_module("genai_prices.data")


@cache
def provider(protocol: str) -> Provider:
    """The provider for `Opening.protocol`, one per process.

    Raises:
        ValueError: nobody speaks this protocol.
    """
    if protocol.startswith(TEXT_MODE):
        from perdure.providers.text import TextMode

        return TextMode(provider(protocol.removeprefix(TEXT_MODE)))
    match protocol:
        case "anthropic":
            from perdure.providers.anthropic import Anthropic

            return Anthropic()
        case "openai-responses":
            from perdure.providers.openai_responses import OpenAIResponses

            return OpenAIResponses()
        case "openai-chat":
            from perdure.providers.openai_chat import OpenAIChat

            return OpenAIChat()
        case _:
            raise ValueError(
                f"no provider speaks {protocol!r}: use one of {', '.join(PROTOCOLS)}, alone or behind {TEXT_MODE!r}"
            )
