"""Demo data: threads with runs of several outcomes, so that no page of a new server is empty.

A project has facts, and a collection a document, so that the pages of memory have something too;
so have the pages of workflows, schedules and triggers, see `demo_schedules`, and of datasets and
evals, see `demo_evals`.

The runs are real ones of scripted agents, executed by an engine that knows no other agent, model,
tool or budget. Their kind is `demo`: they count in no usage and are in no list that asks for none.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.evals.errors import EvalsUnavailable
from awaken.contracts.evals.store import open_eval_store
from awaken.contracts.memory.access import DocumentDraft, MemoryAccess
from awaken.contracts.memory.errors import MemoryUnavailable, UnknownDocument
from awaken.contracts.memory.records import (
    DocumentFormat,
    FactSource,
    knowledge_collection,
    project_memory,
)
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunKind, RunRequest
from awaken.contracts.runs.threads import DEMO_PREFIX, Thread, ThreadMetadata
from awaken.contracts.storage.queries import Page, ThreadQuery, TicketQuery
from awaken.contracts.storage.schedules import ScheduleStore
from awaken.contracts.storage.store import DeleteStrategy, Store
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.workflows.waits import asks_person
from awaken.runtime.engine import RunEngine

if TYPE_CHECKING:
    from .demo_evals import DemoEvals
    from .demo_schedules import DemoStarters

STORY_IDS = tuple(
    DEMO_PREFIX + it
    for it in ("order", "refund", "failed", "long", "children", "small-return", "return")
)
"""The threads of the demo data."""
PROJECT = project_memory(None, DEMO_PREFIX + "orders")
COLLECTION = knowledge_collection(None, DEMO_PREFIX + "handbook")
DOCUMENT_ID = DEMO_PREFIX + "shipping"
FILL_S = 60
OUTBOX_MAX = 1000


class DemoStory(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of the demo data: what is said on it, and to which agent."""

    name: str
    title: str
    agent_id: str
    messages: tuple[str, ...]

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return DEMO_PREFIX + self.name


class DemoNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo data has in memory: facts of a project, and a document."""

    facts: tuple[str, ...]
    source: FactSource
    document: str
    title: str


class DemoContent(msgspec.Struct, frozen=True, kw_only=True):
    """All that the demo data has."""

    stories: tuple[DemoStory, ...]
    notes: DemoNotes
    make_starters: Callable[[int], "DemoStarters"]
    """Makes schedules and triggers whose history ends before a time, in milliseconds."""
    make_evals: Callable[[int], "DemoEvals"]
    """Makes a dataset and evals that ended before a time, in milliseconds."""


class DemoStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the server has demo data, and on which threads."""

    is_there: bool
    thread_ids: tuple[str, ...]


