"""Migration 4: ids of a tenant's threads and runs begin with the tenant, in rows and records.

One transaction renames everything: `t1` of tenant `ann` becomes `@ann:t1`. The text of people,
models and tools is not changed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.tenancy import add_namespace, namespace_of

from . import rows
from .session import Row

VERSION = 4
"""The schema in which the ids have this form."""

Query = Callable[..., Awaitable[Sequence[Row]]]
"""Runs a statement with `$n` for its arguments, and returns its rows."""

_THREADS = frozenset({"thread_id", "parent_thread_id", "sender_thread_id", "owner_thread_id"})
_RUNS = frozenset(
    {
        "run_id", "parent_run_id", "child_run_id", "taken_by", "run_id_hint", "continue_run_id",
        "dispatch_id_hint", "task_id", "parent_task_id",
    }
)  # fmt: skip
_SAID = frozenset({"content", "tool_calls", "arguments", "result", "parameters", "custom"})
"""Fields that hold the text of people, models and tools."""
_DELEGATE = "delegate_run:"
_HEAD = msgspec.json.Decoder(list[Any])
_BRANCHING = 9
"""The position in a thread's head of its fork point and its newest branch."""
_HASHED = "permission."
"""State whose records are found by a digest of their own contents."""


async def rename_tenant_ids(query: Query) -> None:
    """Rename the threads and runs of tenants wherever their ids are stored."""
    found = await query("SELECT no, id, tenant_id FROM threads WHERE tenant_id IS NOT NULL")
    names = _Names()
    for no, thread_id, tenant_id in found:
        names.learn_thread(no, thread_id, tenant_id)
        for statement in ("runs", "dispatches"):
            text = f"SELECT run_id FROM {statement} WHERE thread_no = $1"
            for (run_id,) in await query(text, no):
                names.learn_run(run_id, tenant_id)
    for no, thread_id, _ in found:
        await _rename_thread(query, names, no, thread_id)
        await _rename_records(query, names, no)
        await _rename_log(query, names, no)
    # Entries that belong to no single thread may name threads and runs of tenants as well.
    await _rename_profiles(query, names)


