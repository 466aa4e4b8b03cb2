"""The port of telemetry: context managers around runs, model calls and tool calls.

An instrument is entered before the watched call begins and left after it ended, in the same task,
so that everything inside (an HTTP request, a span of the tool) becomes its child. An instrument
cannot change a run: the runtime logs what it raises and continues.
"""

from contextlib import AbstractContextManager
from typing import Protocol

from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.message import TokenUsage, ToolCall
from awaken.contracts.models.addresses import ServerAddress
from awaken.contracts.models.inference import InferenceRequest, StreamResult
from awaken.contracts.record import Record
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolDescriptor


class RunWatch(Protocol):
    """Watches a run while it executes in this process."""

    def on_end(self, termination: Termination, usage: TokenUsage) -> None:
        """Called when the run ended or began to wait."""
        ...


class ModelCall(Record, frozen=True, kw_only=True):
    """One call of a model; each retry is a call of its own."""

    request: InferenceRequest
    model_id: str
    provider: str
    agent_id: str
    step: int
    server: ServerAddress | None = None
    """The server that is called, if the client names it."""


class ModelWatch(Protocol):
    """Watches one model call."""

    def on_first_piece(self) -> None:
        """Called when the first piece of the answer arrived."""
        ...

    def on_end(self, answer: StreamResult, usage: TokenUsage | None) -> None:
        """Called with the answer; a failed call leaves the context with its error instead."""
        ...


class ToolWatch(Protocol):
    """Watches one tool call."""

    def on_end(self, result: ToolResult) -> None:
        """Called with the result, also if it is an error or a suspension."""
        ...


class Instrument(Protocol):
    """Watches one run, from its start or continuation in this process until it ends or waits."""

    def watch_run(self, *, is_continued: bool) -> AbstractContextManager[RunWatch]:
        """Watch the run itself."""
        ...

    def watch_model_call(self, call: ModelCall) -> AbstractContextManager[ModelWatch]:
        """Watch a call of a model."""
        ...

    def watch_tool_call(
        self, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> AbstractContextManager[ToolWatch]:
        """Watch a call of a tool, from the moment its code is about to run.

        The values of `tool.id` are bounded: for a tool of a client it is `UNKNOWN_TOOL`, and only
        the call has the name.
        """
        ...

    def on_handoff(self, agent: AgentSpec) -> None:
        """Called when the run was handed over to another agent."""
        ...


class InstrumentMaker(Protocol):
    """Builds the instrument of a run; None if the run is not watched."""

    def __call__(self, run: RunIdentity, agent: AgentSpec) -> Instrument | None:
        """Build the instrument; no other run uses it."""
        ...
