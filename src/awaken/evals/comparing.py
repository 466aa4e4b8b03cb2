"""The diff of two runs: steps aligned by what they called, and what differs in each pair."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.evals.recordings import RecordedCall, RecordedStep, Recording
from awaken.contracts.lifecycle import tag_of
from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.record import Record, always

from .divergences import strip_message

CELLS_MAX = 4_000_000
"""Beyond so many pairs of steps, only the equal beginning and end are aligned."""
_encode = msgspec.json.Encoder(order="sorted").encode


class StepChange(StrEnum):
    """How a pair of steps differs."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


class CallDiff(Record, frozen=True, kw_only=True):
    """A call that only one run made, or that both made otherwise."""

    change: StepChange
    tool: str
    before: Any = None
    """Its arguments and result in the first run."""
    after: Any = None


class StepDiff(Record, frozen=True, kw_only=True):
    """A pair of aligned steps; one of them is absent if only one run has it."""

    change: StepChange
    before: int | None = None
    """The step's number in the first run."""
    after: int | None = None
    answer_before: Any = None
    answer_after: Any = None
    """Present if the answers differ."""
    calls: tuple[CallDiff, ...] = ()


class RunFigures(Record, frozen=True, kw_only=True):
    """The figures of one run; what is not known is absent, never zero."""

    run_id: str
    agent_id: str
    ended: str | None = None
    steps: int = always(0)
    calls: int = always(0)
    tokens: int | None = None
    cost_usd: float | None = None
    ms: int | None = None
    text: str = always("")


class StateDiff(Record, frozen=True, kw_only=True):
    """A key whose value at the end differs."""

    key: str
    before: Any = None
    after: Any = None


class RunDiff(Record, frozen=True, kw_only=True):
    """What differs between two runs."""

    is_same: bool
    before: RunFigures
    after: RunFigures
    steps: tuple[StepDiff, ...] = always(())
    """All steps in order, the same ones too."""
    state: tuple[StateDiff, ...] = always(())
    first: int | None = None
    """The place in `steps` of the first pair that is not the same."""


def compare_runs(before: Recording, after: Recording) -> RunDiff:
    """Align the steps of two runs and say what differs."""
    steps = tuple(_compare_steps(before.steps, after.steps))
    state = tuple(_compare_states(before, after))
    first = next((n for n, it in enumerate(steps) if it.change is not StepChange.SAME), None)
    left, right = measure_run(before), measure_run(after)
    is_same = first is None and not state and (left.ended, left.text) == (right.ended, right.text)
    return RunDiff(is_same=is_same, before=left, after=right, steps=steps, state=state, first=first)


def measure_run(recording: Recording) -> RunFigures:
    """Return the figures of a run."""
    run = recording.run
    return RunFigures(
        run_id=run.run_id,
        agent_id=run.active_agent_id or run.agent_id,
        ended=None if run.termination is None else tag_of(run.termination),
        steps=len(recording.steps),
        calls=sum(len(it.calls) for it in recording.steps),
        tokens=_count_tokens(run.usage),
        cost_usd=run.cost_usd,
        ms=run.duration_ms,
        text=run.final_output or "",
    )


def _count_tokens(usage: TokenUsage) -> int | None:
    if usage.total_tokens is not None:
        return usage.total_tokens
    parts = [it for it in (usage.prompt_tokens, usage.completion_tokens) if it is not None]
    return sum(parts) if parts else None


def _compare_steps(
    before: Sequence[RecordedStep], after: Sequence[RecordedStep]
) -> Iterator[StepDiff]:
    one = at = 0
    left, right = list(map(_key_of, before)), list(map(_key_of, after))
    for pair in (*align(left, right), (len(before), len(after))):
        until, also = pair
        # Steps between two aligned pairs: those at the same place were changed.
        while one < until and at < also:
            yield _compare_pair(before[one], after[at])
            one, at = one + 1, at + 1
        for it in before[one:until]:
            yield StepDiff(
                change=StepChange.REMOVED,
                before=it.n,
                answer_before=_show_answer(it),
                calls=tuple(_show_call(StepChange.REMOVED, call, None) for call in it.calls),
            )
        for it in after[at:also]:
            yield StepDiff(
                change=StepChange.ADDED,
                after=it.n,
                answer_after=_show_answer(it),
                calls=tuple(_show_call(StepChange.ADDED, None, call) for call in it.calls),
            )
        if until < len(before):
            yield _compare_pair(before[until], after[also])
        one, at = until + 1, also + 1


