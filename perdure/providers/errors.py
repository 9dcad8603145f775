"""Every way in which a model call fails, in one table: what follows, and what a person should do.

`retry`: the same request may succeed later (Temporal retries, after `retry_after` if the vendor said so). `person`:
it fails until someone mends something, and the message says what; or the vendor asks for a wait of more than ten
minutes, which nobody would see. `compact`: the transcript has grown too long.

A vendor names a failure by HTTP status, and more exactly by `type` or `code` in the body, also in bodies that came
with a 200. Sources of the rules: the SDKs' own retry rules (`x-should-retry`, 408, 409, 429, 5xx) and error types.
Messages end up in histories and on screens: bounded, and free of keys.

What is retried is an `outage` of the vendor's; so is what only its account, key, limits or model's name can mend. A
request that was refused for what it holds, or for its length, is none: another vendor would only hide that.
"""

import email.utils
import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from perdure.providers.jsontext import loaded, text_of
from perdure.providers.protocol import Kind, ModelError

_BOUND: Final = 1000  # characters of a whole message
_SAID_BOUND: Final = 600  # of which the vendor's own words: what to do comes after them
_LONGEST_WAIT: Final = 600.0  # seconds that a run stands still on a vendor's word alone; a person sees what is longer
_FOREVER: Final = 10 * 365 * 86_400.0  # seconds; a later time is not told apart


@dataclass(frozen=True)
class Vendor:
    """Who is asked, and the environment variables that say where and as whom."""

    name: str
    keys: tuple[str, ...]
    url: str


@dataclass(frozen=True)
class Failure:
    """What a vendor said of a failure, wherever it said it. `status` 200: the body alone carries the failure."""

    status: int
    type: str = ""
    code: str = ""
    message: str = ""
    request_id: str = ""


# What a type or code means, as the status that says the same. Wins over the status that came with it.
_MEANS: Final[dict[str, int]] = {
    # Anthropic: https://docs.anthropic.com/en/api/errors
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "organization_on_hold": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "contract_spend_limit_reached": 402,
    "enforced_spend_limit_reached": 402,
    "linked_organization_spend_limit_reached": 402,
    # OpenAI: https://platform.openai.com/docs/guides/error-codes, and `error.code` of a failed response
    "invalid_api_key": 401,
    "insufficient_quota": 402,
    "billing_hard_limit_reached": 402,
    "billing_not_active": 402,
    "model_not_found": 404,
    "context_length_exceeded": 413,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "vector_store_timeout": 504,
    "invalid_prompt": 400,
    "data_residency_mismatch": 400,
    # llama.cpp
    "exceed_context_size_error": 413,
}
_ACCOUNT: Final = (401, 402, 403, 404, 429)  # of those that a person mends: it is us there, not the request
_VAGUE: Final = frozenset({"invalid_request_error", "api_error", "server_error"})  # the status says more than these
_TOO_LONG: Final = re.compile(  # said in words only: Anthropic, vLLM, Ollama, llama.cpp
    r"prompt is too long|context (length|window|size|limit)|maximum context", re.IGNORECASE
)
_EMPTY: Final = re.compile(r"credit balance is too low", re.IGNORECASE)  # Anthropic says so with a plain 400
_SECRETS: Final = re.compile(
    r"\b(?:sk|pk|rk)-[\w*.-]{6,}|(?<=bearer)\s+[^\s'\",)]+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)", re.IGNORECASE
)


def classed(failure: Failure, vendor: Vendor, headers: Mapping[str, str] | None = None) -> ModelError:
    """A failure that the vendor reported, in a status or in a body."""
    headers = headers or {}
    status = _meaning(failure)
    kind = _kind(status, failure.message, headers.get("x-should-retry", ""))
    said = " ".join(part for part in (str(failure.status), failure.code or failure.type) if part)
    text = f"{vendor.name} answered {said}: {_bounded(failure.message or 'no message', _SAID_BOUND)}"
    if failure.request_id:
        text += f" (request id {failure.request_id[:100]})"
    details = {
        "status": failure.status,
        "type": failure.type[:100],
        "code": failure.code[:100],
        "request_id": failure.request_id[:100],
    }
    details = {key: value for key, value in details.items() if value}
    after = retry_after(headers) if kind == "retry" else None
    if after is not None and after > _LONGEST_WAIT:
        return _error("person", f"{text}. {_later(after, vendor)}", vendor, None, details, outage=True)
    outage = kind == "person" and (status in _ACCOUNT or status >= 500)
    return _error(kind, f"{text}. {_advice(kind, status, vendor)}", vendor, after, details, outage=outage)


