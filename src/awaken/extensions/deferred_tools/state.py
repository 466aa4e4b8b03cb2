"""State of deferred tools: which ones a thread has loaded, and which ones a run has called.

Loaded tools belong to the thread: the next run of a conversation continues with the tools that the
earlier runs have found. Calls are counted per run. Both are stored per agent, since agents that
hand over to each other have different tools.
"""

from collections.abc import Mapping
from typing import NamedTuple

from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey, StateScope


class Mark(NamedTuple):
    """The latest change of a tool. Marks are ordered: within one turn, loading wins."""

    turn: int
    is_loaded: bool


class Conversation(Record, frozen=True, kw_only=True):
    """What one agent has loaded on a thread."""

    turn: int = 0
    """The agent's turns so far, including the current one."""
    marks: Mapping[str, Mark] = {}

    @property
    def active_tools(self) -> dict[str, int]:
        """The tools that are loaded, with the turn in which each was last searched or called."""
        return {tool_id: mark.turn for tool_id, mark in self.marks.items() if mark.is_loaded}


class Shift(Record, frozen=True, kw_only=True):
    """Loads and defers tools in one turn of an agent; loading wins."""

    agent_id: str
    turn: int
    load: tuple[str, ...] = ()
    defer: tuple[str, ...] = ()


def _apply_shift(value: Mapping[str, Conversation], shift: Shift) -> Mapping[str, Conversation]:
    known = value.get(shift.agent_id, Conversation())
    marks = dict(known.marks)
    for tool_ids, is_loaded in ((shift.defer, False), (shift.load, True)):
        mark = Mark(shift.turn, is_loaded)
        marks.update((it, max(marks.get(it, mark), mark)) for it in tool_ids)
    after = Conversation(turn=max(known.turn, shift.turn), marks=marks)
    return {**value, shift.agent_id: after}


LOADED_TOOLS: StateKey[Mapping[str, Conversation], Shift] = StateKey(
    "deferred_tools.loaded",
    default={},
    type=dict[str, Conversation],
    apply=_apply_shift,
    update_type=Shift,
    merge=MergeStrategy.COMMUTATIVE,
    scope=StateScope.THREAD,
)
"""By agent id."""


class ToolUsage(Record, frozen=True, kw_only=True):
    """The tool calls of one agent in a run."""

    since: int = 0
    """The agent's turns on the thread before the run."""
    priors: Mapping[str, float] = {}
    """The expected share of turns with a call of each tool, when the run began."""
    calls: Mapping[str, tuple[int, ...]] = {}
    """The turns, counted from the beginning of the run, in which a tool was called."""


class FirstTurn(Record, frozen=True, kw_only=True):
    """An agent takes its first turn of the run."""

    agent_id: str
    since: int
    priors: Mapping[str, float]


class Called(Record, frozen=True, kw_only=True):
    """An agent called a tool in a turn of the thread."""

    agent_id: str
    tool_id: str
    turn: int


def _apply_use(
    value: Mapping[str, ToolUsage], update: FirstTurn | Called
) -> Mapping[str, ToolUsage]:
    if isinstance(update, FirstTurn):
        begun = ToolUsage(since=update.since, priors=update.priors)
        return {**value, update.agent_id: value.get(update.agent_id, begun)}
    use = value.get(update.agent_id, ToolUsage())
    turns = {*use.calls.get(update.tool_id, ()), update.turn - use.since}
    calls = {**use.calls, update.tool_id: tuple(sorted(turns))}
    after = ToolUsage(since=use.since, priors=use.priors, calls=calls)
    return {**value, update.agent_id: after}


TOOL_USE: StateKey[Mapping[str, ToolUsage], FirstTurn | Called] = StateKey(
    "deferred_tools.use",
    default={},
    type=dict[str, ToolUsage],
    apply=_apply_use,
    merge=MergeStrategy.COMMUTATIVE,
)
"""By agent id."""

HIDDEN_TOOLS: StateKey[tuple[str, ...], tuple[str, ...]] = StateKey(
    "deferred_tools.hidden", default=(), type=tuple[str, ...]
)
"""Deferred tools that another plugin hides from the model: they are neither listed nor found."""
