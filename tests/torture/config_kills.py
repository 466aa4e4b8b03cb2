"""Kill a process at every statement of its publishes, and see each publish whole or absent.

`python -m tests.torture.config_kills --points 400 --postgres 60`: on SQLite a statement can also
fail as if the disk were broken. After each death the configuration is read by another process.
"""

import argparse
import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from tests.postgres.server import new_schema, server

from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.store import ConfigStore, ConfigWrite, HeadTarget
from awaken.contracts.record import Record
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.store_conformance.config_writing import (
    LIST_MAX,
    check_chain,
    make_draft,
    make_event,
    make_object,
    make_publication,
    make_secret,
)

from . import failpoints
from .children import Child
from .failpoints import AFTER, BEFORE, FAILING
from .lanes import scratch, spread
from .report import finish

PUBLISHES = 2
"""How many publishes a process makes if it lives."""
FAILURES_MAX = 20


class Point(Record, frozen=True, kw_only=True):
    """Where a process dies, and whether it has to make the store first."""

    what: str
    number: int
    is_empty: bool = False


class Outcome(Record, frozen=True, kw_only=True):
    """What became of the points of one lane."""

    killed: int
    seen: dict[str, int]
    failures: tuple[str, ...]


def main() -> None:
    """Kill, and exit with 1 when a publish was found half done, or lost."""
    parser = argparse.ArgumentParser(prog="config_kills")
    parser.add_argument("--points", type=int, default=400, help="on SQLite; 0 means all")
    parser.add_argument("--postgres", type=int, default=60, help="points on Postgres")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    args = parser.parse_args()
    points = list_points()
    if args.points:
        points = random.Random(args.seed).sample(points, min(args.points, len(points)))
    found = spread(kill_on_sqlite, points, args.lanes)
    killed = sum(it.killed for it in found)
    if args.postgres:
        found.append(kill_on_postgres(args.postgres))
    seen = sum((Counter(it.seen) for it in found), Counter[str]())
    failures = list(chain.from_iterable(it.failures for it in found))
    total = sum(it.killed for it in found)
    counts = {"killed on SQLite": killed, "killed on Postgres": total - killed, **seen}
    finish("config_kills", args.seed, counts, total - len(failures), failures)


def list_points() -> list[Point]:
    """All points of a process on a new file, and of one on a file that has a configuration."""
    points = []
    with scratch() as folder:
        for is_empty in (True, False):
            sizes = failpoints.counts(partial(_publish_on_file, folder / "store.db", None))
            points += [
                Point(what=what, number=number, is_empty=is_empty)
                for what, size in sizes.items()
                for number in range(1, size + 1)
            ]
    return points


def kill_on_sqlite(points: Sequence[Point]) -> Outcome:
    """Kill a process at each point; most share a file that grows."""
    seen: Counter[str] = Counter()
    failures: list[str] = []
    killed = 0
    with scratch() as folder:
        for place, point in enumerate(points):
            path = folder / (f"new{place}.db" if point.is_empty else "store.db")
            with _pipe() as (out, into):
                work = partial(_publish_on_file, path, into)
                ended = failpoints.killed_at(work, point.what, point.number)
                acknowledged = _read_last(out)
            killed += ended.is_killed or point.what == FAILING
            try:
                seen.update(asyncio.run(_check_store(SqliteStore(path), acknowledged)))
            except AssertionError as problem:
                failures.append(f"{point}: {problem}")
            if len(failures) > FAILURES_MAX:
                break
    return Outcome(killed=killed, seen=dict(seen), failures=tuple(failures))


def kill_on_postgres(count: int) -> Outcome:
    """Kill processes before and after the n-th statement, one after another on one schema."""
    seen: Counter[str] = Counter()
    failures: list[str] = []
    url, schema = server().url, new_schema()
    killed = number = 0
    while killed < count and len(failures) <= FAILURES_MAX:
        number += 1
        for what in (BEFORE, AFTER):
            with _pipe() as (out, into):
                ended = Child(partial(_publish_on_postgres, url, schema, what, number, into)).wait()
                acknowledged = _read_last(out)
            if ended.is_killed:
                killed += 1
            else:
                # All statements of a life were tried: begin anew, on what they have left.
                number = 0
            try:
                store = PostgresStore(url, schema=schema)
                seen.update(asyncio.run(_check_store(store, acknowledged)))
            except AssertionError as problem:
                failures.append(f"Postgres, {what} statement {number}: {problem}")
    return Outcome(killed=killed, seen=dict(seen), failures=tuple(failures))


