"""Grants: what an operator decided, sealed so that the door which acts can check it without asking anyone.

The seal is an HMAC-SHA256 over the grant, with a key that the workers of a task queue share (PERDURE_GRANT_KEY; on one
machine, a file in the state folder). It binds run, call (by idempotency key) and argument bytes, and it expires.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from perdure.core.contracts import Grant

LIFETIME = timedelta(days=7)  # a call runs right after its decision, unless no worker was up
SHORTEST = 32  # bytes of a key


def sealed(grant: Grant, key: bytes) -> Grant:
    return grant.model_copy(update={"seal": _seal(grant, key)})


def refusal_of(grant: Grant, key: bytes, *, run_id: str, call_key: str, digest: str) -> str:
    """Why `grant` does not open the door for this call of this run with these bytes; "" if it does."""
    if not hmac.compare_digest(grant.seal, _seal(grant, key)):
        return (
            "the grant it carries was not sealed by this worker's key (is PERDURE_GRANT_KEY the same on all workers?)"
        )
    if (grant.run_id, grant.key, grant.digest) != (run_id, call_key, digest):
        return "the grant it carries is for another call"
    if datetime.now(UTC) >= grant.until:
        return f"the grant it carries expired at {grant.until.isoformat(timespec='seconds')}"
    return ""


def _seal(grant: Grant, key: bytes) -> str:
    return hmac.new(key, grant.model_dump_json(exclude={"seal"}).encode(), hashlib.sha256).hexdigest()


def grant_key(state_folder: Path) -> bytes:
    """The workers' key: PERDURE_GRANT_KEY, else the one in the state folder, made at first use (mode 0600).

    Raises:
        ValueError: it is shorter than 32 bytes; the text says what to do.
    """
    if given := os.environ.get("PERDURE_GRANT_KEY", ""):
        if len(given.encode()) < SHORTEST:
            raise ValueError(
                f"PERDURE_GRANT_KEY is too short: {SHORTEST} characters or more. Make one with: openssl rand -hex 32"
            )
        return given.encode()
    path = state_folder / "grant.key"
    if not path.exists():
        _make(path)
    key = path.read_bytes()
    if len(key) < SHORTEST:
        raise ValueError(
            f"{str(path)!r} holds {len(key)} bytes, which is no key ({SHORTEST} or more). Remove the file, and the "
            "next worker makes one (what was granted and has not run asks again), or set PERDURE_GRANT_KEY"
        )
    return key


def _make(path: Path) -> None:
    """A key in its place at once and whole, whoever else makes or reads one, and whenever this process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix="grant.", dir=path.parent)  # mode 0600
    try:
        with open(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):  # another worker was faster: its key is everybody's
            os.link(draft, path)
    finally:
        os.unlink(draft)
