"""Each run has modules of its own, with the code of all."""

import gc
import importlib
import sys
from types import FunctionType

import pytest

from perdure.temporal.connect import data_converter
from perdure.temporal.shared_code import share_code
from perdure.testing import say


def loops() -> dict[int, FunctionType]:
    """The loop's function, of every run's module that is in memory."""
    functions = (each for each in gc.get_objects() if isinstance(each, FunctionType))
    return {id(each): each for each in functions if each.__qualname__ == "AgentRun._loop"}


async def test_runs_have_modules_of_their_own_and_share_their_code(stage):
    async with stage([say("done")], []) as desk:
        before = loops()
        await desk.run()
        await desk.run()
        new = [each for place, each in loops().items() if place not in before]

        assert len(new) > 1
        assert len({id(each.__globals__) for each in new}) == len(new)
        assert len({id(each.__code__) for each in new}) == 1


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "twice").mkdir()
    (tmp_path / "twice" / "__init__.py").write_text("from twice.kept import kept, keep\n")
    (tmp_path / "twice" / "kept.py").write_text("kept = []\ndef keep(): kept.append(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield "twice"
    forget("twice")


def forget(package):
    for name in [each for each in sys.modules if each.partition(".")[0] == package]:
        del sys.modules[name]


def test_a_module_that_is_imported_again_keeps_nothing_of_the_first_but_its_code(package):
    share_code(package)
    share_code(package)  # once is enough
    first = importlib.import_module(package)
    forget(package)
    again = importlib.import_module(package)
    first.keep()

    assert (first.kept, again.kept) == ([1], [])
    assert first.keep.__code__ is again.keep.__code__
    assert (again.__file__, again.__path__) == (first.__file__, first.__path__)


def test_what_is_not_there_is_still_not_found(package):
    share_code(package)
    with pytest.raises(ModuleNotFoundError, match=r"twice\.no"):
        importlib.import_module(f"{package}.no")


def test_a_worker_has_one_payload_converter(monkeypatch):
    monkeypatch.delenv("PERDURE_DATA_CONVERTER", raising=False)
    converters = [data_converter() for _ in range(2)]
    assert converters[0].payload_converter_class() is converters[1].payload_converter_class()
