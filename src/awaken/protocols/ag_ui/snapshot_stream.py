"""Adds snapshots of the messages to a stream, wherever a client must replace its transcript."""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from itertools import islice, takewhile

from awaken.contracts.events import MessagesSnapshot, RunStart, StepStart, StreamReset, unwrap_event
from awaken.contracts.messages.message import MessageRecord, Role
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, at_cursor
from awaken.services.event_streams import Batch, EventStream
from awaken.services.view import TenantView


class SnapshotStream:
    """A run's stream with a snapshot of the messages after each reset.

    With `is_anew` there is also one after the start, of the messages before the run, and one
    wherever users sent further messages.
    """

    def __init__(self, view: TenantView, stream: EventStream, *, is_anew: bool = False) -> None:
        self._view = view
        self.source = stream
        self._is_anew = is_anew
        self._message_id = ""
        self._steps: set[str] = set()
        """The messages of the steps that began; the latest is `_message_id`."""
        self._known: list[MessageRecord] = []
        """The thread's messages when the run was streamed from its start."""
        self._shown_count = 0
        """How many of these the reader has by now."""
        self.before = stream.before
        self.on_drop: Callable[[], None] | None = None

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the stream's events, with the snapshots."""
        self.source.on_drop = self.on_drop
        async with aclosing(self.source.batches()) as batches:
            async for batch in batches:
                yield await self._insert_snapshots(batch)

    def close(self) -> None:
        """Close the stream."""
        self.source.close()

    async def _insert_snapshots(self, batch: Batch) -> Batch:
        found: Batch = []
        for item in batch:
            match unwrap_event(item):
                case StepStart(message_id=message_id):
                    # A reader that continues after the step must have the messages before it.
                    found += self._advance_snapshot()
                    self._message_id = message_id
                    self._steps.add(message_id)
                    found.append(item)
                case RunStart() if self._is_anew:
                    self._is_anew = False
                    self._known = await self._read_messages()
                    self._advance_snapshot()
                    found += [item, _snapshot(self._known[: self._shown_count])]
                case StreamReset():
                    before = takewhile(self._is_before_step, await self._read_messages())
                    found += [item, _snapshot(before)]
                case _:
                    found.append(item)
        return found

    async def _read_messages(self) -> list[MessageRecord]:
        """Read all messages of the thread."""
        said: list[MessageRecord] = []
        query = MessageQuery(limit=LIMIT_MAX)
        while True:
            page = await self._view.messages(self.source.thread_id, query)
            said += page.items
            if page.next_cursor is None:
                return said
            query = at_cursor(query, page.next_cursor)

    def _advance_snapshot(self) -> list[MessagesSnapshot]:
        """Advance to the next answer of the run; a snapshot, if users sent messages until then."""
        more = tuple(takewhile(self._is_due, islice(self._known, self._shown_count, None)))
        self._shown_count += len(more)
        is_new = any(it.message.role not in (Role.ASSISTANT, Role.TOOL) for it in more)
        return [_snapshot(self._known[: self._shown_count])] if is_new else []

    def _is_due(self, it: MessageRecord) -> bool:
        is_own = it.produced_by_run_id == self.source.run_id
        is_answer = is_own and it.message.role is Role.ASSISTANT
        return not is_answer or it.message_id in self._steps

    def _is_before_step(self, it: MessageRecord) -> bool:
        return it.message_id != self._message_id


def _snapshot(said: Iterable[MessageRecord]) -> MessagesSnapshot:
    return MessagesSnapshot(messages=tuple(it.message for it in said))
