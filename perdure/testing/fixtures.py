"""A pytest plugin for agents' tests. Not loaded by itself: `pytest_plugins = ["perdure.testing.fixtures"]`.

It holds a fixture, and the end of a session: an interpreter that used temporalio sometimes aborts while it exits, after
all its work is done, and a green run would end in red.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from perdure.testing.server import ScriptedModel

_ENDED = pytest.StashKey[int]()  # the session's exit code


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """`scripted_model(*scripts, **options)` starts a ScriptedModel that ends with the test."""
    with ExitStack() as models:

        def start(*scripts: Any, **options: Any) -> ScriptedModel:
            return models.enter_context(ScriptedModel(*scripts, **options))

        yield start


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_ENDED] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the process here, after everybody's exit handlers, if a session ran in it that used Temporal."""
    code = config.stash.get(_ENDED, None)
    if code is None or "temporalio" not in sys.modules or hasattr(config, "workerinput"):  # of pytest-xdist
        return
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
