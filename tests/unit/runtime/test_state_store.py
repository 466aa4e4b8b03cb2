"""The state store: whole commits, frozen snapshots, plugins that come and go, and persistence."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from awaken.contracts.errors import (
    KeyAlreadyRegistered,
    KeyCodecError,
    PluginAlreadyInstalled,
    PluginNotInstalled,
    RevisionConflict,
    UnknownKey,
)
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
from awaken.runtime.state.store import CommitNotice, StateStore


def grown(value: int, more: int) -> int:
    if more == 13:
        raise ArithmeticError("unlucky")
    return value + more


SUM: StateKey[int, int] = StateKey("sum", default=0, apply=grown, merge="commutative")
NAME: StateKey[str | None, str | None] = StateKey("name", default=None, type=str | None)
LIST: StateKey[tuple[int, ...], int] = StateKey(
    "list", default=(), type=tuple[int, ...], scope="thread", apply=lambda v, item: (*v, item)
)
TEMP: StateKey[Any, Any] = StateKey("temp", default=None, persistent=False)
STRANGER: StateKey[int, int] = StateKey("stranger", default=0)
KEYS = (SUM, NAME, LIST, TEMP)


def batch(*ops: StateOp, base: int | None = None) -> MutationBatch:
    return MutationBatch(ops=ops, base_revision=base)


def put(key: StateKey[Any, Any], update: Any) -> StateOp:
    return Update(key=key, update=update)


def values_of(view: StateStore | Snapshot) -> dict[str, Any]:
    return {key.name: view.get(key) for key in KEYS if view.has(key)}


good_ops = st.one_of(
    st.builds(put, st.sampled_from([SUM, LIST]), st.integers(-12, 12)),
    st.builds(put, st.just(NAME), st.none() | st.just("") | st.text(max_size=2)),
    st.builds(put, st.just(TEMP), st.just(object)),
    st.builds(lambda key: Clear(key=key), st.sampled_from(KEYS)),
)
bad_ops = st.sampled_from(
    [
        (put(SUM, 13), ArithmeticError),
        (put(STRANGER, 1), UnknownKey),
        (put(StateKey("sum", default=0), 1), UnknownKey),
        (put(NAME, 5), KeyCodecError),
        (put(NAME, "\ud800"), KeyCodecError),
        (put(LIST, "x"), KeyCodecError),
    ]
)


class Store(RuleBasedStateMachine):
    """Any sequence of commits, against a dictionary that does the same by hand."""

    @initialize()
    def start(self) -> None:
        self.store = StateStore.of(KEYS)
        self.values: dict[str, Any] = {}
        self.revision = 0
        self.noticed: list[CommitNotice] = []
        self.snapshots: list[tuple[Snapshot, int, dict[str, Any]]] = []
        self.untaken: set[str] = set()
        self.durable: dict[str, dict[str, StoredValue]] = {"thread": {}, "run": {}}
        self.store.on_commit(self.noticed.append)
        assert (self.store.revision, values_of(self.store)) == (0, {})

    @rule(ops=st.lists(good_ops, max_size=4), is_based=st.booleans())
    def commit(self, ops: list[StateOp], is_based: bool) -> None:
        returned = self.store.commit(batch(*ops, base=self.revision if is_based else None))
        for op in ops:
            key = op.key
            if isinstance(op, Clear):
                self.values.pop(key.name, None)
            else:
                old = self.values.get(key.name, key.default)
                self.values[key.name] = key.apply(old, op.update) if key.apply else op.update
            self.untaken |= {key.name} if key.persistent else set()
        self.revision += bool(ops)
        assert returned == self.revision
        if ops:
            notice = self.noticed.pop()
            assert (notice.previous_revision, notice.new_revision) == (returned - 1, returned)
            assert (notice.op_count, values_of(notice.snapshot)) == (len(ops), self.values)

    @rule(before=st.lists(good_ops, max_size=2), bad=bad_ops)
    def commit_what_cannot_be_applied(
        self, before: list[StateOp], bad: tuple[StateOp, Any]
    ) -> None:
        op, error = bad
        with pytest.raises(error):
            self.store.commit(batch(*before, op))

    @rule(ops=st.lists(good_ops, min_size=1, max_size=2), off_by=st.sampled_from([-1, 1]))
    def commit_for_another_revision(self, ops: list[StateOp], off_by: int) -> None:
        with pytest.raises(RevisionConflict) as refused:
            self.store.commit(batch(*ops, base=self.revision + off_by))
        assert refused.value.fields == {
            "expected": self.revision + off_by,
            "actual": self.revision,
        }

    @rule()
    def look(self) -> None:
        self.snapshots.append((self.store.snapshot(), self.revision, dict(self.values)))

    @rule()
    def make_durable(self) -> None:
        thread, run = self.store.take_changes()
        assert {*thread, *run} == self.untaken
        for scope, changes in (("thread", thread), ("run", run)):
            for name, value in changes.items():
                if value is None:
                    self.durable[scope].pop(name, None)
                else:
                    self.durable[scope][name] = value
        self.untaken = set()
        again = StateStore.of(KEYS)
        again.restore(self.durable["thread"] | self.durable["run"])
        kept = {name: value for name, value in self.values.items() if name != "temp"}
        assert values_of(again) == kept
        assert set(self.durable["thread"]) == {"list"} & set(kept)

    @invariant()
    def nothing_changes_by_itself(self) -> None:
        assert self.store.revision == self.revision
        assert values_of(self.store) == values_of(self.store.snapshot()) == self.values
        assert self.noticed == []
        assert {key.name for key in self.store.changed} == self.untaken
        for snapshot, revision, values in self.snapshots:
            assert (snapshot.revision, values_of(snapshot)) == (revision, values)


def test_any_sequence_of_commits_is_applied_whole_or_not_at_all() -> None:
    limits = settings(max_examples=40, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(Store, settings=limits)


def test_hooks_are_called_in_order_once_the_commit_is_visible_and_never_for_nothing() -> None:
    store, seen = StateStore.of(KEYS), []
    for name in ("first", "second"):
        store.on_commit(lambda notice, name=name: seen.append((name, store.get(SUM), notice)))
    store.commit(batch())
    assert seen == []
    store.commit(batch(put(SUM, 1), put(SUM, 2)))
    assert [(name, value) for name, value, _ in seen] == [("first", 3), ("second", 3)]
    assert seen[0][2] == seen[1][2]


def test_of_two_commits_for_one_revision_exactly_one_wins() -> None:
    store = StateStore.of(KEYS)
    left, right = batch(put(SUM, 1), base=0), batch(put(SUM, 2), base=0)
    store.commit(left)
    with pytest.raises(RevisionConflict):
        store.commit(right)
    assert (store.get(SUM), store.revision) == (1, 1)
    store.commit(batch(put(SUM, 2)))
    assert (store.get(SUM), store.revision) == (3, 2)


def test_batches_made_side_by_side_are_all_counted() -> None:
    store = StateStore.of(KEYS)
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda n: batch(put(SUM, n), put(LIST, n)), range(12)))
    merged = batch()
    for each in made:
        store.commit(each)
        merged = merged.extend(each)
    assert (store.get(SUM), store.get(LIST), store.revision) == (66, tuple(range(12)), 12)
    once = StateStore.of(KEYS)
    once.commit(merged)
    assert (values_of(once), once.revision) == (values_of(store), 1)


def test_a_plugins_keys_live_and_go_with_it_except_what_it_retains() -> None:
    store, noticed = StateStore(), []
    store.install("p", {SUM: False, NAME: True})
    store.install("q", {LIST: False})
    store.commit(batch(put(SUM, 1), put(NAME, "ann"), put(LIST, 7)))
    store.on_commit(noticed.append)
    store.uninstall("p")
    assert [notice.op_count for notice in noticed] == [1]
    assert store.revision == 2
    assert (store.get(SUM), store.get(LIST)) == (0, (7,))
    assert "name" not in store.export().extensions
    assert store.take_changes()[1]["sum"] is None
    with pytest.raises(UnknownKey):
        store.update(SUM, 1)
    store.install("p", {SUM: False, NAME: True})
    assert (store.get(SUM), store.get(NAME), store.has(SUM)) == (0, "ann", False)


def test_a_plugin_comes_whole_or_not_at_all() -> None:
    store = StateStore()
    store.install("p", {SUM: False})
    with pytest.raises(PluginAlreadyInstalled):
        store.install("p", {NAME: False})
    with pytest.raises(KeyAlreadyRegistered):
        store.install("q", {NAME: False, SUM: False})
    with pytest.raises(PluginNotInstalled):
        store.uninstall("q")
    with pytest.raises(UnknownKey):
        store.update(NAME, "x")
    store.restore({"list": NAME.encode("no list")})
    with pytest.raises(KeyCodecError):
        store.install("r", {NAME: False, LIST: False})
    with pytest.raises(UnknownKey):
        store.update(NAME, "x")
    store.uninstall("p")
    store.install("p", {SUM: False})


def test_the_same_key_may_be_declared_again_but_no_other_of_its_name() -> None:
    store = StateStore.of([SUM])
    store.declare([SUM, SUM])
    for other in (StateKey("sum", default=0), StateKey("fresh", default=0)):
        with pytest.raises(KeyAlreadyRegistered):
            store.declare([NAME, StateKey("fresh", default=0), other])
    with pytest.raises(UnknownKey):
        store.update(NAME, "x")


def test_export_has_the_persistent_values_of_the_scope_and_nothing_else() -> None:
    store = StateStore.of(KEYS)
    assert store.export() == PersistedState(revision=0, extensions={})
    store.commit(batch(put(SUM, 1), put(LIST, 2), put(TEMP, object())))
    exported = store.export()
    assert (exported.revision, set(exported.extensions)) == (1, {"sum", "list"})
    assert set(store.export(StateScope.THREAD).extensions) == {"list"}
    assert set(store.export(StateScope.RUN).extensions) == {"sum"}
    assert store.export_values() == {"revision": 1, "extensions": {"sum": 1, "list": (2,)}}
    data = msgspec.json.encode(exported)
    back = StateStore.of(KEYS)
    back.restore(msgspec.json.decode(data, type=PersistedState).extensions)
    assert values_of(back) == {"sum": 1, "list": (2,)}


def test_restoring_replaces_what_is_named_and_fails_whole() -> None:
    store = StateStore.of(KEYS)
    store.commit(batch(put(SUM, 1), put(NAME, "ann")))
    with pytest.raises(KeyCodecError) as refused:
        store.restore({"sum": SUM.encode(9), "name": SUM.encode(3)})
    assert refused.value.fields["key"] == "name"
    assert values_of(store) == {"sum": 1, "name": "ann"}
    store.restore({"sum": SUM.encode(9)})
    assert values_of(store) == {"sum": 9, "name": "ann"}
    assert (store.revision, store.changed.keys()) == (1, {SUM, NAME})


def test_a_stored_value_waits_for_its_key_and_is_never_lost_or_replaced_by_a_default() -> None:
    stored = {"sum": SUM.encode(5), "name": SUM.encode(1), "old": SUM.encode(7)}
    store = StateStore.of([LIST])
    store.restore(stored)
    before = store.snapshot()
    assert (store.get(SUM), store.has(SUM), before.get(SUM)) == (5, True, 5)
    store.declare([SUM])
    store.update(SUM, 1)
    assert (store.get(SUM), before.get(SUM)) == (6, 5)
    for _ in range(2):
        with pytest.raises(KeyCodecError):
            store.declare([NAME])
        with pytest.raises(KeyCodecError):
            store.get(NAME)
    assert set(store.export().extensions) == {"sum"}


def test_a_store_knows_when_each_key_was_last_written() -> None:
    store = StateStore.of(KEYS)
    for op in (put(SUM, 1), put(LIST, 1), put(SUM, 1), Clear(key=LIST)):
        store.commit(batch(op))
    assert store.written == {"sum": 3, "list": 4}
