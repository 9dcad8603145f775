"""What OpenAI's two protocols share: the SDK's client, failures in a 200, and errors without a flag."""

from typing import Any, Final

from perdure.core.contracts import AdmittedCall, Call
from perdure.core.transcript import Result
from perdure.providers.clients import TIMEOUT, Client, Clients, kept_alive
from perdure.providers.errors import Failure, Vendor
from perdure.providers.jsontext import dumped, object_in, text_of

VENDOR: Final = Vendor("OpenAI", ("OPENAI_API_KEY",), "OPENAI_BASE_URL")


def clients() -> Clients:
    return Clients(VENDOR, _client)


def _client() -> Client:
    import openai  # importing takes long, and a worker may never need this vendor

    sending = openai.DefaultAsyncHttpxClient(**kept_alive())
    return openai.AsyncOpenAI(max_retries=0, timeout=TIMEOUT, http_client=sending)


def observed(result: Result) -> str:
    """The text of a result. These protocols have no flag for errors, so the text must say it."""
    plain = not result.is_error or result.text.lstrip().lower().startswith("error")
    return result.text if plain else f"error: {result.text}"


def arguments_of(given: Any) -> str:
    """Arguments as JSON text. Some servers send the object itself, or null."""
    return given if isinstance(given, str) else "" if given is None else dumped(given).decode()


def admitted(function: dict[str, Any], call: Call | None) -> dict[str, Any]:
    """A call's function under the name it was admitted with, with an object for arguments; itself if it has both."""
    name = call.name if call is not None else text_of(function.get("name"))
    arguments = arguments_of(function.get("arguments"))
    arguments = arguments if object_in(arguments) is not None else "{}"
    if (function.get("name"), function.get("arguments")) == (name, arguments):
        return function
    return {**function, "name": name, "arguments": arguments}


def retold(call: AdmittedCall) -> dict[str, str]:
    """The function of a call that is retold, with an object for arguments."""
    return {"name": call.name, "arguments": call.arguments if object_in(call.arguments) is not None else "{}"}


def failure_in(error: Any) -> Failure:
    """A failure that a body with status 200 carries. Routers and llama.cpp put the status it deserves in `code`."""
    told = error if isinstance(error, dict) else {"message": error}
    code = told.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 200
    return Failure(status, type=text_of(told.get("type")), code=text_of(code), message=text_of(told.get("message")))
