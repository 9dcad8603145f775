"""Digests: of bytes that were shown, of records, of a growing transcript; and the idempotency key made from them."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def of_bytes(text: str) -> str:
    """SHA-256 (hex) of a text's UTF-8 bytes: what an operator approves."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_record(content: Any) -> str:
    """Digest (32 hex digits) of recorded JSON, whatever order a data converter gave its keys."""
    return of_canonical(as_canonical(content))


def as_canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def of_canonical(canonical: bytes) -> str:
    return hashlib.sha256(canonical).hexdigest()[:32]


def beginning(task: str, files: Iterable[str]) -> str:
    """What the digest of a transcript begins with: the task, and the digests of the files that it is about."""
    return "\n".join((task, *files))


def of_transcript(before: str, task: str, digests: Iterable[str]) -> str:
    """The digest (32 hex digits) of the transcript `before`, extended. It begins with the task's own (`beginning`).

    It is computed over what is recorded, never over messages as a provider takes them, and costs what the extension
    costs, however long the transcript.
    """
    material = "\n".join((before or of_bytes(task)[:32], *digests))
    return hashlib.sha256(material.encode()).hexdigest()[:32]


def idempotency_key(root: str, turn: int, call: int, tool: str, arguments_digest: str) -> str:
    """One key per approved call: stable over retries, resets and roll-over; another for other bytes.

    Args:
        root: the run's first segment id (of a run that works for another one's call: that call's key).
        arguments_digest: `of_bytes` of the argument bytes that are executed.
    """
    material = "\n".join((root, str(turn), str(call), tool, arguments_digest))
    return "perdure-" + hashlib.sha256(material.encode()).hexdigest()[:40]


def delegated_id(agent: str, run_id: str, turn: int, call: int) -> str:
    """The id of the run in which `agent` does call `call` of turn `turn` of the run `run_id`.

    It does not begin like that of the other run, so that this one can still be named by how it begins.
    """
    material = "\n".join((run_id, str(turn), str(call)))
    return f"{agent}-{hashlib.sha256(material.encode()).hexdigest()[:12]}"
