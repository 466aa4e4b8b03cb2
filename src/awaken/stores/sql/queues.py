"""Dispatch rows, and the columns of a thread's row by which a worker finds work.

`threads` keeps the first queued dispatch and the thread's place in line, so that a claim never
scans queues; `refresh` is the only function that writes these columns.
"""

from awaken.contracts.runs.records import run_id_in_use
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, RunDispatch
from awaken.stores.rules import dispatches as rules
from awaken.stores.rules.interrupts import is_stale

from . import rows
from .heads import StoredHead, find_head, lock_head
from .session import Row, SqlSession

INPUT_MODES = (InputMode.STEER, InputMode.RESUME)


async def enqueue(
    session: SqlSession, head: StoredHead, dispatch: RunDispatch, backlog_max: int | None = None
) -> RunDispatch:
    """Queue a dispatch on a locked thread, or return the earlier one with the same request.

    Raises:
        StorageError: As `MailboxStore.enqueue` lists them.
    """
    known = await find_same(session, head, dispatch)
    if known is not None:
        return known
    if backlog_max is not None:
        await check_run_id(session, dispatch)
        rules.check_backlog(dispatch.thread_id, head.queued, backlog_max)
    return await add(session, head, dispatch)


async def enqueue_all(
    session: SqlSession, head: StoredHead, dispatches: tuple[RunDispatch, ...]
) -> None:
    """Queue the dispatches of a commit, all of which are for its thread."""
    for dispatch in dispatches:
        await enqueue(session, head, dispatch)


async def find_same(
    session: SqlSession, head: StoredHead, dispatch: RunDispatch
) -> RunDispatch | None:
    """Return an earlier dispatch with the same request, found by its id or its dedupe key.

    Raises:
        StorageError: As `MailboxStore.enqueue` lists them.
    """
    rules.check_new(dispatch)
    head.shown.check_tenant(dispatch.request.tenant_id)
    if session.reserved is not None:
        # The insert finds a second use of the id or the key.
        return None
    known = await find(session, dispatch.dispatch_id)
    if known is None and dispatch.dedupe_key is not None:
        row = await session.one("find_dedupe", head.no, dispatch.dedupe_key)
        known = None if row is None else decode_dispatch(row)
    return None if known is None else rules.match_known(known, dispatch)


async def check_run_id(session: SqlSession, dispatch: RunDispatch) -> None:
    """Check that the run id which a new dispatch asks for is unused.

    Raises:
        InvalidResume: A run or another dispatch has the id.
    """
    if not rules.is_named_by_sender(dispatch):
        return
    for statement in ("find_run", "find_dispatch_of_run"):
        if await session.one(statement, dispatch.run_id) is not None:
            raise run_id_in_use(dispatch.run_id)


async def add(session: SqlSession, head: StoredHead, dispatch: RunDispatch) -> RunDispatch:
    """Queue a new dispatch."""
    fresh = rules.mark_queued(dispatch, head.epoch, (await session.now()).wall_ms)
    await session.run(
        "add_dispatch",
        fresh.dispatch_id,
        head.no,
        fresh.run_id,
        fresh.status.value,
        fresh.priority,
        rules.due_at(fresh),
        fresh.mode.value,
        fresh.dedupe_key,
        fresh.created_at,
        fresh.updated_at,
        rows.pack(fresh),
    )
    if session.reserved is not None and not head.queued:
        head.queued = 1
        is_held = fresh.is_held_by(head.open_run)
        await _save_turn(session, head, None if is_held else (fresh, session.reserved.dispatch_no))
    else:
        await refresh(session, head)
    return fresh


async def save(session: SqlSession, dispatch: RunDispatch) -> RunDispatch:
    """Overwrite a dispatch; the caller must call `refresh` if its status changed."""
    await session.run(
        "save_dispatch",
        dispatch.dispatch_id,
        dispatch.run_id,
        dispatch.status.value,
        rules.due_at(dispatch),
        dispatch.updated_at,
        rows.pack(dispatch),
    )
    return dispatch


