"""Runs that no process can continue as they are pinned: they wait until a person repins them.

Their dispatch stays queued, with all its input, and is tried again now and then: a process with
other code may have come.
"""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from awaken.contracts.errors import NotServedHere
from awaken.contracts.messages.content import escape_unprintable
from awaken.contracts.runs.records import RunRecord, WaitingReason
from awaken.contracts.storage.bus import SignalKind
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import Commit
from awaken.redaction import remove_secrets

from .services import MailboxServices

logger = logging.getLogger(__name__)

HELD_MS = 10 * 60_000
"""How long a held run is left alone before a process tries it again."""
PROBLEM_CHARS = 2_000
RefuseRun = Callable[[str], Awaitable[bool]]
"""Notes that this process cannot continue a run; returns whether every live one has refused it."""


async def refuse_alone(_run_id: str) -> bool:
    """Refuse a run in the only process of a store."""
    return True


class HeldRuns:
    """Decides about dispatches of runs that this process cannot continue."""

    def __init__(self, services: MailboxServices, refuse: RefuseRun) -> None:
        self._services = services
        self._refuse = refuse

    async def find_pinned(self, dispatch: RunDispatch, error: BaseException) -> RunRecord | None:
        """Return the run that cannot go on, if it has begun on a publication; else None."""
        if not isinstance(error, NotServedHere):
            return None
        run = await self._services.load_open_run(dispatch.thread_id)
        return run if run is not None and run.publication is not None else None

    async def settle(self, dispatch: RunDispatch, run: RunRecord, error: BaseException) -> None:
        """Leave a dispatch to the other processes; if all have refused its run, the run waits.

        Raises:
            LeaseLost: Another worker has the dispatch.
        """
        services, token = self._services, dispatch.claim_token
        assert token is not None
        problem = escape_unprintable(remove_secrets(str(error)))[:PROBLEM_CHARS]
        delay_ms = HELD_MS
        if not run.is_held:
            if await self._refuse(run.run_id):
                await self._hold(run, token, problem)
            else:
                delay_ms = services.config.sweep_ms
        await services.store.requeue(
            dispatch.dispatch_id, token, delay_ms=delay_ms, error=problem, is_charged=False
        )

    async def _hold(self, run: RunRecord, token: str, problem: str) -> None:
        services = self._services
        thread, now = await services.store.load_thread(run.thread_id), services.clock.now_ms()
        assert thread is not None
        logger.error("Run '%s' waits: no process can continue it: %s", run.run_id, problem)
        await services.store.commit(
            Commit(
                commit_id=services.ids.new_id(),
                thread_id=run.thread_id,
                expected_version=thread.version,
                committed_at=now,
                fencing_token=token,
                run=run.hold(problem, now),
            )
        )


def _list_entries(services: MailboxServices, run: RunRecord) -> tuple[RunDispatch, ...]:
    """The dispatch that a workflow needs to be entered again: other code may fit its journal."""
    waiting = run.waiting
    if waiting is None or waiting.reason is not WaitingReason.WORKFLOW_DIVERGED:
        return ()
    # Only a store with workflows needs their module.
    from .workflow_runs import make_continuation  # noqa: PLC0415

    return (make_continuation(services, run),)


async def repin_run(
    services: MailboxServices, run: RunRecord, publication: int | None, worker_id: str
) -> RunRecord:
    """Let a run that waits, or is queued, go on with another publication.

    Raises:
        ThreadClaimed: A process executes it.
        VersionConflict: It changed meanwhile.
    """
    store, token = services.store, services.ids.new_id()
    dispatch = await store.find_dispatch_of_run(run.run_id)
    claimed = None
    if dispatch is not None and not dispatch.status.is_terminal:
        # The claim keeps workers away until the run has its new publication.
        lease_ms = services.config.lease_ms
        claimed = await store.claim_dispatch(dispatch.dispatch_id, worker_id, token, lease_ms)
    thread, now = await store.load_thread(run.thread_id), services.clock.now_ms()
    assert thread is not None
    pinned = msgspec.structs.replace(run.release_hold(), publication=publication, updated_at=now)
    try:
        await store.commit(
            Commit(
                commit_id=services.ids.new_id(),
                thread_id=run.thread_id,
                expected_version=thread.version,
                committed_at=now,
                fencing_token=None if claimed is None else token,
                run=pinned,
                enqueued=_list_entries(services, run),
            )
        )
    finally:
        if claimed is not None:
            queued = await store.requeue(claimed.dispatch_id, token, is_charged=False)
            services.announce_queued(queued)
    services.send_signal(SignalKind.RUN_CHANGED, run.thread_id, run.run_id)
    return pinned
