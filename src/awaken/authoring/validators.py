"""Validators of an agent's final answer: functions of the agent that can send the model back."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from awaken.contracts.errors import InvalidSpec, RunError
from awaken.contracts.tools.tool import Retry

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

    __slots__ = ("_function", "_takes_context", "name")

    def __init__(self, function: OutputValidator) -> None:
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._function = function
        try:
            self._takes_context = _count_parameters(function) == 2
        except (TypeError, ValueError) as error:
            problem = "pass functions of the output, or of a RunContext and the output"
            raise InvalidSpec(what=f"output validator '{self.name}'", problem=problem) from error

    async def check(self, context: RunContext[Any, Any], output: Any) -> None:
        """Call it: a coroutine function on the loop, a plain one in a worker thread.

        Raises:
            OutputRejected: It refuses the output.
            Exception: It failed.
        """
        given = (context, output) if self._takes_context else (output,)
        try:
            if inspect.iscoroutinefunction(self._function):
                await self._function(*given)
                return
            answer = await asyncio.to_thread(self._function, *given)
            if isinstance(answer, Awaitable):
                await answer
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


def _count_parameters(function: OutputValidator) -> int:
    signature = inspect.signature(function)
    for count in (1, 2):
        try:
            signature.bind(*(None,) * count)
        except TypeError:
            continue
        return count
    message = "it takes neither one nor two arguments"
    raise TypeError(message)


def _make_rejection(reason: str) -> OutputRejected:
    return OutputRejected(type_name="", problem=truncate_text(reason or "no reason was given"))
