"""Typed state as data: keys, updates, commands and snapshots.

State is never changed in place. Hooks and tools read a `Snapshot` and return a `StateCommand`;
the runtime's state store applies it whole or not at all.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import msgspec

from awaken.contracts.errors import BaseRevisionMismatch, KeyCodecError, MergeConflict
from awaken.contracts.phases import Phase
from awaken.contracts.record import Record

V = TypeVar("V")
U = TypeVar("U")
P = TypeVar("P")


class MergeStrategy(StrEnum):
    """How two parallel commands that update the same key are merged."""

    EXCLUSIVE = "exclusive"
    """Parallel updates are a conflict."""
    COMMUTATIVE = "commutative"
    """The key's author promises that any order of the updates gives the same value."""


class StateScope(StrEnum):
    """How long a value lives."""

    RUN = "run"
    THREAD = "thread"


# No slots: with them, Python 3.11 cannot evaluate `StateKey[int, int](…)`.
@dataclass(frozen=True, eq=False, repr=False)
class StateKey(Generic[V, U]):
    """A typed slot of state, declared once and used by identity.

    Without `apply` an update replaces the value. `apply` must be pure; it may run more than once.
    Values are shared between readers, so treat them as immutable.
    """

    name: str
    default: V = field(kw_only=True)
    type: Any = field(kw_only=True, default=None)
    """The value's type; guessed from the default when absent."""
    apply: Callable[[V, U], V] | None = field(kw_only=True, default=None)
    update_type: Any = field(kw_only=True, default=None)
    """The type of the update; a tool's update is decoded from JSON again after a crash."""
    merge: MergeStrategy | str = field(kw_only=True, default=MergeStrategy.EXCLUSIVE)
    scope: StateScope | str = field(kw_only=True, default=StateScope.RUN)
    persistent: bool = field(kw_only=True, default=True)
    private: bool = field(kw_only=True, default=False)
    """Whether the value is hidden from clients that see the state."""
    migrations: Sequence[Callable[[Any], Any]] = field(kw_only=True, default=())
    """Step n turns the JSON of version n into that of version n + 1."""
    _decoder: msgspec.json.Decoder[Any] = field(init=False)
    _has_shape: bool = field(init=False)
    """Whether values are of a class such as `Counter`, which JSON does not know: the default's."""

    def __post_init__(self) -> None:
        has_shape = self.type is None and _is_shaped(self.default)
        object.__setattr__(self, "_has_shape", has_shape)
        value_type = self.type if self.type is not None else _type_of(self.default)
        object.__setattr__(self, "type", value_type)
        object.__setattr__(self, "merge", MergeStrategy(self.merge))
        object.__setattr__(self, "scope", StateScope(self.scope))
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(value_type))
        _LIVING.add(self)

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"

    @property
    def version(self) -> int:
        """The version that this key writes."""
        return len(self.migrations) + 1

    @property
    def is_commutative(self) -> bool:
        """Whether parallel updates merge."""
        return self.merge is MergeStrategy.COMMUTATIVE

    def apply_update(self, value: V, update: U) -> V:
        """Return the value after one update."""
        return self.apply(value, update) if self.apply is not None else update  # type: ignore[return-value]

    def encode(self, value: V) -> "StoredValue":
        """Encode a value for storage.

        Raises:
            KeyCodecError: The value has no JSON form, or one that is read back as another value.
        """
        try:
            data = msgspec.json.encode(value)
            found = self._decoder.decode(data)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise KeyCodecError(key=self.name, problem=f"cannot encode: {error}") from error
        if found != value and not _is_same(found, value):
            raise KeyCodecError(key=self.name, problem=_explain_change(found, value, "type"))
        return StoredValue(version=self.version, data=msgspec.Raw(data))

    def encode_update(self, update: U) -> object:
        """Return the JSON form of an update, as a journal keeps it.

        Raises:
            KeyCodecError: It has none, or one that is read back as another value.
        """
        try:
            data = msgspec.json.decode(msgspec.json.encode(update))
            found = self.decode_update(data)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise KeyCodecError(key=self.name, problem=f"an update: {error}") from error
        # An update without a type is for an `apply` that reads plain JSON as well.
        is_typed = self.apply is None or self.update_type is not None
        if is_typed and found != update and not _is_same(found, update):
            wanted = "type" if self.apply is None else "update_type"
            problem = f"an update: {_explain_change(found, update, wanted)}"
            raise KeyCodecError(key=self.name, problem=problem)
        return data

    def decode_update(self, data: object) -> U:
        """Return an update that a journal has kept; without a declared type it is plain JSON.

        Raises:
            msgspec.ValidationError: It does not fit the key.
        """
        wanted = self.type if self.apply is None else self.update_type
        if self._has_shape and self.apply is None and type(data) is dict:
            return _shape_like(self.default, data)  # type: ignore[return-value]
        return data if wanted is None else msgspec.convert(data, wanted)  # type: ignore[return-value]

    def decode(self, stored: "StoredValue") -> V:
        """Decode a stored value, migrating one that an older version wrote.

        Raises:
            KeyCodecError: The stored value does not fit, or is newer than this key.
        """
        try:
            if stored.version == self.version:
                found = self._decoder.decode(stored.data)
            else:
                found = self._migrate(stored)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise KeyCodecError(key=self.name, problem=f"cannot decode: {error}") from error
        if self._has_shape and type(found) is dict:
            return _shape_like(self.default, found)  # type: ignore[return-value]
        return found  # type: ignore[no-any-return]

    def _migrate(self, stored: "StoredValue") -> Any:
        if not 1 <= stored.version <= self.version:
            problem = f"stored by version {stored.version}, this is version {self.version}"
            raise KeyCodecError(key=self.name, problem=problem)
        value = msgspec.json.decode(stored.data)
        for step in self.migrations[stored.version - 1 :]:
            value = step(value)
        return msgspec.convert(value, self.type)


