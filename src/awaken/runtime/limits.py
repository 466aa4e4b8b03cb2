"""The bounds of a runtime. Everything that could grow or hang has one."""

from typing import TYPE_CHECKING

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import StrictRecord
from awaken.contracts.tools.tool import Tool

if TYPE_CHECKING:
    import asyncio


class Limits(StrictRecord, frozen=True, kw_only=True):
    """Bounds for all runs of a runtime; all times are milliseconds."""

    message_bytes: int = 32 * 1024 * 1024
    """The largest message that a run accepts."""
    argument_bytes: int = 1024 * 1024
    """The largest arguments of one tool call, as JSON."""
    calls_per_step: int = 256
    tool_output_chars: int = 200_000
    tool_timeout_ms: int = 600_000
    step_result_bytes: int = 1_000_000
    """The largest result of a workflow's step, as JSON; a larger one is an error, never cut."""
    model_idle_ms: int = 120_000
    """How long a model may send nothing."""
    cancel_grace_ms: int = 5_000
    """How long a cancelled tool may take to clean up before it is abandoned."""
    hook_ms: int = 60_000
    """How long a plugin's hook, gate, observer, action or effect may take, and a validator."""
    context_bytes: int = 64 * 1024
    """The largest context of a run, as JSON: every commit of the run's record has it."""
    instructions_ms: int = 10_000
    """How long a function may take to make the instructions of a run."""
    instructions_chars: int = 200_000
    """The longest instructions that are made for a run."""
    resolver_ms: int = 10_000
    """How long the host's resolver may take for an agent and the agents that it names."""
    run_end_ms: int = 30_000
    """How long the hooks of the last phase may take."""
    follow_up_ms: int = 120_000
    """How long the work of one plugin after a run may take."""
    phase_rounds: int = 16
    inbox_messages: int = 256
    stream_checkpoint_ms: int = 2_000
    """How often a streaming answer is saved, if the store is shared; 0: never."""
    delegate_depth: int = 8
    """How many agents may be above a delegate in its chain of delegation."""
    tasks_per_run: int = 64
    """How many background tasks of one run may be active at once."""
    tasks_per_thread: int = 256
    """How many background tasks of one thread may be active at once."""
    tasks_in_process: int = 2_048
    """How many background tasks may be active at once in this process."""
    message_hops: int = 32
    """How many messages between agents may follow each other without one from a person."""
    message_sink_ms: int = 30_000
    """How long the host's message sink may take."""
    output_retries: int = 2
    """How often a model may answer again after an answer that its output type or a validator
    refused, unless the agent says."""

    def __post_init__(self) -> None:
        """Refuse values that are no limits.

        Raises:
            InvalidInput: A limit is not a whole number, or is negative; names it.
        """
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if type(limit) is not int or limit < 0:
                problem = "a limit is a whole number, 0 or more"
                raise InvalidInput(what=f"limits: {name}={limit!r:.80}", problem=problem)


class ToolSlots:
    """How many calls of a tool may run at once in one runtime."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        # By the tool itself, because two agents may have different tools of one id.
        self._slots: dict[int, tuple[Tool, asyncio.Semaphore]] = {}

    def of(self, tool: Tool) -> "asyncio.Semaphore":
        """Return the semaphore of a tool that has a limit."""
        if id(tool) not in self._slots:
            # Not by a process that only declares agents: asyncio is a third of what it would load.
            import asyncio  # noqa: PLC0415

            limit = tool.descriptor.concurrency or 1
            self._slots[id(tool)] = (tool, asyncio.Semaphore(limit))
        return self._slots[id(tool)][1]