def caught(raised: Exception, vendor: Vendor) -> ModelError | None:
    """What the SDK or its transport raised, classed; None if it is none of theirs, and so a bug of ours."""
    response = getattr(raised, "response", None)
    if response is not None and hasattr(raised, "status_code"):
        return classed(_told(raised, response), vendor, response.headers)
    names = _ancestry(raised)
    if names & {"UnicodeError", "LocalProtocolError", "UnsupportedProtocol", "InvalidURL"}:
        why = type(raised.__cause__ or raised).__name__  # not its text: that may be the key
        where = " and ".join((*vendor.keys, vendor.url))
        advice = f"Look for stray characters in {where} where the worker runs."
        return _error("person", f"No request could be made to {vendor.name} ({why}). {advice}", vendor, outage=True)
    if names & {"APIConnectionError", "HTTPError", "StreamError", "OSError", "JSONDecodeError"}:
        what = f"The connection to {vendor.name} failed: {_transport(raised)}."
        return _error("retry", f"{what} Asked again later; {vendor.url} says where.", vendor)
    if names & {"AnthropicError", "OpenAIError"}:
        return no_key(vendor, str(raised))
    return None


def no_key(vendor: Vendor, why: str = "no key is configured") -> ModelError:
    """The worker has nothing to authenticate with."""
    advice = f"Set {vendor.keys[0]} where the worker runs, restart it, then answer retry"
    what = f"No call to {vendor.name} was made: {_bounded(why, _SAID_BOUND)}. {advice}."
    return _error("person", what, vendor, outage=True)


def unreadable(vendor: Vendor, why: str, answer: bytes = b"") -> ModelError:
    """A 2xx answer that is no turn: cut, not JSON, or not what the vendor documents."""
    begins = f" It begins {_bounded(answer[:160].decode('utf-8', errors='replace'), 120)!r}." if answer else ""
    return _error("retry", f"{vendor.name} answered 200 with no whole turn: {why}.{begins} Asked again.", vendor)


def parsed(answer: bytes, vendor: Vendor) -> dict[str, Any]:
    """The JSON object of a 2xx answer.

    Raises:
        ModelError: it is something else.
    """
    try:
        said = loaded(answer)
    except ValueError as error:
        raise unreadable(vendor, f"not JSON ({error})", answer) from None
    if not isinstance(said, dict):
        raise unreadable(vendor, "not a JSON object", answer)
    return said


def too_long(vendor: Vendor) -> ModelError:
    """The model ran into the end of its context window."""
    return _error("compact", f"{vendor.name} stopped at the end of the context window. Shorten the transcript.", vendor)


def not_a_setting(vendor: Vendor, keys: frozenset[str]) -> ModelError:
    """Settings that would break the request: perdure writes these keys itself."""
    named = ", ".join(repr(key) for key in sorted(keys))
    what = f"The agent's settings hold {named}, which perdure sets itself."
    return _error("person", f"{what} Remove them, stop this run, and start it again.", vendor)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: `retry-after-ms`, or `retry-after` (seconds or an HTTP date). None if the vendor is silent."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(wait):
            return max(wait, 0.0)
    try:
        date = email.utils.parsedate_tz(headers.get("retry-after", ""))
        return max(email.utils.mktime_tz(date) - time.time(), 0.0) if date else None
    except (ValueError, OverflowError):  # a date that is on no calendar
        return None


def redacted(text: str, vendor: Vendor) -> str:
    """The text without the configured keys, and without anything that looks like one."""
    for name in vendor.keys:
        secret = os.environ.get(name, "").strip()
        if len(secret) >= 6:  # shorter ones are placeholders for servers without keys, and parts of common words
            text = text.replace(secret, "[redacted]")
    return _SECRETS.sub(" [redacted]", text)


