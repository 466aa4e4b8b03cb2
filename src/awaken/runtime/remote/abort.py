"""Stopping at a remote backend what a run had started there: at once, or once it has ended."""

import asyncio
import logging

from awaken.contracts.backends.requests import REMOTE_TARGETS, BackendAbortRequest, RemoteTarget
from awaken.contracts.errors import Misuse
from awaken.contracts.identity import derive_id
from awaken.contracts.storage.outbox import AbortRemote
from awaken.contracts.storage.store import Store
from awaken.runtime.outbox import entry_of
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Run

from .backend_calls import RunCheckpoint, parent_of

logger = logging.getLogger(__name__)

ABORT_S = 15.0
"""How long the other side may take to hear of a cancellation before it is told later."""


def abort_later(run: Run) -> None:
    """Have stopped what earlier turns left at the other side, when this one does not begin."""
    is_known_there = run.is_continued or run.recovery is not None
    if is_known_there and run.journal.closed_by is None:
        order_abort(run)


async def abort_now(run: Run) -> None:
    """Stop what the run has started at the other side, now or by the commit that ends the run."""
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
        logger.warning("The remote work of run '%s' goes on: %s", identity.run_id, error)
        order_abort(run)


def order_abort(run: Run) -> None:
    """Have the other side told to stop once the run has ended, until it has heard."""
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
    """Tell the other side to stop; nothing is left to do when run or backend know of nothing.

    Raises:
        UnknownAgent: This process does not have the agent; another one may.
        ExecutionBackendError: The other side could not be told.
    """
    record = await store.load_run(order.run_id)
    checkout = await store.checkout(order.thread_id)
    if record is None or checkout is None:
        return
    agent = await registry.resolve(order.agent_id)
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
    """What a backend knew of its side when the run ended."""

    __slots__ = ("_targets",)

    def __init__(self, targets: dict[str, RemoteTarget]) -> None:
        self._targets = targets

    def load(self, target: str) -> RemoteTarget | None:
        """What was saved last for a target."""
        return self._targets.get(target)

    async def save(self, target: str, state: RemoteTarget) -> None:
        """The run has ended: nothing more is kept."""
        message = f"Run '{state.run_id}' has ended; nothing is kept for '{target}' any more."
        raise Misuse(message)
