"""Stopping the work of a run at a remote backend: at once, or after the run has ended."""

import asyncio
import logging

from awaken.contracts.backends.requests import REMOTE_TARGETS, BackendAbortRequest, RemoteTarget
from awaken.contracts.errors import Misuse
from awaken.contracts.identity import derive_id
from awaken.contracts.storage.outbox import AbortRemote, entry_of
from awaken.contracts.storage.store import Store
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Run

from .backend_calls import RunCheckpoint, parent_of

logger = logging.getLogger(__name__)

ABORT_S = 15.0
"""How long an abort may take at the other side before it is left to an outbox order."""


def abort_later(run: Run) -> None:
    """Order an abort of the work of earlier turns if the run ends before this turn begins."""
    is_known_there = run.is_continued or run.recovery is not None
    if is_known_there and run.journal.closed_by is None:
        order_abort(run)


async def abort_now(run: Run) -> None:
    """Abort the run's remote work now, or order it with the commit that ends the run."""
    backend, identity = run.agent.backend, run.identity
    if not _can_abort(run):
        return
    request = BackendAbortRequest(
        agent_id=run.agent.spec.id,
        run_identity=identity,
        parent=parent_of(identity),
        checkpoint=RunCheckpoint(run),
        is_continuation=run.is_continued,
    )
    try:
        async with asyncio.timeout(ABORT_S):
            await backend.abort(request)
    except Exception as error:  # noqa: BLE001 - logged, and tried again by the order
        logger.warning("The remote work of run '%s' is not aborted yet: %s", identity.run_id, error)
        order_abort(run)


def order_abort(run: Run) -> None:
    """Order an abort that is sent after the run has ended, and retried until it succeeds."""
    if not _can_abort(run):
        return
    identity = run.identity
    order = AbortRemote(
        thread_id=identity.thread_id, run_id=identity.run_id, agent_id=run.agent.spec.id
    )
    run.order(entry_of(order, derive_id(identity.run_id, "abort")))


def _can_abort(run: Run) -> bool:
    return run.agent.backend.capabilities().cancellation.has_abort


async def abort_remote(store: Store, registry: RegistryHandle, order: AbortRemote) -> None:
    """Abort the remote work of a run; does nothing if the run or the agent's backend is gone.

    Raises:
        UnknownAgent: This process does not have the agent; another one may.
        ExecutionBackendError: The other side could not be reached.
    """
    record = await store.load_run(order.run_id)
    checkout = await store.checkout(order.thread_id)
    if record is None or checkout is None:
        return
    agent = await registry.resolve(order.agent_id, record.publication)
    if agent.is_local or not agent.backend.capabilities().cancellation.has_abort:
        return
    stored = checkout.state.get(REMOTE_TARGETS.name)
    request = BackendAbortRequest(
        agent_id=order.agent_id,
        run_identity=record.identity,
        parent=parent_of(record.identity),
        checkpoint=_Kept({} if stored is None else REMOTE_TARGETS.decode(stored)),
    )
    await agent.backend.abort(request)


class _Kept:
    """The backend's checkpoint as it was when the run ended."""

    __slots__ = ("_targets",)

    def __init__(self, targets: dict[str, RemoteTarget]) -> None:
        self._targets = targets

    def load(self, target: str) -> RemoteTarget | None:
        """The state that was saved last for a target."""
        return self._targets.get(target)

    async def save(self, target: str, state: RemoteTarget) -> None:
        """Refuse to save: the run has ended."""
        message = f"Run '{state.run_id}' has ended; the state of '{target}' can no longer be saved."
        raise Misuse(message)
