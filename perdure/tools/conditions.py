"""When does a call need a person? A condition over its arguments, in the words of the tool's own parameters.

`"amount > 100"`, `"country not in ('DE', 'FR')"`, `"len(lines) > 5 or draft"`. Evaluated by simpleeval over the
validated values. Text and names are checked when the tool is declared; whatever goes wrong later asks a person.
"""

import ast
import math
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, Final

from simpleeval import DEFAULT_OPERATORS, EvalWithCompoundTypes  # type: ignore[import-untyped]

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "any": any,
    "all": all,
    "float": float,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "round": round,
    "str": str,
    "sum": sum,
}


class ConditionError(Exception):
    """A condition that cannot be meant: it does not parse, or names something the tool does not take."""


def _exact(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operator, with a float beside a Decimal read as the decimal that was written: 0.1 means a tenth."""

    def apply(left: Any, right: Any) -> Any:
        if isinstance(left, Decimal) and isinstance(right, float):
            right = Decimal(repr(right))
        elif isinstance(left, float) and isinstance(right, Decimal):
            left = Decimal(repr(left))
        return operator(left, right)

    return apply


_MIXED = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_COMPARED = (ast.Eq, ast.NotEq, ast.Gt, ast.Lt, ast.GtE, ast.LtE)
_OPERATORS = DEFAULT_OPERATORS | {each: _exact(DEFAULT_OPERATORS[each]) for each in _MIXED + _COMPARED}


def _evaluator(names: Mapping[str, Any]) -> Any:
    return EvalWithCompoundTypes(operators=_OPERATORS, functions=FUNCTIONS, names=dict(names))


def check(condition: str, names: Collection[str]) -> None:
    """Refuse a condition at declaration.

    Raises:
        ConditionError: it does not parse, uses what cannot be evaluated, or names no parameter.
    """
    try:
        tree = ast.parse(condition.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise ConditionError(f"it is no expression ({error})") from None
    usable = (*_evaluator({}).nodes, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.Expression,
              ast.comprehension, ast.keyword, ast.Starred)  # fmt: skip
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if not issubclass(type(node), usable):
            raise ConditionError(f"{type(node).__name__} cannot be used in a condition")
        if isinstance(node, ast.Name) and node.id not in {*names, *FUNCTIONS, *bound}:
            known = ", ".join(sorted(names)) or "none"
            raise ConditionError(f"it names {node.id!r}, which is no parameter of this tool (it has: {known})")


def holds(condition: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the condition holds for these argument values.

    Raises:
        Exception: whatever evaluating raises; the caller asks a person then.
    """
    for name, value in arguments.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConditionError(f"{name!r} is not a finite number")
    return bool(_evaluator(arguments).eval(condition.strip()))