def align(left: Sequence[bytes], right: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the longest common subsequence of two sequences as pairs of places."""
    begin, ends = 0, 0
    shortest = min(len(left), len(right))
    while begin < shortest and left[begin] == right[begin]:
        begin += 1
    while ends < shortest - begin and left[-1 - ends] == right[-1 - ends]:
        ends += 1
    head = [(n, n) for n in range(begin)]
    tail = [(len(left) - n, len(right) - n) for n in range(ends, 0, -1)]
    one, two = left[begin : len(left) - ends], right[begin : len(right) - ends]
    if len(one) * len(two) > CELLS_MAX:
        return head + tail
    lengths = [[0] * (len(two) + 1) for _ in range(len(one) + 1)]
    for row in range(len(one) - 1, -1, -1):
        for column in range(len(two) - 1, -1, -1):
            if one[row] == two[column]:
                lengths[row][column] = lengths[row + 1][column + 1] + 1
            else:
                lengths[row][column] = max(lengths[row + 1][column], lengths[row][column + 1])
    found, row, column = [], 0, 0
    while row < len(one) and column < len(two):
        if one[row] == two[column]:
            found.append((begin + row, begin + column))
            row, column = row + 1, column + 1
        elif lengths[row + 1][column] >= lengths[row][column + 1]:
            row += 1
        else:
            column += 1
    return head + found + tail


def _key_of(step: RecordedStep) -> bytes:
    return _encode([[it.tool, it.arguments] for it in step.calls])


def _compare_pair(before: RecordedStep, after: RecordedStep) -> StepDiff:
    calls = tuple(_compare_calls(before.calls, after.calls))
    left, right = _show_answer(before), _show_answer(after)
    is_said = left == right
    change = StepChange.SAME if is_said and not calls else StepChange.CHANGED
    return StepDiff(
        change=change,
        before=before.n,
        after=after.n,
        answer_before=None if is_said else left,
        answer_after=None if is_said else right,
        calls=calls,
    )


def _compare_calls(
    before: Sequence[RecordedCall], after: Sequence[RecordedCall]
) -> Iterator[CallDiff]:
    """Yield the calls that differ: equal calls are paired first, then calls of the same tool."""
    left, right = list(before), list(after)
    for key in (_name_call, _name_tool):
        for one in tuple(left):
            two = next((it for it in right if key(it) == key(one)), None)
            if two is None:
                continue
            left.remove(one)
            right.remove(two)
            if _describe(one) != _describe(two):
                yield _show_call(StepChange.CHANGED, one, two)
    for one in left:
        yield _show_call(StepChange.REMOVED, one, None)
    for two in right:
        yield _show_call(StepChange.ADDED, None, two)


def _name_call(call: RecordedCall) -> bytes:
    return _encode([call.tool, call.arguments])


def _name_tool(call: RecordedCall) -> bytes:
    return call.tool.encode()


def _describe(call: RecordedCall) -> Any:
    result = call.result
    said = result.data if result.message is None else result.message
    return {
        "arguments": msgspec.to_builtins(call.arguments),
        "status": str(result.status),
        "result": msgspec.to_builtins(said),
    }


def _show_call(
    change: StepChange, before: RecordedCall | None, after: RecordedCall | None
) -> CallDiff:
    known = before or after
    assert known is not None
    return CallDiff(
        change=change,
        tool=known.tool,
        before=None if before is None else _describe(before),
        after=None if after is None else _describe(after),
    )


def _show_answer(step: RecordedStep) -> Any:
    return None if step.answer is None else strip_message(step.answer).get("content")


def _compare_states(before: Recording, after: Recording) -> Iterator[StateDiff]:
    left, right = fold_end(before), fold_end(after)
    for name in sorted({*left, *right}):
        if left.get(name) != right.get(name):
            yield StateDiff(key=name, before=left.get(name), after=right.get(name))


def fold_end(recording: Recording) -> dict[str, Any]:
    """Return the values of state at the end of a run, without what the runtime keeps for itself."""
    values = {**recording.state.thread, **recording.state.run}
    for step in recording.steps:
        for name, stored in step.state.items():
            if stored is None:
                values.pop(name, None)
            else:
                values[name] = stored
    return {
        name: msgspec.json.decode(it.data)
        for name, it in values.items()
        if not name.startswith("__")
    }
