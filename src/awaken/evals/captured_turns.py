"""What answers the calls and the questions of a captured dialogue: stubs and planned decisions.

A recording answers for one run, and a dialogue has several.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from awaken.contracts.evals.recordings import RecordedCall, Recording
from awaken.contracts.evals.worlds import PlannedDecision, ToolPolicy, ToolStub
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT
from awaken.contracts.tool_results import ToolStatus


def stub_calls(recording: Recording) -> ToolPolicy | None:
    """Return stubs with the recorded results, each for one call; None if no tool was executed.

    A call that hands the conversation to another agent has none: the world does that by itself.
    """
    stubs: dict[str, tuple[ToolStub, ...]] = {}
    for call in _list_calls(recording):
        is_handoff = any(name == ACTIVE_AGENT.name for name, _, _ in call.updates)
        if not call.has_run or is_handoff or call.result.status is ToolStatus.PENDING:
            continue
        stubs[call.tool] = (*stubs.get(call.tool, ()), _build_stub(call))
    return ToolPolicy(stubs=stubs) if stubs else None


def list_decisions(recordings: Sequence[Recording]) -> tuple[PlannedDecision, ...]:
    """Return what was decided on calls; a planned decision is one for all calls that fit.

    So calls that were decided in several ways have none: a sample waits for a person there, and
    says so, rather than approving what was refused.
    """
    planned: dict[bytes, PlannedDecision | None] = {}
    for recording in recordings:
        for call in _list_calls(recording):
            for it in call.decisions:
                if it.decision is None:
                    continue
                key = msgspec.json.encode([call.tool, call.arguments], order="sorted")
                made = PlannedDecision(
                    tool=call.tool,
                    action=it.decision.action,
                    result=it.decision.result,
                    when=call.arguments,
                )
                planned[key] = made if planned.get(key, made) == made else None
    found = [it for it in planned.values() if it is not None]
    # The first one that fits counts: arguments that are a part of others come behind them.
    return tuple(sorted(found, key=lambda it: -_count_values(it.when)))


def _list_calls(recording: Recording) -> Iterator[RecordedCall]:
    return (call for step in recording.steps for call in step.calls)


def _build_stub(call: RecordedCall) -> ToolStub:
    result = call.result
    if result.status is ToolStatus.ERROR:
        return ToolStub(when=call.arguments, error=result.message or "failed", times=1)
    return ToolStub(when=call.arguments, result=result.data, times=1)


def _count_values(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count_values, value.values()))
    return 1 + sum(map(_count_values, value)) if isinstance(value, list) else 1
