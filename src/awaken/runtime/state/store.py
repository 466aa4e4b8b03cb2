"""The state store of one run.

Copy on write: a commit applies its operations to a copy of the values and swaps it in at the
end, so that a failing operation leaves nothing behind and a snapshot never changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import (
    KeyAlreadyRegistered,
    PluginAlreadyInstalled,
    PluginNotInstalled,
    RevisionConflict,
    UnknownKey,
)
from awaken.contracts.record import EMPTY, Record
from awaken.contracts.state.keys import (
    Clear,
    MutationBatch,
    PersistedState,
    Snapshot,
    StateKey,
    StateOp,
    StateScope,
    StoredValue,
    Update,
)

V = TypeVar("V")
U = TypeVar("U")


class CommitNotice(Record, frozen=True, kw_only=True):
    """The argument of a commit hook."""

    previous_revision: int
    new_revision: int
    op_count: int
    snapshot: Snapshot


CommitHook = Callable[[CommitNotice], None]


class StateStore(msgspec.Struct, eq=False):
    """Values by key, at a revision that every commit raises by exactly one."""

    keys: Mapping[str, StateKey[Any, Any]] = EMPTY
    """The declared keys by name. Runs of an agent share one mapping, so it is never changed."""
    values: Mapping[str, Any] = EMPTY
    """The decoded values by key name; the loop reads its own keys here."""
    revision: int = 0
    written: dict[str, int] = {}
    """Key name → the revision that last wrote it; tells whether a snapshot is stale."""
    changed: dict[StateKey[Any, Any], StoredValue | None] = {}
    """Persistent keys written since the last `take_changes`, encoded for storage."""
    _stored: Mapping[str, StoredValue] = EMPTY
    _plugins: Mapping[str, dict[str, bool]] = EMPTY
    _hooks: tuple[CommitHook, ...] = ()

    @classmethod
    def of(cls, keys: Iterable[StateKey[Any, Any]]) -> "StateStore":
        """Return an empty store that knows these keys."""
        return cls({key.name: key for key in keys})

    def snapshot(self) -> Snapshot:
        """Return an immutable view."""
        return Snapshot(self.revision, self.values, self._stored)

    def get(self, key: StateKey[V, Any]) -> V:
        """Return the key's current value, or its default."""
        name, values = key.name, self.values
        if name in values:
            return values[name]  # type: ignore[no-any-return]
        return self.snapshot().get(key) if name in self._stored else key.default

    def has(self, key: StateKey[Any, Any]) -> bool:
        """Whether the key has a value."""
        return key.name in self.values or key.name in self._stored

    def find_key(self, name: str) -> StateKey[Any, Any] | None:
        """The key that is registered under a name, or None."""
        return self.keys.get(name)

    def commit(self, batch: MutationBatch) -> int:
        """Apply a batch atomically; returns the revision.

        Raises:
            RevisionConflict: The batch was made for another revision.
            UnknownKey: A key is not registered.
            KeyCodecError: A new value cannot be encoded, or not be decoded again.
        """
        if batch.base_revision is not None and batch.base_revision != self.revision:
            raise RevisionConflict(expected=batch.base_revision, actual=self.revision)
        if batch.ops:
            self._apply_all(batch.ops)
        return self.revision

    def update(self, key: StateKey[V, U], update: U) -> int:
        """Commit one update.

        Raises:
            UnknownKey: The key is not registered.
            KeyCodecError: The new value cannot be encoded, or not be decoded again.
        """
        name, values, apply = key.name, self.values, key.apply
        if name not in self.keys or self.keys[name] is not key:
            raise UnknownKey(key=name)
        value: Any = update
        if apply is not None:
            value = apply(values[name] if name in values else key.default, update)
        if key.persistent:
            # Encoded here, so that a value that cannot be stored is refused before a change.
            self.changed[key] = key.encode(value)
        self.values = {**values, name: value}
        self.revision += 1
        self.written[name] = self.revision
        if self._hooks:
            self._notify(1)
        return self.revision

    def declare(self, keys: Iterable[StateKey[Any, Any]]) -> None:
        """Register keys, all or none; the same key again is harmless.

        Raises:
            KeyAlreadyRegistered: A different key has the name.
            KeyCodecError: A value stored under the name does not fit its key.
        """
        fresh: dict[str, StateKey[Any, Any]] = {}
        for key in keys:
            known = self.keys.get(key.name) or fresh.setdefault(key.name, key)
            if known is not key:
                raise KeyAlreadyRegistered(key=key.name)
        stored = self._stored
        decoded = {n: key.decode(stored[n]) for n, key in fresh.items() if n in stored}
        self.keys = {**self.keys, **fresh}
        if decoded:
            self.values = {**self.values, **decoded}
            self._stored = {name: kept for name, kept in stored.items() if name not in decoded}

    def install(self, plugin: str, keys: Mapping[StateKey[Any, Any], bool]) -> None:
        """Register a plugin's keys, all or none; the flag says whether a value survives uninstall.

        Raises:
            PluginAlreadyInstalled: A plugin of this name is installed.
            KeyAlreadyRegistered: A key's name is taken.
        """
        if plugin in self._plugins:
            raise PluginAlreadyInstalled(name=plugin)
        for key in keys:
            if key.name in self.keys:
                raise KeyAlreadyRegistered(key=key.name)
        self.declare(keys)
        owned = {key.name: retain for key, retain in keys.items()}
        self._plugins = {**self._plugins, plugin: owned}

    def uninstall(self, plugin: str) -> None:
        """Remove a plugin's keys, and their values unless they are to be retained.

        Raises:
            PluginNotInstalled: There is no such plugin.
        """
        if plugin not in self._plugins:
            raise PluginNotInstalled(name=plugin)
        owned = self._plugins[plugin]
        self._plugins = {name: it for name, it in self._plugins.items() if name != plugin}
        doomed = [
            self.keys[name] for name, retain in owned.items() if not retain and name in self.values
        ]
        self.commit(MutationBatch(ops=tuple(Clear(key=key) for key in doomed)))
        self.keys = {name: key for name, key in self.keys.items() if name not in owned}

    def on_commit(self, hook: CommitHook) -> None:
        """Call a hook after every commit, in the order hooks were added."""
        self._hooks += (hook,)

    def restore(self, stored: Mapping[str, StoredValue]) -> None:
        """Restore stored values; values of keys that are declared later are decoded then.

        Raises:
            KeyCodecError: A value does not fit its key; nothing is restored.
        """
        values, later = dict(self.values), dict(self._stored)
        for name, value in stored.items():
            key = self.keys.get(name)
            if key is None:
                later[name] = value
            else:
                values[name] = key.decode(value)
        self.values, self._stored = values, later

    def export(self, scope: StateScope | None = None) -> PersistedState:
        """Encode the persistent values, optionally of one scope only."""
        extensions = {
            name: key.encode(value)
            for name, value in self.values.items()
            if (key := self.keys.get(name)) is not None
            and key.persistent
            and (scope is None or key.scope is scope)
        }
        return PersistedState(revision=self.revision, extensions=extensions)

    def export_values(self, *more: StateKey[Any, Any]) -> dict[str, Any]:
        """The persistent values, and those of the keys given, as plain JSON for readers."""
        values = {
            name: msgspec.to_builtins(value)
            for name, value in self.values.items()
            if (key := self.keys.get(name)) is not None
            and (key.persistent or key in more)
            and not key.private
        }
        return {"revision": self.revision, "extensions": values}

    def take_changes(self) -> tuple[dict[str, StoredValue | None], dict[str, StoredValue | None]]:
        """Return what changed since the last call, as (thread-scoped, run-scoped) values."""
        thread: dict[str, StoredValue | None] = {}
        run: dict[str, StoredValue | None] = {}
        for key, value in sorted(self.changed.items(), key=lambda item: item[0].name):
            target = thread if key.scope is StateScope.THREAD else run
            target[key.name] = value
        self.changed = {}
        return thread, run

    def _apply_all(self, ops: Sequence[StateOp]) -> None:
        values, changed = dict(self.values), {}
        for op in ops:
            key = op.key
            if self.keys.get(key.name) is not key:
                raise UnknownKey(key=key.name)
            if isinstance(op, Update):
                value = values.get(key.name, key.default)
                values[key.name] = key.apply_update(value, op.update)
            else:
                values.pop(key.name, None)
        # Encoded here, so that a value that cannot be stored is refused before anything changes.
        for op in ops:
            if op.key.persistent:
                changed[op.key] = _encode_value(op.key, values)
        self.changed.update(changed)
        self.values = values
        self.revision += 1
        for op in ops:
            self.written[op.key.name] = self.revision
        if self._hooks:
            self._notify(len(ops))

    def _notify(self, op_count: int) -> None:
        notice = CommitNotice(
            previous_revision=self.revision - 1,
            new_revision=self.revision,
            op_count=op_count,
            snapshot=self.snapshot(),
        )
        for hook in self._hooks:
            hook(notice)


def _encode_value(key: StateKey[Any, Any], values: Mapping[str, Any]) -> StoredValue | None:
    return key.encode(values[key.name]) if key.name in values else None