class DemoData:
    """Makes and removes the demo data of a store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        build_engine: Callable[[], RunEngine],
        content: DemoContent,
        find_memory: Callable[[], MemoryAccess],
        schedules: ScheduleStore | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._build_engine = build_engine
        self._content = content
        self._find_memory = find_memory
        self._schedules = schedules
        """None: the store keeps none."""
        self._one_at_a_time = asyncio.Lock()

    async def read_status(self) -> DemoStatus:
        """Tell whether there is demo data."""
        ids = [it.thread_id for it in self._content.stories]
        found = tuple([id_ for id_ in ids if await self._is_demo(id_)])
        return DemoStatus(is_there=bool(found), thread_ids=found)

    async def fill(self) -> DemoStatus:
        """Make what is missing of the demo data; what is there stays.

        Raises:
            TimeoutError: It takes too long; another call goes on with it.
        """
        async with asyncio.timeout(FILL_S), self._one_at_a_time:
            engine = self._build_engine()
            try:
                for story in self._content.stories:
                    await self._play(engine, story)
            finally:
                await engine.close()
                await self._drop_reports()
            with suppress(MemoryUnavailable):
                await self._write_notes(self._find_memory())
            await self._write_starters()
            await self._write_evals()
        return await self.read_status()

    async def remove(self) -> DemoStatus:
        """Remove the threads of the demo data with their runs and child threads, and all else.

        The threads go last: they are what says that there is demo data to remove.
        """
        async with asyncio.timeout(FILL_S), self._one_at_a_time:
            await self._remove_evals()
            await self._remove_starters()
            with suppress(MemoryUnavailable):
                await self._remove_notes(self._find_memory())
            for thread_id in (await self.read_status()).thread_ids:
                await self._store.delete_thread(thread_id, DeleteStrategy.CASCADE)
        return await self.read_status()

    async def _play(self, engine: RunEngine, story: DemoStory) -> None:
        thread = await self._store.load_thread(story.thread_id)
        if thread is None:
            metadata = ThreadMetadata(title=story.title)
            made = Thread(id=story.thread_id, metadata=metadata).touch(self._clock.now_ms())
            thread = await self._store.save_thread(made)
        if thread.latest_run_id is not None:
            return
        for text in story.messages:
            await engine.run(
                RunRequest(
                    thread_id=story.thread_id,
                    agent_id=story.agent_id,
                    messages=(user(text),),
                    purpose=RunKind.DEMO,
                )
            )

    async def _write_notes(self, memory: MemoryAccess) -> None:
        """Write facts and a document; what is there already stays as it is."""
        notes = self._content.notes
        await memory.facts.remember(PROJECT, notes.facts, notes.source)
        draft = DocumentDraft(
            data=notes.document,
            format=DocumentFormat.MARKDOWN,
            id=DOCUMENT_ID,
            title=notes.title,
        )
        try:
            await memory.knowledge.get(COLLECTION, DOCUMENT_ID)
        except UnknownDocument:
            await memory.knowledge.ingest(COLLECTION, draft)

    async def _remove_notes(self, memory: MemoryAccess) -> None:
        if (await memory.facts.list_facts(PROJECT, limit=1)).items:
            await memory.facts.forget_all(PROJECT)
        with suppress(UnknownDocument):
            await memory.knowledge.delete(COLLECTION, DOCUMENT_ID)

    async def _write_starters(self) -> None:
        # Only who asks for demo data loads it.
        from .demo_schedules import write_starters  # noqa: PLC0415

        if self._schedules is None:
            return
        threads = [await self._store.load_thread(it) for it in STORY_IDS]
        run_ids = {it.id: it.latest_run_id for it in threads if it and it.latest_run_id}
        starters = self._content.make_starters(self._clock.now_ms())
        await write_starters(self._schedules, starters, run_ids)

    async def _remove_starters(self) -> None:
        from .demo_schedules import remove_starters  # noqa: PLC0415

        if self._schedules is not None:
            starters = self._content.make_starters(self._clock.now_ms())
            await remove_starters(self._schedules, starters)

    async def _write_evals(self) -> None:
        from .demo_evals import write_evals  # noqa: PLC0415

        with suppress(EvalsUnavailable):
            store = open_eval_store(self._store)
            await write_evals(store, self._content.make_evals(self._clock.now_ms()))

    async def _remove_evals(self) -> None:
        from .demo_evals import remove_evals  # noqa: PLC0415

        with suppress(EvalsUnavailable):
            store = open_eval_store(self._store)
            await remove_evals(store, self._content.make_evals(self._clock.now_ms()))

    async def _drop_reports(self) -> None:
        """Remove the reports of children to their parents, which have had the answers already."""
        for entry in await self._store.list_outbox(limit=OUTBOX_MAX):
            payload = entry.payload if isinstance(entry.payload, dict) else {}
            if str(payload.get("parent_thread_id")).startswith(DEMO_PREFIX):
                await self._store.delete_outbox((entry.entry_id,))

    async def _is_demo(self, thread_id: str) -> bool:
        """Whether a thread is one of the demo data, and not one that a client named like that."""
        thread = await self._store.load_thread(thread_id)
        if thread is None:
            return False
        return thread.latest_run_id is None or await _has_demo_run(self._store, thread)


async def hide_demo_threads(
    store: Store, tenant_id: str | None, page: Page[Thread]
) -> Page[Thread]:
    """Return a page without the threads of the demo data and their children.

    It may be short although another one follows.
    """
    names = [name for it in page.items for name in _list_names(it)]
    demo = await _find_demo(store, tenant_id, names)
    kept = tuple(it for it in page.items if demo.isdisjoint(_list_names(it)))
    return page if len(kept) == len(page.items) else msgspec.structs.replace(page, items=kept)


async def hide_demo_tickets(
    store: Store, tenant_id: str | None, page: Page[Ticket]
) -> Page[Ticket]:
    """Return a page without the tickets of the demo data; it may be short."""
    demo = await _find_demo(store, tenant_id, [it.thread_id for it in page.items])
    kept = tuple(it for it in page.items if it.thread_id not in demo)
    return page if len(kept) == len(page.items) else msgspec.structs.replace(page, items=kept)


async def count_demo_threads(store: Store, query: ThreadQuery) -> int:
    """Count the threads of the demo data, with their children, that a query would list."""
    if query.tenant_id is not None or query.resource_id is not None:
        return 0
    demo = await _find_demo(store, None, STORY_IDS)
    total = len(demo)
    if not query.roots_only:
        for thread_id in demo:
            total += (
                await store.list_threads(ThreadQuery(parent_id=thread_id, limit=1))
            ).total or 0
    return total


async def count_demo_tickets(store: Store, query: TicketQuery) -> int:
    """Count the tickets of the demo data that a query about all threads would list."""
    total = 0
    for thread_id in await _find_demo(store, query.tenant_id, STORY_IDS):
        own = TicketQuery(thread_id=thread_id, status=query.status)
        found = (await store.list_ticket_page(own)).items
        total += sum(asks_person(it) for it in found)
    return total


def _list_names(thread: Thread) -> tuple[str, ...]:
    parent = thread.parent_thread_id
    return (thread.id,) if parent is None else (thread.id, parent)


async def _find_demo(store: Store, tenant_id: str | None, names: Iterable[str]) -> frozenset[str]:
    """Return the threads among these that are of the demo data, which belongs to no tenant."""
    found = set()
    if tenant_id is None:
        for name in dict.fromkeys(it for it in names if it.startswith(DEMO_PREFIX)):
            thread = await store.load_thread(name)
            if thread is not None and await _has_demo_run(store, thread):
                found.add(name)
    return frozenset(found)


async def _has_demo_run(store: Store, thread: Thread) -> bool:
    if thread.latest_run_id is None:
        return False
    run = await store.load_run(thread.latest_run_id)
    return run is not None and run.purpose is RunKind.DEMO
