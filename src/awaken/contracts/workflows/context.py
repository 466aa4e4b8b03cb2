"""What the function of a workflow gets: every way to act on the world that can be replayed."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, overload

from awaken.contracts.identity import RunIdentity

from .errors import WorkflowMisuse
from .operations import WorkflowOperation
from .steps import LONGEST_S, ApprovalAnswer, StepRetry

T = TypeVar("T")
P = ParamSpec("P")


class WorkflowSteps(Protocol):
    """Takes the steps of one run; the runtime has it."""

    @property
    def identity(self) -> RunIdentity:
        """The run."""
        ...

    @property
    def deps(self) -> Any:
        """The open dependencies of the runtime."""
        ...

    async def call(
        self,
        tool: Any,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        timeout_ms: int | None,
        retry: StepRetry | None,
    ) -> Any:
        """Call a tool."""
        ...

    async def ask(
        self,
        agent: Any,
        prompt: Any,
        output: Any,
        timeout_ms: int | None,
        retry: StepRetry | None,
    ) -> Any:
        """Let an agent answer, in a run of its own."""
        ...

    async def start(self, agent: Any, prompt: Any) -> str:
        """Start an agent that outlives the run."""
        ...

    async def gather(self, branches: tuple[Coroutine[Any, Any, Any], ...]) -> list[Any]:
        """Run branches side by side."""
        ...

    async def race(self, branches: tuple[Coroutine[Any, Any, Any], ...]) -> tuple[int, Any]:
        """Run branches side by side until one is over."""
        ...

    async def sleep(self, duration_ms: int) -> None:
        """Wait until a time has passed."""
        ...

    async def wait_for(self, name: str, schema: Any, timeout_ms: int | None) -> Any:
        """Wait for an event."""
        ...

    async def approve(
        self,
        message: str,
        parameters: Any,
        deciders: tuple[str, ...] | None,
        timeout_ms: int | None,
    ) -> ApprovalAnswer:
        """Ask a person."""
        ...

    async def read_value(self, kind: str) -> Any:
        """Read the time, a random number or a new id, and record it."""
        ...

    def patched(self, patch_id: str) -> bool:
        """Whether the run takes the new way of a change."""
        ...

    def set_status(self, value: Any) -> None:
        """Keep a value that others can read."""
        ...

    def continue_as_new(self, given: Any) -> NoReturn:
        """End the run and begin a fresh one."""
        ...

    def list_unawaited(self) -> dict[int, WorkflowOperation[Any]]:
        """Return where an operation that is made now is kept until it begins."""
        ...


def operation(
    method: "Callable[Concatenate[WorkflowContext, P], Coroutine[Any, Any, T]]",
) -> "Callable[Concatenate[WorkflowContext, P], Coroutine[Any, Any, T]]":
    """Let an async method of the context return an operation, which cannot be forgotten."""

    @wraps(method)
    def make(
        context: "WorkflowContext", /, *args: P.args, **named: P.kwargs
    ) -> WorkflowOperation[T]:
        begin = partial(method, context, *args, **named)
        steps = context._steps  # noqa: SLF001 - the context's own methods
        return WorkflowOperation(steps.list_unawaited(), method.__name__, begin, args)

    return make


class WorkflowContext:
    """What a workflow does, it does through its context: each step is journaled.

    After a crash or a wait the function is entered again from its beginning, and every step that
    is in the journal answers from there. So the code between steps has to be deterministic: time,
    randomness and everything outside of the function come from the context.
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: WorkflowSteps) -> None:
        self._steps = steps

    @property
    def run(self) -> RunIdentity:
        """The identity of the run."""
        return self._steps.identity

    @property
    def deps(self) -> Any:
        """The dependencies of the runtime; what they return is not journaled."""
        return self._steps.deps

    @operation
    async def call(
        self,
        tool: Any,
        /,
        *args: Any,
        timeout: float | None = None,
        retry: StepRetry | int | None = None,
        **arguments: Any,
    ) -> Any:
        """Call a tool and return its result, which is durable by then.

        Args:
            tool: A tool, a function, or the id of a tool that the workflow has.
            *args: Arguments by position.
            timeout: Seconds that one attempt may take.
            retry: How often it is tried altogether, or a `StepRetry`.
            **arguments: Arguments by name.

        Raises:
            StepFailed: The tool failed.
            OutcomeUnknown: The process stopped inside a `once` call.
            StepTimedOut: It took too long.
            StepDeclined: A person declined the call.
        """
        options = to_ms(timeout, least_s=0.001), to_retry(retry)
        return await self._steps.call(tool, (args, arguments), *options)

    @overload
    async def ask(
        self,
        agent: Any,
        prompt: Any,
        output: type[T],
        *,
        timeout: float | None = None,
        retry: StepRetry | int | None = None,
    ) -> T: ...

    @overload
    async def ask(
        self,
        agent: Any,
        prompt: Any = ...,
        output: None = None,
        *,
        timeout: float | None = None,
        retry: StepRetry | int | None = None,
    ) -> Any: ...

    def ask(
        self,
        agent: Any,
        prompt: Any = "",
        output: Any = None,
        *,
        timeout: float | None = None,
        retry: StepRetry | int | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Let an agent, or another workflow, answer in a run of its own.

        Args:
            agent: The agent, the workflow, or its id.
            prompt: A text, or the arguments of a workflow.
            output: The type of the answer. Unless given: the agent's output type, else text.
            timeout: Seconds that one attempt may take.
            retry: How often it is tried altogether, or a `StepRetry`.

        Raises:
            StepFailed: The agent did not answer.
        """

        async def ask() -> Any:
            options = to_ms(timeout, least_s=0.001), to_retry(retry)
            return await self._steps.ask(agent, prompt, output, *options)

        return WorkflowOperation(self._steps.list_unawaited(), "ask", ask)

    @operation
    async def start(self, agent: Any, prompt: Any = "") -> str:
        """Start an agent, or another workflow, detached, and return the id of its run at once.

        It goes on when this run ends or is cancelled; what `ask` has started is cancelled.

        Args:
            agent: The agent, the workflow, or its id.
            prompt: A text, or the arguments of a workflow.

        Raises:
            StepFailed: It could not be started.
        """
        return await self._steps.start(agent, prompt)

    @operation
    async def gather(self, *branches: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run branches side by side, and return their results in their order.

        It waits for every branch, and then raises the first error in the order of the branches.

        Args:
            *branches: Coroutines, such as `ctx.call(…)` or an async function with this context.
        """
        return await self._steps.gather(branches)

    @operation
    async def race(self, *branches: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
        """Run branches side by side until one is over; return its index and its result.

        The winner is recorded. The other branches are cancelled, and take no more steps.

        Args:
            *branches: Coroutines, such as `ctx.sleep(…)` or an async function with this context.
        """
        return await self._steps.race(branches)

    @operation
    async def sleep(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Sleep for a time; nothing is held in memory meanwhile. A negative time is none.

        Args:
            seconds: Seconds.
            minutes: Minutes.
            hours: Hours.
            days: Days of 24 hours.
        """
        for given in (seconds, minutes, hours, days):
            check_number("ctx.sleep", given)
        total = seconds + 60 * (minutes + 60 * (hours + 24 * days))
        await self._steps.sleep(to_ms(0 if total < 0 else total) or 0)

    @operation
    async def wait_for(self, name: str, schema: Any = None, *, timeout: float | None = None) -> Any:
        """Wait for an event from outside, and return what it carries.

        Args:
            name: The name of the event. A chat message to the thread is the event `message`.
            schema: A type or a JSON Schema that it must fit. None: any JSON.
            timeout: Seconds.

        Raises:
            StepTimedOut: No event came in time.
            EventInvalid: Other code has taken it, and it is no value of the type.
        """
        check_text("ctx.wait_for: the event's name", name)
        return await self._steps.wait_for(name, schema, to_ms(timeout))

    @operation
    async def approve(
        self,
        message: str,
        *,
        parameters: Any = None,
        deciders: tuple[str, ...] | None = None,
        timeout: float | None = None,
    ) -> ApprovalAnswer:
        """Ask a person; the answer is true if it is a yes. A missed deadline is a no.

        Args:
            message: The question.
            parameters: JSON that the decider sees.
            deciders: The users who may decide. None: everybody with the right to decide.
            timeout: Seconds.

        Raises:
            WorkflowMisuse: The message is no text, or the deciders are no list of texts.
        """
        check_text("ctx.approve: the message", message)
        if deciders is not None:
            given: object = deciders
            if isinstance(given, str) or not isinstance(given, Iterable):
                problem = 'ctx.approve: deciders are a list of users, such as deciders=("ann",).'
                raise WorkflowMisuse(problem=problem)
            deciders = tuple(given)
            for user in deciders:
                check_text("ctx.approve: a decider", user)
        return await self._steps.approve(message, parameters, deciders, to_ms(timeout))

    @operation
    async def now(self) -> int:
        """Return the time in milliseconds since the epoch; the same in every replay."""
        return int(await self._steps.read_value("now"))

    @operation
    async def random(self) -> float:
        """Return a random number between 0 and 1; the same in every replay."""
        return float(await self._steps.read_value("random"))

    @operation
    async def uuid(self) -> str:
        """Return a new id; the same in every replay."""
        return str(await self._steps.read_value("uuid"))

    def patched(self, patch_id: str) -> bool:
        """Whether this run takes the new way of a change to the workflow's code.

        False for a run that was beyond this point before the change, True for all others.

        Args:
            patch_id: The name of the change.
        """
        check_text("ctx.patched: the id", patch_id)
        return self._steps.patched(patch_id)

    def set_status(self, value: Any) -> None:
        """Show a value to those who look at the run; it is durable with the next step.

        Args:
            value: Anything with a JSON form.
        """
        self._steps.set_status(value)

    def continue_as_new(self, given: Mapping[str, Any] | None = None) -> NoReturn:
        """End this run, and begin a fresh one of the same workflow on the same thread.

        Args:
            given: The arguments of the fresh run.
        """
        self._steps.continue_as_new(given)


def to_ms(seconds: float | None, *, least_s: float = 0) -> int | None:
    """Convert seconds to milliseconds.

    Raises:
        WorkflowMisuse: It is too short, or longer than a clock can show.
    """
    if seconds is None:
        return None
    check_number("A step", seconds)
    if not least_s <= seconds <= LONGEST_S:
        problem = f"A step cannot take {seconds} seconds: it takes {least_s} to {LONGEST_S}."
        raise WorkflowMisuse(problem=problem)
    return round(seconds * 1000)


def to_retry(retry: StepRetry | int | None) -> StepRetry | None:
    """Return a retry policy; a number is how often a step is tried altogether.

    Raises:
        WorkflowMisuse: It is not tried even once.
    """
    is_known = retry is None or isinstance(retry, int | StepRetry)
    if not is_known or isinstance(retry, bool):
        raise WorkflowMisuse(problem=f"retry={retry!r}: it is a number or a StepRetry.")
    policy = StepRetry(attempts=retry) if isinstance(retry, int) else retry
    if policy is not None and policy.attempts < 1:
        raise WorkflowMisuse(problem=f"retry={policy.attempts}: a step is tried once at least.")
    if policy is not None:
        check_pauses(policy)
    return policy


def check_pauses(policy: StepRetry) -> None:
    """Check what the pauses of a retry policy are made of.

    Raises:
        WorkflowMisuse: Something is negative, or no number.
    """
    for name in ("first_ms", "factor", "longest_ms"):
        value = getattr(policy, name)
        check_number(f"StepRetry.{name}", value)
        if not value >= 0:
            raise WorkflowMisuse(problem=f"StepRetry.{name}={value}: it is 0 or more.")


def check_text(what: str, value: object) -> None:
    """Check a text before it is written: a journal with anything else could not be read.

    Raises:
        WorkflowMisuse: It is none, or no store can keep it.
    """
    if not isinstance(value, str):
        raise WorkflowMisuse(problem=f"{what} is a text, not {type(value).__name__}.")
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        problem = (
            f"{what} has half of a surrogate pair (character {error.start + 1}), which is no text; "
            "decode what it is made of with errors='replace'."
        )
        raise WorkflowMisuse(problem=problem) from error


def check_number(what: str, value: object) -> None:
    """Check a time.

    Raises:
        WorkflowMisuse: It is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorkflowMisuse(problem=f"{what} takes a number, not {type(value).__name__}.")
