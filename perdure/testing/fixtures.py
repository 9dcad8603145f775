"""Pytest fixtures for agents' tests. Not loaded by itself: `pytest_plugins = ["perdure.testing.fixtures"]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from perdure.testing.server import ScriptedModel


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """`scripted_model(*scripts, **options)` starts a ScriptedModel that ends with the test."""
    with ExitStack() as models:

        def start(*scripts: Any, **options: Any) -> ScriptedModel:
            return models.enter_context(ScriptedModel(*scripts, **options))

        yield start
