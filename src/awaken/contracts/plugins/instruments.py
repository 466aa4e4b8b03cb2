"""Watching runs from around: what telemetry is told, and where it stands in the call stack.

An instrument is entered before the thing it watches begins and left after it ended, in the same
task, so that what happens inside (a request over HTTP, a span of the tool's own) can be put below
it. Nothing it does may change a run: what it raises is logged and forgotten.
"""

from contextlib import AbstractContextManager
from typing import Protocol

from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.messages.usage import TokenUsage
from awaken.contracts.models.addresses import ServerAddress
from awaken.contracts.models.inference import InferenceRequest, StreamResult
from awaken.contracts.record import Record
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolDescriptor


class RunWatch(Protocol):
    """A run while it executes here."""

    def ended(self, termination: Termination, usage: TokenUsage) -> None:
        """Hear how it ended, or that it waits."""
        ...


class ModelCall(Record, frozen=True, kw_only=True):
    """One call of a model; a retry is another one."""

    request: InferenceRequest
    model_id: str
    provider: str
    agent_id: str
    step: int
    server: ServerAddress | None = None
    """Who is asked, if the client says so."""


class ModelWatch(Protocol):
    """A call of a model."""

    def begun(self) -> None:
        """Hear that the first piece of the answer came."""
        ...

    def ended(self, answer: StreamResult, usage: TokenUsage | None) -> None:
        """Hear what this call has said; one that failed is left with its error instead."""
        ...


class ToolWatch(Protocol):
    """A call of a tool."""

    def ended(self, result: ToolResult) -> None:
        """Hear its result, also when it is an error or waits for somebody."""
        ...


class Instrument(Protocol):
    """Watches one run, from when it begins here, or goes on, until it ends or waits."""

    def run(self, *, is_continued: bool) -> AbstractContextManager[RunWatch]:
        """Watch the run itself."""
        ...

    def model_call(self, call: ModelCall) -> AbstractContextManager[ModelWatch]:
        """Watch a call of a model."""
        ...

    def tool_call(
        self, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> AbstractContextManager[ToolWatch]:
        """Watch a call of a tool, from the moment its code is about to run.

        `tool.id` is one of few: for a tool that a client brought it is `UNKNOWN_TOOL`, and only
        the call has its name.
        """
        ...

    def handed_over(self, agent: AgentSpec) -> None:
        """Hear that another agent speaks from now on."""
        ...


class InstrumentMaker(Protocol):
    """Makes the instrument of a run; None when this one is not watched."""

    def __call__(self, run: RunIdentity, agent: AgentSpec) -> Instrument | None:
        """Make it; it is the run's own."""
        ...
