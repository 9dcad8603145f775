"""A model's text, read as ReAct: exactly one action, or a final answer, or what is wrong with it. Pure.

The rule is "exactly or not at all". Many spellings are taken, but where a text can be read in two ways (a bracket in an
unquoted argument, words after a closing brace, two parameters for one unquoted text) it is not read, and the model is
told why. What follows the first complete action is never looked at as anything but a reason for doubt.

    Action: tool                 Action: tool["argument"]         Action: Finish[answer]
    Action Input: {json}         Action: tool("argument", key=1)  Final Answer: answer
                                 Action: [tool, argument]
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from perdure.core.contracts import ToolSpec
from perdure.core.labels import Label, answer_at, ends_thinking, labels, labels_inside, thinking
from perdure.providers.brackets import listed, named, unquoted
from perdure.providers.jsontext import loaded
from perdure.providers.literals import OPENERS, FormError, quoted, shown, skipped, value

Span = tuple[int, int]

_DRESS: Final = "*`"  # what surrounds a name or an argument, and means nothing
_NAME: Final = re.compile(rf"[{_DRESS}\"'\u201c\u2018]*([A-Za-z_][\w.-]*)[{_DRESS}\"'\u201d\u2019]*")
_FENCE: Final = re.compile(rf"```[\w-]*[ \t]*\r?\n|[{_DRESS}]+(?=[{{\[])")
_UNFENCE: Final = re.compile(r"\s*```")
_TAIL: Final = re.compile(rf"[ \t]*[{_DRESS}]*[.;]?[{_DRESS}]*[ \t\r]*")
_FINISH: Final = "finish"
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}


@dataclass(frozen=True)
class Action:
    """A call. `arguments` is a JSON object's text, or empty. `kept` is the part of the text that is to be believed.

    `ended`: something followed, if only a line's end, so that an output limit has cut nothing off.
    """

    name: str
    arguments: str
    kept: tuple[Span, ...]
    ended: bool


@dataclass(frozen=True)
class FinalAnswer:
    answer: str
    kept: tuple[Span, ...]


@dataclass(frozen=True)
class Unread:
    """Neither, or not exactly one. `why` is worded for the model."""

    why: str
    kept: tuple[Span, ...]


def parse(text: str, tools: Sequence[ToolSpec]) -> Action | FinalAnswer | Unread:
    """What a model's text says is to be done. Never raises for anything a model can write."""
    start = thinking(text)
    found = list(labels(text, start))
    try:
        return _read(text, start, found, {tool.name: tool for tool in tools})
    except FormError as error:
        return Unread(str(error), ((0, _before_observations(text, start, found)),))


def _read(text: str, start: int, found: list[Label], tools: Mapping[str, ToolSpec]) -> Action | FinalAnswer:
    told = next((each for each in found if each.kind == "observation"), None)
    claimed = [each for each in found if told is None or each.start < told.start]
    act = next((each for each in claimed if each.kind == "action"), None)
    answer = next((each for each in claimed if each.kind == "answer"), None)
    if act is None and answer is None:
        return _unlabelled(text, start, found, tools)
    if act is None:
        assert answer is not None
        return _answered(text, answer, found)
    reader = _Reader(text, found, tools)
    done = reader.deed(act.body)
    if ends_thinking(text, done.kept[-1][1]) and not thinking(text):
        raise FormError("a closing thinking tag comes after the action; close your thinking before you act")
    if answer and answer.start < act.start:  # the action wins, and the answer is forgotten
        return replace(done, kept=((0, answer.start), (act.start, done.kept[-1][1])))
    return done


def _answered(text: str, at: Label, found: list[Label]) -> FinalAnswer:
    """The answer that a label announces, up to the next label."""
    end = next((each.start for each in found if each.start > at.start), len(text))
    said = answer_at(text, at, end)
    if not said:
        raise FormError("the final answer is empty")
    return FinalAnswer(said, ((0, at.body + len(text[at.body : end].rstrip())),))


def _unlabelled(text: str, start: int, found: list[Label], tools: Mapping[str, ToolSpec]) -> Action | FinalAnswer:
    """An action whose label is missing: taken if its line is the last one and names a tool."""
    if any(each.kind == "observation" for each in found):
        raise FormError(
            "a line begins with 'Observation:', and there is no action before it. Only tools make observations: what "
            "you write as one is thrown away"
        )
    if any(each.kind == "input" for each in found):
        raise FormError("there is an Action Input without an Action that names the tool")
    name = _NAME.match(text, skipped(text, max(text.rstrip().rfind("\n") + 1, start)))
    if name and (name[1] in tools or name[1].lower() == _FINISH) and text[name.end() : name.end() + 1] in ("[", "("):
        return _Reader(text, found, tools).deed(name.start())
    if any(each.kind in ("action", "answer") for each in labels_inside(text, start)):
        raise FormError("each label begins a line of its own, and none does here")
    raise FormError(
        "it holds neither an action nor a final answer, only thoughts (a line that begins with 'Observation:' ends it)"
    )


