"""What the documents say of the repository is so: links, tests, files, variables, and what the demo prints."""

import re
from pathlib import Path

import pytest

from perdure import _home
from tests.docs.desk import LiveDesk, environment, missing
from tests.docs.pages import LINKS, PAGES, ROOT, Link, anchors, code_spans, of_kind

_SOURCES = ("perdure", "workflows", "activities", "examples", "deploy", "bench")
_NAMED_TEST = re.compile(r"tests/[\w/]+\.py::(test_\w+)")
_NAMED_FILE = re.compile(r"(?:perdure|workflows|activities|tests|bench|examples|deploy|docs)/[\w./-]*\w\.\w+")
_VARIABLE = re.compile(r"\bPERDURE_[A-Z_]+\b")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("link", [link for link in LINKS if "://" not in link.target], ids=str)
def test_a_link_leads_somewhere(link: Link) -> None:
    path, _, anchor = link.target.partition("#")
    target = (link.page.parent / path).resolve() if path else link.page
    assert target.exists(), link
    assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_test_that_is_named_exists(page: Path) -> None:
    for span in code_spans(page):
        if found := _NAMED_TEST.fullmatch(span):
            assert f"def {found[1]}(" in (ROOT / span.partition("::")[0]).read_text(), span


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_file_that_is_named_exists(page: Path) -> None:
    for span in code_spans(page):
        assert not _NAMED_FILE.fullmatch(span) or (ROOT / span).exists(), span


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_variable_that_is_named_is_read_somewhere(page: Path) -> None:
    files = [ROOT / "docker-compose.yml", *(each for folder in _SOURCES for each in (ROOT / folder).rglob("*.*"))]
    known = {found for each in files if each.suffix != ".pyc" for found in _VARIABLE.findall(each.read_text())}
    assert set(_VARIABLE.findall(page.read_text())) <= known


def test_every_page_can_be_reached_from_the_readme() -> None:
    linked = {(link.page.parent / link.target.partition("#")[0]).resolve() for link in LINKS}
    assert {page for page in PAGES if page.name != "README.md"} <= linked


def test_a_diagram_declares_whom_it_shows() -> None:
    """GitHub draws what it is given; a misspelt participant would silently become another one."""
    for block in of_kind("mermaid"):
        assert block.text.startswith("sequenceDiagram"), block
        declared = set(re.findall(r"^ *(?:participant|actor) (\w+)", block.text, re.MULTILINE))
        named = re.findall(r"^ *(\w+) *-?-(?:>>|\))[+-]? *(\w+) *:", block.text, re.MULTILINE)
        assert named, block
        assert {each for pair in named for each in pair} <= declared, block
        assert ";" not in block.text, f"{block}: to Mermaid, a semicolon ends the line"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    [shown] = of_kind("text demo")
    demo = LiveDesk(tmp_path, environment(tmp_path))
    demo.run(*_home.command("examples.demo", "--yes", "--scripted"))
    assert missing(shown.text, demo.shown) == [], demo.shown
