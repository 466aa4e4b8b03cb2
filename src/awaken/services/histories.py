"""Compares a client's copy of a conversation with the thread.

Clients send their whole history. When it continues from an earlier message than the thread does,
the client means a branch: a regenerated answer, or an edited message. When it lacks messages of
the last moment, the client has not seen them yet, and they must not be lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.messages.message import MessageRecord, Role, Visibility
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Order, Page
from awaken.contracts.storage.store import DeleteStrategy
from awaken.runtime.admission.forks import Fork

from .view import StartedRun, TenantView

OVERLAP_MS = 2_000
"""Messages within this time before a request count as simultaneous with it."""
_ANSWERS = (Role.ASSISTANT, Role.TOOL)


@dataclass(frozen=True, slots=True)
class CopiedMessage:
    """One message of a client's copy, in order."""

    id: str | None
    is_input: bool
    """Whether it is from a user or the system."""


class ThreadCopy:
    """A client's messages, compared with the newest messages of its thread."""

    def __init__(
        self,
        thread: Thread,
        copied: Sequence[CopiedMessage],
        page: Page[MessageRecord],
        now_ms: int,
    ) -> None:
        self.thread = thread
        self.ids = {it.message_id: it for it in page.items}
        """The newest messages of the thread."""
        self.is_all = not page.has_more
        """Whether the thread has no other messages."""
        self._copied = copied
        self._newest = page.items
        """The latest first."""
        self._now_ms = now_ms

    @property
    def last_input(self) -> MessageRecord | None:
        """The last message of a user or the system in the copy, as the thread has it."""
        last = next((it.id for it in reversed(self._copied) if it.is_input), None)
        return self.ids.get(last or "")

    def find_repeat(self) -> MessageRecord | None:
        """Find the message that the client sends again: the copy ends with a stored message."""
        return self.last_input if self._copied and self._copied[-1].is_input else None

    def is_answer_wanted_anew(self) -> bool:
        """Whether the copy ends with a message that was answered a while ago."""
        asked = self.find_repeat()
        if asked is None or not self._is_settled(asked):
            return False
        following = [it for it in self._newest if it.seq > asked.seq and _is_shown(it)]
        return bool(following) and following[-1].message.role is Role.ASSISTANT

    def first_left_out(self, *, is_whole: bool = False) -> MessageRecord | None:
        """Find the first user message that the client dropped after the last common message.

        Messages of the last moment do not count. Clients may send only what is new; with
        `is_whole` the copy is the whole history, and a copy without any common message has dropped
        all of them.
        """
        ids = {it.id for it in self._copied}
        common = max((it.seq for id_, it in self.ids.items() if id_ in ids), default=None)
        if common is None and not (is_whole and self.is_all):
            return None
        later = [it for it in reversed(self._newest) if it.seq > (common or 0) and _is_said(it)]
        return later[0] if later and all(map(self._is_settled, later)) else None

    def _is_settled(self, record: MessageRecord) -> bool:
        age = self._now_ms - (record.created_at or 0)
        return self.thread.active_run_id is None and age >= OVERLAP_MS


async def compare_copy(
    view: TenantView, thread: Thread, copied: Sequence[CopiedMessage]
) -> ThreadCopy:
    """Compare a client's copy with its thread; only the newest messages are read.

    Raises:
        InvalidInput: A user's message has the id of an answer, and would be mistaken for it.
    """
    query = MessageQuery(limit=LIMIT_MAX, order=Order.DESC)
    page = await view.messages(thread.id, query)
    _check_ids(copied, page.items)
    return ThreadCopy(thread, copied, page, view.now_ms())


def _check_ids(copied: Sequence[CopiedMessage], stored: Sequence[MessageRecord]) -> None:
    # Some clients identify an answer by its run.
    answers = {it.message_id for it in stored if it.message.role in _ANSWERS}
    answers |= {it.produced_by_run_id or "" for it in stored}
    taken = [it.id for it in copied if it.is_input and it.id in answers]
    if taken:
        problem = f"'{taken[0]}' is another message of the thread"
        raise InvalidInput(what="message id", problem=problem)


async def start_branch(
    view: TenantView, chat_id: str, source: Thread, before: str, request: RunRequest
) -> StartedRun:
    """Fork a thread before a message, run an agent on the branch, and move the chat to it.

    Raises:
        AwakenError: The request cannot be served; the chat stays where it is.
    """
    branch = await view.fork(source.id, Fork(before=before))
    try:
        started = await view.start(replace(request, thread_id=branch.id))
    except AwakenError:
        await view.delete_thread(branch.id, DeleteStrategy.DETACH)
        raise
    await view.set_newest_branch(chat_id, branch.id)
    return started


def _is_shown(record: MessageRecord) -> bool:
    return record.message.visibility is Visibility.ALL


def _is_said(record: MessageRecord) -> bool:
    """Whether a person sent it to the agent."""
    message = record.message
    return message.role is Role.USER and _is_shown(record) and message.sender is None
