"""An operation of a workflow's context before it is awaited: it has done nothing, and is no value.

A coroutine is true, so `if ctx.approve(…):` would count as a yes.
"""

import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from opcode import opmap
from pathlib import PurePath
from types import FrameType
from typing import Any, NoReturn, TypeVar

from .errors import WorkflowMisuse

T = TypeVar("T")
_CACHE, _POP_TOP = opmap["CACHE"], opmap["POP_TOP"]


class WorkflowOperation(Coroutine[Any, Any, T]):
    """One operation, which begins when it is awaited. Any other use of it is refused by name."""

    __slots__ = ("_begin", "_branches", "_code", "_line", "_name", "_place", "_unawaited", "_work")

    def __init__(
        self,
        unawaited: "dict[int, WorkflowOperation[Any]]",
        name: str,
        begin: Callable[[], Coroutine[Any, Any, T]],
        arguments: tuple[object, ...] = (),
    ) -> None:
        frame = sys._getframe(2)  # noqa: SLF001 - the line of the code that calls the context
        self._code, self._line, self._place = frame.f_code, frame.f_lineno, frame.f_lasti
        self._name = name
        self._begin: Callable[[], Coroutine[Any, Any, T]] | None = begin
        self._work: Coroutine[Any, Any, T] | None = None
        self._branches = [it for it in arguments if isinstance(it, Coroutine)]
        self._unawaited = unawaited
        unawaited[id(self)] = self

    def explain(self) -> WorkflowMisuse:
        """Return the refusal of using it without awaiting it."""
        problem = (
            f"{self!r} was never awaited: it has done nothing and is no answer. "
            f"Write `await ctx.{self._name}(…)`."
        )
        return WorkflowMisuse(problem=problem)

    def was_lost_to(self, error: BaseException | None) -> bool:
        """Whether an error that is being handled kept the code from using it.

        It was made for an expression, such as `ctx.gather(ctx.call(a), ctx.call(b, parse(text)))`,
        another part of which has raised. A statement of its own was forgotten, whatever came later.
        """
        causes = tuple(_iterate_causes(error))
        if any(isinstance(it, WorkflowMisuse) for it in causes) or self._is_statement():
            return False
        return any(frame.f_code is self._code for it in causes for frame in _iterate_frames(it))

    def _is_statement(self) -> bool:
        """Whether the code drops it as soon as it is made."""
        code = self._code.co_code
        following = self._place + 2
        while following < len(code) and code[following] == _CACHE:
            following += 2
        return following < len(code) and code[following] == _POP_TOP

    def check_unused(self) -> None:
        """Check that it has not begun: it does its work once.

        Raises:
            WorkflowMisuse: It was awaited before, or was given to `gather` or `race`.
        """
        if self._begin is None:
            raise WorkflowMisuse(problem=f"{self!r} was awaited before; make another one.")

    def _start(self) -> Coroutine[Any, Any, T]:
        self.check_unused()
        assert self._begin is not None
        self._work = self._begin()
        self._forget()
        return self._work

    def _forget(self) -> None:
        self._begin = None
        self._branches.clear()
        self._unawaited.pop(id(self), None)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._start().__await__()

    def send(self, value: Any) -> Any:
        """Begin it or go on with it, as a task does."""
        return (self._work or self._start()).send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error inside of it."""
        return (self._work or self._start()).throw(*error)

    def close(self) -> None:
        """End it; one that has not begun never will, and neither will its branches."""
        if self._begin is not None:
            for branch in self._branches:
                branch.close()
        self._forget()
        if self._work is not None:
            self._work.close()

    def __repr__(self) -> str:
        file = PurePath(self._code.co_filename).name
        return f"ctx.{self._name}(…) in {self._code.co_name} ({file}:{self._line})"

    def __getattr__(self, name: str) -> Any:
        # Python itself looks for names such as `cr_frame`; a workflow looks for `is_approved`.
        if name.startswith(("_", "cr_", "gi_", "ag_")):
            raise AttributeError(name)
        raise self.explain()


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that were being handled when it was raised."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__context__


def _iterate_frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames that an error has left, the outermost first."""
    place = error.__traceback__
    while place is not None:
        yield place.tb_frame
        place = place.tb_next


def _refuse_use(operation: WorkflowOperation[Any], *_: object) -> NoReturn:
    raise operation.explain()


# Not `next`: a task that executes an iterator asks it, and not `send`.
_USES = (
    "bool str format eq ne lt le gt ge len iter contains getitem setitem int float index add "
    "radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod divmod rdivmod pow rpow "
    "and rand or ror xor rxor neg pos abs round enter exit aenter aexit aiter anext"
)
for _use in _USES.split():
    setattr(WorkflowOperation, f"__{_use}__", _refuse_use)
