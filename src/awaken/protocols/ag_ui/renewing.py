"""Streams that say what the transcript is, wherever a client must drop what it has."""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from itertools import islice, takewhile

from awaken.contracts.events import MessagesSnapshot, RunStart, StepStart, StreamReset, plain
from awaken.contracts.messages.message import MessageRecord, Role
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, at_cursor
from awaken.services.following import Batch, EventStream
from awaken.services.view import TenantView


class RenewingStream:
    """A run's stream with a snapshot of the messages after each reset.

    With `is_anew` there is one after its start as well, of what was said before the run, and one
    wherever users had said something more.
    """

    def __init__(self, view: TenantView, stream: EventStream, *, is_anew: bool = False) -> None:
        self._view = view
        self._stream = stream
        self._is_anew = is_anew
        self._message_id = ""
        self._steps: set[str] = set()
        """The messages of the steps that began; the latest is `_message_id`."""
        self._known: list[MessageRecord] = []
        """What the thread had when the run was told anew."""
        self._told = 0
        """How much of that the reader has by now."""
        self.before = stream.before
        self.on_drop: Callable[[], None] | None = None

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield what happens, as the stream does."""
        self._stream.on_drop = self.on_drop
        async with aclosing(self._stream.batches()) as batches:
            async for batch in batches:
                yield await self._renewed(batch)

    def close(self) -> None:
        """Let go of the stream."""
        self._stream.close()

    async def _renewed(self, batch: Batch) -> Batch:
        found: Batch = []
        for item in batch:
            match plain(item):
                case StepStart(message_id=message_id):
                    # Whoever reads on after the step must have what was said before it.
                    found += self._joined()
                    self._message_id = message_id
                    self._steps.add(message_id)
                    found.append(item)
                case RunStart() if self._is_anew:
                    self._is_anew = False
                    self._known = await self._stored()
                    self._joined()
                    found += [item, _snapshot(self._known[: self._told])]
                case StreamReset():
                    before = takewhile(self._is_before_step, await self._stored())
                    found += [item, _snapshot(before)]
                case _:
                    found.append(item)
        return found

    async def _stored(self) -> list[MessageRecord]:
        """What was said up to now."""
        said: list[MessageRecord] = []
        query = MessageQuery(limit=LIMIT_MAX)
        while True:
            page = await self._view.messages(self._stream.thread_id, query)
            said += page.items
            if page.next_cursor is None:
                return said
            query = at_cursor(query, page.next_cursor)

    def _joined(self) -> list[MessagesSnapshot]:
        """A snapshot up to the next answer of the run, if users said something more by then."""
        more = tuple(takewhile(self._is_told, islice(self._known, self._told, None)))
        self._told += len(more)
        is_new = any(it.message.role not in (Role.ASSISTANT, Role.TOOL) for it in more)
        return [_snapshot(self._known[: self._told])] if is_new else []

    def _is_told(self, it: MessageRecord) -> bool:
        is_own = it.produced_by_run_id == self._stream.run_id
        is_answer = is_own and it.message.role is Role.ASSISTANT
        return not is_answer or it.message_id in self._steps

    def _is_before_step(self, it: MessageRecord) -> bool:
        return it.message_id != self._message_id


def _snapshot(said: Iterable[MessageRecord]) -> MessagesSnapshot:
    return MessagesSnapshot(messages=tuple(it.message for it in said))
