"""Functions as tools: the signature is compiled when the tool is declared.

A tool here only calls its function with decoded arguments; the runtime adds timeouts, retries and
policy.
"""

import contextvars
import functools
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    Approval,
    ArgumentCheck,
    InvalidArguments,
    Retry,
    Tool,
    ToolDescriptor,
    ToolEffect,
    ToolError,
    ToolInternalError,
    ToolKind,
    ToolOutput,
)

from .decoding import arguments_decoder
from .refusals import describe_refusal, truncate_text
from .results import as_output
from .signatures import (
    Parameters,
    Source,
    match_companion,
    parameters_schema,
    read_parameters,
    source_of,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = ("__module__", "__name__", "__qualname__")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
FUNCTION_THREADS = 8
"""How many calls of one plain function, such as a validator, run at once."""
_ALTERNATIVES = frozenset({"anyOf", "oneOf", "allOf"})


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes besides the function; `tool` explains each of them."""

    id: str
    description: str
    effect: ToolEffect | Literal["none", "idempotent", "once"]
    timeout: float | None
    output_limit: int | None
    concurrency: int | None
    kind: ToolKind | Literal["execute", "read", "edit", "search", "other"] | None
    category: str | None
    metadata: dict[str, Any]
    approval: bool | Callable[..., object]
    check: Callable[..., object] | None
    retries: int | None
    reconcile: Callable[..., Any] | None


@overload
def tool(function: Callable[P, R], /) -> "FunctionTool[P, R]": ...


@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[P, R]], "FunctionTool[P, R]"]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of an annotated function; use as `@tool` or `@tool(effect="none", …)`.

    The schema comes from the annotations and the docstring. A parameter annotated with
    `ToolContext` gets the context and is not shown to the model.

    Args:
        function: The function, when `@tool` is used without options. It may be async or not.
        **options: See `ToolOptions`:
        id: What the model calls the tool. The function's name unless given.
        description: What the model reads about it. Unless given, the docstring without its
            section on arguments.
        effect: `none`, `idempotent` or `once`: whether a call may run again after a crash or a
            conflict. `once` unless given.
        timeout: Seconds that one call may take. The runtime's limit unless given.
        output_limit: Characters of output that are kept. Longer output is cut with a marker.
        concurrency: How many calls of this tool may run at once in one runtime.
        kind: `execute`, `read`, `edit`, `search` or `other`. Gates and clients see it.
        category: A label for people and policies.
        metadata: Data of your own. The model never sees it.
        approval: True: a person approves every call before it runs. A function, async or not: takes
            arguments by name, and a context, and returns False for the calls that need no approval.
            A call needs one if the function raises or returns anything else.
        check: A function, async or not. Takes arguments by name and raises `Retry` or ValueError
            with the reason to refuse them before the call runs. The model reads the reason.
        retries: How often the model may try again after refused arguments, in a row. The next
            refusal ends the run with `tool_retries_exceeded`. No limit unless given.
        reconcile: For `once` tools: takes arguments by name, and a context, and returns what a
            lost call returned, or None when it never took effect.

    Raises:
        InvalidSpec: The function or an option cannot be accepted; names the function.
    """
    if isinstance(function, str):
        problem = f"use @tool or @tool(id={function!r})"
        raise InvalidSpec(what=f"@tool({function!r})", problem=problem)
    if function is None:
        return functools.partial(_declare_tool, options=options)
    return _declare_tool(function, options)


def as_tool(candidate: Any) -> Tool:
    """Return a tool: the object itself if it is one, otherwise made from a function.

    Raises:
        InvalidSpec: It is neither, or it cannot be offered to a model.
    """
    if isinstance(candidate, type) or not (callable(candidate) or isinstance(candidate, Tool)):
        raise InvalidSpec(what=f"tool {candidate!r}", problem="it is neither a tool nor a function")
    if not isinstance(candidate, Tool):
        return _declare_tool(candidate, {})
    if problem := _find_problem(candidate.descriptor):
        raise InvalidSpec(what=f"tool {type(candidate).__qualname__}", problem=problem)
    return candidate


def _find_problem(descriptor: Any) -> str | None:
    """Why a tool cannot be offered to a model, or None."""
    if not isinstance(descriptor, ToolDescriptor):
        return "its descriptor is not a ToolDescriptor"
    if not _ID.fullmatch(descriptor.id):
        return f"{descriptor.id!r} is not a valid tool id; set id= with letters, digits, _ and -"
    schema = descriptor.parameters
    if schema and (schema.get("type") != "object" or _ALTERNATIVES & schema.keys()):
        return (
            "its parameters are not an object: use a schema of type 'object' without anyOf, oneOf "
            "or allOf at its top, and put other values into a property"
        )
    return None


def _declare_tool(function: Callable[..., Any], options: ToolOptions) -> "FunctionTool[..., Any]":
    if isinstance(function, FunctionTool):
        function = function.__wrapped__
    if (reconcile := options.get("reconcile")) is not None:
        return ReconcilingTool(function, options, reconcile)
    return FunctionTool(function, options)


class FunctionTool(Generic[P, R]):
    """A tool that calls a function. Calling the tool itself calls the plain function.

    Like a wrapper, it has the function's name and module.
    """

    __wrapped__: Callable[P, R]
    hands_off_to: Callable[[Any], str] | None = None
    """Finds the agent that a call hands the conversation over to; None: it hands over nothing."""

    def __init__(self, function: Callable[P, R], options: ToolOptions) -> None:
        source = source_of(function)
        parameters = read_parameters(source)
        self.descriptor = _build_descriptor(source, parameters, options)
        functools.update_wrapper(self, function, _NAMES, ())
        self.__doc__ = self.descriptor.description
        self._call = BoundCall(source, parameters.context_name)
        self.check_arguments = _build_checker(options, parameters)
        self.approval = _build_approval(source, options, parameters)
        self._parameters = parameters
        self.context_type = parameters.context_type
        """The type of the run's context that the function is annotated with."""
        self._decode = arguments_decoder(parameters.arguments_type)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as if it had not been declared a tool."""
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.descriptor.id!r})"

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Decode JSON into keyword arguments; null means none.

        Raises:
            InvalidArguments: They do not fit; the text names the place and no value.
        """
        try:
            decoded = self._decode({} if arguments is None else arguments)
            keywords = msgspec.structs.asdict(decoded)
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            raise InvalidArguments(describe_refusal(error)) from error
        return keywords

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Call the function: a coroutine function on the loop, a plain one in a worker thread.

        Raises:
            ToolInternalError: The function returned something that has no JSON form.
        """
        value = await self._call(arguments, context)
        return as_output(self.descriptor.id, value, context)


class ReconcilingTool(FunctionTool[P, R]):
    """A `once` tool with a function that finds the outcome of a lost call."""

    def __init__(
        self, function: Callable[P, R], options: ToolOptions, reconcile: Callable[..., Any]
    ) -> None:
        super().__init__(function, options)
        if self.descriptor.effect is not ToolEffect.ONCE:
            source_of(function).refuse("reconcile is for tools with effect 'once'")
        companion = source_of(reconcile)
        self._names, context_name = match_companion(companion, self._parameters)
        self._reconcile = BoundCall(companion, context_name)

    async def reconcile(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput | None:
        """Return what the lost call returned, or None when it never took effect."""
        wanted = {name: arguments[name] for name in self._names}
        value = await self._reconcile(wanted, context)
        return None if value is None else as_output(self.descriptor.id, value, context)


def _build_approval(
    source: Source, options: ToolOptions, parameters: Parameters
) -> Approval | None:
    wanted = options.get("approval", False)
    if wanted is False:
        return None
    if wanted is True:
        return approve_always
    if not callable(wanted):
        source.refuse("approval must be True, False or a function of the arguments")
    companion = source_of(wanted)
    names, context_name = match_companion(companion, parameters)
    predicate = BoundCall(companion, context_name, has_own_threads=True)

    async def needs_approval(arguments: dict[str, Any], context: ToolContext) -> bool:
        wanted = {name: arguments[name] for name in names}
        # Fails closed: a predicate that forgets to return asks as well.
        return await predicate(wanted, context) is not False

    return needs_approval


async def approve_always(arguments: Any, context: ToolContext) -> bool:
    """Require an approval of every call."""
    return True


def _build_checker(options: ToolOptions, parameters: Parameters) -> ArgumentCheck | None:
    check = options.get("check")
    if check is None:
        return None
    companion = source_of(check)
    names, context_name = match_companion(companion, parameters)
    if context_name is not None:
        companion.refuse("a check takes arguments only; read the context in the tool")
    call = BoundCall(companion, None, has_own_threads=True)

    async def check_arguments(arguments: dict[str, Any]) -> None:
        try:
            await call({name: arguments[name] for name in names}, None)
        except Retry as error:
            raise InvalidArguments(truncate_text(error.message)) from error
        except ToolError:
            raise
        except ValueError as error:
            raise InvalidArguments(describe_refusal(error)) from error
        except BaseException as error:
            if is_interruption(error):
                raise
            # A mistake in the check: the model can do nothing about it.
            message = f"the check of the arguments failed: {type(error).__name__}"
            raise ToolInternalError(message) from error

    return check_arguments


def _build_descriptor(
    source: Source, parameters: Parameters, options: ToolOptions
) -> ToolDescriptor:
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(ToolOptions.__annotations__)
        source.refuse(f"there is no option {', '.join(sorted(unknown))}; the options are: {known}")
    _check_choices(source, options)
    tool_id = options.get("id", source.name)
    fields = {
        "id": tool_id,
        "name": tool_id,
        "description": options.get("description", source.documentation.description),
        "parameters": parameters_schema(parameters, source),
        **{name: options[name] for name in _DESCRIPTOR_OPTIONS & options.keys()},  # type: ignore[literal-required]
    }
    try:
        fields["timeout_ms"] = _to_milliseconds(options.get("timeout"))
        descriptor = msgspec.convert(fields, ToolDescriptor)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        source.refuse(str(error))
    for name in ("timeout_ms", "output_limit", "concurrency"):
        if (limit := getattr(descriptor, name)) is not None and limit < 1:
            source.refuse(f"{name} must be positive")
    if descriptor.retries is not None and descriptor.retries < 0:
        source.refuse("retries must not be negative")
    if problem := _find_problem(descriptor):
        source.refuse(problem)
    return descriptor


def _check_choices(source: Source, options: Mapping[str, Any]) -> None:
    for name, choices in _CHOICES.items():
        if name in options and options[name] not in choices:
            *first, last = choices
            source.refuse(f"{name} must be {', '.join(map(str, first))} or {last}")


_CHOICES: dict[str, tuple[object, ...]] = {
    "effect": tuple(ToolEffect),
    "kind": (None, *ToolKind),
}
_DESCRIPTOR_OPTIONS = frozenset(
    ["effect", "output_limit", "concurrency", "retries", "kind", "category", "metadata"]
)


def _to_milliseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        message = "timeout must be a number of seconds"
        raise TypeError(message)
    return math.ceil(seconds * 1000)


class BoundCall:
    """One function that is called with keyword arguments and, if it takes one, its context.

    Raises:
        InvalidSpec: The function is a generator.
    """

    __slots__ = ("_context_name", "_function", "_is_async", "_threads")

    def __init__(
        self, source: Source, context_name: str | None, *, has_own_threads: bool = False
    ) -> None:
        function = source.function
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            source.refuse("it is a generator; return the result and stream with emit_output()")
        self._function = source.callable
        self._context_name = context_name
        self._is_async = inspect.iscoroutinefunction(function)
        self._threads: Executor | None = None
        if has_own_threads and not self._is_async:
            self._threads = make_threads()

    def __call__(self, arguments: dict[str, Any], context: ToolContext | None) -> Awaitable[Any]:
        """Call the function; a worker thread has the context variables of the caller."""
        if self._context_name is not None:
            arguments = {**arguments, self._context_name: context}
        if self._is_async:
            return self._function(**arguments)  # type: ignore[no-any-return]
        return _run_in_thread(self._function, arguments, self._threads)


async def _run_in_thread(
    function: Callable[..., Any], arguments: dict[str, Any], threads: "Executor | None"
) -> Any:
    # Not by a process that only declares tools: asyncio is a third of what it would load.
    import asyncio  # noqa: PLC0415

    if threads is None:
        value = await asyncio.to_thread(call_in_thread, function, **arguments)
    else:
        copied = contextvars.copy_context()
        work = functools.partial(copied.run, call_in_thread, function, **arguments)
        value = await asyncio.get_running_loop().run_in_executor(threads, work)
    return await value if isinstance(value, Awaitable) else value


def make_threads() -> "Executor":
    """Make the threads of one function that is no tool: if it hangs, only its own calls wait."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see `_run_in_thread`

    return ThreadPoolExecutor(FUNCTION_THREADS, "awaken-function")


def call_in_thread(function: Callable[..., Any], /, *values: Any, **named: Any) -> Any:
    """Call a function in a worker thread, so that a future can hold whatever it raises."""
    try:
        return function(*values, **named)
    except StopIteration as error:
        # A future cannot hold a StopIteration: in Python 3.11 the awaiting task would hang.
        message = "the function raised StopIteration"
        raise RuntimeError(message) from error


def is_interruption(error: BaseException) -> bool:
    """Whether what foreign code raised interrupts the caller: the caller lets it pass.

    It does if the caller's own task is cancelled, or a person stops the program. Everything else is
    a failure of that code, a SystemExit and the CancelledError of a task it awaited included: one
    function of an application must not end the process with all its runs.
    """
    if isinstance(error, Exception):
        return False
    import asyncio  # noqa: PLC0415 - see `_run_in_thread`

    if isinstance(error, asyncio.CancelledError):
        return _is_task_cancelled()
    if isinstance(error, KeyboardInterrupt):
        return _was_pressed(error)
    return isinstance(error, GeneratorExit)


def _is_task_cancelled() -> bool:
    # Not in the frame that raises: its traceback would refer to the task, and the task to it.
    import asyncio  # noqa: PLC0415 - see `_run_in_thread`

    if asyncio._get_running_loop() is None:  # noqa: SLF001 - the public form raises instead
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _was_pressed(error: KeyboardInterrupt) -> bool:
    """Whether it may come from the keyboard: only signal handlers of the main thread raise it."""
    import signal  # noqa: PLC0415 - see `_run_in_thread`
    import threading  # noqa: PLC0415

    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True
    # The handler of `asyncio.run` cancels the main task first, and raises when pressed again.
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and place.tb_frame.f_code.co_name == "_on_sigint"
