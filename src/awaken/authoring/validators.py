"""Validators of an agent's final answer: functions of the agent that can send the model back."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from awaken.contracts.errors import InvalidSpec, RunError
from awaken.contracts.tools.tool import Retry

from .foreign_calls import call_within
from .functions import make_threads
from .output import OutputInvalid
from .refusals import truncate_text
from .run_contexts import RunContext

OutputValidator = Callable[..., Any]
"""Takes the output, or a `RunContext` and the output; raises `Retry` or ValueError to refuse it."""


class OutputRejected(OutputInvalid):
    """A validator of the agent refused the model's answer."""

    code = "output_rejected"
    template = "The answer was refused: {problem}"


class ValidatorFailed(RunError):
    """A validator of the agent failed; the answer is neither accepted nor refused."""

    code = "validator_failed"
    template = "The validator '{name}' of agent '{agent_id}' failed: {problem}."
    name: str
    agent_id: str
    problem: str


class BoundValidator:
    """A validator, with what it takes read once.

    Raises:
        InvalidSpec: It takes neither the output, nor a context and the output.
    """

    __slots__ = ("_function", "_order", "_threads", "name")

    def __init__(self, function: OutputValidator) -> None:
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._function = function
        self._threads = make_threads()
        try:
            self._order = _read_order(function)
        except (TypeError, ValueError) as error:
            problem = "pass functions of the output, or of a RunContext and the output"
            raise InvalidSpec(what=f"output validator '{self.name}'", problem=problem) from error

    async def check(self, context: RunContext[Any, Any], output: Any, seconds: float) -> None:
        """Call it: a coroutine function on the loop, a plain one in a worker thread.

        Raises:
            OutputRejected: It refuses the output.
            CallTookTooLong: It did not return in time.
            BaseException: It failed; see `is_interruption`.
        """
        both = {"context": context, "output": output}
        given = tuple(both[it] for it in self._order)
        try:
            await call_within(seconds, self._function, *given, threads=self._threads)
        except Retry as error:
            raise _make_rejection(error.message) from error
        except ValueError as error:
            raise _make_rejection(str(error)) from error


def bind_validators(functions: Iterable[OutputValidator]) -> tuple[BoundValidator, ...]:
    """Read the validators of an agent.

    Raises:
        InvalidSpec: One of them cannot be called as a validator.
    """
    return tuple(map(BoundValidator, functions))


def _read_order(function: OutputValidator) -> tuple[str, ...]:
    """What it takes; the context comes first, unless the annotations say that it is the other."""
    signature = inspect.signature(function)
    for order in (("output",), ("context", "output")):
        try:
            bound = signature.bind(*order)
        except TypeError:
            continue
        shown = [str(signature.parameters[it].annotation) for it in bound.arguments]
        is_context = ["RunContext" in it for it in shown]
        return ("output", "context") if is_context == [False, True] else order
    message = "it takes neither one nor two arguments"
    raise TypeError(message)


def _make_rejection(reason: str) -> OutputRejected:
    return OutputRejected(type_name="", problem=truncate_text(reason or "no reason was given"))
