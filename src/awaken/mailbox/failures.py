"""What happens to a dispatch that could not be executed: a retry later, or a dead letter."""

import logging
from collections.abc import Callable

from awaken.contracts.errors import (
    AgentPaused,
    AlreadyDecided,
    AwakenError,
    CorruptRecord,
    IdempotencyConflict,
    InvalidInput,
    InvalidRecord,
    InvalidResume,
    InvalidTranscript,
    LeaseLost,
    NotServedHere,
    ThreadHasWorkflow,
    UnknownAgent,
    UnknownThread,
    UnknownTicket,
    UsageError,
)
from awaken.contracts.lifecycle import Failed, TicketStatus
from awaken.contracts.messages.content import escape_unprintable
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.redaction import describe_error, make_loggable, remove_secrets
from awaken.runtime.engine import RunEngine
from awaken.runtime.suspension.dispatch_plan import EndRun, is_own

from .held_runs import HeldRuns, RefuseRun, refuse_alone
from .outages import backoff_ms
from .services import MailboxServices

logger = logging.getLogger(__name__)

PAUSED_MS = 2_000
"""How long a dispatch whose agent turned out to be paused is left alone."""
REFUSED_INPUT = (AlreadyDecided, InvalidInput, InvalidResume, ThreadHasWorkflow, UnknownTicket)
"""Errors of the input, not of the run that it was meant for."""

PERMANENT = (UsageError, InvalidRecord, InvalidTranscript, IdempotencyConflict, CorruptRecord)
"""Errors that occur again however often the dispatch is tried."""


def is_permanent(error: BaseException) -> bool:
    """Whether the same dispatch would fail again, however often it is tried."""
    return isinstance(error, PERMANENT) and not error.retryable


class Failures:
    """Requeues failed dispatches of this worker, or ends them as dead letters."""

    def __init__(
        self,
        engine: RunEngine,
        services: MailboxServices,
        randomness: Callable[[], float],
        refuse: RefuseRun = refuse_alone,
    ) -> None:
        self._held = HeldRuns(services, refuse)
        self._engine = engine
        self._services = services
        self._store = services.store
        self._config = services.config
        self._randomness = randomness

    async def settle(
        self, dispatch: RunDispatch, error: BaseException, *, is_stopping: bool
    ) -> None:
        """Requeue a dispatch or end it as a dead letter; if that fails too, its lease runs out."""
        try:
            if isinstance(error, AgentPaused):
                await self.give_back(dispatch, PAUSED_MS)
                return
            if (pinned := await self._held.find_pinned(dispatch, error)) is not None:
                await self._held.settle(dispatch, pinned, error)
                return
            if isinstance(error, NotServedHere) and await self._is_others_turn(dispatch):
                logger.info("Dispatch '%s' is left to others: %s", dispatch.dispatch_id, error)
                delay_ms = self._others_ms(error)
                await self.give_back(dispatch, delay_ms, error=describe_error(error))
                return
            _log(dispatch, error)
            if is_permanent(error):
                await self._end_as_dead_letter(dispatch, error)
            elif is_stopping:
                await self.give_back(dispatch)
            else:
                await self._retry_later(dispatch, error)
        except LeaseLost:
            logger.info("Dispatch '%s' was taken over by another worker.", dispatch.dispatch_id)
        except Exception:
            logger.warning(
                "Dispatch '%s' could not be given back; its lease will run out.",
                dispatch.dispatch_id,
                exc_info=True,
            )

    async def _is_others_turn(self, dispatch: RunDispatch) -> bool:
        """Whether to wait for another worker that serves the agent."""
        age_ms = await self._store.now_ms() - dispatch.created_at
        return age_ms < self._config.unknown_agent_ms

    def _others_ms(self, error: BaseException) -> int:
        """Return the delay of a dispatch whose agent this worker does not serve.

        A worker with a resolver claims for every agent, and one with managed configuration for
        the agents of all its publications: without a delay it would claim the dispatch again at
        once.
        """
        is_unknown = self._engine.registry.host is None and isinstance(error, UnknownAgent)
        return 0 if is_unknown else self._config.sweep_ms

    async def give_back(
        self, dispatch: RunDispatch, delay_ms: int = 0, error: str | None = None
    ) -> None:
        """Requeue a dispatch that was not really tried; the attempt does not count.

        Raises:
            LeaseLost: Another worker has the dispatch.
        """
        await self._store.requeue(
            dispatch.dispatch_id,
            _token(dispatch),
            delay_ms=delay_ms,
            error=error,
            is_charged=False,
        )

    async def _retry_later(self, dispatch: RunDispatch, error: BaseException) -> None:
        await self._store.requeue(
            dispatch.dispatch_id,
            _token(dispatch),
            delay_ms=self._pause_ms(dispatch.attempt_count),
            error=describe_error(error),
        )

    def _pause_ms(self, attempt: int) -> int:
        """Return a pause of which half is random, so that simultaneous failures retry apart."""
        longest = backoff_ms(attempt, self._config.retry_base_ms, self._config.retry_cap_ms)
        return round(longest * (1 + self._randomness()) / 2)

    async def _end_as_dead_letter(self, dispatch: RunDispatch, error: BaseException) -> None:
        if await self._is_late_decision(dispatch, error):
            late = Release(status=DispatchStatus.SUPERSEDED, error=describe_error(error))
            await self._store.release(dispatch.dispatch_id, _token(dispatch), late)
            return
        release = Release(status=DispatchStatus.DEAD_LETTER, error=describe_error(error))
        if isinstance(error, UnknownThread):
            # Thread and run belong to another tenant: nothing is written there.
            await self._store.release(dispatch.dispatch_id, _token(dispatch), release)
            return
        termination = Failed(
            message=remove_secrets(str(error)),
            code=error.code if isinstance(error, AwakenError) else "error",
        )
        run = await self._services.load_open_run(dispatch.thread_id)
        if run is not None and not is_own(run, dispatch):
            run = None
        is_known = await self._store.load_run(dispatch.run_id) is not None
        if run is None and dispatch.request.continue_run_id is None and not is_known:
            # A run record is written, so that a reader of the run learns why it never began.
            await self._engine.endings.end_dispatch(
                dispatch, EndRun(termination, release, has_begun=False)
            )
        elif run is None or (run.is_resumable_waiting and isinstance(error, REFUSED_INPUT)):
            # There is no run to end, or it still waits for valid input.
            await self._store.release(dispatch.dispatch_id, _token(dispatch), release)
        else:
            await self._engine.endings.end(
                dispatch.thread_id, termination, token=_token(dispatch), release=release
            )

    async def _is_late_decision(self, dispatch: RunDispatch, error: BaseException) -> bool:
        """Whether its tickets were closed before the decision arrived: nothing is left to do."""
        request = dispatch.request
        if request.messages or not isinstance(error, UnknownTicket | AlreadyDecided):
            return False
        tickets = [await self._store.find_ticket(id_) for id_, _ in request.decisions]
        return bool(tickets) and all(
            ticket is not None and ticket.status is not TicketStatus.OPEN for ticket in tickets
        )


def _log(dispatch: RunDispatch, error: BaseException) -> None:
    logger.warning(
        "Dispatch '%s' failed at attempt %d of %d: %s",
        dispatch.dispatch_id,
        dispatch.attempt_count,
        dispatch.max_attempts,
        escape_unprintable(remove_secrets(str(error))),
        exc_info=make_loggable(error) if not isinstance(error, AwakenError) else None,
    )


def _token(dispatch: RunDispatch) -> str:
    assert dispatch.claim_token is not None
    return dispatch.claim_token
