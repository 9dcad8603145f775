"""The SDKs pointed at a scripted model, and second opinions on what the tests call valid."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import TypeAdapter

from perdure.testing import ScriptedModel
from perdure.testing.fixtures import scripted_model as scripted_model


class Clients:
    """Both SDKs as perdure uses them: no retries of their own. Each is made when first used, for making one is slow."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    @cached_property
    def anthropic(self) -> AsyncAnthropic:
        return AsyncAnthropic(base_url=self._model.anthropic_url, api_key="any", max_retries=0)

    @cached_property
    def openai(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=self._model.openai_url, api_key="any", max_retries=0)

    async def close(self) -> None:
        for client in (vars(self).get("anthropic"), vars(self).get("openai")):
            if client is not None:
                await client.close()


@pytest.fixture
async def clients_of() -> AsyncIterator[Callable[[ScriptedModel], Clients]]:
    made: list[Clients] = []

    def connect(model: ScriptedModel) -> Clients:
        made.append(Clients(model))
        return made[-1]

    yield connect
    for clients in made:
        await clients.close()


@pytest.fixture
def play(scripted_model: Callable[..., ScriptedModel], clients_of: Callable[[ScriptedModel], Clients]) -> Any:
    """`play(*scripts, **options)` -> (model, clients)."""

    def start(*scripts: Any, **options: Any) -> tuple[ScriptedModel, Clients]:
        model = scripted_model(*scripts, **options)
        return model, clients_of(model)

    return start


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[ScriptedModel]:
    """One model for a whole table of cases: it plays its module's SCRIPT, and nothing it does depends on the order."""
    with ScriptedModel(request.module.SCRIPT) as model:
        yield model


def _drain(value: object) -> None:
    """Walks into everything: pydantic checks an Iterable only as it is read."""
    if isinstance(value, dict):
        for inner in value.values():
            _drain(inner)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _drain(inner)


@pytest.fixture
def conforms() -> Callable[[TypeAdapter[Any], object], None]:
    """Raises ValidationError when a body does not fit the SDK's own parameter type."""
    return lambda shape, body: _drain(shape.validate_python(body))
