"""Trials: runs in which a person sees every effect before it happens, and the runs after them."""

import msgspec

from awaken.contracts.identity import RunOrigin
from awaken.contracts.runs.records import RunKind, RunRecord, RunRequest
from awaken.contracts.storage.store import Checkout, Store

TRIALS = (RunKind.PREVIEW, RunKind.REPLAY)
"""Kinds whose effects a person sees first, also those of a run that a message begins."""
_NOT_REAL = (RunKind.REPLAY, RunKind.EVAL)
"""Kinds whose threads tell of things that did not happen, or happened before."""
BRANCHES_MAX = 32
"""How far back a branch without a run is followed to the conversation that it continues."""


async def stay_in_trial(store: Store, request: RunRequest, checkout: Checkout) -> RunRequest:
    """Return the request of a new run, which goes on as the trial that its thread continues.

    A person who goes on with a fork, or with a sample of an eval, has not seen its effects happen:
    they ask first, as those of the fork did. So do those of a branch of such a thread.
    """
    latest = await _find_latest(store, checkout)
    if latest is None:
        return request
    if request.origin is RunOrigin.INTERNAL and latest.purpose in TRIALS:
        # A message of a task or of another agent does not say: the thread goes on as it was.
        return msgspec.structs.replace(request, purpose=latest.purpose)
    if request.purpose is RunKind.CHAT and latest.purpose in _NOT_REAL:
        return msgspec.structs.replace(request, purpose=RunKind.REPLAY)
    return request


async def _find_latest(store: Store, checkout: Checkout) -> RunRecord | None:
    """Return the latest run of a thread; of a branch without one, that of what it continues."""
    latest, thread = checkout.latest_run, checkout.thread
    for _ in range(BRANCHES_MAX):
        if latest is not None or thread.forked_from is None:
            break
        source = await store.load_thread(thread.forked_from.thread_id)
        if source is None:
            break
        thread = source
        if source.latest_run_id is not None:
            latest = await store.load_run(source.latest_run_id)
    return latest
