"""Lines on a terminal keep their column and lose nothing; elsewhere they are whole and plain."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from perdure.console.screen import Screen
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
    assert "\x1b[31m" in shown(Line((Span("x", "bad"),)), terminal=True, color_system="standard")


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "Zs"], max_codepoint=0x2FF), min_size=1))
def test_wrapping_loses_nothing_but_the_space_where_it_breaks(text: str) -> None:
    told = shown(Line((Span(text),), Span("ok"), 2, 11), terminal=True, no_color=True, color_system=None)
    assert "".join(told.split()) == "ok" + "".join(text.split())
