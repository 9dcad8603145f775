"""What a model wrote is read exactly, or the model is told why it was not."""

import json
from typing import Any

import pytest

from perdure.core.contracts import ToolSpec
from perdure.providers.react import Action, FinalAnswer, Unread, parse


def spec(name: str, **properties: Any) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"properties": properties}, order=tuple(properties))


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
TOOLS = (
    spec("get_order", id=NUMBER),
    spec("search", q=TEXT),
    spec("send", to=TEXT, body=TEXT, urgent={"type": "boolean"}),
    spec("store", record={"type": "object"}),
    spec("health"),
)


def kept(text: str, found: Action | FinalAnswer | Unread) -> str:
    return "".join(text[first:last] for first, last in found.kept)


def called(text: str) -> tuple[str, Any]:
    found = parse(text, TOOLS)
    assert isinstance(found, Action), found
    return found.name, json.loads(found.arguments or "{}")


def refused(text: str) -> str:
    found = parse(text, TOOLS)
    assert isinstance(found, Unread), found
    return found.why


LABELS = {
    "as the prompt says": 'Thought: I need it.\nAction: get_order\nAction Input: {"id": 7}',
    "no thought's label": 'I need the order.\n\nAction: get_order\nAction Input: {"id": 7}',
    "no thought": 'Action: get_order\nAction Input: {"id": 7}',
    "lower case": 'thought: I need it.\naction: get_order\naction input: {"id": 7}',
    "upper case": 'ACTION: get_order\nACTION INPUT: {"id": 7}',
    "bold": '**Thought:** I need it.\n**Action:** get_order\n**Action Input:** {"id": 7}',
    "bold words": '**Action**: get_order\n**Action Input**: {"id": 7}',
    "headings": '### Action: get_order\n### Action Input: {"id": 7}',
    "numbered": 'Thought 1: x\nAction 1: get_order\nAction Input 1: {"id": 7}',
    "a full-width colon": 'Thought\uff1ax\nAction\uff1aget_order\nAction Input\uff1a{"id": 7}',
    "CRLF": 'Thought: x\r\nAction: get_order\r\nAction Input: {"id": 7}\r\n',
    "a byte order mark": '\ufeffAction: get_order\nAction Input: {"id": 7}',
    "blank lines": 'Action:\n\n\nget_order\n\n\nAction Input:\n\n\n{"id": 7}\n',
    "an underscore": 'Action: get_order\nAction_Input: {"id": 7}',
    "a fence": 'Action: get_order\nAction Input:\n```json\n{"id": 7}\n```',
    "a fence around all": 'Action:\n```\nget_order\n```\nAction Input: {"id": 7}',
    "backticks": 'Action: `get_order`\nAction Input: `{"id": 7}`',
    "a quoted name": 'Action: "get_order"\nAction Input: {"id": 7}',
    "thinking tags": '<think>\nAction: health\n</think>\nAction: get_order\nAction Input: {"id": 7}',
    "half of the tags": 'Perhaps.\n</think>\nAction: get_order\nAction Input: {"id": 7}',
    "brackets": "Action: get_order[7]",
    "brackets apart": "Action: get_order [7]",
    "parentheses": "Action: get_order(7)",
    "by name": "Action: get_order(id=7)",
    "an object in brackets": 'Action: get_order[{"id": 7}]',
    "a list": "Action: [get_order, 7]",
    "a list with quotes": "Action: ['get_order', 7]",
    "no action's label": "Thought: I need it.\nget_order[7]",
    "bold throughout": "**Action: get_order[7]**",
    "a full stop": "Action: get_order[7].",
}


@pytest.mark.parametrize("text", LABELS.values(), ids=LABELS.keys())
def test_c51_one_action_in_every_dress(text: str) -> None:
    assert called(text) == ("get_order", {"id": 7})


