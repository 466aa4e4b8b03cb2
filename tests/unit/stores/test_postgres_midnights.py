"""Days begin and old ones are dropped while everybody works: nothing is lost or read twice."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.postgres.log_days import Calendar, dated_store
from tests.postgres.server import server
from tests.postgres.stores import opened
from tests.sampling import choose_size, sampled

from awaken.contracts.events import StepStart
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import DONE, Writer, dispatch, run

RETENTION = 2
DAYS = choose_size(5, 40)
WRITERS = 3


class Crowd:
    """Tasks that do one thing again and again; a day lasts until each has done it."""

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self._rounds: dict[str, int] = {}
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, name: str, act: Callable[[int], Awaitable[object]]) -> None:
        self._rounds[name] = 0
        self._tasks.append(asyncio.create_task(self._repeat(name, act)))

    async def pass_day(self) -> None:
        """Wait until everybody has begun and ended something in this day, then begin the next."""
        goal = {name: count + 2 for name, count in self._rounds.items()}
        async with asyncio.timeout(60):
            while any(self._rounds[name] < count for name, count in goal.items()):
                failed = [it for it in self._tasks if it.done()]
                assert not failed, failed[0].exception()
                await asyncio.sleep(0.005)
        await self.calendar.pass_day()

    async def end(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _repeat(self, name: str, act: Callable[[int], Awaitable[object]]) -> None:
        while not self._is_over:
            await act(self._rounds[name])
            self._rounds[name] += 1


class Reader:
    """Follows the log of a thread with its cursor, and keeps every id that it was given."""

    def __init__(self, store: PostgresStore, thread_id: str) -> None:
        self._store = store
        self._thread_id = thread_id
        self.seen: list[int] = []

    async def read(self, _round: int = 0) -> None:
        after = self.seen[-1] if self.seen else 0
        self.seen += [it.seq for it in await self._store.list_events(self._thread_id, after=after)]


@sampled
def test_days_begin_and_go_while_others_commit_read_and_submit() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar), opened(schema=calendar.schema) as other:
            crowd = Crowd(calendar)
            long = Writer(store, "long")
            await calendar.write_run("long", long, is_open=True)
            threads = [Writer(store, f"thread-{number}") for number in range(WRITERS)]
            readers = [Reader(other, it.thread_id) for it in (long, *threads)]

            async def go_on(_round: int) -> None:
                """The run that began on the first day; its log must stay from there."""
                record = run("long", thread_id="long")
                await long.commit(run=record, events=(StepStart(),), committed_at=calendar.now_ms)

            def write(thread: Writer) -> Callable[[int], Awaitable[object]]:
                return lambda it: calendar.write_run(f"{thread.thread_id}-{it}", thread)

            async def submit(number: int) -> None:
                name = f"queued-{number}"
                await other.enqueue(dispatch(name, thread_id=name, run_id=name))
                (claimed,) = await other.claim("worker", f"token-{number}", 60_000)
                await other.release(claimed.dispatch_id, claimed.claim_token or "")

            async def purge(_round: int) -> None:
                # Both at once: one of them does it.
                before = calendar.now_ms - RETENTION * 86_400_000
                await asyncio.gather(store.purge(before, 1000), other.purge(before, 1000))

            crowd.add("long", go_on)
            crowd.add("submit", submit)
            crowd.add("purge", purge)
            for thread in threads:
                crowd.add(thread.thread_id, write(thread))
            for number, reader in enumerate(readers):
                crowd.add(f"reader-{number}", reader.read)
            for _ in range(DAYS):
                await crowd.pass_day()
            await crowd.end()
            for reader, thread in zip(readers, (long, *threads), strict=True):
                await reader.read()
                # Every event once, in order, from the first one on, whatever was dropped meanwhile.
                assert reader.seen == list(range(1, thread.version + 1))
            assert await calendar.read_log("long") == list(range(1, long.version + 1))
            for thread in threads:
                left = await calendar.read_log(thread.thread_id)
                assert left == list(range(left[0], thread.version + 1))
                assert left[0] > 1, "its first day is over and gone"
            await long.commit(
                run=run("long", DONE, thread_id="long", finished_at=calendar.now_ms),
                committed_at=calendar.now_ms,
            )
            assert not await server().sql("SELECT 1 FROM pg_locks WHERE NOT granted")

    asyncio.run(check())
