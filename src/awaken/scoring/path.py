"""Scorers of the way to the answer: which tools were called, how, in which order."""

from collections import Counter
from enum import StrEnum
from typing import Any

import msgspec

from awaken.authoring.delegates import delegate_tool_id
from awaken.contracts.evals.cases import CallCount, CountOp
from awaken.contracts.evals.recordings import RecordedCall
from awaken.contracts.evals.scores import Outcome
from awaken.contracts.record import StrictRecord
from awaken.patterns import compile_tool_glob

from .calls import has_run, list_all_calls, list_calls, list_runs, read_recording
from .marks import EVIDENCE_ITEMS, CannotScore, Check, Marks, ScorerKind, ScorerSetup, grade, quote
from .subsets import is_subset


class SequenceFit(StrEnum):
    """How the called tools have to fit the expected ones."""

    EXACT = "exact"
    """The same tools in the same order, and no others."""
    IN_ORDER = "in_order"
    """All of them in this order; others may stand between them."""
    ANY_ORDER = "any_order"
    """All of them, as often as they are listed, in any order; others may be called too."""
    SUBSET = "subset"
    """No other tools than these are called; not all have to be."""


class ToolSequenceOptions(StrictRecord, frozen=True, kw_only=True):
    """The tools that are wanted."""

    tools: tuple[str, ...] | None = None
    """Absent: those that the case expects."""
    mode: SequenceFit = SequenceFit.EXACT


class ToolCallOptions(StrictRecord, frozen=True, kw_only=True):
    """A call that has to be made."""

    name: str
    args_subset: Any = msgspec.UNSET
    result_subset: Any = msgspec.UNSET
    count: CallCount = CallCount()
    """How many calls have to match; at least one unless given."""


class ToolNamesOptions(StrictRecord, frozen=True, kw_only=True):
    """Tools as ids or globs."""

    tools: tuple[str, ...]


class NoRepeatsOptions(StrictRecord, frozen=True, kw_only=True):
    """How often one call may be made with equal arguments."""

    max_times: int = 1
    tools: tuple[str, ...] = ()
    """Ids or globs; absent: all tools."""


class MaxStepsOptions(StrictRecord, frozen=True, kw_only=True):
    """The most model turns."""

    max: int


class TargetAgentOptions(StrictRecord, frozen=True, kw_only=True):
    """The agent that has to take over."""

    agent: str


def _build_tool_sequence(options: ToolSequenceOptions, setup: ScorerSetup) -> Check:
    def check(outcome: Outcome) -> Marks:
        wanted = outcome.expected_tools if options.tools is None else options.tools
        if wanted is None:
            raise CannotScore("the case expects no tools; give them, or the option `tools`")
        called = tuple(it.tool for it in list_calls(outcome))
        is_passed = _fits(tuple(wanted), called, options.mode)
        reason = f"called {quote(called) or 'nothing'}, expected {quote(wanted) or 'nothing'}"
        evidence = {
            "expected": list(wanted)[:EVIDENCE_ITEMS],
            "actual": list(called)[:EVIDENCE_ITEMS],
            "mode": str(options.mode),
        }
        return grade(is_passed, "tool_sequence_mismatch", reason, evidence)

    return check


def _fits(wanted: tuple[str, ...], called: tuple[str, ...], mode: SequenceFit) -> bool:
    match mode:
        case SequenceFit.EXACT:
            return wanted == called
        case SequenceFit.IN_ORDER:
            rest = iter(called)
            return all(it in rest for it in wanted)
        case SequenceFit.ANY_ORDER:
            return Counter(wanted) <= Counter(called)
        case SequenceFit.SUBSET:
            return set(called) <= set(wanted)


def _build_tool_call(options: ToolCallOptions, setup: ScorerSetup) -> Check:
    if options.count.n < 0:
        raise ValueError("`count.n` must be 0 or more")

    def check(outcome: Outcome) -> Marks:
        found = sum(_matches(options, it) for it in list_calls(outcome))
        match options.count.op:
            case CountOp.EXACTLY:
                is_passed = found == options.count.n
            case CountOp.AT_LEAST:
                is_passed = found >= options.count.n
            case CountOp.AT_MOST:
                is_passed = found <= options.count.n
        wanted = f"{str(options.count.op).replace('_', ' ')} {options.count.n}"
        reason = f"{found} calls of '{options.name}' match, expected {wanted}"
        evidence = {
            "name": options.name,
            "expected_count": msgspec.to_builtins(options.count),
            "actual_matches": found,
            "args_filter_set": options.args_subset is not msgspec.UNSET,
            "result_filter_set": options.result_subset is not msgspec.UNSET,
        }
        return grade(is_passed, "required_tool_call_not_satisfied", reason, evidence)

    return check


