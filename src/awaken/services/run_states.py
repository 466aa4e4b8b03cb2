"""The state of a run and its thread at the end of any of its steps."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from awaken.contracts.errors import RecordNotFound
from awaken.contracts.events import StepStart
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.state.keys import StoredValue, list_living_keys
from awaken.contracts.storage.state_history import FoldedState, MissingHistory
from awaken.contracts.storage.store import Store

from .control import run_events
from .step_requests import EVENTS_MAX, HIDDEN
from .view import TenantView


class ChangedKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the keys that a step changed; step 0 is the beginning of the run."""

    step: int
    thread: tuple[str, ...]
    run: tuple[str, ...]


class StateValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of all keys, by name."""

    thread: dict[str, Any]
    run: dict[str, Any]


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state at the end of a step, and which steps changed what."""

    run_id: str
    step: int
    changed: ChangedKeys
    steps: tuple[ChangedKeys, ...]
    """The steps that changed state, in order."""
    values: StateValues | None
    """Only with the scope `config`: values may be private."""
    masked: tuple[str, ...]
    """The keys whose values are hidden: private ones, and those this process does not know."""
    is_complete: bool
    reason: MissingHistory | None
    """Why values or changes are missing."""


async def read_run_state(
    view: TenantView, run_id: str, step: int | None, *, with_values: bool, with_private: bool
) -> RunState:
    """Read the state of a tenant's run at the end of a step, or at its end so far.

    Without `with_private`, the values of private keys are masked. A key that this process does not
    know may be private, so its value is masked as well.

    Raises:
        UnknownRun: There is none, or it belongs to another tenant.
        RecordNotFound: It has no such step.
    """
    record, store = await view.stored_run(run_id), view.engine.store
    listed = await store.list_state_changes(record.run_id)
    steps: tuple[ChangedKeys, ...] = ()
    if listed.missing is MissingHistory.PURGED:
        number = record.steps if step is None else step
        folded = FoldedState(missing=listed.missing)
        if number > record.steps:
            raise RecordNotFound(kind="Step", record_id=str(number))
    else:
        starts, end = await _list_step_starts(store, record)
        number = len(starts) if step is None else step
        if number > len(starts):
            raise RecordNotFound(kind="Step", record_id=str(number))
        until = starts[number] - 1 if number < len(starts) else end
        folded = await store.fold_state(record.run_id, until)
        steps = _merge_steps(
            (bisect_right(starts, it.event_seq), it.thread, it.run) for it in listed.changes
        )
    missing = folded.missing or listed.missing
    nothing = ChangedKeys(step=number, thread=(), run=())
    names = (*folded.thread, *folded.run) if with_values and not with_private else ()
    masked = tuple(sorted(filter(_may_be_private, set(names))))
    return RunState(
        run_id=run_id,
        step=number,
        changed=next((it for it in steps if it.step == number), nothing),
        steps=steps,
        values=_show_values(folded, masked) if with_values else None,
        masked=masked,
        is_complete=missing is None,
        reason=missing,
    )


async def _list_step_starts(store: Store, record: RunRecord) -> tuple[list[int], int]:
    """Return where in the log each step of a run begins, and where the run ends so far."""
    if record.started_at is None:
        return [], record.log_start
    events = await run_events(store, record, record.log_start, EVENTS_MAX)
    starts = [it.seq for it in events if isinstance(it.event, StepStart)]
    return starts, events[-1].seq if events else record.log_start


def _merge_steps(
    changes: Iterable[tuple[int, tuple[str, ...], tuple[str, ...]]],
) -> tuple[ChangedKeys, ...]:
    """Join the changes of each step; a step may have several commits."""
    merged: dict[int, tuple[dict[str, None], dict[str, None]]] = {}
    for step, thread, run in changes:
        names = merged.setdefault(step, ({}, {}))
        names[0].update(dict.fromkeys(thread))
        names[1].update(dict.fromkeys(run))
    return tuple(
        ChangedKeys(step=step, thread=tuple(names[0]), run=tuple(names[1]))
        for step, names in merged.items()
    )


def _may_be_private(name: str) -> bool:
    known = list_living_keys(name)
    return not known or any(key.private for key in known)


def _show_values(folded: FoldedState, masked: Collection[str]) -> StateValues:
    def show(values: Mapping[str, StoredValue]) -> dict[str, Any]:
        return {name: HIDDEN if name in masked else it.data for name, it in values.items()}

    return StateValues(thread=show(folded.thread), run=show(folded.run))