_LIVING: WeakSet[StateKey[Any, Any]] = WeakSet()


def list_living_keys(name: str) -> tuple[StateKey[Any, Any], ...]:
    """The existing keys of this process that have a name.

    Tools use keys that no plugin declares; only here can a stored value be matched with them.
    """
    return tuple(key for key in _LIVING if key.name == name)


def _type_of(default: object) -> Any:
    """Guess the value type from the default; `None` and containers accept any JSON."""
    return Any if default is None or isinstance(default, list | dict | tuple) else type(default)


def _is_shaped(default: object) -> bool:
    return isinstance(default, Counter | OrderedDict | defaultdict)


def _shape_like(default: Any, data: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict as one of the default's class, as it was before it was stored."""
    shaped: dict[Any, Any] = copy(default)
    shaped.clear()
    shaped.update(data)
    return shaped


def _is_same(found: object, value: object) -> bool:
    """Whether a value was read back as what it was; where no type is declared, tuples are lists."""
    kind = type(value)
    if kind is tuple and type(found) is list:
        value, kind = [*value], list  # type: ignore[misc]
    if kind is not type(found):
        return False
    if isinstance(value, list | tuple):
        pairs = zip(found, value, strict=True)  # type: ignore[call-overload]
        return len(value) == len(found) and all(_is_same(*it) for it in pairs)  # type: ignore[arg-type]
    if isinstance(value, dict):
        given, read = value.items(), dict(found)  # type: ignore[call-overload]
        return value.keys() == read.keys() and all(_is_same(read[n], it) for n, it in given)
    if found == value:
        return True
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    if not names:
        # Values of such a class are equal to nothing but themselves.
        return kind.__eq__ is object.__eq__
    return all(_is_same(getattr(found, name), getattr(value, name)) for name in names)


def _explain_change(found: object, value: object, option: str) -> str:
    one, two = type(value).__name__, type(found).__name__
    what = f"a {one} is read back as a {two}" if one != two else f"a {one} is read back changed"
    return f"{what} after a restart; give the key its {option}="


class StoredValue(Record, frozen=True, kw_only=True):
    """A value as a store keeps it: JSON, and the version of the key that wrote it."""

    version: int
    data: msgspec.Raw


class PersistedState(Record, frozen=True, kw_only=True):
    """Exported state: a revision and the JSON of every persistent key."""

    revision: int = 0
    extensions: dict[str, StoredValue] = {}


_NOTHING_STORED: Mapping[str, StoredValue] = {}


class Snapshot:
    """An immutable view of the state at one revision; later commits never show through it.

    `stored` has the values of keys that are not declared yet; they are decoded on access.
    """

    __slots__ = ("revision", "stored", "values")

    def __init__(
        self,
        revision: int,
        values: Mapping[str, Any],
        stored: Mapping[str, StoredValue] = _NOTHING_STORED,
    ) -> None:
        self.revision = revision
        self.values = values
        self.stored = stored

    def get(self, key: StateKey[V, Any]) -> V:
        """Return the value of the key, or its default.

        Raises:
            KeyCodecError: The stored value does not fit the key.
        """
        if key.name in self.values:
            return self.values[key.name]  # type: ignore[no-any-return]
        stored = self.stored.get(key.name)
        return key.default if stored is None else key.decode(stored)

    def has(self, key: StateKey[Any, Any]) -> bool:
        """Whether the key was ever written and not cleared."""
        return key.name in self.values or key.name in self.stored


class Update(Record, frozen=True, kw_only=True):
    """Apply an update to a key."""

    key: StateKey[Any, Any]
    update: Any


class Clear(Record, frozen=True, kw_only=True):
    """Remove a key's value."""

    key: StateKey[Any, Any]


StateOp = Update | Clear


class ScheduledActionSpec(Generic[P]):
    """A kind of deferred work: its name, the phase that runs it and its payload's type."""

    __slots__ = ("key", "payload_type", "phase")

    def __init__(self, key: str, phase: Phase, payload_type: Any = Any) -> None:
        self.key = key
        self.phase = phase
        self.payload_type = payload_type


class EffectSpec(Generic[P]):
    """A kind of fire-and-forget work done after a commit."""

    __slots__ = ("key", "payload_type")

    def __init__(self, key: str, payload_type: Any = Any) -> None:
        self.key = key
        self.payload_type = payload_type


class ScheduledAction(Record, frozen=True, kw_only=True):
    """Deferred work; the payload is in its JSON form."""

    phase: Phase
    key: str
    payload: Any = None


class QueuedAction(Record, frozen=True, kw_only=True):
    """A scheduled action that waits for its phase."""

    id: str
    action: ScheduledAction
    agent_id: str | None = None
    """The agent that was active when it was scheduled. A handoff drops the action."""


class FailedAction(Record, frozen=True, kw_only=True):
    """A scheduled action that failed."""

    id: str
    action: ScheduledAction
    error: str


class TypedEffect(Record, frozen=True, kw_only=True):
    """One effect; the payload is in its JSON form."""

    key: str
    payload: Any = None


class MutationBatch(Record, frozen=True, kw_only=True):
    """State operations in order, optionally bound to the revision they were made for."""

    ops: tuple[StateOp, ...] = ()
    base_revision: int | None = None

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key of each operation, in order and with repetitions."""
        return tuple(op.key.name for op in self.ops)

    def extend(self, other: "MutationBatch") -> "MutationBatch":
        """Join two batches, this one first.

        Raises:
            BaseRevisionMismatch: They were made for different revisions.
        """
        return MutationBatch(ops=self.ops + other.ops, base_revision=self._joint_base(other))

    def merge_parallel(self, other: "MutationBatch") -> "MutationBatch":
        """Join two batches that were made in parallel.

        Raises:
            MergeConflict: Both touch one exclusive key.
            BaseRevisionMismatch: They were made for different revisions.
        """
        base = self._joint_base(other)
        mine = set(self.key_names)
        for op in other.ops:
            if op.key.name in mine and not op.key.is_commutative:
                raise MergeConflict(key=op.key.name, owners="of one phase")
        return MutationBatch(ops=self.ops + other.ops, base_revision=base)

    def _joint_base(self, other: "MutationBatch") -> int | None:
        left, right = self.base_revision, other.base_revision
        if left is not None and right is not None and left != right:
            raise BaseRevisionMismatch(left=left, right=right)
        return left if left is not None else right


class StateCommand(Record, frozen=True, kw_only=True):
    """State changes, actions and effects that a hook or a tool requests. Built by chaining."""

    patch: MutationBatch = MutationBatch()
    actions: tuple[ScheduledAction, ...] = ()
    effects: tuple[TypedEffect, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.patch.ops or self.actions or self.effects)

    def update(self, key: StateKey[V, U], update: U) -> "StateCommand":
        """Add an update of a key."""
        return self._with_op(Update(key=key, update=update))

    def clear(self, key: StateKey[V, U]) -> "StateCommand":
        """Add the removal of a key's value."""
        return self._with_op(Clear(key=key))

    def schedule(self, spec: ScheduledActionSpec[P], payload: P) -> "StateCommand":
        """Add deferred work for the phase that the spec names."""
        action = ScheduledAction(
            phase=spec.phase, key=spec.key, payload=msgspec.to_builtins(payload)
        )
        return msgspec.structs.replace(self, actions=(*self.actions, action))

    def emit(self, spec: EffectSpec[P], payload: P) -> "StateCommand":
        """Add an effect to run after the commit."""
        effect = TypedEffect(key=spec.key, payload=msgspec.to_builtins(payload))
        return msgspec.structs.replace(self, effects=(*self.effects, effect))

    def extend(self, other: "StateCommand") -> "StateCommand":
        """Join two commands, this one first."""
        return StateCommand(
            patch=self.patch.extend(other.patch),
            actions=self.actions + other.actions,
            effects=self.effects + other.effects,
        )

    def merge_parallel(self, other: "StateCommand") -> "StateCommand":
        """Join two commands made in parallel; actions and effects never conflict."""
        return StateCommand(
            patch=self.patch.merge_parallel(other.patch),
            actions=self.actions + other.actions,
            effects=self.effects + other.effects,
        )

    def _with_op(self, op: StateOp) -> "StateCommand":
        batch = MutationBatch(ops=(*self.patch.ops, op), base_revision=self.patch.base_revision)
        return StateCommand(patch=batch, actions=self.actions, effects=self.effects)


EMPTY_COMMAND = StateCommand()
