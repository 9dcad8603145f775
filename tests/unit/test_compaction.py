"""Compacting never splits a call from its result, and gives things up in one order."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.compaction import Compaction, compacted, size_of
from perdure.core.contracts import AdmittedCall, RecordedTurn, Stop, Verdict
from perdure.core.transcript import Assistant, Entry, Heard, Result, Retold, Task, restored, stored

MARK = "[To save room:]"


def turn(number: int, calls: int = 1, thought: str = "because") -> RecordedTurn:
    admitted = tuple(
        AdmittedCall(index=each, id=f"c{number}-{each}", name="look", verdict=Verdict.RUN, arguments='{"at":1}')
        for each in range(calls)
    )
    message = [{"type": "thinking", "thinking": thought, "signature": "s"}, {"type": "text", "text": f"turn {number}"}]
    return RecordedTurn(digest="d", stop=Stop.CALLS, calls=admitted, protocol="anthropic", message=message)


def heard(number: int, calls: int = 1, size: int = 1_000, said: bool = False) -> Heard:
    text = "rejected by ann: not now" if said else "x" * size
    return Heard(tuple(Result(f"c{number}-{each}", "look", text, said, said) for each in range(calls)))


def run(turns: int, *, said: int = -1, size: int = 1_000) -> list[Entry]:
    entries: list[Entry] = [Task("do it")]
    for number in range(turns):
        entries += [Assistant(turn(number)), heard(number, size=size, said=number == said)]
    return entries


def asked_and_answered(small: Compaction) -> tuple[list[str], list[str]]:
    asked = [call.id for entry in small.kept if isinstance(entry, Retold) for call in entry.calls]
    answered = [result.call_id for entry in small.kept if isinstance(entry, Heard) for result in entry.results]
    return asked, answered


def test_what_fits_is_retold_without_its_reasoning_and_nothing_else_changes():
    entries = run(3)
    small = compacted(entries, size_of(entries))
    assert small.gone == ()
    assert [entry.text for entry in small.kept if isinstance(entry, Retold)] == ["turn 0", "turn 1", "turn 2"]
    assert [entry for entry in small.kept if isinstance(entry, Heard)] == [e for e in entries if isinstance(e, Heard)]


def test_observations_are_cleared_oldest_first_and_say_how_much_there_was():
    entries = run(4)
    small = compacted(entries, size_of(entries) - 1_500)
    texts = [entry.results[0].text for entry in small.kept if isinstance(entry, Heard)]
    assert ["1,000 bytes were observed" in text for text in texts] == [True, True, False, False]
    assert small.gone == ()


def test_an_operators_words_are_never_cleared_and_outlive_their_turn():
    entries = run(30, said=2)
    cleared = compacted(entries, size_of(entries) // 3)
    assert "rejected by ann: not now" in str(cleared.kept)
    small = compacted(entries, 1_000)
    assert len(small.gone) >= 6
    assert "rejected by ann: not now" in str(small.told()[0])


def test_a_note_counts_what_is_gone_and_holds_the_summary():
    small = compacted(run(30), 1_000)
    gone = sum(isinstance(entry, Retold) for entry in small.gone)
    [note] = small.told("ann has 3 days left")[0].notes
    assert note.startswith(f"{MARK} {gone} earlier turns are not shown any more. Tools called in them: look ({gone}).")
    assert note.endswith("ann has 3 days left")


def test_a_second_compaction_keeps_what_the_first_one_noted():
    first = compacted(run(30, said=2), 1_000).told()
    later = [*first, *run(30)[1:]]
    [note] = compacted(later, 1_000).told()[0].notes
    assert note.count(MARK) == 2
    assert "rejected by ann: not now" in note


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2_000), st.booleans()), max_size=12),
    st.integers(0, 8_000),
)
def test_c49_at_whatever_place_it_is_cut_each_call_kept_has_its_result(
    turns: list[tuple[int, int, bool]], most: int
) -> None:
    entries: list[Entry] = [Task("do it")]
    for number, (calls, size, said) in enumerate(turns):
        entries += [Assistant(turn(number, calls)), *([heard(number, calls, size, said)] if calls else [])]
    small = compacted(entries, most)
    asked, answered = asked_and_answered(small)
    assert asked == answered
    assert small == compacted(entries, most)
    assert compacted(small.told(), most).kept or not small.kept
    assert restored(stored(small.told())) == small.told()
    if small.kept and small.gone:
        assert isinstance(small.kept[0], Retold)
