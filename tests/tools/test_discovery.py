"""Agents are found where people keep them, and what does not load is told in the author's terms."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.tools.discovery import AgentLoadError, load, separated

DESK = """
from perdure import Agent
{name} = Agent("{name}", model="openai:gpt-6-luna", instructions="help")
"""


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if not name.startswith("perdure."):
            del sys.modules[name]


def write(folder: Path, file: str, text: str) -> str:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_file_is_loaded_with_its_siblings(tmp_path: Path) -> None:
    write(tmp_path, "desk/prompts.py", "TEXT = 'help'")
    file = write(tmp_path, "desk/refunds.py", "from prompts import TEXT\n" + DESK.format(name="refunds"))
    assert list(load([file])) == ["refunds"]


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    one, two = (write(tmp_path, f"{name}/agent.py", DESK.format(name=name)) for name in ("one", "two"))
    assert list(load([one, two])) == ["one", "two"]


def test_types_of_the_authors_file_can_be_named_in_annotations(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom pydantic import BaseModel\nfrom perdure import Agent, tool\n"
        "class Order(BaseModel):\n    id: str\n"
        "@tool\ndef take(order: Order) -> None: ...\n"
        "desk = Agent('desk', model='openai:x', instructions='', tools=[take])\n"
    )
    assert "order" in load([write(tmp_path, "d.py", text)])["desk"].toolbox["take"].parameters.schema["properties"]


def test_a_module_and_an_attribute_of_it(tmp_path: Path) -> None:
    write(tmp_path, "mydesks/__init__.py", "")
    write(tmp_path, "mydesks/leave.py", DESK.format(name="leave") + DESK.format(name="other"))
    assert sorted(load(["mydesks.leave"])) == ["leave", "other"]
    assert list(load(["mydesks.leave:other"])) == ["other"]


def test_an_attribute_of_a_file(tmp_path: Path) -> None:
    file = write(tmp_path, "two.py", DESK.format(name="a") + DESK.format(name="b"))
    assert list(load([f"{file}:b"])) == ["b"]


def test_the_variable_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write(tmp_path, f"{name}.py", DESK.format(name=name)) for name in ("x1", "x2")]
    monkeypatch.setenv("PERDURE_AGENTS", ":".join(files) if sys.platform != "win32" else ",".join(files))
    assert list(load()) == ["x1", "x2"]


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("", []),
        ("a.py", ["a.py"]),
        ("a.py, b.py", ["a.py", "b.py"]),
        ("a/x.py:b/y.py", ["a/x.py", "b/y.py"]),
        ("pkg.mod:desk", ["pkg.mod:desk"]),
        ("a.py:desk,pkg.mod", ["a.py:desk", "pkg.mod"]),
        ("/a.py:desk:/b.py", ["/a.py:desk", "/b.py"]),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="';' separates paths there")
def test_the_variable_holds_several(text: str, specs: list[str]) -> None:
    assert separated(text) == specs


def test_installed_packages_offer_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_AGENTS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path, "offered_desk.py", DESK.format(name="offered"))
    write(tmp_path, "offered-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
    write(tmp_path, "offered-1.dist-info/entry_points.txt", "[perdure.agents]\ndesk = offered_desk:offered\n")
    assert list(load()) == ["offered"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import not_there_at_all", "line.py:1: import not_there_at_all"),
        ("x = 1\ny = x / 0", "line.py:2: y = x / 0"),
        ("def broken(:\n  pass", "line.py:1"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("from perdure import tool\n@tool\ndef bad(n): ...", "no annotation"),
        ("from perdure import tool\n\ntool(effect='write')(lambda: 1)", "line.py:3"),
        ("x = 1", "declares no agent"),
    ],
)
def test_what_does_not_load_is_told_with_the_authors_own_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(AgentLoadError) as refused:
        load([write(tmp_path, "line.py", text)])
    assert said in str(refused.value)
    assert "perdure/tools" not in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no/such.py", "there is no file 'no/such.py'"),
        (".", "is a folder"),
        ("not_a_module_here", "there is no module 'not_a_module_here'"),
        ("json", "declares no agent"),
        ("json:dumps", "'dumps' is no Agent"),
    ],
)
def test_what_is_not_there_is_told_with_what_to_do(spec: str, said: str) -> None:
    with pytest.raises(AgentLoadError) as refused:
        load([spec])
    assert said in str(refused.value)


def test_two_agents_of_one_name_are_refused_naming_both_places(tmp_path: Path) -> None:
    one, two = (write(tmp_path, f"{name}.py", DESK.format(name="desk")) for name in ("one", "two"))
    with pytest.raises(AgentLoadError) as refused:
        load([one, two])
    assert one in str(refused.value)
    assert two in str(refused.value)


def test_no_agents_at_all_says_how_to_name_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_AGENTS", raising=False)
    with pytest.raises(AgentLoadError, match="PERDURE_AGENTS"):
        load()


_TEAM = """
from perdure import Agent
clerk = Agent("clerk", model="anthropic:claude-opus-5-5", instructions="You write.")
helper = Agent("payroll", model="anthropic:claude-opus-5-5", instructions="You pay.", tools=[clerk.as_tool("Writes.")])
def team():
    return [helper.as_tool("Pays."), clerk.as_tool("Writes.", name="writer")]
planner = Agent("planner", model="anthropic:claude-opus-5-5", instructions="You plan.", tools=team())
"""


def test_agents_that_others_hand_work_to_come_along(tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(_TEAM)
    assert list(load([f"{tmp_path / 'team.py'}:planner"])) == ["planner", "payroll", "clerk"]


def test_two_agents_of_one_name_are_refused_also_behind_a_tool(tmp_path: Path) -> None:
    again = 'other = Agent("clerk", model="anthropic:claude-opus-5-5", instructions="Another.")\n'
    lead = 'lead = Agent("lead", model=other.model, instructions="You lead.", tools=[planner.as_tool("Plans."), '
    (tmp_path / "twice.py").write_text(f'{_TEAM}{again}{lead}other.as_tool("Writes.")])\n')
    with pytest.raises(AgentLoadError, match="two agents are named 'clerk'"):
        load([f"{tmp_path / 'twice.py'}:lead"])