class _Names:
    """The new ids by the old ones."""

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}
        self.runs: dict[str, str] = {}

    def learn_thread(self, _no: int, thread_id: str, tenant_id: str) -> None:
        self.threads[thread_id] = add_namespace(namespace_of(tenant_id), thread_id)

    def learn_run(self, run_id: str, tenant_id: str) -> None:
        self.runs[run_id] = add_namespace(namespace_of(tenant_id), run_id)

    def thread(self, old: str | None) -> str | None:
        return None if old is None else self.threads.get(old, old)

    def run(self, old: str | None) -> str | None:
        return None if old is None else self.runs.get(old, old)

    def rename_in(self, value: Any) -> Any:
        """Return a decoded record with the new ids."""
        if isinstance(value, list):
            return [self.rename_in(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            self._rename_key(key, item): self._rename_item(key, item) for key, item in value.items()
        }

    def _rename_key(self, key: str, item: Any) -> str:
        """Rename a key that is the id of a task or a run: its value is then such a record."""
        is_record = isinstance(item, dict) and ("task_id" in item or "run_id" in item)
        return self.runs.get(key, key) if is_record else key

    def _rename_item(self, key: str, item: Any) -> Any:
        if key in _SAID:
            return item
        if not isinstance(item, str):
            return self.rename_in(item)
        if key in _THREADS:
            return self.threads.get(item, item)
        if key in _RUNS:
            return self.runs.get(item, item)
        if key == "id" and item.startswith(_DELEGATE):
            return _DELEGATE + self.runs.get(item[len(_DELEGATE) :], item[len(_DELEGATE) :])
        return item

    def repack(self, blob: bytes, what: str, *beside: Any, now: tuple[Any, ...] = ()) -> bytes:
        """Return a sealed record with the new ids, bound to the new values of its columns."""
        value = self.rename_in(rows.unpack(bytes(blob), rows.ANY, what, *beside))
        return rows.pack(value, *(now or beside))


async def _rename_thread(query: Query, names: _Names, no: int, thread_id: str) -> None:
    ((version, messages, events, updated_at, parent, latest, head),) = await query(
        "SELECT version, message_count, event_seq, updated_at, parent_id, latest_run_id, head"
        " FROM threads WHERE no = $1",
        no,
    )
    counts = (version, messages, events, updated_at)
    shown = rows.unpack(bytes(head), _HEAD, f"Thread '{thread_id}'", thread_id, *counts, latest)
    for place in (3, 4):  # The active and the open run.
        if len(shown) > place:
            shown[place] = names.run(shown[place])
    if len(shown) > _BRANCHING:
        shown[_BRANCHING] = names.rename_in(shown[_BRANCHING])
    new_id, new_latest = names.threads[thread_id], names.run(latest)
    packed = rows.pack(shown, new_id, *counts, new_latest)
    await query(
        "UPDATE threads SET id = $2, parent_id = $3, latest_run_id = $4, head = $5 WHERE no = $1",
        *(no, new_id, names.thread(parent), new_latest, packed),
    )
    await query("UPDATE threads SET parent_id = $2 WHERE parent_id = $1", thread_id, new_id)


_TABLES: Mapping[str, tuple[str, bool]] = {
    "runs": ("run_id", True),
    "tickets": ("ticket_id", True),
    "checkpoints": ("run_id", True),
    "dispatches": ("dispatch_id", True),
    "outbox": ("entry_id", False),
}
"""Tables of records: the key of a row, and whether it names a run."""


async def _rename_records(query: Query, names: _Names, no: int) -> None:
    for table, (key, has_run) in _TABLES.items():
        run = "run_id" if has_run else "NULL"
        text = f"SELECT {key}, {run}, record FROM {table} WHERE thread_no = $1"
        for name, run_id, record in await query(text, no):
            packed = names.repack(record, f"A record of '{table}'")
            if has_run:
                change = f"UPDATE {table} SET record = $2, run_id = $3 WHERE {key} = $1"
                await query(change, name, packed, names.run(run_id))
            else:
                await query("UPDATE outbox SET record = $2 WHERE entry_id = $1", name, packed)
    found = await query("SELECT scope, name, version, data FROM state WHERE thread_no = $1", no)
    for scope, name, version, data in found:
        if not name.startswith(_HASHED):
            packed = names.repack(data, f"State '{name}'", name, version)
            text = "UPDATE state SET data = $4 WHERE thread_no = $1 AND scope = $2 AND name = $3"
            await query(text, no, scope, name, packed)


async def _rename_log(query: Query, names: _Names, no: int) -> None:
    places = rows.all_places(no)
    found = await query(
        "SELECT place, run_id, event_seq, committed_at, events, tools FROM commits"
        " WHERE place BETWEEN $1 AND $2",
        *places,
    )
    for place, run_id, seq, at, events, tools in found:
        new_run = names.run(run_id)
        packed = events and names.repack(events, "A log", seq, run_id, at, now=(seq, new_run, at))
        text = "UPDATE commits SET run_id = $2, events = $3, tools = $4 WHERE place = $1"
        await query(text, place, new_run, packed, tools and names.repack(tools, "A journal"))
    text = "SELECT place, created_at, body FROM messages WHERE place BETWEEN $1 AND $2"
    for place, at, body in await query(text, *places):
        packed = names.repack(body, "A message", at)
        await query("UPDATE messages SET body = $2 WHERE place = $1", place, packed)


async def _rename_profiles(query: Query, names: _Names) -> None:
    """Rename owners and names of profile entries: withdrawn answers, push targets."""
    text = (
        "SELECT owner, name, value FROM profiles"
        " WHERE owner LIKE 'thread::%' OR owner LIKE 'a2a.push%'"
    )
    for owner, name, value in await query(text):
        kind, _, of = owner.partition("::")
        known = names.threads if kind == "thread" else names.runs
        task, slash, config = name.rpartition("/")
        new = (
            f"{kind}::{known.get(of, of)}" if of else owner,
            f"{names.runs.get(task, task)}/{config}" if slash and not of else name,
        )
        if new == (owner, name):
            continue
        packed = names.repack(value, f"Profile entry '{name}'")
        change = (
            "UPDATE profiles SET owner = $3, name = $4, value = $5 WHERE owner = $1 AND name = $2"
        )
        await query(change, owner, name, *new, packed)
