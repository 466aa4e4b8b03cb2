"""State as data: keys and their stored form, batches, commands, and how they join."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import BaseRevisionMismatch, KeyCodecError, MergeConflict
from awaken.contracts.phases import Phase
from awaken.contracts.state.keys import (
    Clear,
    EffectSpec,
    MutationBatch,
    PersistedState,
    ScheduledAction,
    ScheduledActionSpec,
    Snapshot,
    StateCommand,
    StateKey,
    StoredValue,
    TypedEffect,
    Update,
)

SUM: StateKey[int, int] = StateKey(
    "sum", default=0, apply=lambda value, more: value + more, merge="commutative"
)
BAG: StateKey[int, int] = StateKey(
    "bag", default=0, apply=lambda value, more: value + more, merge="commutative"
)
NAME: StateKey[str | None, str | None] = StateKey("name", default=None)
LIST: StateKey[tuple[int, ...], int] = StateKey(
    "list", default=(), type=tuple[int, ...], apply=lambda value, item: (*value, item)
)
KEYS = (SUM, BAG, NAME, LIST)


class Point(msgspec.Struct, frozen=True):
    x: int
    tags: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (StateKey("k", default=0), 2**70),
        (StateKey("k", default=0.0), 3),
        (StateKey("k", default=""), "é"),
        (StateKey("k", default=False), True),
        (StateKey("k", default=None), {"any": [1, None]}),
        (StateKey("k", default=None, type=int | None), None),
        (StateKey("k", default=Point(0)), Point(1, ("a",))),
        (StateKey("k", default={}, type=dict[str, Point]), {"p": Point(2)}),
        (StateKey("k", default=frozenset(), type=frozenset[str]), frozenset({"a"})),
    ],
)
def test_a_value_comes_back_from_storage_as_it_was(key: StateKey[Any, Any], value: Any) -> None:
    stored = key.encode(value)
    kept = msgspec.json.decode(msgspec.json.encode(stored), type=StoredValue)
    assert key.decode(kept) == value
    assert kept.version == 1


@pytest.mark.parametrize(
    ("default", "value"),
    [
        (Counter(), Counter("aab")),
        (OrderedDict(), OrderedDict(b=1, a=2)),
        (defaultdict(list), defaultdict(list, a=[1])),
    ],
)
def test_a_dict_comes_back_as_one_of_the_defaults_class(default: Any, value: Any) -> None:
    key: StateKey[Any, Any] = StateKey("k", default=default)
    for found in (key.decode(key.encode(value)), key.decode_update(key.encode_update(value))):
        assert found == value
        assert type(found) is type(value)
        assert found is not default
        assert not default
    if not isinstance(value, OrderedDict):
        assert key.decode(key.encode(value))["missing"] in (0, [])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (StateKey("k", default=0), "seven"),
        (StateKey("k", default=0), True),
        (StateKey("k", default=0), object()),
        (StateKey("k", default=""), "\ud800"),
        (StateKey("k", default=0.0), float("nan")),
        (StateKey("k", default=Point(0)), {"x": "y"}),
        (StateKey("k", default={}, type=dict[str, Point]), {"p": {"x": None}}),
    ],
)
def test_a_value_that_could_not_be_read_back_is_never_stored(
    key: StateKey[Any, Any], value: Any
) -> None:
    with pytest.raises(KeyCodecError) as refused:
        key.encode(value)
    assert refused.value.fields["key"] == "k"


def test_older_values_are_migrated_and_newer_ones_refused() -> None:
    steps: list[Callable[[Any], Any]] = [
        lambda old: {"x": old},
        lambda old: {**old, "tags": ["v3"]},
    ]
    key = StateKey("k", default=Point(0), migrations=steps)
    assert key.version == 3
    assert key.encode(Point(1)).version == 3
    by_version = {1: b"7", 2: b'{"x":7}', 3: b'{"x":7,"tags":["v3"]}'}
    for version, data in by_version.items():
        stored = StoredValue(version=version, data=msgspec.Raw(data))
        assert key.decode(stored) == Point(7, ("v3",))
    for version in (0, 4):
        with pytest.raises(KeyCodecError, match=f"version {version}"):
            key.decode(StoredValue(version=version, data=msgspec.Raw(b"7")))
    with pytest.raises(KeyCodecError):
        key.decode(StoredValue(version=2, data=msgspec.Raw(b'{"x":"no"}')))


@pytest.mark.parametrize("field", ["scope", "merge"])
def test_a_key_with_an_unknown_scope_or_strategy_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="profile"):
        StateKey("k", default=0, **{field: "profile"})


def test_exported_state_is_plain_json() -> None:
    state = PersistedState(revision=4, extensions={"sum": SUM.encode(3)})
    data = msgspec.json.encode(state)
    assert msgspec.json.decode(data) == {
        "revision": 4,
        "extensions": {"sum": {"version": 1, "data": 3}},
    }
    assert msgspec.json.decode(msgspec.json.encode(PersistedState())) == {}


ops = st.one_of(
    st.builds(Update, key=st.sampled_from([SUM, BAG, LIST]), update=st.integers(-9, 9)),
    st.builds(Update, key=st.just(NAME), update=st.none() | st.text(max_size=2)),
    st.builds(Clear, key=st.sampled_from(KEYS)),
)
batches = st.builds(
    MutationBatch,
    ops=st.lists(ops, max_size=4).map(tuple),
    base_revision=st.none() | st.integers(1, 2),
)


def joint(left: MutationBatch, right: MutationBatch) -> int | None:
    known = {base for base in (left.base_revision, right.base_revision) if base is not None}
    return known.pop() if known else None


def differs(left: MutationBatch, right: MutationBatch) -> bool:
    return None not in (left.base_revision, right.base_revision) and (
        left.base_revision != right.base_revision
    )


@given(batches, batches)
def test_joining_keeps_every_operation_in_order_and_the_base_they_agree_on(
    left: MutationBatch, right: MutationBatch
) -> None:
    if differs(left, right):
        with pytest.raises(BaseRevisionMismatch) as refused:
            left.extend(right)
        assert refused.value.fields == {"left": left.base_revision, "right": right.base_revision}
        return
    joined = left.extend(right)
    assert joined.ops == left.ops + right.ops
    assert joined.base_revision == joint(left, right)
    assert joined.key_names == left.key_names + right.key_names


@given(batches, batches)
def test_side_by_side_batches_conflict_exactly_on_shared_exclusive_keys(
    left: MutationBatch, right: MutationBatch
) -> None:
    shared = [name for name in right.key_names if name in left.key_names]
    conflicts = [name for name in shared if name in ("name", "list")]
    if differs(left, right):
        with pytest.raises(BaseRevisionMismatch):
            left.merge_parallel(right)
    elif conflicts:
        with pytest.raises(MergeConflict) as refused:
            left.merge_parallel(right)
        assert refused.value.fields["key"] == conflicts[0]
        assert conflicts[0] in str(refused.value)
    else:
        assert left.merge_parallel(right) == left.extend(right)


@given(st.lists(st.lists(st.integers(-5, 5), max_size=3), max_size=4), st.randoms())
def test_commutative_updates_give_the_same_value_in_any_order(
    parts: list[list[int]], chance: Any
) -> None:
    def total(order: list[list[int]]) -> int:
        merged = MutationBatch()
        for part in order:
            merged = merged.merge_parallel(
                MutationBatch(ops=tuple(Update(key=SUM, update=more) for more in part))
            )
        value = SUM.default
        for op in merged.ops:
            assert isinstance(op, Update)
            value = SUM.apply_update(value, op.update)
        return value

    mixed = chance.sample(parts, len(parts))
    assert total(parts) == total(mixed) == sum(map(sum, parts))


REMIND = ScheduledActionSpec[Point]("remind", Phase.STEP_START, Point)
PING = EffectSpec[Point]("ping", Point)
additions = st.sampled_from(
    [
        lambda command: command.update(SUM, 1),
        lambda command: command.clear(NAME),
        lambda command: command.schedule(REMIND, Point(1)),
        lambda command: command.emit(PING, Point(2, ("a",))),
    ]
)


def built(steps: list[Callable[[StateCommand], StateCommand]]) -> StateCommand:
    command = StateCommand()
    for step in steps:
        command = step(command)
    return command


@given(st.lists(additions, max_size=4), st.lists(additions, max_size=4))
def test_a_command_is_what_was_chained_and_commands_join_all_their_parts(
    left: list[Any], right: list[Any]
) -> None:
    first, second = built(left), built(right)
    assert first.is_empty is (not left)
    assert len(first.patch.ops) + len(first.actions) + len(first.effects) == len(left)
    assert first.extend(second) == built(left + right)
    assert first.extend(StateCommand()) == StateCommand().extend(first) == first
    if not {op.key for op in first.patch.ops} & {op.key for op in second.patch.ops} & {NAME}:
        assert first.merge_parallel(second) == built(left + right)
    else:
        with pytest.raises(MergeConflict):
            first.merge_parallel(second)
    assert StateCommand().is_empty


def test_commands_with_different_bases_do_not_join() -> None:
    left = StateCommand(patch=MutationBatch(base_revision=1))
    right = StateCommand(patch=MutationBatch(base_revision=2))
    for join in (left.extend, left.merge_parallel):
        with pytest.raises(BaseRevisionMismatch):
            join(right)


def test_payloads_are_kept_in_their_json_form_and_stay_readable() -> None:
    command = StateCommand().schedule(REMIND, Point(1, ("a",))).emit(PING, Point(2)).update(SUM, 3)
    action, effect = command.actions[0], command.effects[0]
    assert action == ScheduledAction(
        phase=Phase.STEP_START, key="remind", payload={"x": 1, "tags": ("a",)}
    )
    assert effect == TypedEffect(key="ping", payload={"x": 2, "tags": ()})
    for part, type_ in ((action, ScheduledAction), (effect, TypedEffect)):
        back = msgspec.json.decode(msgspec.json.encode(part), type=type_)
        assert msgspec.convert(back.payload, Point) == msgspec.convert(part.payload, Point)
    assert "StateKey('sum')" in repr(command)
    with pytest.raises(TypeError):
        StateCommand().schedule(REMIND, object())


def test_a_snapshot_gives_values_defaults_and_what_nobody_declared_yet() -> None:
    snapshot = Snapshot(3, {"sum": 5}, {"name": NAME.encode("ann"), "list": SUM.encode(1)})
    assert (snapshot.get(SUM), snapshot.get(BAG), snapshot.get(NAME)) == (5, 0, "ann")
    assert [snapshot.has(key) for key in KEYS] == [True, False, True, True]
    with pytest.raises(KeyCodecError):
        snapshot.get(LIST)


def test_there_are_nine_phases_in_the_order_of_a_run() -> None:
    names = [
        "run_start", "step_start", "before_inference", "after_inference", "tool_gate",
        "before_tool_execute", "after_tool_execute", "step_end", "run_end",
    ]  # fmt: skip
    assert [phase.value for phase in Phase] == [str(phase) for phase in Phase] == names
    assert len(set(Phase)) == 9
    assert msgspec.json.decode(msgspec.json.encode(Phase.RUN_END), type=Phase) is Phase.RUN_END
