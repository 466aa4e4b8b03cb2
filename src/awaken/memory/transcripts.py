"""Which transcripts still hold the text of a forgotten fact. The search is bounded."""

from collections.abc import Iterable
from html import unescape
from typing import Any

from msgspec.structs import replace

from awaken.contracts.memory.records import Fact, HoldingThread
from awaken.contracts.messages.content import text_of
from awaken.contracts.messages.message import Message
from awaken.contracts.record import Record
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import (
    LIMIT_MAX,
    MessageQuery,
    RunQuery,
    ThreadQuery,
    at_cursor,
)
from awaken.contracts.storage.store import Store
from awaken.contracts.tenancy import namespace_of, remove_namespace

MESSAGES_MAX = 20_000
"""How many messages one search reads."""
NAMED_MAX = 20
"""How many messages of one thread are named."""


class HeldText(Record, frozen=True, kw_only=True):
    """Where a text was found, and whether everything was searched."""

    threads: tuple[HoldingThread, ...]
    is_complete: bool


class TranscriptSearch:
    """Searches the threads of one tenant, the newest first."""

    def __init__(self, store: Store, threads_max: int) -> None:
        self._store = store
        self._threads_max = threads_max

    async def list_sources(
        self, tenant_id: str | None, facts: Iterable[Fact]
    ) -> tuple[HoldingThread, ...]:
        """Return the threads that facts say they come from, each once."""
        found = {
            it.source.thread_id: it.source.run_id for it in facts if it.source.thread_id is not None
        }
        return tuple(
            [
                await self._describe(tenant_id, it, run_id, is_counted=no < self._threads_max)
                for no, (it, run_id) in enumerate(found.items())
            ]
        )

    async def find_text(
        self, tenant_id: str | None, fact: Fact, reader: str | None = None
    ) -> HeldText:
        """Return the threads of the tenant that have the text, or that it comes from.

        With a reader, only threads with a run of that user are searched and named.
        """
        namespace, left = namespace_of(tenant_id), MESSAGES_MAX
        held: dict[str, HoldingThread] = {}
        if reader is None or fact.source.by == reader:
            held = {it.thread_id: it for it in await self.list_sources(tenant_id, [fact])}
        page = await self._store.list_threads(
            ThreadQuery(tenant_id=tenant_id, limit=min(self._threads_max, LIMIT_MAX))
        )
        is_complete = page.next_cursor is None
        for thread in page.items:
            if thread.tenant_id != tenant_id:
                continue
            if reader is not None and not await self._has_run_of(thread, reader):
                continue
            named, read = await self._search_thread(thread, _plain(fact.text), left)
            left -= read
            if named:
                name = remove_namespace(namespace, thread.id)
                source = held.get(name) or await self._describe(tenant_id, thread.id)
                held[name] = replace(source, message_ids=tuple(named[:NAMED_MAX]))
            if left <= 0:
                is_complete = False
                break
        return HeldText(threads=tuple(held.values()), is_complete=is_complete)

    async def _describe(
        self,
        tenant_id: str | None,
        thread_id: str,
        run_id: str | None = None,
        *,
        is_counted: bool = True,
    ) -> HoldingThread:
        return HoldingThread(
            thread_id=remove_namespace(namespace_of(tenant_id), thread_id),
            run_id=run_id,
            eval_objects=await self._count_eval_objects(thread_id) if is_counted else None,
        )

    async def _count_eval_objects(self, thread_id: str) -> int:
        """Count what evals keep of a thread, which stays when the thread is deleted."""
        # Nothing of evals is loaded by a process that forgets nothing.
        from awaken.contracts.evals.errors import EvalsUnavailable  # noqa: PLC0415
        from awaken.contracts.evals.store import SourceQuery, open_eval_store  # noqa: PLC0415

        try:
            evals = open_eval_store(self._store)
        except EvalsUnavailable:
            return 0
        return len(await evals.list_eval_sources(SourceQuery(thread_id=thread_id)))

    async def _has_run_of(self, thread: Thread, user_id: str) -> bool:
        query = RunQuery(thread_id=thread.id, limit=LIMIT_MAX)
        while True:
            page = await self._store.list_runs(query)
            if any(run.user_id == user_id for run in page.items):
                return True
            if page.next_cursor is None:
                return False
            query = at_cursor(query, page.next_cursor)

    async def _search_thread(self, thread: Thread, text: str, most: int) -> tuple[list[str], int]:
        named: list[str] = []
        read, offset = 0, 0
        while read < most:
            page = await self._store.list_messages(
                thread.id, MessageQuery(offset=offset, limit=LIMIT_MAX)
            )
            read += len(page.items)
            named += [it.message_id for it in page.items if _holds(it.message, text)]
            if not page.items or page.next_cursor is None:
                break
            offset += len(page.items)
        return named, read


def _holds(message: Message, text: str) -> bool:
    if text in _plain(text_of(message.content)):
        return True
    return any(_is_in(text, call.arguments) for call in message.tool_calls or ())


def _plain(text: str) -> str:
    """Return a text as it is compared: models quote facts as they saw them, escaped on one line."""
    return " ".join(unescape(text).split())


def _is_in(text: str, value: Any) -> bool:
    match value:
        case str():
            return text in _plain(value)
        case dict():
            return any(_is_in(text, it) for it in value.values())
        case list() | tuple():
            return any(_is_in(text, it) for it in value)
    return False
