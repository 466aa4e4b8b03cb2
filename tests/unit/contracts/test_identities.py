"""Who runs what, where: identities, filters and threads."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.identity import (
    Adapter,
    RunIdentity,
    RunMode,
    RunOrigin,
    normalize_id,
)
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread, ThreadMetadata

blanks = st.sampled_from(["", " ", "\t\n"])
names = st.text(st.characters(categories=["L"]), min_size=1, max_size=3)
padded = st.builds(lambda a, name, b: a + name + b, blanks, names, blanks)


@given(st.none() | blanks | padded)
def test_a_blank_id_is_absent_and_others_are_trimmed(value: str | None) -> None:
    expected = value.strip() if value else None
    assert normalize_id(value) == (expected or None)


def test_an_identity_for_a_thread_has_nothing_but_the_thread() -> None:
    identity = RunIdentity(thread_id="t")
    assert (identity.origin, identity.run_mode, identity.adapter) == (
        RunOrigin.USER,
        RunMode.FOREGROUND,
        Adapter.INTERNAL,
    )
    others = set(RunIdentity.__struct_fields__) - {"thread_id", "origin", "run_mode", "adapter"}
    assert not any(getattr(identity, name) for name in others)


@pytest.mark.parametrize("call_id", ["c1", None, " "])
def test_children_know_their_parents_at_every_depth(call_id: str | None) -> None:
    root = RunIdentity(thread_id="t0", run_id="r0", agent_id="a0", session_id="s")
    child = root.child(run_id="r1", thread_id="t1", agent_id="a1", call_id=call_id)
    grandchild = child.child(run_id="r2", thread_id="t2", agent_id="a2", call_id="c2")
    assert child == RunIdentity(
        thread_id="t1",
        run_id="r1",
        agent_id="a1",
        parent_thread_id="t0",
        parent_run_id="r0",
        parent_tool_call_id="c1" if call_id == "c1" else None,
        origin=RunOrigin.SUBAGENT,
    )
    assert (grandchild.parent_run_id, grandchild.parent_tool_call_id) == ("r1", "c2")
    assert grandchild.origin is RunOrigin.SUBAGENT
    assert root.with_active_agent("a9") == msgspec.structs.replace(root, active_agent_id="a9")


@given(st.sampled_from(RunOrigin), st.sampled_from(RunMode), st.sampled_from(Adapter))
def test_origin_mode_and_adapter_survive_the_wire(
    origin: RunOrigin, mode: RunMode, adapter: Adapter
) -> None:
    identity = RunIdentity(thread_id="t", origin=origin, run_mode=mode, adapter=adapter)
    wire = msgspec.json.decode(msgspec.json.encode(identity))
    assert not any(isinstance(value, dict) for value in wire.values())
    assert ("run_mode" in wire) is (mode is not RunMode.FOREGROUND)
    assert ("adapter" in wire) is (adapter is not Adapter.INTERNAL)
    assert msgspec.convert(wire, RunIdentity) == identity


@given(st.none() | blanks | padded, st.none() | blanks | padded)
def test_a_threads_lineage_is_trimmed_and_blank_is_absent(
    resource: str | None, parent: str | None
) -> None:
    thread = Thread(id="t", resource_id=resource, parent_thread_id=parent).normalize()
    assert (thread.resource_id, thread.parent_thread_id) == (
        normalize_id(resource),
        normalize_id(parent),
    )
    assert thread.normalize() is thread


def test_a_thread_is_created_once_and_updated_always() -> None:
    metadata = ThreadMetadata(title="T", custom={"k": [1]})
    thread = Thread(id="t", parent_thread_id="p", metadata=metadata).touch(5).touch(9)
    assert (thread.metadata.created_at, thread.metadata.updated_at) == (5, 9)
    assert (thread.metadata.title, thread.metadata.custom) == ("T", {"k": [1]})
    data = msgspec.json.encode(thread)
    assert msgspec.json.decode(data, type=Thread) == thread
    assert msgspec.json.decode(msgspec.json.encode(Thread(id="t"))) == {"id": "t"}


def a_run(status: str, run_id: str = "r1", **fields: Any) -> RunRecord:
    return RunRecord(run_id=run_id, thread_id="t", agent_id="a", status=RunStatus(status), **fields)


@pytest.mark.parametrize(
    ("status", "active", "opened"),
    [
        ("created", None, "r1"),
        ("running", "r1", "r1"),
        ("waiting", None, "r1"),
        ("done", None, None),
    ],
)
@pytest.mark.parametrize("pointed_at", [None, "r1"])
def test_a_thread_points_at_its_run_by_the_runs_status(
    status: str, active: str | None, opened: str | None, pointed_at: str | None
) -> None:
    thread = Thread(id="t", active_run_id=pointed_at, open_run_id=pointed_at)
    shown = thread.project_run(a_run(status))
    assert (shown.active_run_id, shown.open_run_id) == (active, opened)
    assert shown.latest_run_id == "r1"


def test_the_end_of_one_run_does_not_close_another() -> None:
    thread = Thread(id="t", active_run_id="r2", open_run_id="r2")
    shown = thread.project_run(a_run("done"))
    assert (shown.active_run_id, shown.open_run_id, shown.latest_run_id) == ("r2", "r2", "r1")


def test_an_older_run_changes_nothing_but_the_open_run_always_counts() -> None:
    thread = Thread(id="t").project_run(a_run("running", "r2", updated_at=9))
    assert thread.project_run(a_run("done", "r1", updated_at=8)) == thread
    ended = thread.project_run(a_run("done", "r2", updated_at=3))
    assert (ended.active_run_id, ended.open_run_id) == (None, None)


@pytest.mark.parametrize(
    ("known", "given_", "parent"),
    [(None, " p ", "p"), (None, " ", None), ("q", "p", "q"), (None, None, None)],
)
def test_a_run_fills_in_a_missing_parent_and_never_replaces_one(
    known: str | None, given_: str | None, parent: str | None
) -> None:
    thread = Thread(id="t", parent_thread_id=known)
    assert thread.project_run(a_run("running", parent_thread_id=given_)).parent_thread_id == parent