EXACT = {
    "nested": ('{"record": {"a": {"b": [1, {"c": "}"}]}}}', {"record": {"a": {"b": [1, {"c": "}"}]}}}),
    "braces and quotes in a text": (r'{"q": "} \" { ]"}', {"q": '} " { ]'}),
    "several lines": ('{\n  "q": "x",\n\n  "n": [\n 1\n ]\n}\n\nI wait for it.', {"q": "x", "n": [1]}),
    "a text over lines": ('{"q": "one\ntwo\r\n\tthree"}', {"q": "one\ntwo\r\n\tthree"}),
    "code": ('{"q": "for (x in y) {\\n  print(\\"]\\");\\n}"}', {"q": 'for (x in y) {\n  print("]");\n}'}),
    "single quotes": ("{'q': 'it\\'s', 'yes': True, 'no': None}", {"q": "it's", "yes": True, "no": None}),
    "a quote of the other kind": ("""{'q': 'say "hi"'}""", {"q": 'say "hi"'}),
    "typographic quotes": ("{\u201cq\u201d: \u201cit\u2019s\u201d}", {"q": "it\u2019s"}),
    "bare keys and a last comma": ('{q: "x", n: [1, 2,],}', {"q": "x", "n": [1, 2]}),
    "escapes": (r'{"q": "\u00e9\ud83d\ude00\/\b"}', {"q": "\u00e9\U0001f600/\b"}),
    "three quotes": ('{"q": """a "b" c"""}', {"q": 'a "b" c'}),
    "an observation inside": ('{"q": "x\nObservation: y\nAction: z"}', {"q": "x\nObservation: y\nAction: z"}),
}


@pytest.mark.parametrize(("written", "meant"), EXACT.values(), ids=EXACT.keys())
def test_c53_an_object_is_recovered_exactly(written: str, meant: Any) -> None:
    assert called(f"Action: search\nAction Input: {written}") == ("search", meant)


def test_digits_are_kept_as_they_are_written() -> None:
    found = parse("Action: search\nAction Input: {'n': 1.10, 'm': 12345678901234567890.123e5}", TOOLS)
    assert isinstance(found, Action)
    assert found.arguments == '{"n":1.10,"m":12345678901234567890.123e5}'


IN_BRACKETS = {
    'search["a ] b"]': {"q": "a ] b"},
    "search[Paris, France]": {"q": "Paris, France"},
    "[search, Paris, France]": {"q": "Paris, France"},
    "search[a [b] c]": {"q": "a [b] c"},
    "search(print(x[0]))": {"q": "print(x[0])"},
    "search[7]": {"q": "7"},
    "search[007]": {"q": "007"},
    "search[1, 2]": {"q": "1, 2"},
    "search[true]": {"q": "true"},
    "search[2 + 3]": {"q": "2 + 3"},
    'search[5" disk, 3.5]': {"q": '5" disk, 3.5'},
    'search(q="x")': {"q": "x"},
    "search('it\\'s')": {"q": "it's"},
    'send("ann", "hello, world", urgent=True)': {"to": "ann", "body": "hello, world", "urgent": True},
    "send(to=ann, body=hello)": {"to": "ann", "body": "hello"},
    'send["ann", body="x"]': {"to": "ann", "body": "x"},
    'send({"to": "ann", "body": "x"})': {"to": "ann", "body": "x"},
    'store({"a": {"b": 1}})': {"record": {"a": {"b": 1}}},
    "send[ann]": {"to": "ann"},
    "health()": {},
    "health[]": {},
}


@pytest.mark.parametrize("written", IN_BRACKETS)
def test_arguments_in_brackets_go_to_their_parameters(written: str) -> None:
    assert called(f"Action: {written}")[1] == IN_BRACKETS[written]


def test_a_value_without_a_name_fills_the_parameters_in_their_order_however_the_schema_was_sorted() -> None:
    tool = ToolSpec(name="f", description="", parameters={"properties": {"a": {}, "b": {}}}, order=("b", "a"))
    found = parse("Action: f(1, 2)", [tool])
    assert isinstance(found, Action)
    assert json.loads(found.arguments) == {"b": 1, "a": 2}


DOUBTFUL = [
    "Action: search[a] b]",
    "Action: search[a :]\nb]",
    'Action: search["a" b"]',
    'Action: search["a"]\nb"]',
    'Action: search["a]',
    'Action: search[say "hi"]',
    "Action: search[a",
    "Action: search[q=x]",
    "Action: search[]\nAction Input: x",
    "Action: send(ann, hello, thanks)",
    "Action: send(ann, hello)",
    'Action: send("ann", "x", true, 4)',
    'Action: send(to="ann", "x")',
    'Action: search[{"query": "x"}]',
    'Action: store({"record": {"a": 1}})',
    "Action: send",
    "Action: send\nAction Input:",
    "Action: send\nAction Input: hello ann",
    "Action: send\nI write to ann.\nAction Input: {}",
    "Action: search\nAction Input: one\ntwo",
    "Action: search\nAction Input: q: x",
    "Action: search\nAction Input: [1]",
    'Action: search\nAction Input: {"q": "a"',
    'Action: search\nAction Input: {"q": "a" b"}',
    'Action: search\nAction Input: {"q": "a"}\nb"}',
    'Action: search\nAction Input: {"q": "a"}, {"q": "b"}',
    r"Action: search" + "\n" + r'Action Input: {"q": "C:\dir"}',
    'Action: search\nAction Input: {"q": 007}',
    'Action: search\nAction Input: {"q": a}',
    'Action: search\nAction Input: {"q": ...}',
    "Action: I will look for the order",
    "Action:",
    "Action: [",
    "Action: search[x]\n</think>\nAction: health()",
    'Action Input: {"id": 7}',
    "I think Action: search[x] is what I need.",
    "Just some words.",
    "Final Answer:",
    "Action: Finish[]",
    "Action: Finish[a",
    "<think>Action: health()",
    "Observation: it is done.\nFinal Answer: done",
    "",
]


