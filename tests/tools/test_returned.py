"""Files that tools return: named in the text, kept beside it, and never as base64."""

import base64
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from perdure import File, ToolContext, ToolError, tool
from perdure.core.contracts import Ending, FileRef, Observation
from perdure.files import MOST_FILES, Files
from perdure.tools.invoke import Keeping, invoke
from tests.samples import CSV, NOT_TAKEN, TAKEN, pdf, png

PNG, PDF = File("label.png", png()), File("slip.pdf", pdf())


async def no_text(text: str) -> str:
    return ""


INLINE = Keeping(no_text, partial(Files(None).keep_what_fits, "run-1"))


async def seen(result: Any, keep: Keeping | None = INLINE, **options: Any) -> Observation:
    @tool(effect="once", ask=False, **options)
    def look() -> object:
        """Look."""
        return result() if isinstance(result, Callable) else result  # type: ignore[arg-type]

    ctx = ToolContext(idempotency_key="key", run_id="run-1", agent="desk", turn=1, attempt=1)
    return await invoke(look, "{}", ctx, keep)


def named(file: File) -> str:
    kind = "image/png" if file is PNG else "application/pdf"
    return f"[file {file.name} ({kind}, {len(file.content)} bytes)]"


@pytest.mark.parametrize(
    ("result", "text", "files"),
    [
        (PNG, named(PNG), [PNG]),
        ([PNG], named(PNG), [PNG]),
        (["Two were found", PNG, PDF], f"Two were found\n{named(PNG)}\n{named(PDF)}", [PNG, PDF]),
        (({"order": 17}, PDF), f'{{"order": 17}}\n{named(PDF)}', [PDF]),
        (File("prices.csv", CSV.encode()), f"[file prices.csv (text/csv, 27 bytes)]\n{CSV}", []),
    ],
)
async def test_each_file_stands_in_the_text_by_its_name_and_is_kept(
    result: Any, text: str, files: Sequence[File]
) -> None:
    observed = await seen(result)
    assert (observed.ending, observed.text) == (Ending.OK, text)
    assert [base64.b64decode(ref.data) for ref in observed.files] == [file.content for file in files]


async def test_an_author_may_show_files_and_others_than_the_tool_returned() -> None:
    observed = await seen({"scan": png(), "secret": 1}, show=lambda found: File("scan.png", found["scan"]))
    assert [ref.name for ref in observed.files] == ["scan.png"]
    assert "secret" not in observed.text


async def test_files_of_an_async_generator_are_taken() -> None:
    @tool(effect="read")
    async def look() -> AsyncIterator[object]:
        """Look."""
        yield "first"
        yield PNG

    ctx = ToolContext(idempotency_key="key", run_id="run-1", agent="desk", turn=1, attempt=1)
    observed = await invoke(look, "{}", ctx, INLINE)
    assert observed.text == f"first\n{named(PNG)}"
    assert len(observed.files) == 1


@dataclass
class Parcel:
    number: int
    label: File


@pytest.mark.parametrize("deep", [{"label": PNG}, Parcel(1, PNG), [[PNG]]])
async def test_a_file_deeper_inside_is_only_named(deep: Any) -> None:
    observed = await seen(deep)
    assert observed.files == ()
    assert "label.png" in observed.text
    assert "base64" not in observed.text
    assert "\\u0089PNG" not in observed.text


@pytest.mark.parametrize("what", NOT_TAKEN)
async def test_one_that_no_model_takes_is_said_and_the_rest_is_shown(what: str) -> None:
    observed = await seen(["done", File("odd.pdf", NOT_TAKEN[what]), PNG])
    assert observed.ending is Ending.OK
    done, odd, shown = observed.text.split("\n")
    assert (done, shown) == ("done", named(PNG))
    assert odd.startswith("[file not shown: 'odd.pdf'")
    assert len(observed.files) == 1


async def test_bytes_stay_as_they_were_and_what_is_no_file_at_all_costs_nothing_else() -> None:
    assert (await seen(b"plain")).text == "plain"
    assert (await seen(["done", File("x", None)])).text.startswith("done\n[file not shown:")  # type: ignore[arg-type]


async def test_more_than_a_message_takes_are_left_out_and_said() -> None:
    observed = await seen([PNG] * (MOST_FILES + 1))
    assert len(observed.files) == MOST_FILES
    assert "21 files" in observed.text.splitlines()[-1]


@pytest.mark.parametrize("keep", [None, Keeping(no_text)])
async def test_where_nothing_keeps_them_the_model_is_told(keep: Keeping | None) -> None:
    observed = await seen(PNG, keep)
    assert observed.ending is Ending.OK
    assert observed.files == ()
    assert observed.text == f"{named(PNG)}\n[... files not shown: they could not be kept ...]"


async def test_a_keeping_that_breaks_never_costs_the_outcome() -> None:
    async def broken(files: Sequence[File]) -> tuple[tuple[FileRef, ...], str]:
        raise RuntimeError("broken")

    observed = await seen(PNG, Keeping(no_text, broken))
    assert observed.ending is Ending.OK
    assert "could not be kept" in observed.text


async def test_the_note_of_what_is_not_shown_survives_a_text_too_long() -> None:
    observed = await seen(["x" * 100_000, PNG], Keeping(no_text), limit=64_000)
    assert len(observed.text.encode()) <= 64_000
    assert observed.text.endswith("they could not be kept ...]")


async def test_a_tool_error_brings_no_files() -> None:
    def refuse() -> None:
        raise ToolError("no label")

    assert (await seen(refuse)).files == ()


def test_every_kind_is_covered() -> None:
    assert {PNG.content, PDF.content} <= set(TAKEN.values())