def _kind(status: int, message: str, should_retry: str) -> Kind:
    if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(message)):
        return "compact"  # before x-should-retry: the same request never fits
    if should_retry in ("true", "false"):
        return "retry" if should_retry == "true" else "person"
    return "retry" if status in (408, 409, 429) or status >= 500 or status < 300 else "person"


def _later(after: float, vendor: Vendor) -> str:
    until = datetime.now(UTC) + timedelta(seconds=min(after, _FOREVER))
    when = until.isoformat(sep=" ", timespec="minutes")
    return f"{vendor.name} asks to wait until {when}; answer retry then, or sooner if its limits are raised."


def _meaning(failure: Failure) -> int:
    for name in (failure.code, failure.type):
        if name.endswith("_spend_limit_reached"):
            return 402
        if name in _MEANS and (name not in _VAGUE or failure.status < 300):
            return 402 if _MEANS[name] == 400 and _EMPTY.search(failure.message) else _MEANS[name]
    return 402 if failure.status == 400 and _EMPTY.search(failure.message) else failure.status


def _advice(kind: Kind, status: int, vendor: Vendor) -> str:
    if kind == "retry":
        return "Asked again later."
    if kind == "compact":
        return "The transcript is too long for the model: shorten it."
    key = vendor.keys[0]
    match status:
        case 401:
            return f"Set a valid {key} where the worker runs, restart it, then answer retry."
        case 402 | 429:
            return f"Add credit or raise the limit of the account behind {key} at {vendor.name}, then retry."
        case 403:
            return f"Let the account behind {key} use this model, or set another {key}; then answer retry."
        case 404:
            return (
                "A run keeps the model it was opened with: if that name is wrong, mend it in the agent, answer stop, "
                f"and start another run under a new id. If {vendor.url} is wrong, mend that, then answer retry."
            )
        case _ if status >= 500 or status < 300:
            return f"{vendor.name} asks not to be asked again by itself: retry once it works, or stop the run."
        case _:
            return "The request itself was refused: check the agent's settings and tools, then retry or stop the run."


def _told(raised: Any, response: Any) -> Failure:
    """What an SDK's status error says. Anthropic's body is `{"error": {...}}`, OpenAI's SDK hands over the inside."""
    body = raised.body if isinstance(raised.body, dict) else {}
    inside = body.get("error")
    inside = inside if isinstance(inside, dict) else {**body, "message": inside or body.get("message")}
    more = inside.get("details") or {}
    headers = response.headers
    return Failure(
        status=raised.status_code,
        type=text_of(inside.get("type")),
        code=text_of(inside.get("code")) or (text_of(more.get("error_code")) if isinstance(more, dict) else ""),
        message=text_of(inside.get("message")) or _plain(raised.body),
        request_id=headers.get("request-id") or headers.get("x-request-id") or "",
    )


def _plain(body: Any) -> str:
    """The words of a body that is not the vendor's JSON: a proxy's HTML page, mostly."""
    return re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", text_of(body), flags=re.DOTALL | re.IGNORECASE)


def _ancestry(raised: BaseException) -> set[str]:
    """Names of the exception's and its causes' classes: of two SDKs, neither of which may be imported for this."""
    names: set[str] = set()
    link: BaseException | None = raised
    while link is not None:
        names |= {kind.__name__ for kind in type(link).__mro__}
        link = link.__cause__
    return names


def _transport(raised: BaseException) -> str:
    """The innermost cause: SDKs say only 'Connection error.'"""
    while raised.__cause__ is not None:
        raised = raised.__cause__
    return f"{type(raised).__name__} {_bounded(str(raised), _SAID_BOUND)}".strip()


def _bounded(text: str, bound: int) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= bound else text[: bound - 3] + "..."


def _error(
    kind: Kind,
    message: str,
    vendor: Vendor,
    after: float | None = None,
    details: Mapping[str, Any] | None = None,
    *,
    outage: bool = False,
) -> ModelError:
    return ModelError(kind, redacted(message, vendor)[:_BOUND], after, details, outage or kind == "retry")
