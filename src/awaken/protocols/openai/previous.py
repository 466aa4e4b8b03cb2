"""Continues from a response: finds where it ended in its thread, and whether the thread did too.

Two requests that continue from one response are two branches. The first may use the thread itself,
if nothing came after the response; every other one gets a fork of the thread at that point.
"""

from contextlib import suppress

import msgspec

from awaken.contracts import events as ev
from awaken.contracts.errors import CursorExpired
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import MessageRecord, Role
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Order, at_cursor
from awaken.transport.routes import RouteCall

from .answer import is_last
from .wire import bad_request

EVENTS_MAX = 1_000_000


class Previous(msgspec.Struct, frozen=True, kw_only=True):
    """A response that has ended, and its thread at the time of the request."""

    run: RunRecord
    thread: Thread
    message_ids: frozenset[str]
    """The messages of the response."""
    is_newest: bool
    """Whether nothing came after it."""

    @property
    def waits(self) -> bool:
        """Whether its calls still wait for their answers."""
        return self.is_newest and self.run.status is RunStatus.WAITING


async def find_previous(call: RouteCall, run_id: str, after: int | None) -> Previous:
    """Find where a response ended.

    Raises:
        UnknownRun: There is no such response, or it belongs to another tenant.
        HttpError: It has not ended.
    """
    run = await call.view.run(run_id)
    thread = await call.view.thread(run.thread_id)
    said: set[str] = set()
    end = thread.event_seq if run.run_id == thread.latest_run_id else -1
    # If the log was purged, the run has ended, and was one response.
    with suppress(CursorExpired):
        end = await _read(call, run, after, said)
    return Previous(
        run=run,
        thread=thread,
        message_ids=frozenset(said),
        is_newest=end == thread.event_seq,
    )


async def _read(call: RouteCall, run: RunRecord, after: int | None, said: set[str]) -> int:
    """Collect the messages of a response; returns its end in the log."""
    for item in await call.view.run_events(run.run_id, after or 0, EVENTS_MAX):
        match item.event:
            case ev.StepStart(message_id=id_) | ev.ToolCallDone(message_id=id_):
                said.add(id_)
            case ev.ToolCallResumed(message_id=id_):
                said.add(id_)
        if is_last(item.event):
            return item.seq
    message = "The previous response has not ended; wait for it, or cancel it."
    raise bad_request(message, "previous_response_in_progress")


async def last_message(call: RouteCall, previous: Previous) -> str | None:
    """The last message of a response, else the last one of its input."""
    run, query = previous.run, MessageQuery(limit=LIMIT_MAX, order=Order.DESC)
    query = msgspec.structs.replace(query, run_id=run.run_id)
    given: MessageRecord | None = None
    while True:
        page = await call.view.messages(run.thread_id, query)
        for it in page.items:
            is_said = it.message.role in (Role.ASSISTANT, Role.TOOL)
            if it.message_id in previous.message_ids or (is_said and not previous.message_ids):
                return it.message_id
            if not is_said and given is None:
                given = it
        if page.next_cursor is None:
            return None if given is None else given.message_id
        query = at_cursor(query, page.next_cursor)
