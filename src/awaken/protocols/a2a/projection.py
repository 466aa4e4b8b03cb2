"""Turns a run's events into updates of its task; depends only on the events so far.

A chunk of the `response` artifact without `append` replaces the artifact: each turn of the model
starts it again, so that it ends as the answer.
"""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

from awaken.contracts import events as ev
from awaken.contracts.lifecycle import Suspended
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.suspension.tickets import SuspendTicket, ToolCallOutcome
from awaken.contracts.workflows.waits import asks_person
from awaken.transport.asgi import encode_json
from awaken.transport.frames import data_line
from awaken.transport.problems import HttpError
from awaken.wire.a2a import TaskState

from .artifacts import output_artifact, tool_artifact
from .states import (
    Payload,
    Question,
    artifact,
    describe_waits,
    state_at,
    status,
    status_parts,
    task,
)

_GONE = frozenset({"unknown_run", "unknown_thread"})

DecodeOutput = Callable[[str, str], Any]
"""Decodes an agent's answer into its output type, from the agent's id and the text."""


class TaskProjection:
    """The task as a client sees it after the events so far."""

    def __init__(
        self, task_id: str, context_id: str, decode_output: DecodeOutput | None = None
    ) -> None:
        self._decode_output = decode_output
        self._made: dict[str, Payload] = {}
        """The artifacts besides the answer, by id."""
        self.names = {"taskId": task_id, "contextId": context_id}
        self._status = status(self.names, TaskState.SUBMITTED, [])
        self._text = ""
        """The text of the `response` artifact; while it is blank there is no artifact."""
        self._is_open = False
        """Whether the next text delta belongs to the same turn as the last one."""
        self._arguments: dict[str, Any] = {}
        self._questions: dict[str, Question] = {}
        self._waits: dict[str, SuspendTicket] = {}
        """The calls of a workflow that nobody decides."""

    def state(self) -> dict[str, Any]:
        """Everything that later updates depend on; outputs of an agent are decoded alike."""
        return {name: it for name, it in vars(self).items() if name != "_decode_output"}

    def __deepcopy__(self, memo: dict[int, Any]) -> "TaskProjection":
        """Copy the task, not the decoder."""
        twin = copy(self)
        vars(twin).update(deepcopy(self.state(), memo))
        return twin

    def snapshot(self) -> Payload:
        """The current task, without its messages."""
        shown = task(self.names, self._status, self._text)
        if self._made:
            shown["artifacts"] = [*shown.get("artifacts", ()), *self._made.values()]
        return shown

    def project(self, event: ev.AgentEvent) -> list[Payload]:
        """The updates that an event causes."""
        match event:
            case TextDelta(delta=text) if text:
                is_more, self._is_open = self._is_open, True
                self._text = self._text + text if is_more else text
                return [self._add_text(text, append=is_more)]
            case ev.StepStart() | ev.StreamReset():
                self._is_open = False
            case ev.ToolCallReady(id=call_id, arguments=arguments):
                self._arguments[call_id] = arguments
            case ev.ToolCallDone(outcome=ToolCallOutcome.SUSPENDED, id=call_id, result=result):
                asked = result.suspension or SuspendTicket()
                if not asks_person(asked):
                    self._waits[call_id] = asked
                    return []
                asking_call = (call_id, result.tool_name, self._arguments.get(call_id), asked)
                self._questions[call_id] = Question.of(*asking_call, event.ticket_id or "")
            case ev.ToolCallResumed(target_id=call_id):
                self._questions.pop(call_id, None)
                self._waits.pop(call_id, None)
            case ev.ToolCallDone(id=call_id, outcome=outcome, result=result):
                self._questions.pop(call_id, None)
                if outcome is ToolCallOutcome.SUCCEEDED:
                    name, place = result.tool_name, event.message_id or call_id
                    return self._add_artifact(tool_artifact(place, name, result.data))
            case ev.RunStart() if self._status["state"] is not TaskState.WORKING:
                return [self._move_to(TaskState.WORKING, [])]
            case ev.RunFinish(awaits_tasks=False):
                return self._finish(event)
        return []

    def _finish(self, event: ev.RunFinish) -> list[Payload]:
        questions, response = (list(self._questions.values()), ev.extract_response(event.result))
        if isinstance(event.termination, Suspended) and self._waits and not questions:
            return [self._move_to(*describe_waits(self._waits.values()))]
        state = state_at(event.termination, questions, ev.message_wait_reason(event))
        ending = self._move_to(state, status_parts(event.termination, questions, response))
        if state is not TaskState.COMPLETED or not (self._text or response):
            return [ending]
        is_whole, self._text = response == self._text, response
        # The streamed text may differ from the answer: a turn was abandoned, or had only calls.
        last = self._add_text("" if is_whole else response, append=is_whole)
        last["artifactUpdate"]["lastChunk"] = True
        return [last, *self._add_artifact(self._output(event, response)), ending]

    def _output(self, event: ev.RunFinish, response: str) -> Payload | None:
        if self._decode_output is None or event.identity is None:
            return None
        agent_id = event.identity.active_agent_id or event.identity.agent_id
        output = self._decode_output(agent_id, response)
        return None if output is None else output_artifact(output)

    def _add_artifact(self, made: Payload | None) -> list[Payload]:
        if made is None:
            return []
        self._made[made["artifactId"]] = made
        return [{"artifactUpdate": {**self.names, "artifact": made, "lastChunk": True}}]

    def _move_to(self, state: TaskState, parts: list[Payload]) -> Payload:
        self._status = status(self.names, state, parts)
        return {"statusUpdate": {**self.names, "status": self._status}}

    def _add_text(self, text: str, *, append: bool) -> Payload:
        flags = {"append": True} if append else {}
        return {"artifactUpdate": {**self.names, "artifact": artifact(text), **flags}}


@dataclass(frozen=True, slots=True)
class TaskEncoder:
    """Encodes a projection as frames of one transport."""

    projection: TaskProjection
    wrap: Callable[[Payload], Payload]
    refuse: Callable[[HttpError], Payload]

    def frame(self, payload: Payload) -> bytes:
        """Encode one payload as a frame."""
        return data_line(encode_json(self.wrap(payload)))

    def encode(self, event: ev.AgentEvent) -> Sequence[bytes]:
        """Encode an event; an error ends the stream, not the task."""
        if isinstance(event, ev.ErrorEvent):
            # Its thread was deleted: to attach again would find nothing.
            status = 404 if event.code in _GONE else 503
            problem = HttpError(status, event.code or "stream_broken", event.message)
            return (b"event: error\n" + data_line(encode_json(self.refuse(problem))),)
        return [self.frame(payload) for payload in self.projection.project(event)]

    def state(self) -> object:
        """Everything that later frames depend on, also the id of the request in each of them."""
        return self.wrap, self.refuse, self.projection.state()