@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_can_be_read_in_two_ways_or_none_is_not_read(text: str) -> None:
    assert refused(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Just some words.", "neither an action nor a final answer"),
        ("I think Action: search[x].", "each label begins a line"),
        ("Action: send", 'It is one JSON object: {"to": ..., "body": ..., "urgent": ...}'),
        ("Action: search[a] b]", "'b]' follows the closing ]"),
        ('Action: search\nAction Input: {"q": "a', "is never closed by"),
        ("Observation: done", "Only tools make observations"),
    ],
)
def test_what_is_wrong_is_said(text: str, told: str) -> None:
    assert told in refused(text)


ANSWERS = {
    "Thought: I know.\nFinal Answer: 42": "42",
    "**Final Answer:** 42": "42",
    "**Final Answer: 42**": "42",
    "**Final Answer:** **42**": "**42**",
    "final_answer: 42\nand\n\nmore": "42\nand\n\nmore",
    "Action: Finish[42]": "42",
    "Action 3: finish[a [b] c]\n": "a [b] c",
    'Action: Finish["42"]': "42",
    "Action: Finish(one\ntwo (three))": "one\ntwo (three)",
    "Action: [Finish, 42]": "42",
    "Finish[42]": "42",
    "Final Answer: 42\nObservation: so it is": "42",
    "<think>Final Answer: 41</think>Final Answer: 42\n": "42",
}


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_what_its_label_or_bracket_holds(text: str) -> None:
    found = parse(text, TOOLS)
    assert isinstance(found, FinalAnswer)
    assert found.answer == ANSWERS[text]


def test_a_tool_may_be_called_finish() -> None:
    found = parse("Action: finish[7]", [spec("finish", id=NUMBER)])
    assert isinstance(found, Action)


def test_c55_what_follows_the_first_action_is_not_kept() -> None:
    said = "Thought: x\nAction: get_order[7]"
    for fiction in ("\nObservation: refunded\nFinal Answer: done", " Observation: refunded", "\nAction: health()"):
        found = parse(said + fiction, TOOLS)
        assert isinstance(found, Action)
        assert kept(said + fiction, found) == said


def test_c55_an_answer_before_an_action_is_forgotten_and_the_action_stays() -> None:
    text = "Thought: x\nFinal Answer: done\nAction: get_order[7]\nObservation: y"
    found = parse(text, TOOLS)
    assert isinstance(found, Action)
    assert kept(text, found) == "Thought: x\nAction: get_order[7]"


def test_c55_an_observation_of_the_models_own_is_not_kept_where_nothing_can_be_read_either() -> None:
    for text in (
        "Action: send(x Observation: sent",
        "Thought: x\nObservation: sent\nFinal Answer: y",
        "Action: send(x\nobservation: y",
    ):
        assert "bservation: " not in kept(text, parse(text, TOOLS))


def test_c55_the_word_alone_is_no_label() -> None:
    text = "Thought: my Observation is this.\nAn Observation\nAction: get_order[7]"
    assert called(text) == ("get_order", {"id": 7})


def test_an_unknown_tool_is_named_as_it_was_written() -> None:
    assert called("Action: refundd[7]")[0] == "refundd"
    assert called('Action: functions.get_order\nAction Input: {"id": 7}') == ("functions.get_order", {"id": 7})


def test_an_action_at_the_very_end_may_be_cut() -> None:
    whole, maybe = parse("Action: search[a]\n", TOOLS), parse("Action: search[a]", TOOLS)
    assert isinstance(whole, Action)
    assert isinstance(maybe, Action)
    assert (whole.ended, maybe.ended) == (True, False)