def _before_observations(text: str, start: int, found: list[Label]) -> int:
    """Where the first observation begins that the model wrote itself; behind an action's label, within a line too."""
    act = next((each.body for each in found if each.kind == "action"), len(text))
    ends = [each.start for each in (*found, *labels_inside(text, act)) if each.kind == "observation"]
    return min(ends, default=len(text))


def _out_of_quotes(said: str) -> str:
    """A text without the quotes that stand around the whole of it."""
    if not said or said[0] not in OPENERS:
        return said
    try:
        literal, end = quoted(said, 0)
    except FormError:
        return said
    return str(loaded(literal)) if end == len(said) else said


@dataclass(frozen=True)
class _Reader:
    """Reads one action; `found` are the text's labels."""

    text: str
    found: list[Label]
    tools: Mapping[str, ToolSpec]

    def deed(self, at: int) -> Action | FinalAnswer:
        """The action, or the `Finish`, that begins at `at`, behind its label."""
        at, fenced = self._unfenced(at)
        if self.text[at : at + 1] == "[":
            return self._list_form(at, fenced)
        name = _NAME.match(self.text, at)
        if name is None:
            raise FormError(f"the name of a tool is expected after 'Action:', not {shown(self.text, at)}")
        opener = self.text[name.end() : name.end() + 1]
        spaced = skipped(self.text, name.end())
        if opener != "(" and self.text[spaced : spaced + 1] == "[" and "\n" not in self.text[name.end() : spaced]:
            return self._bracketed(name[1], spaced, fenced)
        if opener == "(":
            return self._bracketed(name[1], name.end(), fenced)
        return self._line_form(name, fenced)

    # --- the spellings ------------------------------------------------------------------------------------------------

    def _bracketed(self, name: str, at: int, fenced: bool) -> Action | FinalAnswer:
        opener = self.text[at]
        if name.lower() == _FINISH and name not in self.tools:
            return self._finish(at + 1, opener)
        arguments, end = self._inside(name, at + 1, opener)
        return self._action(name, arguments, end, opener, fenced)

    def _list_form(self, at: int, fenced: bool) -> Action | FinalAnswer:
        first = skipped(self.text, at + 1)
        name = _NAME.match(self.text, first)
        if name is None:
            raise FormError(f"the name of a tool is expected after '[', not {shown(self.text, first)}")
        here = skipped(self.text, name.end())
        if self.text[here : here + 1] == "]":
            return self._action(name[1], "{}", here + 1, "[", fenced)
        if self.text[here : here + 1] != ",":
            raise FormError(f"a comma or ] is expected after {name[1]!r}, not {shown(self.text, here)}")
        if name[1].lower() == _FINISH and name[1] not in self.tools:
            return self._finish(here + 1, "[")
        arguments, end = self._inside(name[1], here + 1, "[")
        return self._action(name[1], arguments, end, "[", fenced)

    def _line_form(self, name: "re.Match[str]", fenced: bool) -> Action:
        """A name alone in its line, and an Action Input below."""
        text, end = self.text, name.end()
        rest = _TAIL.match(text, end)
        below = skipped(text, rest.end() if rest else end)
        if below < len(text) and "\n" not in text[end:below]:
            raise FormError(
                f"{shown(text, end)} follows the tool's name in its line; arguments go into 'Action Input:'"
            )
        if fenced and text.startswith("```", below):
            below = skipped(text, below + 3)
        following = self._label_at(below)
        if following and following.kind == "input":
            return self._input(name[1], following.body)
        if below < len(text) and following is None:
            raise FormError(f"{shown(text, below)} stands where 'Action Input:' is expected")
        if name[1] in self.tools and self._parameters(name[1]):
            raise FormError(f"the Action Input is missing. {self._takes(name[1])}")
        return Action(name[1], "", self._kept(end), below > end or following is not None)

    def _input(self, name: str, at: int) -> Action:
        text = self.text
        at, fenced = self._unfenced(at)
        if text[at : at + 1] == "{":
            arguments, end = value(text, at)
            return self._action(name, arguments, end, "{", fenced)
        if at == len(text) or self._label_at(at):
            if name in self.tools and self._parameters(name):
                raise FormError(f"the Action Input is empty. {self._takes(name)}")
            return Action(name, "", self._kept(at), ended=True)
        if found := re.compile(r"(?:None|null)(?=\s*(?:\n|\Z))").match(text, at):
            return Action(name, "null", self._kept(found.end()), found.end() < len(text))
        return self._bare_input(name, at)

    def _bare_input(self, name: str, at: int) -> Action:
        """The one argument of a tool that takes one, in a line of its own."""
        text = self.text
        order = self._parameters(name) if name in self.tools else ("argument",)
        if len(order) != 1:
            raise FormError(f"the Action Input is not a JSON object. {self._takes(name)}")
        if text[at] in OPENERS:
            said, end = quoted(text, at)
            return self._action(name, named(order, [("", said)]), end, "{", False)
        line = text.find("\n", at)
        end = line if line >= 0 else len(text)
        if text[at] == "[":
            raise FormError(f"the Action Input is a list. {self._takes(name)}")
        arguments = unquoted(text[at:end], order)
        below = skipped(text, end)
        if below < len(text) and not self._label_at(below):
            raise FormError("the Action Input goes over several lines and is not quoted; write it as a JSON object")
        if any(each.start < end for each in labels_inside(text, at)):
            raise FormError("a label stands in the middle of the Action Input's line")
        return Action(name, arguments, self._kept(end), end < len(text))

    def _finish(self, at: int, opener: str) -> FinalAnswer:
        """The answer inside of brackets: up to the last closing one before the next label."""
        text, closer = self.text, _CLOSERS[opener]
        limit = next((each.start for each in self.found if each.start >= at), len(text))
        body = text[at:limit].rstrip()
        while body.endswith(("```", *_DRESS, ".")):
            body = body.removesuffix("```").rstrip(_DRESS + ". \t\r\n")
        if not body.endswith(closer):
            raise FormError(f"the answer in Finish{opener} is not closed by {closer}")
        said = _out_of_quotes(body[: -len(closer)].strip()).strip()
        if not said:
            raise FormError("the final answer is empty")
        return FinalAnswer(said, ((0, at + len(body)),))

    # --- arguments ----------------------------------------------------------------------------------------------------

    def _inside(self, name: str, at: int, opener: str) -> tuple[str, int]:
        """The arguments between brackets, as a JSON object's text, and the place behind the closing bracket."""
        tool = self.tools.get(name)
        order = self._parameters(name) if tool else ("argument",)
        schemas: Mapping[str, Any] = tool.parameters.get("properties", {}) if tool else {}
        return listed(self.text, at, opener, order, schemas, known=tool is not None)

    def _parameters(self, name: str) -> tuple[str, ...]:
        tool = self.tools[name]
        return tool.order or tuple(tool.parameters.get("properties", {}))

    def _takes(self, name: str) -> str:
        if name not in self.tools:
            return "It is one JSON object."
        taken = ", ".join(f'"{each}": ...' for each in self._parameters(name))
        return f"It is one JSON object: {{{taken}}}."

    # --- where things end ---------------------------------------------------------------------------------------------

    def _action(self, name: str, arguments: str, end: int, opener: str, fenced: bool) -> Action:
        """The action that is complete at `end`, unless what follows makes one doubt it."""
        text = self.text
        tail = _TAIL.match(text, end)
        line = tail.end() if tail else end
        beside = next(labels_inside(text, line), None)
        if line < len(text) and text[line] != "\n" and not (beside and beside.start == line):
            raise FormError(f"{shown(text, line)} follows the closing {_CLOSERS[opener]} in the same line")
        following = next((each for each in self.found if each.start >= line), None)
        if "input" in {each.kind for each in (beside, following) if each}:
            raise FormError("an Action Input follows arguments that are complete; give them once")
        if _CLOSERS[opener] in text[line : following.start if following else len(text)]:
            raise FormError(
                f"behind the {_CLOSERS[opener]} that closes the arguments there is another, so they may go on to it. "
                "Write nothing after an action, and put texts between double quotes"
            )
        unfence = _UNFENCE.match(text, line) if fenced else None
        return Action(name, arguments, self._kept(unfence.end() if unfence else end), line < len(text))

    def _kept(self, end: int) -> tuple[Span, ...]:
        return ((0, end),)

    def _label_at(self, at: int) -> Label | None:
        return next((each for each in self.found if each.start <= at < each.body), None)

    def _unfenced(self, at: int) -> tuple[int, bool]:
        at = skipped(self.text, at)
        fence = _FENCE.match(self.text, at)
        return (skipped(self.text, fence.end()), fence[0].startswith("```")) if fence else (at, False)
