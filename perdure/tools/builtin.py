"""Tools that every agent may have: `Agent(..., tools=[calculator, clock, ask_operator])`.

`ask_operator` is one in name only: no worker runs it. Admission records its call as a question, and the run puts that
to a person.
"""

import ast
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field
from simpleeval import EvalWithCompoundTypes, InvalidExpression  # type: ignore[import-untyped]

from perdure.core.contracts import Question
from perdure.tools.declare import Tool, ToolError, tool

_LONGEST = 1_000  # characters of an expression
_MOST_BITS = 10_000  # of a number on the way: about 3,000 digits
_DIGITS = 28  # of a result that no decimal holds exactly

# --- the calculator: exact fractions all the way, so that 0.1 + 0.2 is 0.3 and 1 / 3 * 3 is 1 -------------------------


def _number(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Fraction | int):
        raise ToolError(f"{str(value)[:50]!r} is not a number.")
    exact = Fraction(value)
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _MOST_BITS:
        raise ToolError("a number became too large. Calculate in smaller steps.")
    return exact


def _on_numbers(operator: Callable[..., Any]) -> Callable[..., Fraction]:
    return lambda *numbers: _number(operator(*map(_number, numbers)))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        return _root_power(base, exponent)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(exponent.numerator) > _MOST_BITS:
        raise ToolError(f"{base} ** {exponent} is too large.")
    return Fraction(base**exponent.numerator)


def _root_power(base: Fraction, exponent: Fraction) -> Fraction:
    if base < 0:
        raise ToolError("a broken power of a negative number has no real value.")
    with localcontext(prec=_DIGITS):
        return Fraction(_decimal(base) ** _decimal(exponent))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _rounded(number: Any, digits: Any = 0) -> Fraction:
    """Half away from zero, as in commerce."""
    number, digits = _number(number), _number(digits)
    if digits.denominator != 1 or abs(digits) > 100:
        raise ToolError("round(x, n): n counts digits after the point, at most 100.")
    scaled = abs(number) * Fraction(10) ** int(digits)
    whole = Fraction(floor(scaled + Fraction(1, 2))) / Fraction(10) ** int(digits)
    return _number(whole if number >= 0 else -whole)


def _over_many(function: Callable[[list[Fraction]], Any]) -> Callable[..., Fraction]:
    """A function of several numbers or of one list of them."""

    def apply(*given: Any) -> Fraction:
        numbers = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
        return _number(function([_number(each) for each in numbers]))

    return apply


_OPERATORS: Final[dict[type[ast.AST], Any]] = {
    ast.Add: _on_numbers(lambda a, b: a + b),
    ast.Sub: _on_numbers(lambda a, b: a - b),
    ast.Mult: _on_numbers(lambda a, b: a * b),
    ast.Div: _on_numbers(lambda a, b: a / b),
    ast.FloorDiv: _on_numbers(lambda a, b: a // b),
    ast.Mod: _on_numbers(lambda a, b: a % b),
    ast.Pow: _on_numbers(_power),
    ast.USub: _on_numbers(lambda a: -a),
    ast.UAdd: _on_numbers(lambda a: a),
}
_FUNCTIONS: Final[dict[str, Any]] = {
    "round": _rounded,
    "abs": _on_numbers(abs),
    "min": _over_many(min),
    "max": _over_many(max),
    "sum": _over_many(sum),
}
_AS_TYPED = str.maketrans("\u00d7\u00f7\u2212\u00a0", "*/- ")  # as people and models write them
_NODES: tuple[Any, ...] = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.List, ast.Tuple)


def _evaluate(expression: str) -> Fraction:
    """The value of a parsed expression; only numbers, operators, lists and our functions are looked at."""
    evaluator: Any = EvalWithCompoundTypes(operators=_OPERATORS, functions=_FUNCTIONS, names={})
    evaluator.nodes = {kind: evaluator.nodes[kind] for kind in _NODES}
    evaluator.nodes[ast.Constant] = lambda node: _constant(node, expression)
    tree = ast.parse(expression, mode="eval").body
    return _number(evaluator.eval(expression, previously_parsed=tree))


