"""What a running tool sees and says: state, suspension, activity, progress, output."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import UsageError
from awaken.contracts.events import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    ToolCallStreamDelta,
)
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import EffectSpec, ScheduledActionSpec, Snapshot, StateKey, Update
from awaken.contracts.suspension.tickets import ResumeMode
from awaken.contracts.tools.context import (
    PROGRESS_ACTIVITY,
    ProgressStatus,
    ToolCallProgress,
    ToolContext,
    ToolState,
)

SUM: StateKey[int, int] = StateKey("sum", default=0, apply=lambda value, more: value + more)
ITEMS: StateKey[list[int], list[int]] = StateKey("items", default=[])
REMIND = ScheduledActionSpec[int]("remind", Phase.STEP_START, int)
PING = EffectSpec[int]("ping", int)


class Channel:
    """Keeps what a tool shows."""

    def __init__(self) -> None:
        self.shown: list[AgentEvent] = []
        self.is_cancelled = False

    def emit(self, event: AgentEvent) -> None:
        self.shown.append(event)


def a_context(channel: Channel | None = None, **run: Any) -> ToolContext:
    return ToolContext(
        run=RunIdentity(thread_id="t", run_id="r", agent_id="a", **run),
        agent=AgentSpec(id="a", model_id="m"),
        call=ToolCall(id="c1", name="add"),
        channel=channel,
    )


def test_activity_is_shown_under_the_calls_id_in_order() -> None:
    channel = Channel()
    ctx = a_context(channel)
    ctx.report_activity("log", "a")
    ctx.report_activity_delta("log", {"op": "add"})
    ctx.report_activity_delta("log", [{"op": "add"}, {"op": "remove"}])
    ctx.emit_output("line")
    of_call = {"message_id": "c1", "activity_type": "log"}
    assert channel.shown == [
        ActivitySnapshot(**of_call, content="a", replace=True),
        ActivityDelta(**of_call, patch=[{"op": "add"}]),
        ActivityDelta(**of_call, patch=[{"op": "add"}, {"op": "remove"}]),
        ToolCallStreamDelta(id="c1", name="add", delta="line"),
    ]


@pytest.mark.parametrize("status", ProgressStatus)
@pytest.mark.parametrize("parent_call", [None, "c0"])
def test_progress_carries_its_place_in_the_tree_of_calls(
    status: ProgressStatus, parent_call: str | None
) -> None:
    channel = Channel()
    ctx = a_context(channel, parent_run_id="r0", parent_tool_call_id=parent_call)
    ctx.progress(status, "half", 0.5, loaded=1, total=2)
    (shown,) = channel.shown
    assert isinstance(shown, ActivitySnapshot)
    assert shown.activity_type == PROGRESS_ACTIVITY == "tool-call-progress"
    report = msgspec.convert(shown.content, ToolCallProgress)
    assert report == ToolCallProgress(
        node_id="tool_call:c1",
        call_id="c1",
        tool_name="add",
        status=status,
        progress=0.5,
        loaded=1,
        total=2,
        message="half",
        parent_node_id="tool_call:c0" if parent_call else "run:r",
        parent_call_id=parent_call,
        run_id="r",
        parent_run_id="r0",
        thread_id="t",
    )
    assert shown.content["schema"] == "tool-call-progress.v1"
    assert None not in shown.content.values()
    assert msgspec.json.decode(msgspec.json.encode(report), type=ToolCallProgress) == report


def test_a_tool_that_nobody_listens_to_works_all_the_same() -> None:
    ctx = a_context()
    ctx.report_activity("log", "a")
    ctx.report_activity_delta("log", {})
    ctx.progress("running")
    ctx.emit_output("x")
    assert ctx.is_cancelled is False
    assert ctx.command.is_empty
    assert (ctx.resume, ctx.suspension_id, ctx.profile) == (None, None, None)


def test_a_tool_can_ask_whether_the_run_was_cancelled() -> None:
    channel = Channel()
    ctx = a_context(channel)
    assert ctx.is_cancelled is False
    channel.is_cancelled = True
    assert ctx.is_cancelled is True


def test_an_unknown_progress_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        a_context(Channel()).progress("soon")


def test_a_suspension_asks_for_the_call_it_stops() -> None:
    ticket = a_context().suspend("May I?", parameters={"a": 1}, suspension_id="s")
    assert (ticket.suspension.id, ticket.suspension.message) == ("s", "May I?")
    assert ticket.suspension.action == "tool:add"
    assert ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL
    pending = ticket.pending
    assert (pending.id, pending.name, pending.arguments) == ("c1", "add", {"a": 1})


@given(st.lists(st.none() | st.integers(-5, 5), max_size=6), st.integers(-5, 5))
def test_a_tool_sees_its_own_updates_on_top_of_the_snapshot(
    updates: list[int | None], start: int
) -> None:
    state = ToolState(Snapshot(4, {"sum": start}))
    expected = start
    for more in updates:
        if more is None:
            state.clear(SUM)
            expected = 0
        else:
            state.update(SUM, more)
            expected += more
        assert state.get(SUM) == expected
    assert [op.key for op in state.ops] == [SUM] * len(updates)
    assert state.snapshot.get(SUM) == start


@pytest.mark.parametrize(
    ("steps", "reads", "writes"),
    [
        (lambda s: s.get(SUM), {"sum"}, set()),
        (lambda s: s.update(SUM, 1), set(), {"sum"}),
        (lambda s: (s.update(SUM, 1), s.get(SUM)), {"sum"}, {"sum"}),
        (lambda s: (s.get(ITEMS), s.set(ITEMS, [1])), {"items"}, {"items"}),
        (lambda s: (s.set(ITEMS, [1]), s.get(ITEMS)), set(), {"items"}),
        (lambda s: (s.clear(SUM), s.update(SUM, 1), s.get(SUM)), set(), {"sum"}),
    ],
)
def test_what_a_call_depends_on_is_what_it_read_before_replacing_it(
    steps: Any, reads: set[str], writes: set[str]
) -> None:
    state = ToolState(Snapshot(0, {}))
    steps(state)
    assert (state.reads, {op.key.name for op in state.ops}) == (reads, writes)


def test_what_a_tool_does_to_a_value_it_read_changes_nobody_elses() -> None:
    shared = [1]
    state = ToolState(Snapshot(0, {"items": shared}))
    state.get(ITEMS).append(2)
    assert (shared, state.get(ITEMS)) == ([1], [1])
    state.clear(ITEMS)
    state.get(ITEMS).append(3)
    assert ITEMS.default == state.get(ITEMS) == []


def test_a_key_with_rules_of_its_own_is_updated_and_never_set() -> None:
    state = ToolState(Snapshot(0, {}))
    with pytest.raises(UsageError, match="sum"):
        state.set(SUM, 1)
    state.set(ITEMS, [1])
    assert state.ops == [Update(key=ITEMS, update=[1])]


def test_the_command_of_a_call_has_everything_it_asked_for() -> None:
    ctx = a_context()
    ctx.schedule(REMIND, 1)
    ctx.state.update(SUM, 2)
    ctx.emit_effect(PING, 3)
    command = ctx.command
    assert [op.key for op in command.patch.ops] == [SUM]
    assert [(action.key, action.payload) for action in command.actions] == [("remind", 1)]
    assert [(effect.key, effect.payload) for effect in command.effects] == [("ping", 3)]
