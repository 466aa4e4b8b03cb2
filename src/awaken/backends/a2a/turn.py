"""One turn of a run: its message, its context and task, and whether it may have been sent."""

from collections.abc import Sequence
from typing import Any

from awaken.contracts.backends.requests import (
    BackendDelegateRunRequest,
    BackendRootRunRequest,
    RemoteTarget,
)
from awaken.contracts.identity import derive_id
from awaken.contracts.record import Record
from awaken.wire.a2a import TaskState

from .outgoing import Payload, message_id_of, parts_of, turn_messages
from .wire import Task

Request = BackendRootRunRequest | BackendDelegateRunRequest


def context_of(thread_id: str) -> str:
    """The remote context id of a thread.

    Never the thread's own id: the remote server may be this server, or share its store, and a task
    on the thread would wait for the very run that started it.
    """
    return derive_id(thread_id, "a2a", "context")


class A2aTurn(Record, frozen=True, kw_only=True):
    """The message that one run sends in this turn."""

    run_id: str
    message_id: str
    parts: list[Payload]
    context_id: str
    has_own_context: bool
    """Whether no other run has tasks in the context."""
    continued_id: str | None = None
    """The task that waits for this message."""
    question_id: str | None = None
    """The question that the message answers, if it can be identified."""
    accepted_id: str | None = None
    """The task in which the message is known to have arrived."""
    earlier_id: str | None = None
    """The last task of an earlier run."""
    is_maybe_sent: bool = False
    context: dict[str, Any] | None = None
    """The context of the run, which goes into the metadata of its message."""

    @classmethod
    def of(cls, request: Request, known: RemoteTarget | None) -> "A2aTurn":
        """Build the turn of a request from the checkpoint of its target.

        Raises:
            BackendExecutionFailed: The messages have no content.
        """
        identity = request.run_identity
        messages = turn_messages(request.new_messages, request.messages)
        message_id = message_id_of(identity.run_id, messages)
        known = known or RemoteTarget()
        is_mine = known.run_id == identity.run_id
        is_arrived = is_mine and known.message_id == message_id
        is_waiting = known.last_state in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
        # A run that is recovered while it continues sends another message than the saved one.
        is_continued = is_waiting and is_mine and not is_arrived
        return cls(
            run_id=identity.run_id,
            message_id=message_id,
            parts=parts_of(messages),
            context_id=known.context_id or context_of(identity.thread_id),
            has_own_context=identity.thread_id == identity.run_id,
            continued_id=known.task_id if is_continued else None,
            question_id=known.question_id if is_continued else None,
            accepted_id=known.task_id if is_arrived else None,
            earlier_id=None if is_mine else known.task_id,
            is_maybe_sent=request.is_recovered,
            context=request.context,
        )

    def message(self) -> Payload:
        """The message as it is sent; the same for every attempt."""
        message: Payload = {
            "messageId": self.message_id,
            "role": "ROLE_USER",
            "contextId": self.context_id,
            "parts": self.parts,
        }
        if self.context is not None:
            message["metadata"] = {"context": self.context}
        return message | ({"taskId": self.continued_id} if self.continued_id else {})

    def is_unanswered(self, task: Task) -> bool:
        """Whether the task certainly asks what the message answers, and has not received it.

        A history may be cut, or omit answers. An unknown question may then be the next one, which
        the message does not answer.
        """
        is_same = self.question_id is not None and task.status.question_id == self.question_id
        return is_same and bool(task.history) and not task.has_message(self.message_id)

    def find_own_task(self, tasks: Sequence[Task]) -> Task | None:
        """The task in which the message has arrived.

        Some servers list tasks without messages. In a context that only this run uses, such a task
        is its own; in any other context, an active one is: a thread has one run at a time.
        """
        for task in tasks:
            if task.has_message(self.message_id):
                return task
        silent = [it for it in tasks if not it.history and it.id != self.earlier_id]
        mine = [it for it in silent if self.has_own_context or it.status.state.is_active]
        return mine[0] if mine else None