async def absorb(
    session: SqlSession, head: StoredHead, dispatch_ids: tuple[str, ...], run_id: str | None
) -> None:
    """End queued dispatches whose input a commit has taken in."""
    now = await session.now()
    for dispatch_id in dispatch_ids:
        dispatch = await find(session, dispatch_id)
        if dispatch is not None and dispatch.status is DispatchStatus.QUEUED:
            await save(session, rules.mark_absorbed(dispatch, run_id, now.wall_ms))
    await refresh(session, head)


async def find(session: SqlSession, dispatch_id: str) -> RunDispatch | None:
    """Return a dispatch, or None."""
    row = await session.one("find_dispatch", dispatch_id)
    return None if row is None else decode_dispatch(row)


async def find_of_run(session: SqlSession, run_id: str) -> RunDispatch | None:
    """Return the newest dispatch that names a run, or None."""
    row = await session.one("find_dispatch_of_run", run_id)
    return None if row is None else decode_dispatch(row)


async def lock_dispatch(
    session: SqlSession, dispatch_id: str
) -> tuple[StoredHead, RunDispatch] | None:
    """Lock the thread of a dispatch and return both as they are then."""
    dispatch = await find(session, dispatch_id)
    head = None if dispatch is None else await lock_head(session, dispatch.thread_id)
    dispatch = None if head is None else await find(session, dispatch_id)
    return None if head is None or dispatch is None else (head, dispatch)


async def find_first_queued(session: SqlSession, head: StoredHead) -> RunDispatch | None:
    """Return the first dispatch of a thread that its waiting run does not hold back."""
    found = await _find_first(session, head)
    return None if found is None else found[0]


async def _find_first(session: SqlSession, head: StoredHead) -> tuple[RunDispatch, int] | None:
    row, run = await session.one("first_queued", head.no), head.open_run
    if row is None:
        return None
    first = decode_dispatch(row)
    if not first.is_held_by(run) and (run is None or not rules.due_at(first)):
        return first, row[1]
    queued = [(decode_dispatch(row), row[1]) for row in await session.all("list_queued", head.no)]
    free = [it for it in queued if not it[0].is_held_by(run)]
    if free and rules.due_at(free[0][0]):
        free.sort(key=lambda it: not rules.goes_before_delayed(it[0], run))
    return free[0] if free else None


async def list_queued(session: SqlSession, head: StoredHead) -> list[RunDispatch]:
    """List the queued dispatches of a thread, in order."""
    return [decode_dispatch(row) for row in await session.all("list_queued", head.no)]


async def list_inputs(session: SqlSession, thread_id: str) -> tuple[RunDispatch, ...]:
    """Return the queued input that an executing run may take in now."""
    head = await find_head(session, thread_id)
    if head is None:
        return ()
    now = await session.now()
    return tuple(
        dispatch
        for dispatch in await list_queued(session, head)
        if dispatch.mode in INPUT_MODES
        and rules.is_due(dispatch, now.wall_ms)
        and not is_stale(head, dispatch)
    )


async def refresh(session: SqlSession, head: StoredHead) -> None:
    """Write the columns by which a worker finds work: queue length, first dispatch, place."""
    counted = await session.one("count_queued_of", head.no)
    assert counted is not None
    head.queued = counted[0]
    await _save_turn(session, head, await _find_first(session, head) if head.queued else None)


async def _save_turn(
    session: SqlSession, head: StoredHead, found: tuple[RunDispatch, int] | None
) -> None:
    priority = due_at = turn_at = number = agent = None
    if found is not None:
        first, number = found
        priority, due_at = first.priority, rules.due_at(first)
        turn_at = max(first.created_at, head.served_at)
        agent = rules.agent_of(head, first)
    turn = (priority, due_at, turn_at, number, agent)
    await session.run("save_queue", head.no, head.epoch, head.queued, head.served_at, *turn)


def decode_dispatch(row: Row) -> RunDispatch:
    """Return the dispatch of a row that begins with its record."""
    return rows.unpack(row[0], rows.DISPATCH, "A dispatch")
