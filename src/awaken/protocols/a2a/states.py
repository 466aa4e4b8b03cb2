"""The state of a task, built the same way from stored records and from streams of events."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from awaken.contracts.lifecycle import (
    Blocked,
    Cancelled,
    Failed,
    RunStatus,
    Suspended,
    Termination,
    TicketStatus,
)
from awaken.contracts.messages.message import MessageRecord, Role
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Order, VisibilityFilter
from awaken.contracts.suspension.tickets import (
    Asks,
    DecisionAction,
    SuspendTicket,
    Ticket,
    ToolCallResume,
)
from awaken.contracts.workflows.waits import asks_person, awaits_message, describe_wait
from awaken.services.view import TenantView
from awaken.services.workflows import list_waits
from awaken.wire.a2a import A2aRecord, TaskState

from .artifacts import block_part, list_artifacts, output_artifact

Payload = dict[str, Any]
_ROLES = {Role.USER: "ROLE_USER", Role.ASSISTANT: "ROLE_AGENT"}


_ENDS: Mapping[type, TaskState]
_ENDS = {Cancelled: TaskState.CANCELED, Blocked: TaskState.REJECTED, Failed: TaskState.FAILED}


class Question(A2aRecord, frozen=True, kw_only=True):
    """The question of a suspended call, as clients see it."""

    call_id: str
    ticket_id: str = ""
    """Identifies the question."""
    tool_name: str
    kind: str
    """`permission` or `input`."""
    message: str = ""
    arguments: Any = None
    response_schema: dict[str, Any] | None = None

    @classmethod
    def of(
        cls, call_id: str, tool: str, arguments: Any, asked: Ticket | SuspendTicket, ticket_id: str
    ) -> "Question":
        """Build the question of a ticket."""
        return cls(
            call_id=call_id,
            ticket_id=ticket_id,
            tool_name=tool,
            kind="permission" if is_permission(asked) else "input",
            message=asked.suspension.message,
            arguments=arguments,
            response_schema=asked.suspension.response_schema,
        )

    @property
    def text(self) -> str:
        """The question as text for people."""
        return self.message or f"A call of '{self.tool_name}' waits for its {self.kind}."


def is_permission(ticket: Ticket | SuspendTicket) -> bool:
    """Whether a ticket only asks if its call may run."""
    return ticket.question_kind is Asks.PERMISSION


async def task_of(view: TenantView, record: RunRecord, length: int | None = None) -> Payload:
    """Build the task of a run, with at most `length` of its latest messages."""
    names = {"taskId": record.run_id, "contextId": record.thread_id}
    # A run that has its answer still waits in its record until a worker takes it.
    is_waiting = await is_unanswered(view, record)
    asked = await open_tickets(view, record) if is_waiting else []
    questions = [
        Question.of(it.call_id, it.tool_name, it.arguments, it, it.ticket_id) for it in asked
    ]
    # The text of a run that resumes by itself is not its answer.
    is_said = record.status is RunStatus.DONE or (is_waiting and record.awaits_message)
    state, response = TaskState.WORKING, (is_said and record.final_output) or ""
    if is_waiting or record.status is not RunStatus.WAITING:
        state = state_of(record, questions)
    parts = status_parts(record.termination, questions, response)
    if record.is_workflow and is_waiting and not questions:
        state, parts = describe_waits(await list_waits(view, record))
    said = status(names, state, parts)
    said["timestamp"] = datetime.fromtimestamp((record.updated_at or record.created_at) / 1000, UTC)
    is_whole = state is TaskState.COMPLETED
    shown = task(names, said, response if is_whole else "")
    messages = await _messages(view, names) if length != 0 or record.steps > 1 else []
    made = list_artifacts([it.message for it in messages])
    if is_whole:
        agent_id = record.active_agent_id or record.agent_id
        await view.outputs.recall(agent_id)
        output = view.outputs.decode(agent_id, response)
        made += [] if output is None else [output_artifact(output)]
    if made:
        shown["artifacts"] = [*shown.get("artifacts", ()), *made]
    return shown | await history(view, names, length, messages)


async def is_unanswered(view: TenantView, record: RunRecord) -> bool:
    """Whether a run waits, and neither a decision nor a message that was sent resumes it."""
    is_waiting = record.status is RunStatus.WAITING
    return is_waiting and await view.control.is_waiting(view.add_namespace(record.run_id))


async def open_tickets(view: TenantView, record: RunRecord) -> list[Ticket]:
    """The tickets that a run waits for, oldest first."""
    if record.status is not RunStatus.WAITING:
        return []
    return [it for it in await view.tickets(record.thread_id) if it.run_id == record.run_id]


def describe_waits(waits: Iterable[Ticket | SuspendTicket]) -> tuple[TaskState, list[Payload]]:
    """The state of a workflow that waits for events or sleeps, and the parts that say so.

    It works on by itself, unless the next message is what it waits for.
    """
    found = list(waits)
    is_asking = any(awaits_message(it) for it in found)
    state = TaskState.INPUT_REQUIRED if is_asking else TaskState.WORKING
    return state, [{"text": describe_wait(it)} for it in found]


async def history(
    view: TenantView,
    names: Mapping[str, str],
    length: int | None,
    messages: Sequence[MessageRecord] | None = None,
) -> Payload:
    """The `history` field of a task: its latest messages, with questions and answers."""
    if length == 0:
        return {}
    if messages is None:
        messages = await _messages(view, names)
    calls = {it.id for record in messages for it in record.message.tool_calls or ()}
    asked = await view.run_tickets(names["contextId"], names["taskId"]) if calls else ()
    shown: list[Payload] = []
    for record in messages:
        message = record.message
        parts = [*filter(None, map(block_part, message.content))]
        if message.role in _ROLES and parts:
            shown.append(_message(record.message_id, _ROLES[message.role], names, parts))
        for call in message.tool_calls or ():
            for ticket in (it for it in asked if it.call_id == call.id):
                shown += _question_messages(ticket, names)
    return {"history": shown if length is None else shown[-length:]}


async def _messages(view: TenantView, names: Mapping[str, str]) -> Sequence[MessageRecord]:
    """The latest messages of a task, oldest first."""
    if await view.find_thread(names["contextId"]) is None:
        return ()
    query = MessageQuery(
        run_id=names["taskId"],
        order=Order.DESC,
        limit=LIMIT_MAX,
        visibility=VisibilityFilter.EXTERNAL,
    )
    return (await view.messages(names["contextId"], query)).items[::-1]


def _question_messages(ticket: Ticket, names: Mapping[str, str]) -> list[Payload]:
    """A closed question and its answer as messages; an open one is in the task's status."""
    if ticket.status is TicketStatus.OPEN or not asks_person(ticket):
        return []
    asking_call = (ticket.call_id, ticket.tool_name, ticket.arguments, ticket)
    question = Question.of(*asking_call, ticket.ticket_id)
    parts = status_parts(None, [question], "")
    messages = [_message(f"{ticket.ticket_id}:question", "ROLE_AGENT", names, parts)]
    if (given := ticket.decision) is not None:
        messages.append(_message(given.decision_id, "ROLE_USER", names, [_answer(ticket, given)]))
    return messages