def _matches(options: ToolCallOptions, call: RecordedCall) -> bool:
    if call.tool != options.name:
        return False
    if options.args_subset is not msgspec.UNSET and not is_subset(
        options.args_subset, call.arguments
    ):
        return False
    if options.result_subset is msgspec.UNSET:
        return True
    # The result of a call that waits is not known: it never matches.
    return has_run(call) and is_subset(options.result_subset, call.result.data)


def _build_forbidden_tools(options: ToolNamesOptions, setup: ScorerSetup) -> Check:
    if not options.tools:
        raise ValueError("`tools` is empty")
    globs = [compile_tool_glob(it) for it in options.tools]

    def check(outcome: Outcome) -> Marks:
        called = dict.fromkeys(it.tool for it in list_all_calls(outcome))
        found = [it for it in called if any(matches(it) for matches in globs)]
        reason = f"{quote(found)} must not be called"
        return grade(not found, "forbidden_tool_used", reason, found[:EVIDENCE_ITEMS])

    return check


def _build_no_repeats(options: NoRepeatsOptions, setup: ScorerSetup) -> Check:
    if options.max_times < 1:
        raise ValueError("`max_times` must be at least 1")
    globs = [compile_tool_glob(it) for it in options.tools]

    def check(outcome: Outcome) -> Marks:
        times: Counter[tuple[str, bytes]] = Counter()
        for call in list_calls(outcome):
            if not globs or any(matches(call.tool) for matches in globs):
                times[call.tool, msgspec.json.encode(call.arguments, order="sorted")] += 1
        found = sorted({tool for (tool, _), n in times.items() if n > options.max_times})
        reason = (
            f"{quote(found)} was called more than {options.max_times} times with equal arguments"
        )
        return grade(not found, "call_repeated", reason, found[:EVIDENCE_ITEMS])

    return check


def _build_max_steps(options: MaxStepsOptions, setup: ScorerSetup) -> Check:
    if options.max < 0:
        raise ValueError("`max` must be 0 or more")

    def check(outcome: Outcome) -> Marks:
        steps = len(read_recording(outcome).steps)
        return grade(
            steps <= options.max, "too_many_steps", f"{steps} steps, at most {options.max}", steps
        )

    return check


def _build_delegates_to(options: TargetAgentOptions, setup: ScorerSetup) -> Check:
    tool_id = delegate_tool_id(options.agent)

    def check(outcome: Outcome) -> Marks:
        recording = read_recording(outcome)
        runs = {it.run.agent_id for it in list_runs(recording) if it is not recording}
        is_called = any(it.tool == tool_id and has_run(it) for it in list_calls(outcome))
        reason = f"no run of '{options.agent}' was started"
        is_passed = is_called or options.agent in runs
        return grade(is_passed, "not_delegated", reason, sorted(runs)[:EVIDENCE_ITEMS])

    return check


def _build_hands_off_to(options: TargetAgentOptions, setup: ScorerSetup) -> Check:
    def check(outcome: Outcome) -> Marks:
        recording = read_recording(outcome)
        spoke = {*recording.config.agents, recording.run.active_agent_id or ""}
        # The agent that the run began with was handed nothing, unless it is back at the end.
        later = spoke - {recording.run.agent_id, ""}
        reason = f"the conversation was not handed to '{options.agent}'"
        return grade(options.agent in later, "not_handed_off", reason, sorted(later))

    return check


KINDS = (
    ScorerKind(
        name="tool_sequence",
        family="path",
        options=ToolSequenceOptions,
        build=_build_tool_sequence,
        about="The run calls the expected tools: exactly, in order, in any order, or no others.",
    ),
    ScorerKind(
        name="tool_call",
        family="path",
        options=ToolCallOptions,
        build=_build_tool_call,
        about="So many calls of a tool have these arguments and this result.",
    ),
    ScorerKind(
        name="forbidden_tools",
        family="path",
        options=ToolNamesOptions,
        build=_build_forbidden_tools,
        about="None of these tools is called, by the run or by runs that it starts.",
    ),
    ScorerKind(
        name="no_repeats",
        family="path",
        options=NoRepeatsOptions,
        build=_build_no_repeats,
        about="No tool is called again with equal arguments.",
    ),
    ScorerKind(
        name="max_steps",
        family="path",
        options=MaxStepsOptions,
        build=_build_max_steps,
        about="The run takes at most so many model turns.",
    ),
    ScorerKind(
        name="delegates_to",
        family="path",
        options=TargetAgentOptions,
        build=_build_delegates_to,
        about="The run starts a run of this agent.",
    ),
    ScorerKind(
        name="hands_off_to",
        family="path",
        options=TargetAgentOptions,
        build=_build_hands_off_to,
        about="The conversation is handed over to this agent.",
    ),
)
