"""Scorers of the application: a function of an allowed module, in a thread, with a time limit."""

import asyncio
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from awaken.contracts.evals.errors import InvalidScorer
from awaken.contracts.evals.scores import Outcome, Score
from awaken.contracts.record import StrictRecord

from .marks import REASON_CHARS, WORD_CHARS, CannotScore, Check, Marks, ScorerKind, ScorerSetup

_given: dict[str, Callable[..., Any]] = {}
"""Functions that the code of this process has given, by their references."""
_KNOWN = {"value", "reason", "label", "kind", "evidence"}


class PythonOptions(StrictRecord, frozen=True, kw_only=True):
    """The function that scores."""

    function: str
    """`module:function`; it takes an Outcome, and other `options` by keyword."""
    options: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies an empty default


def _build_python(options: PythonOptions, setup: ScorerSetup) -> Check:
    function = load_function(options.function, setup.modules)
    is_async = inspect.iscoroutinefunction(function)

    async def call(outcome: Outcome) -> Any:
        async with asyncio.timeout(setup.seconds):
            return await function(outcome, **options.options)

    def check(outcome: Outcome) -> Marks:
        if is_async:
            # A loop of its own: a coroutine that blocks must not stall the caller's loop.
            return read_marks(asyncio.run(call(outcome)))
        return read_marks(function(outcome, **options.options))

    return check


def name_function(function: Callable[..., Any]) -> str:
    """Return the `module:function` of a function, and let this process score by it.

    Who has the function at hand needs no permission to import its module.

    Raises:
        InvalidScorer: It is not a function of a module, such as a lambda: no file could name it.
    """
    module = getattr(function, "__module__", None)
    name = getattr(function, "__name__", None)
    if getattr(sys.modules.get(str(module)), str(name), None) is not function:
        problem = f"{function!r:.200} is no function of a module; declare it by `def` at its top"
        raise InvalidScorer(scorer="python", problem=problem)
    reference = f"{module}:{name}"
    _given[reference] = function
    return reference


def load_function(reference: str, modules: Sequence[str]) -> Callable[..., Any]:
    """Import a function from an allowed module; one that this process has named is at hand.

    Raises:
        ValueError: The module is not allowed, cannot be imported, or lacks the function.
    """
    if (given := _given.get(reference)) is not None:
        return given
    name, _, attribute = reference.partition(":")
    if not name or not attribute:
        raise ValueError("`function` must be `module:function`")
    if not any(name == it or name.startswith(f"{it}.") for it in modules):
        listed = ", ".join(modules) or "none"
        message = (
            f"the module '{name}' is not allowed to score (allowed: {listed}); "
            "name it in AWAKEN_EVAL_MODULES, or give the function itself to scorers.python"
        )
        raise ValueError(message)
    try:
        function = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError) as error:
        message = f"'{reference}' cannot be imported: {error}"
        raise ValueError(message) from error
    if not callable(function):
        message = f"'{reference}' is no function"
        raise ValueError(message)  # noqa: TRY004 - the reference is wrong, not its type
    result: Callable[..., Any] = function
    return result


def read_marks(answer: Any) -> Marks:
    """Read what a function returned: a boolean, a number from 0 to 1, a mapping, or a Score.

    Raises:
        CannotScore: It is none of these; a Score with an error says the same of itself.
    """
    if isinstance(answer, Score):
        if answer.value is None:
            raise CannotScore(answer.error or "the function gave no value")
        return Marks(
            value=read_value(answer.value),
            kind=answer.kind[:WORD_CHARS],
            reason=answer.reason[:REASON_CHARS],
            label=answer.label[:WORD_CHARS],
            evidence=answer.evidence,
        )
    if isinstance(answer, Mapping):
        if unknown := sorted(map(str, answer.keys() - _KNOWN)):
            message = f"the function returned unknown fields: {', '.join(unknown)[:200]}"
            raise CannotScore(message)
        return Marks(
            value=read_value(answer.get("value")),
            kind=str(answer.get("kind", ""))[:WORD_CHARS],
            reason=str(answer.get("reason", ""))[:REASON_CHARS],
            label=str(answer.get("label", ""))[:WORD_CHARS],
            evidence=answer.get("evidence"),
        )
    return Marks(value=read_value(answer))


def read_value(value: Any) -> float:
    """Read a value from 0 to 1.

    Raises:
        CannotScore: It is something else.
    """
    if isinstance(value, bool | int | float) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    message = f"the function returned {str(value)[:80]!r}, not a value from 0 to 1"
    raise CannotScore(message)


def _describe_code(options: PythonOptions) -> str:
    """The source of the function, so that a changed function is another version."""
    module, _, name = options.function.partition(":")
    function = getattr(importlib.import_module(module), name)
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return options.function


KINDS = (
    ScorerKind(
        name="python",
        family="own",
        options=PythonOptions,
        build=_build_python,
        about="A function `module:function` of an allowed module, async or not.",
        frame=_describe_code,
    ),
)