def _answer(ticket: Ticket, given: ToolCallResume) -> Payload:
    if isinstance(given.result, str):
        return {"text": given.result}
    if given.action is DecisionAction.CANCEL:
        said: Payload = {"approved": False}
        said |= {"reason": given.reason} if given.reason else {}
    else:
        said = {"approved": True} if is_permission(ticket) else {"result": given.result}
    return {"data": {"callId": ticket.call_id, **said}, "mediaType": "application/json"}


def _message(message_id: str, role: str, names: Mapping[str, str], parts: list[Payload]) -> Payload:
    return {"messageId": message_id, "role": role, **names, "parts": parts}


def state_of(record: RunRecord, questions: Sequence[Question]) -> TaskState:
    """The state of a run's task, given the questions that are still open."""
    if record.status is RunStatus.DONE:
        return state_at(record.termination, questions)
    if questions or record.awaits_message:
        wanted = record.waiting.message if record.waiting is not None else None
        return state_at(Suspended(), questions, wanted)
    # Any other waiting run waits for its own tasks or delegates, or for a worker.
    return TaskState.SUBMITTED if record.status is RunStatus.CREATED else TaskState.WORKING


def state_at(
    termination: Termination | None, questions: Sequence[Question], wanted: str | None = None
) -> TaskState:
    """The state of a task whose run ended or waits; `wanted` is why it waits for a message."""
    if isinstance(termination, Suspended):
        kinds = {it.kind for it in questions}
        is_for_permission = kinds == {"permission"} or (not kinds and wanted == "auth_required")
        return TaskState.AUTH_REQUIRED if is_for_permission else TaskState.INPUT_REQUIRED
    return _ENDS.get(type(termination), TaskState.COMPLETED)


def status_parts(
    termination: Termination | None, questions: Sequence[Question], response: str
) -> list[Payload]:
    """The parts of a status message: questions, the answer, or why there is no answer."""
    match termination:
        case None | Suspended() if questions:
            data = {"data": {"questions": questions}, "mediaType": "application/json"}
            return [*({"text": it.text} for it in questions), data]
        case Failed(message=text) | Blocked(reason=text):
            return [{"text": text}]
        case _:
            return [{"text": response}] if response else []


def status(names: Mapping[str, str], state: TaskState, parts: list[Payload]) -> Payload:
    """Build a task's status."""
    if not parts:
        return {"state": state}
    message_id = f"{names['taskId']}:{state.removeprefix('TASK_STATE_').lower()}"
    message = {"messageId": message_id, "role": "ROLE_AGENT", **names, "parts": parts}
    return {"state": state, "message": message}


def task(names: Mapping[str, str], status: Payload, response: str) -> Payload:
    """Build a task without its messages."""
    found = {"id": names["taskId"], "contextId": names["contextId"], "status": status}
    return found | ({"artifacts": [artifact(response)]} if response else {})


def artifact(text: str) -> Payload:
    """The artifact that is a task's answer."""
    return {"artifactId": "response", "name": "response", "parts": [{"text": text}]}
