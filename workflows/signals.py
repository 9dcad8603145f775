"""A signal that does as an update would. Nobody rejects a signal before it arrives, and an error would stop the run."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure.core.contracts import Wire

W = TypeVar("W", bound=Wire)


async def signalled(
    kind: type[W], said: tuple[Any, ...], refuse_unfit: Callable[[W], None], take: Callable[[W], Awaitable[Any]]
) -> None:
    """Take it, whatever it is. What cannot be read, or does not fit, changes nothing."""
    try:
        [given] = said
        word = kind.model_validate(given)
        refuse_unfit(word)
        await take(word)
    except ValueError as error:
        workflow.logger.warning(f"a signal that is no {kind.__name__} was dropped ({type(error).__name__})")
    except FailureError as refusal:
        workflow.logger.warning("refused", extra={"what": kind.__name__, "why": str(refusal)[:1000]})
