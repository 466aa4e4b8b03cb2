"""Writes the end of runs that were given up or cancelled while no process executed them."""

from awaken.contracts.errors import VersionConflict
from awaken.contracts.lifecycle import Cancelled, Failed, Termination
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import Release, RunDispatch
from awaken.contracts.storage.store import CancelWanted, Store
from awaken.runtime.journal.run_log import log_failure
from awaken.runtime.run import Services

from .dispatch_plan import EndRun
from .forced_end import Ending, build_forced_end, never_begun

SUPERSEDED = Cancelled(cause="superseded")
"""The end of a waiting run that cannot continue and gives way to a new message."""


class Endings:
    """Commits forced ends."""

    __slots__ = ("_services", "_store")

    def __init__(self, store: Store, services: Services) -> None:
        self._store = store
        self._services = services

    async def end(
        self,
        thread_id: str,
        termination: Termination,
        *,
        token: str | None = None,
        release: Release | None = None,
    ) -> RunRecord | None:
        """End the thread's open run in one commit, without executing code of its agent.

        Returns the run's last record, or None when the thread has no open run.

        Raises:
            LeaseLost: The token is stale.
            ThreadClaimed: Another worker holds the thread.
        """
        while True:
            checkout = await self._store.checkout(thread_id)
            ending = self._build_ending(termination, token, release)
            commit = build_forced_end(checkout, ending) if checkout is not None else None
            if commit is None:
                return None
            try:
                await self._store.commit(commit)
            except VersionConflict:
                # With a claim on the thread there are no other writers.
                if token is not None:
                    raise
                continue
            except CancelWanted as wanted:
                termination = Cancelled(cause=wanted.cause)
                continue
            assert commit.run is not None
            if isinstance(termination, Failed):
                log_failure(commit.run, termination)
            return commit.run

    async def end_dispatch(self, dispatch: RunDispatch, end: EndRun) -> RunRecord:
        """End the run of a dispatch that is not executed, and the dispatch with it."""
        token, release = dispatch.claim_token, end.release
        if end.has_begun:
            ended = await self.end(
                dispatch.thread_id, end.termination, token=token, release=release
            )
            assert ended is not None
            return ended
        checkout = await self._store.checkout(dispatch.thread_id)
        commit = never_begun(
            checkout, dispatch, self._build_ending(end.termination, token, release)
        )
        try:
            await self._store.commit(commit)
        except CancelWanted as wanted:
            cancelled = Cancelled(cause=wanted.cause)
            commit = never_begun(checkout, dispatch, self._build_ending(cancelled, token, release))
            await self._store.commit(commit)
        assert commit.run is not None
        termination = commit.run.termination or end.termination
        if isinstance(termination, Failed):
            log_failure(commit.run, termination)
        return commit.run

    def _build_ending(
        self, termination: Termination, token: str | None, release: Release | None
    ) -> Ending:
        return Ending(
            termination=termination,
            now_ms=self._services.clock.now_ms(),
            ids=self._services.ids,
            token=token,
            release=release,
        )
