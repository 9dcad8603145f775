"""How OpenAI words its errors: shared by both of its protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from perdure.testing.known import misshaped
from perdure.testing.wire import RefusalError

_KINDS: Final = {
    401: "invalid_request_error", 403: "invalid_request_error", 404: "invalid_request_error", 429: "requests",
}  # fmt: skip
_CODES: Final = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def bearer(headers: Mapping[str, str]) -> str:
    """The key of an Authorization header. Raises RefusalError."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise RefusalError("You didn't provide an API key.", status=401, code="invalid_api_key")
    return key


def refuse_shape(shape: TypeAdapter[Any], body: dict[str, Any], noise: frozenset[str], within: str) -> None:
    """Raises RefusalError, in the vendor's words, at the first place that does not have the shape.

    `within`: the key of the messages.
    """
    wrong = misshaped(shape, body, noise, within)
    if wrong is None:
        return
    path, kind, message = wrong
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    match kind:
        case "extra_forbidden":
            raise RefusalError(f"Unknown parameter: '{where}'.", param=where, code="unknown_parameter")
        case "missing":
            message = f"Missing required parameter: '{where}'."
            raise RefusalError(message, param=where, code="missing_required_parameter")
        case "too_short":
            raise RefusalError(f"Invalid '{where}': empty array. Expected an array with minimum length 1.", param=where,
                               code="empty_array")  # fmt: skip
        case _:
            raise RefusalError(f"Invalid value for '{where}': {message}.", param=where, code="invalid_value")


def error_body(refusal: RefusalError) -> dict[str, Any]:
    """A scripted error's `kind` is the vendor's code, as in `insufficient_quota`; its type if it ends in _error."""
    kind, code = refusal.kind, refusal.code
    if kind and not kind.endswith("_error"):
        kind, code = (kind if kind == "insufficient_quota" else None), kind
    default = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": refusal.message,
            "type": kind or _KINDS.get(refusal.status, default),
            "param": refusal.param,
            "code": code or _CODES.get(refusal.status),
        }
    }
