"""Runs that were stopped by a switch go on when their agent is released, in any process.

A run that waits with the reason `manual_pause` needs a dispatch to go on. Every process that hears
of the release queues it, under a key that is the same for all: so one is queued.
"""

import logging

import msgspec

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord, WaitingReason
from awaken.contracts.storage.dispatch import RELEASED, InputMode
from awaken.contracts.storage.queries import RunQuery
from awaken.runtime.switches import SwitchBoard

from .services import MailboxServices
from .submissions import Delivery, continuation, digest, dispatch_for

logger = logging.getLogger(__name__)

PAGE = 100
_NO_LIMIT = 2**31 - 1
"""A run that was paused goes on, however much input waits behind it."""
LOOKS = 3
"""How many sweeps look for paused runs after a release: another process may hear of it later."""


class ReleasedRuns:
    """Queues the continuation of paused runs whose agent is not paused any more."""

    def __init__(self, services: MailboxServices, board: SwitchBoard) -> None:
        self._services = services
        self._board = board
        self._seen = board.releases
        self._looks = 1
        """A process that starts looks once: the one that heard of a release may be gone."""

    async def continue_if_released(self) -> int:
        """Queue the continuation of released runs, if there may be any; returns how many."""
        if self._seen != self._board.releases:
            self._seen, self._looks = self._board.releases, LOOKS
        if not self._looks:
            return 0
        count = await self.continue_all()
        self._looks -= 1
        return count

    async def continue_all(self) -> int:
        """Queue the continuation of every paused run whose agent is released."""
        count, offset = 0, 0
        while True:
            query = RunQuery(status=RunStatus.WAITING, offset=offset, limit=PAGE)
            page = await self._services.store.list_runs(query)
            for run in page.items:
                if self._is_released(run):
                    count += await self._continue(run)
            if len(page.items) < PAGE:
                return count
            offset += PAGE

    def _is_released(self, run: RunRecord) -> bool:
        reason = None if run.waiting is None else run.waiting.reason
        # A workflow that diverged is tried again by a process that starts: it may have other code.
        is_paused = reason in (WaitingReason.MANUAL_PAUSE, WaitingReason.WORKFLOW_DIVERGED)
        agent_id = run.active_agent_id or run.agent_id
        return is_paused and not self._board.current.is_paused(agent_id)

    async def _continue(self, run: RunRecord) -> bool:
        services = self._services
        # The time of the pause distinguishes it from an earlier one of the same run.
        key = f"{RELEASED}{run.run_id}:{run.updated_at}"
        request = continuation(run)
        delivery = Delivery(mode=InputMode.RESUME, dedupe_key=key, request_hash=digest(key))
        dispatch = dispatch_for(
            request, delivery, services.ids, max_attempts=services.config.max_attempts
        )
        dispatch_id = f"{RELEASED}{dispatch.dispatch_id}"
        dispatch = msgspec.structs.replace(
            dispatch,
            dispatch_id=dispatch_id,
            request=msgspec.structs.replace(dispatch.request, dispatch_id=dispatch_id),
        )
        stored = await services.store.enqueue(dispatch, backlog_max=_NO_LIMIT)
        if stored.dispatch_id != dispatch_id:
            return False
        logger.info("Run '%s' goes on: its agent is released.", run.run_id)
        services.announce_queued(stored)
        return True
