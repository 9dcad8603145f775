"""`make trial-retail`: all cases, a few at a time, with the worker SIGKILLed every few seconds.

Progress goes to standard error; to standard output a table, and last one JSON line. Exit code 0 if every case gave
what its reference calls give and no effect happened twice, 1 if not, 2 if the trial itself could not be held.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from trials.retail.cases import EXPECTED, Case, cases, totals
from trials.retail.ledger import Audit, audit
from trials.retail.play import Played, play, script
from trials.retail.source import fresh_toolkit, tasks
from trials.retail.stage import Stage, StageError, staged

_progress = Console(stderr=True, highlight=False)


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trials.retail", description=__doc__)
    parser.add_argument("--at-once", type=int, default=8, help="runs in flight")
    parser.add_argument(
        "--lives", type=float, default=3.0, help="seconds from a worker's first deed to its SIGKILL; 0: no end"
    )
    parser.add_argument("--linger", type=float, default=0.25, help="seconds between a deed at the shop and its answer")
    parser.add_argument("--within", type=float, default=1200.0, help="seconds for the whole; then it has failed")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="these tasks alone, by id")
    return parser.parse_args(given)


async def hold(given: argparse.Namespace, folder: Path) -> int:
    """The whole trial. Returns the exit code."""
    _progress.print("executing the reference calls directly ...")
    due = cases(tasks(), fresh_toolkit)
    if totals(due) != EXPECTED:
        raise StageError(f"this is not the benchmark that the trial knows: {totals(due)} instead of {EXPECTED}")
    due = [case for case in due if not given.only or case.task_id in given.only]
    async with staged(folder, script(due), lives=given.lives, linger=given.linger) as stage:
        played = await _all_played(due, stage, given)
        found = audit(stage.journal.read_text(encoding="utf-8").splitlines())
        return report(due, played, found, stage.worker.sigkills, refused_requests=len(stage.model.violations))


async def _all_played(due: Sequence[Case], stage: Stage, given: argparse.Namespace) -> list[Played]:
    """What was played within the time; a case that raised or did not end is missing from it, and was told of."""
    places = asyncio.Semaphore(given.at_once)
    played: list[Played] = []

    async def one(case: Case) -> None:
        async with places:
            try:
                played.append(await play(case, stage.runs, stage.shop))
            except Exception as error:
                _progress.print(f"task {case.task_id}: {type(error).__name__}: {error}", markup=False)
            else:
                _tell(played[-1], len(played), len(due), stage.worker.sigkills)

    async def everything() -> None:
        await asyncio.gather(*map(one, due))

    worker, playing = asyncio.create_task(stage.worker.serve()), asyncio.create_task(everything())
    try:
        await asyncio.wait((worker, playing), timeout=given.within, return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            worker.result()  # it never ends but by a StageError
        if not playing.done():
            _progress.print(f"not all cases ended within {given.within:.0f} s")
    finally:
        for task in (playing, worker):
            task.cancel()
        await asyncio.gather(playing, worker, return_exceptions=True)
    return played


def _tell(one: Played, done: int, of: int, sigkills: int) -> None:
    verdict = "as the reference" if one.passed else "; ".join(one.faults)
    _progress.print(f"{done}/{of} task {one.case.task_id}: {verdict} ({sigkills} SIGKILLs so far)", markup=False)


def report(due: Sequence[Case], played: Sequence[Played], found: Audit, sigkills: int, *, refused_requests: int) -> int:
    """Print the table and the JSON line. Returns the exit code."""
    table = Table("task", "calls", "errors", "writes", "attempts", "decisions", "result", title="Retail desk")
    for one in sorted(played, key=lambda each: [each.case.task_id.zfill(4)]):
        errors = sum(each.error is not None for each in one.case.calls)
        decisions = sum(one.decisions.values())
        cells = (one.case.task_id, one.calls, errors, one.writes, one.attempts, decisions)
        table.add_row(*map(str, cells), "passed" if one.passed else "; ".join(one.faults))
    Console(width=120).print(table)
    line = {
        "tasks": len(due),
        "passed": sum(one.passed for one in played),
        "calls": sum(one.calls for one in played),
        "writes": sum(one.writes for one in played),
        "sigkills": sigkills,
        "duplicates_refused": found.duplicates_refused,
        "effects_twice": found.effects_twice,
    }
    _progress.print(f"{found}; {refused_requests} requests refused by the model's server")
    print(json.dumps(line), flush=True)
    return 0 if line["passed"] == len(due) and not (found.effects_twice or found.misuses or refused_requests) else 1


def main() -> int:
    given = _arguments(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="retail-trial-"))
    code = 2
    try:
        code = asyncio.run(_interruptible(given, folder))
    except StageError as error:
        _progress.print(f"trial-retail: {error}", markup=False)
    finally:
        if code == 0:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            _progress.print(f"logs, journal and histories: {folder}", markup=False)
    return code


async def _interruptible(given: argparse.Namespace, folder: Path) -> int:
    """Ctrl-C and SIGTERM cancel the trial, which ends its processes on the way out."""
    trial = asyncio.ensure_future(hold(given, folder))
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, trial.cancel)
    try:
        return await trial
    except asyncio.CancelledError:
        return 130


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # an interpreter that used temporalio may abort while it exits, after all work is done
