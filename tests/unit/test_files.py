"""Files: what is taken and what is not, where it is kept, and how it comes back."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from perdure import File
from perdure.core.compaction import compacted
from perdure.core.contracts import FileRef
from perdure.core.transcript import Heard, Result, Retold, Task, restored, stored
from perdure.files import (
    MOST_BYTES,
    MOST_FILES,
    MOST_INLINE,
    MOST_PICTURE,
    MOST_PIXELS,
    MOST_TEXT,
    FileError,
    FileLostError,
    Files,
    Taken,
    attached,
    check_together,
    checked,
)
from perdure.store import Store
from tests.samples import NOT_TAKEN, TAKEN, pdf, png


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "kept"))


@pytest.mark.parametrize("kind", TAKEN)
def test_a_file_is_what_its_content_shows_whatever_it_is_called(kind: str) -> None:
    seen = checked(File("invoice.exe", TAKEN[kind]))
    assert (seen.name, seen.media_type, seen.size, seen.data) == ("invoice.exe", kind, len(TAKEN[kind]), "")


@pytest.mark.parametrize("what", NOT_TAKEN)
def test_what_no_model_takes_is_refused_whatever_it_is_called(what: str) -> None:
    with pytest.raises(FileError, match=r"'invoice\.pdf'"):
        checked(File("invoice.pdf", NOT_TAKEN[what]))


def test_a_table_is_text() -> None:
    assert checked(File("prices.CSV", b"a,b\n1,2\n")).media_type == "text/csv"


@pytest.mark.parametrize("script", [b"<svg><script>alert(1)</script></svg>", b"<html><body>hello</body></html>"])
def test_what_a_browser_would_run_is_text(script: bytes) -> None:
    assert checked(File("logo.png", script)).media_type == "text/plain"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (png(weight=MOST_PICTURE), "bytes, and models take"),
        (png(MOST_PIXELS + 1, 10), "8,001 x 10 pixels"),
        (b"a" * (MOST_TEXT + 1), "bytes, and models take 256,000"),
        (pdf(weight=MOST_BYTES), "bytes, and models take"),
    ],
)
def test_what_is_too_large_is_refused_with_its_size(content: bytes, why: str) -> None:
    with pytest.raises(FileError, match=why):
        checked(File("large", content))


def test_too_many_files_are_refused_together() -> None:
    one = checked(File("a.png", png()))
    check_together([one] * MOST_FILES)
    with pytest.raises(FileError, match="21 files"):
        check_together([one] * (MOST_FILES + 1))
    with pytest.raises(FileError, match="a message takes at most"):
        check_together([one.model_copy(update={"size": MOST_BYTES // 2 + 1})] * 2)


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\scans\\one.png", "one.png"),
        ("a\x1b[2Jb\u202e.png", "a[2Jb.png"),
        ("", "file"),
        ("x" * 900, "x" * 200),
    ],
)
def test_a_name_is_one_plain_word_on_one_line(called: str, name: str) -> None:
    assert checked(File(called, png())).name == name


def test_a_file_too_large_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(50 * MOST_BYTES)  # a hole: it takes no room
    with pytest.raises(FileError, match="more than"):
        File.read(tmp_path / "huge")


async def test_with_a_store_a_file_is_kept_once_under_its_run_and_digest(store: Store) -> None:
    files = Files(store)
    [ref] = await files.keep("run-1", [File("a.png", png())])
    [again] = await files.keep("run-1", [File("other name.png", png())])

    assert (ref.data, again.sha256) == ("", ref.sha256)
    assert await store.keys() == [f"runs/run-1/files/{ref.sha256}"]
    loaded = await files.load("run-1", ref)
    assert base64.b64decode(loaded.data) == png()
    with pytest.raises(FileLostError, match="put it back"):
        await files.load("run-2", ref)


async def test_without_a_store_a_small_file_travels_and_a_large_one_is_refused() -> None:
    files = Files(None)
    [ref] = await files.keep("run-1", [File("a.png", png())])
    assert base64.b64decode(ref.data) == png()
    assert await files.load("run-1", ref) == ref
    with pytest.raises(FileError, match="PERDURE_STORE"):
        await files.keep("run-1", [File("b.pdf", pdf(weight=MOST_INLINE))])


async def test_what_was_changed_in_the_store_is_not_believed(store: Store) -> None:
    files = Files(store)
    [ref] = await files.keep("run-1", [File("a.png", png())])
    await store.put(f"runs/run-1/files/{ref.sha256}", png(31, 25))
    with pytest.raises(FileLostError, match="damaged"):
        await files.load("run-1", ref)


@pytest.mark.parametrize(
    ("said", "why"),
    [({"media_type": "application/pdf"}, "but a.png"), ({"size": 5}, "but a.png"), ({"sha256": "0" * 64}, "damaged")],
)
async def test_a_history_that_says_otherwise_is_not_believed(said: dict[str, object], why: str) -> None:
    files = Files(None)
    [ref] = await files.keep("run-1", [File("a.png", png())])
    with pytest.raises(FileLostError, match=why):
        await files.load("run-1", ref.model_copy(update=said))


async def test_what_a_history_names_as_a_file_that_no_model_takes_is_not_sent() -> None:
    program = NOT_TAKEN["a program"]
    sha256, data = hashlib.sha256(program).hexdigest(), base64.b64encode(program).decode()
    ref = FileRef(name="a.png", media_type="image/png", size=len(program), sha256=sha256, data=data)
    with pytest.raises(FileLostError, match="no file that a model takes"):
        await Files(None).load("run-1", ref)


async def test_of_what_a_tool_returned_the_rest_is_kept_when_one_cannot_be() -> None:
    given = [File("a.png", png()), File("b.pdf", pdf(weight=MOST_INLINE)), File("c.pdf", pdf())]
    kept, note = await Files(None).keep_what_fits("run-1", given)
    assert [ref.name for ref in kept] == ["a.png", "c.pdf"]
    assert note.startswith("\n[file not shown: ")
    assert "PERDURE_STORE" in note


async def test_a_store_that_fails_costs_the_files_and_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where the folder should be")
    kept, note = await Files(Store(str(tmp_path / "kept"))).keep_what_fits("run-1", [File("a.png", png())])
    assert kept == ()
    assert "a.png (image/png" in note
    assert str(tmp_path) not in note


async def test_a_transcript_takes_no_more_files_than_a_request_and_what_was_shown_stays() -> None:
    one = checked(File("a.png", png()))
    half = one.model_copy(update={"size": MOST_BYTES // 2})

    async def load(file: FileRef) -> FileRef:
        return file.model_copy(update={"data": "here"})

    heard = Heard((Result("c1", "f", "seen", False, files=(half, half)), Result("c2", "f", "seen", False)))
    [task, whole], taken = await attached([Task("do it", (half,)), heard], Taken(), load)
    assert isinstance(task, Task)
    assert isinstance(whole, Heard)
    assert [file.data for file in (*task.files, *whole.results[0].files)] == ["here", "here", ""]
    assert taken == Taken(2, 2 * (MOST_BYTES // 2))
    [[more], _] = await attached([Task("more", (one,) * MOST_FILES)], Taken(2, 10), load)
    assert isinstance(more, Task)
    assert [bool(file.data) for file in more.files] == [True] * (MOST_FILES - 2) + [False] * 2


def test_a_cleared_observation_lets_its_files_go_and_says_which() -> None:
    one = checked(File("label.png", png()))
    results = (Result("c1", "f", "short", False, files=(one,)), Result("c2", "g", "short", False))
    entries = [Retold("t"), Heard(results), Retold("u" * 900)]
    told = compacted(entries, len(json.dumps(stored(entries))) - 20).told()
    [heard] = [entry for entry in told if isinstance(entry, Heard)]
    first, second = heard.results
    assert first.files == ()
    assert f"label.png (image/png, {one.size} bytes)" in first.text
    assert "cleared since" in first.text
    assert second.text == "short"


def test_files_go_along_with_what_is_not_cleared() -> None:
    heard = Heard((Result("c1", "f", "short", False, files=(checked(File("label.png", png())),)),))
    assert restored(stored(compacted([heard], 10_000).told())) == (heard,)
