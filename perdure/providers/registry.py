"""Which provider speaks which protocol. A protocol's module is imported when it is first asked for."""

from functools import cache

from perdure.providers.protocol import Provider

PROTOCOLS = ("anthropic", "openai-responses", "openai-chat")


@cache
def provider(protocol: str) -> Provider:
    """The provider for `Opening.protocol`, one per process.

    Raises:
        ValueError: nobody speaks this protocol.
    """
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
            raise ValueError(f"no provider speaks {protocol!r}: use one of {', '.join(PROTOCOLS)}")
