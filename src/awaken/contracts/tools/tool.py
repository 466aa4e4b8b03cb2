"""Tools: descriptors, outputs and errors, and the port of a tool."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from awaken.contracts.errors import RunError, field
from awaken.contracts.record import Record
from awaken.contracts.state.keys import EMPTY_COMMAND, StateCommand
from awaken.contracts.tool_results import ToolResult

from .context import ToolContext


class ToolEffect(StrEnum):
    """The effect of running the tool; determines whether it may be re-run after a crash."""

    NONE = "none"
    """A pure read: no intent is stored, and it may run any number of times."""
    IDEMPOTENT = "idempotent"
    """May run again with the same idempotency key."""
    ONCE = "once"
    """Never run twice; after a crash the outcome is unknown unless `reconcile` returns it."""


class ToolKind(StrEnum):
    """What a tool does, for policies."""

    EXECUTE = "execute"
    READ = "read"
    EDIT = "edit"
    SEARCH = "search"
    OTHER = "other"


UNKNOWN_TOOL = "unknown"
"""The name of unregistered tools in metrics, so that the set of names stays bounded."""

EMPTY_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class ToolDescriptor(Record, frozen=True, kw_only=True):
    """The description of a tool for the model, and how the runtime executes it.

    Tools are routed by `id`. `metadata`, `effect` and the limits are never shown to the model.
    """

    id: str
    name: str = ""
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: EMPTY_PARAMETERS)
    category: str | None = None
    kind: ToolKind | None = None
    effect: ToolEffect = ToolEffect.ONCE
    timeout_ms: int | None = None
    output_limit: int | None = None
    """Characters of output kept; longer output is cut with a marker."""
    concurrency: int | None = None
    """How many calls of this tool may run at once in one runtime."""
    retries: int | None = None
    """How often a model may send refused arguments again, in a row; absent: no limit."""
    metadata: dict[str, Any] = {}

    @property
    def is_repeatable(self) -> bool:
        """Whether the tool may be run again for the same call."""
        return self.effect is not ToolEffect.ONCE


class ToolOutput(Record, frozen=True, kw_only=True):
    """A result together with the state command of the call."""

    result: ToolResult
    command: StateCommand = EMPTY_COMMAND


class ToolError(RunError):
    """A tool call failed; becomes an error result, never ends the run."""

    code = "tool_error"
    template = "Execution failed: {message}"
    message: str = field(kw_only=False)


class InvalidArguments(ToolError):
    """The arguments do not fit the tool; its code was not reached."""

    code = "invalid_arguments"
    template = "Invalid arguments: {message}"


class Retry(ToolError):
    """Sends the model back with a reason; raised by a tool, its `check`, or an output validator."""

    code = "retry"
    template = "{message}"


class ExecutionFailed(ToolError):
    """The tool's own code failed."""

    code = "execution_failed"


class ToolDenied(ToolError):
    """Policy refused the call."""

    code = "tool_denied"
    template = "Denied: {message}"


class ToolNotFound(ToolError):
    """No tool of that id is available to the agent."""

    code = "tool_not_found"
    template = "Not found: {message}"


class ToolInternalError(ToolError):
    """The tool is broken, for example its schema."""

    code = "tool_internal_error"
    template = "Internal error: {message}"


class ToolTimeout(ToolError):
    """The tool did not finish in time; whatever it returns later is ignored."""

    code = "tool_timeout"
    template = "Timed out: {message}"


@runtime_checkable
class Tool(Protocol):
    """A tool that a model can call.

    `execute` may run concurrently with itself. It should let `asyncio.CancelledError` pass; a
    tool that does not is abandoned after a grace period, and its late result is dropped.
    """

    @property
    def descriptor(self) -> ToolDescriptor:
        """The descriptor; always the same object."""
        ...

    def validate(self, arguments: Any) -> Any:
        """Return the arguments in the form that `execute` takes.

        Raises:
            InvalidArguments: They do not fit.
        """
        ...

    def execute(self, arguments: Any, context: ToolContext) -> Awaitable[ToolOutput]:
        """Run one call with validated arguments."""
        ...


@runtime_checkable
class Reconcilable(Protocol):
    """A `once` tool that can find the outcome of a lost call."""

    def reconcile(self, arguments: Any, context: ToolContext) -> Awaitable[ToolOutput | None]:
        """Return the lost call's output, or None when it never took effect."""
        ...


Approval = Callable[[Any, ToolContext], Awaitable[bool]]
"""Takes the validated arguments of a call; whether a person has to approve it. Pure."""


def approval_of(tool: Tool | None) -> Approval | None:
    """The `approval` of a tool that declares one; a tool that wraps another one passes it on."""
    return getattr(tool, "approval", None)


ArgumentCheck = Callable[[Any], Awaitable[None]]
"""Takes the validated arguments of a call; raises a `ToolError` to refuse them."""


def check_of(tool: Tool | None) -> ArgumentCheck | None:
    """The check of arguments of a tool that has one, as `approval_of` for approvals."""
    return getattr(tool, "check_arguments", None)


_KIND_WORDS: tuple[tuple[ToolKind, str], ...] = (
    (ToolKind.EDIT, "edit write patch replace create delete remove move rename"),
    (ToolKind.SEARCH, "search grep find rg"),
    (ToolKind.READ, "read cat view open list ls glob fetch http curl"),
    (ToolKind.EXECUTE, "bash shell exec run command terminal"),
)


def infer_kind(tool_name: str) -> ToolKind:
    """Guess a kind from the words of a name; a declared kind is always better."""
    spaced = "".join(f" {c}" if c.isupper() else c for c in tool_name)
    words = set("".join(c if c.isalnum() else " " for c in spaced).lower().split())
    for kind, known in _KIND_WORDS:
        if words.intersection(known.split()):
            return kind
    return ToolKind.OTHER