def _constant(node: ast.Constant, expression: str) -> Fraction:
    """A number as it is written: not by way of a float, which would round it."""
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        raise ToolError(f"{node.value!r} is not a number.")
    written = (ast.get_source_segment(expression, node) or "").replace("_", "")
    if isinstance(node.value, int):
        return Fraction(node.value)
    if abs(Decimal(written).adjusted()) > _MOST_BITS // 4:
        raise ToolError(f"{written} is too large or too small.")
    return Fraction(Decimal(written))


def _shown(number: Fraction) -> str:
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    size = max(len(str(number.numerator)), len(str(number.denominator)))
    with localcontext(prec=_DIGITS if rest != 1 else 4 * size + 10):
        text = format(_decimal(number), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if rest == 1 else f"{text} (rounded to {_DIGITS} digits)"


@tool(effect="read", timeout=10)
def calculator(
    expression: Annotated[str, Field(description="such as 28 - 19 - 2, or round(1234.5 * 0.19, 2)")],
) -> str:
    """Work out an arithmetic expression, exactly.

    Takes numbers, + - * / // % **, parentheses, and round(x, digits), min, max, sum, abs. Halves are rounded away from
    zero. Numbers are written plainly: no thousands separators, units or percent signs.
    """
    text = expression.strip().translate(_AS_TYPED)
    if len(text) > _LONGEST:
        raise ToolError(f"the expression has {len(text)} characters, more than {_LONGEST}. Calculate in smaller steps.")
    if "^" in text:
        raise ToolError("'^' is no operator here. For a power write **.")
    if re.search(r"(?<![\w.])\d{1,3}(,\d{3})+(?![\d,])", text) and "(" not in text and "[" not in text:
        raise ToolError(f"{expression!r}: write numbers without thousands separators.")
    try:
        return _shown(_evaluate(text))
    except ToolError:
        raise
    except ZeroDivisionError:
        raise ToolError(f"{expression!r} divides by zero.") from None
    except SyntaxError:
        raise ToolError(f"{expression!r} is no arithmetic expression. Write for instance: (28 - 19) * 1.5") from None
    except (InvalidExpression, ArithmeticError, TypeError, ValueError, LookupError, RecursionError) as error:
        raise ToolError(f"{expression!r} cannot be worked out: {str(error)[:200] or type(error).__name__}") from None


@tool(effect="read", timeout=10)
def clock(
    timezone: Annotated[str, Field(description="an IANA name, such as Europe/Berlin")] = "UTC",
) -> str:
    """Tell the current date, time and weekday in a time zone, as ISO 8601 with its offset."""
    try:
        now = datetime.now(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolError(f"there is no time zone {timezone[:60]!r}. Use an IANA name such as 'Europe/Berlin'.") from None
    return f"{now.isoformat(timespec='seconds')} ({now:%A}, {timezone})"


# --- asking a person --------------------------------------------------------------------------------------------------

_MOST_ASKED: Final = 1_000  # characters: a question stands in every list of what waits
_MOST_CHOICES: Final = 20


@tool(effect="read", timeout=10)
def ask_operator(
    question: Annotated[str, Field(min_length=1, max_length=_MOST_ASKED, description="With all that is needed.")],
    choices: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
        Field(max_length=_MOST_CHOICES, description="What may be answered. Leave them out to be answered in words."),
    ] = (),
) -> str:
    """Ask a person what no tool can tell: a missing fact, or a choice that is theirs. It may take days.

    Do not ask whether you may make a call: calls that need a person's consent ask by themselves.
    """
    raise ToolError("only a run can put a question to an operator, and this one did not.")


def question_of(asked: Tool, arguments: Mapping[str, Any]) -> Question | None:
    """The question that a call puts to a person, if its tool is `ask_operator`, by whatever name."""
    if asked.function is not ask_operator.function:
        return None
    choices = (choice.strip() for choice in arguments["choices"])
    return Question(text=arguments["question"], choices=tuple(dict.fromkeys(filter(None, choices))))
