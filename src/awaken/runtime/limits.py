"""The bounds of a runtime. Everything that could grow or hang has one."""

import asyncio

from awaken.contracts.record import StrictRecord
from awaken.contracts.tools import ToolDescriptor


class Limits(StrictRecord, frozen=True, kw_only=True):
    """Bounds for all runs of a runtime; all times are milliseconds."""

    message_bytes: int = 32 * 1024 * 1024
    """The largest message that is taken in."""
    argument_bytes: int = 1024 * 1024
    """The largest arguments of one tool call, as JSON."""
    calls_per_step: int = 256
    tool_output_chars: int = 200_000
    tool_timeout_ms: int = 600_000
    model_idle_ms: int = 120_000
    """How long a model may send nothing."""
    cancel_grace_ms: int = 5_000
    """How long a cancelled tool may take to clean up before it is abandoned."""
    run_end_ms: int = 30_000
    """How long the hooks of the last phase may take."""
    phase_rounds: int = 16
    inbox_messages: int = 256
    output_retries: int = 2
    """How often a model may repeat an answer that does not fit its output type."""


class ToolSlots:
    """How many calls of a tool may run at once in this process."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[str, asyncio.Semaphore] = {}

    def of(self, descriptor: ToolDescriptor) -> asyncio.Semaphore | None:
        """Return the tool's semaphore, or None when it has no limit."""
        if descriptor.concurrency is None:
            return None
        slot = self._slots.get(descriptor.id)
        if slot is None:
            slot = self._slots[descriptor.id] = asyncio.Semaphore(descriptor.concurrency)
        return slot
