"""Lines on a terminal keep their column and lose nothing; elsewhere they are whole and plain."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from perdure.console.screen import Screen, link
from perdure.traces.lines import Line, Span

LINE = Line((Span("one [bold]two[/bold] :smile: " * 6, "claim"),), Span("claims", "label"), 2, 11)


def shown(line: Line, *, terminal: bool, width: int = 40, **more: object) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=width, markup=False, highlight=False, emoji=False, **more
    )  # type: ignore[arg-type]
    Screen(out=console).show([line])
    return out.getvalue()


def test_elsewhere_a_line_is_whole_and_plain() -> None:
    assert shown(LINE, terminal=False) == f"{LINE}\n"


def test_on_a_terminal_wrapped_rows_keep_their_column() -> None:
    first, *rest = shown(LINE, terminal=True, no_color=True, color_system=None).splitlines()
    assert first.startswith("  claims   one [bold]two")
    assert rest
    assert all(row.startswith(" " * 11) and len(row) <= 40 for row in rest)


def test_without_colour_there_is_none() -> None:
    assert "\x1b[3" not in shown(Line((Span("x", "bad"),)), terminal=True, no_color=True)
    assert "\x1b[31m" in shown(Line((Span("x", "bad"),)), terminal=True, no_color=False, color_system="standard")


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "Zs"], max_codepoint=0x2FF), min_size=1))
def test_wrapping_loses_nothing_but_the_space_where_it_breaks(text: str) -> None:
    told = shown(Line((Span(text),), Span("ok"), 2, 11), terminal=True, no_color=True, color_system=None)
    assert "".join(told.split()) == "ok" + "".join(text.split())


URL = "http://127.0.0.1:8233/namespaces/default/workflows/leave-17/" + "0" * 60 + "/history"


@pytest.mark.parametrize(
    "line",
    [
        Line((Span("perdure answer 57ac0000 happened --result '...'", "command"),), Span(""), 2, 11),
        Line((Span(f"its page on {URL}; state in /tmp"),)),
        link(URL),
    ],
)
@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_to_be_copied_is_on_one_line(line: Line, terminal: bool) -> None:
    assert shown(line, terminal=terminal, no_color=True, color_system=None).splitlines() == [str(line)]


def test_a_command_in_a_sentence_is_not_broken() -> None:
    line = Line((Span("no Temporal server answers. Start one with `perdure dev FILE`, or not"),))
    told = shown(line, terminal=True, width=50, no_color=True, color_system=None)
    assert len(told.splitlines()) == 2
    assert "`perdure dev FILE`" in told


@pytest.mark.parametrize("terminal", [True, False])
def test_commands_name_perdure_as_it_was_started(terminal: bool) -> None:
    out = io.StringIO()
    screen = Screen(
        out=Console(file=out, force_terminal=terminal, no_color=True, width=40, color_system=None),
        program=".venv/bin/perdure",
    )
    screen.show([Line((Span("perdure approve a1b2c3d4", "command"),)), Line((Span("perdure decides nothing"),))])
    assert out.getvalue() == ".venv/bin/perdure approve a1b2c3d4\nperdure decides nothing\n"
