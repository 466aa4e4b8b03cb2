"""The answer to a tool call."""

from enum import StrEnum
from typing import Any

from .models.inference import TokenUsage
from .record import Record, always
from .suspension.tickets import SuspendTicket, ToolCallOutcome, ToolCallResume


class ToolStatus(StrEnum):
    """The status of a tool result."""

    SUCCESS = "success"
    PENDING = "pending"
    ERROR = "error"


class ToolResult(Record, frozen=True, kw_only=True):
    """The answer to one tool call."""

    tool_name: str
    status: ToolStatus = always(ToolStatus.SUCCESS)
    data: Any = always(None)
    message: str | None = None
    suspension: SuspendTicket | None = None
    metadata: dict[str, Any] = {}
    usage: TokenUsage | None = None
    """Model usage of another run for this result; added to this run's usage."""

    @classmethod
    def success(cls, tool_name: str, data: Any, message: str | None = None) -> "ToolResult":
        """A successful result."""
        return cls(tool_name=tool_name, data=data, message=message)

    @classmethod
    def from_decision(cls, tool_name: str, decision: ToolCallResume) -> "ToolResult":
        """The payload of a decision as the result of the call."""
        data = decision.result
        text = data if decision.is_text and isinstance(data, str) else None
        return cls(tool_name=tool_name, data=data, message=text)

    @classmethod
    def error(cls, tool_name: str, message: str, **metadata: Any) -> "ToolResult":
        """A result that the model should read as a failure."""
        return cls(
            tool_name=tool_name,
            status=ToolStatus.ERROR,
            message=message,
            metadata=metadata,
        )

    @classmethod
    def error_with_code(cls, tool_name: str, code: str, message: str) -> "ToolResult":
        """A failure with a code that programs can read."""
        return cls(
            tool_name=tool_name,
            status=ToolStatus.ERROR,
            data={"error": {"code": code, "message": message}},
            message=f"[{code}] {message}",
        )

    @classmethod
    def from_ticket(cls, tool_name: str, ticket: SuspendTicket | None = None) -> "ToolResult":
        """A pending result that waits for a decision."""
        ticket = ticket or SuspendTicket()
        message = ticket.suspension.message or None
        return cls(
            tool_name=tool_name,
            status=ToolStatus.PENDING,
            message=message,
            suspension=ticket,
        )

    @property
    def error_class(self) -> str:
        """The kind of failure: its code if that is an identifier, otherwise `tool_error`."""
        error = self.data.get("error") if isinstance(self.data, dict) else None
        code = error.get("code") if isinstance(error, dict) else self.metadata.get("code")
        if isinstance(code, str) and code.isidentifier() and len(code) <= _CODE_CHARS:
            return code
        return "tool_error"

    @property
    def outcome(self) -> ToolCallOutcome:
        """The outcome that corresponds to the status."""
        return _OUTCOMES[self.status]


_CODE_CHARS = 64
_OUTCOMES = {
    ToolStatus.SUCCESS: ToolCallOutcome.SUCCEEDED,
    ToolStatus.PENDING: ToolCallOutcome.SUSPENDED,
    ToolStatus.ERROR: ToolCallOutcome.FAILED,
}