def _publish_on_file(path: Path, into: int | None, _fd: int) -> None:
    asyncio.run(_publish(SqliteStore(path), into))


def _publish_on_postgres(
    url: str, schema: str, what: str, number: int, into: int, _fd: int
) -> None:
    async def live() -> None:
        store = PostgresStore(url, schema=schema)
        await store.open()
        _count_statements(what, number)
        await _publish(store, into)

    asyncio.run(live())


def _count_statements(what: str, number: int) -> None:
    """Kill this process before or after the n-th statement from now on."""
    seen = 0

    def count(run: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            is_it = seen == number
            if is_it and what == BEFORE:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await run(*args, **options)
            if is_it:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call

    for name in ("execute", "executemany", "fetch", "fetchrow", "fetchval"):
        setattr(asyncpg.Connection, name, count(getattr(asyncpg.Connection, name)))


async def _publish(store: SqliteStore | PostgresStore, into: int | None) -> None:
    """Publish a few times, with every part that a write can have; say which were acknowledged."""
    await store.open()
    for _ in range(PUBLISHES):
        head = await store.find_config_head() or ConfigHead()
        no = head.revision + 1
        if await store.find_draft(f"d{no}") is None:
            await store.save_draft(make_draft(f"d{no}", base=head.publication), 0)
        await store.write_config(_make_write(head, no))
        if into is not None:
            os.write(into, b"%d " % no)
    await store.close()


def _make_write(head: ConfigHead, no: int) -> ConfigWrite:
    name, body = make_object(f"text {no}")
    return ConfigWrite(
        objects={name: body},
        publication=make_publication({"a": name}, no, parent=head.publication),
        target=HeadTarget.LIVE,
        head=head,
        expected_revision=head.revision,
        audit=(make_event(no, after=name), make_event(no, resource="drafts/d")),
        secrets=(make_secret("kept", no), make_secret(f"s{no}", no)),
        removed_secrets=(f"s{no - 1}",),
        removed_draft=f"d{no}",
        draft_revision=1,
        idempotency_key=f"k{no}",
        request_hash=f"h{no}",
    )


async def _check_store(store: SqliteStore | PostgresStore, acknowledged: int) -> Counter[str]:
    """Check that every publish is whole or absent, and that none was lost."""
    await store.open()
    try:
        last = await _check_publishes(store, acknowledged)
        # The next writer finds nothing in its way.
        draft = await store.find_draft(f"d{last + 1}")
        return Counter({"deaths after a draft": draft is not None, "checks": 1})
    finally:
        await store.close()


async def _check_publishes(store: ConfigStore, acknowledged: int) -> int:
    head = await store.find_config_head() or ConfigHead()
    last = head.revision
    assert last >= acknowledged, f"publish {acknowledged} was acknowledged, the head has {last}"
    listed = await store.list_publications(limit=LIST_MAX, with_ephemeral=True)
    assert [it.no for it in listed] == list(range(last, 0, -1)), "publications"
    assert head.publication == (last or None), "the head names another publication"
    assert head.secrets_at == last, "secrets_at"
    events = await check_chain(store)
    found = [row.event.publication for row in events]
    assert found == [no for no in range(1, last + 1) for _ in range(2)], "audit"
    refs = ["kept", f"s{last}"] if last else []
    secrets = await store.list_secrets()
    assert [it.ref for it in secrets] == refs, "secrets"
    assert all(it.updated_at == last for it in secrets), "values of secrets"
    for no in (last, last + 1):
        expected = (f"h{no}", no) if 0 < no <= last else None
        assert await store.find_config_request(f"k{no}") == expected, f"key of publish {no}"
        name, body = make_object(f"text {no}")
        objects = await store.load_objects([name])
        assert objects == ({name: body} if expected else {}), f"object of publish {no}"
    assert await store.find_draft(f"d{last}") is None, "the draft"
    if last:
        whole = await store.load_publication(last)
        assert whole is not None, "the live publication"
        assert msgspec.structs.replace(whole, manifest={}, code={}) == listed[0]
    return last


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    out, into = os.pipe()
    os.set_blocking(out, False)
    try:
        yield out, into
    finally:
        os.close(out)
        os.close(into)


def _read_last(out: int) -> int:
    """Return the last publish that the process was told of."""
    try:
        return int(os.read(out, 1 << 16).split()[-1])
    except BlockingIOError:
        return 0


if __name__ == "__main__":
    main()
