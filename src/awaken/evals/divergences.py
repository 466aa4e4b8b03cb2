"""Where a replay parts from its recording: the first difference is exact."""

from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any

import msgspec

from awaken.contracts.evals.errors import RecordingEnded
from awaken.contracts.evals.recordings import (
    RecordedCall,
    RecordedDecision,
    RecordedStep,
    Recording,
)
from awaken.contracts.evals.worlds import DivergenceKind, ReplayDivergence
from awaken.contracts.lifecycle import Cancelled, Termination, tag_of
from awaken.contracts.messages.message import Message
from awaken.contracts.plugins.loop_state import REQUEST_OPTIONS
from awaken.contracts.state.context_state import CONTEXT_STATE
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.remembered_answers import RUN_ANSWERS, THREAD_ANSWERS
from awaken.contracts.tasks import BACKGROUND_TASKS

DIVERGENCES_MAX = 1000
_HALF = 16
"""How many digits of a digest cover instructions, tools and parameters."""
_NOT_COMPARED = (
    REQUEST_OPTIONS.name,
    # Recorded calls start no tasks: what the recorded ones told the run is compared as its input.
    BACKGROUND_TASKS.name,
    # Ids of a trace, which are random.
    "observability.spans",
    # Begins with what was learnt from all earlier runs: where that shapes a request, it is found.
    "deferred_tools.use",
)
"""State that is another one in every run of the same code."""

_ANSWERS = (RUN_ANSWERS.name, THREAD_ANSWERS.name)


def find_divergences(
    recorded: Recording, replayed: Recording, from_step: int = 1
) -> tuple[ReplayDivergence, ...]:
    """Return the differences in the order of the run: request, answer, calls, state; then the end.

    Ids, times, token counts and prices do not count: they are other ones in every run. Parts that
    the recording lacks are not compared. Steps before `from_step` are not compared either.
    """
    return tuple(islice(_compare_runs(recorded, replayed, from_step), DIVERGENCES_MAX))


def is_purged(recorded: Recording) -> bool:
    """Whether retention removed the log of the run before it was recorded."""
    return any(it.startswith("the log") for it in recorded.incomplete)


def _compare_runs(
    recorded: Recording, replayed: Recording, from_step: int
) -> Iterator[ReplayDivergence]:
    has_state = not any(it.startswith("state") for it in recorded.incomplete)
    has_log = not is_purged(recorded)
    for one, two in zip_longest(recorded.steps, replayed.steps):
        number = (one or two).n
        if number < from_step:
            continue
        if one is None or two is None:
            # A run that parts here ends here: the end says so.
            break
        yield from _compare_steps(one, two, has_state=has_state, has_log=has_log)
    yield from _compare_ends(recorded, replayed)


def _compare_steps(
    one: RecordedStep, two: RecordedStep, *, has_state: bool, has_log: bool
) -> Iterator[ReplayDivergence]:
    n = one.n
    left, right = list(map(strip_message, one.inputs)), list(map(strip_message, two.inputs))
    if left != right:
        yield _differ(n, DivergenceKind.REQUEST, "/inputs", left, right)
    if one.digest is not None and two.digest is not None and one.digest != two.digest:
        is_frame = one.digest[:_HALF] != two.digest[:_HALF]
        path = "/request/frame" if is_frame else "/request/messages"
        yield _differ(n, DivergenceKind.REQUEST, path, one.digest, two.digest)
    answers = _strip_answer(one.answer), _strip_answer(two.answer)
    if answers[0] != answers[1]:
        yield from _explain(n, DivergenceKind.ANSWER, "/answer", *answers)
    for place, (first, second) in enumerate(zip_longest(one.calls, two.calls)):
        yield from _compare_calls(n, f"/calls/{place}", first, second, has_log=has_log)
    for place, (left_run, right_run) in enumerate(zip(one.children, two.children, strict=False)):
        # Children are there if they were replayed; recorded ones are one result each.
        for it in _compare_runs(left_run, right_run, 1):
            path = f"/children/{place}/steps/{it.step}{it.path}"
            yield msgspec.structs.replace(it, step=n, path=path)
    if has_state:
        yield from _compare_state(n, one.state, two.state)


def _compare_calls(
    n: int, path: str, one: RecordedCall | None, two: RecordedCall | None, *, has_log: bool
) -> Iterator[ReplayDivergence]:
    if one is None or two is None:
        shown = [None if it is None else _name_call(it) for it in (one, two)]
        yield _differ(n, DivergenceKind.CALL, path, *shown)
        return
    if _name_call(one) != _name_call(two):
        yield from _explain(n, DivergenceKind.CALL, path, _name_call(one), _name_call(two))
        return
    for number, (asked, also) in enumerate(zip_longest(one.decisions, two.decisions)):
        left, right = _strip_decision(asked), _strip_decision(also)
        if left != right:
            place = f"{path}/decisions/{number}"
            yield from _explain(n, DivergenceKind.DECISION, place, left, right)
    left, right = _strip_result(one, has_log=has_log), _strip_result(two, has_log=has_log)
    if left != right:
        is_refused = two.result.error_class == "invalid_arguments" and one.has_run
        kind = DivergenceKind.CALL if is_refused else DivergenceKind.RESULT
        yield from _explain(n, kind, f"{path}/result", left, right)
    if has_log and list(one.updates) != list(two.updates):
        updates = msgspec.to_builtins(one.updates), msgspec.to_builtins(two.updates)
        if updates[0] != updates[1]:
            yield from _explain(n, DivergenceKind.RESULT, f"{path}/updates", *updates)
    elif left == right and has_log and _has_other_digest(one, two):
        # The recording's result was changed after the run: the replay gave what it says now.
        yield _differ(n, DivergenceKind.RESULT, f"{path}/result", one.digest, two.digest)


def _has_other_digest(one: RecordedCall, two: RecordedCall) -> bool:
    return None not in (one.digest, two.digest) and one.digest != two.digest


def _compare_state(
    n: int, one: dict[str, StoredValue | None], two: dict[str, StoredValue | None]
) -> Iterator[ReplayDivergence]:
    for name in sorted({*one, *two}):
        if name in _NOT_COMPARED:
            continue
        left, right = _read_value(name, one.get(name)), _read_value(name, two.get(name))
        if left != right:
            place = f"/state/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _explain(n, DivergenceKind.STATE, place, left, right)


def _compare_ends(recorded: Recording, replayed: Recording) -> Iterator[ReplayDivergence]:
    one, two = recorded.run, replayed.run
    number = max((it.n for it in replayed.steps), default=0)
    ended = two.termination
    if one.is_open and one.waits_for is None:
        # It was executing when it was recorded: the replay ends where the recording does.
        if getattr(ended, "code", None) != RecordingEnded.code:
            yield _differ(number, DivergenceKind.END, "/end", None, name_end(ended))
        return
    counts = _count_steps(recorded), _count_steps(replayed)
    if counts[0] != counts[1]:
        yield _differ(number, DivergenceKind.END, "/steps", *counts)
    left, right = (one.waits_for, name_end(one.termination)), (two.waits_for, name_end(ended))
    if left != right:
        yield _differ(number, DivergenceKind.END, "/end", list(left), list(right))
    elif one.final_output != two.final_output and not one.is_open:
        outputs = one.final_output, two.final_output
        yield _differ(number, DivergenceKind.END, "/final_output", *outputs)


def _count_steps(recording: Recording) -> int:
    """Return how many steps a run took; one that was cancelled before its answer is none.

    Whether the run had been cancelled just before or just behind its question says nothing.
    """
    steps = recording.steps
    is_cancelled = isinstance(recording.run.termination, Cancelled)
    return len(steps) - (is_cancelled and bool(steps) and steps[-1].answer is None)


def name_end(termination: Termination | None) -> str | None:
    """Return how a run ended: the type, and the code of a failure."""
    if termination is None:
        return None
    code = getattr(termination, "code", None)
    return tag_of(termination) + (f": {code}" if code else "")


def strip_message(message: Message) -> Any:
    """Return what a message says, without what is new in every run."""
    shown: dict[str, Any] = {"role": str(message.role)}
    content = msgspec.to_builtins(message.content)
    if content:
        shown["content"] = content
    if message.tool_calls:
        shown["calls"] = [[it.name, msgspec.to_builtins(it.arguments)] for it in message.tool_calls]
    return shown


def _strip_answer(answer: Message | None) -> Any:
    return None if answer is None else strip_message(answer)


def _name_call(call: RecordedCall) -> Any:
    return {"tool": call.tool, "arguments": msgspec.to_builtins(call.arguments)}


def _strip_decision(decision: RecordedDecision | None) -> Any:
    if decision is None:
        return None
    question, given = decision.question, decision.decision
    asked = {
        "asked_by": question.asked_by,
        "action": question.suspension.action,
        "message": question.suspension.message,
    }
    if given is None:
        return {"question": asked}
    answer = {"action": str(given.action), "result": msgspec.to_builtins(given.result)}
    if given.arguments is not None:
        answer["arguments"] = msgspec.to_builtins(given.arguments)
    return {"question": asked, "decision": answer}


def _strip_result(call: RecordedCall, *, has_log: bool) -> Any:
    result = call.result
    if str(result.status) == "pending":
        return {"status": "pending"}
    if not has_log:
        # Of a purged run only the text is left.
        return result.message if result.message is not None else _to_text(result.data)
    return {
        "status": str(result.status),
        "data": msgspec.to_builtins(result.data),
        "message": result.message,
    }


def _to_text(data: Any) -> str:
    return msgspec.json.encode(data).decode()


def _read_value(name: str, stored: StoredValue | None) -> Any:
    if stored is None:
        return None
    if name == CONTEXT_STATE.name:
        # The marks have ids and times; what they say counts.
        value = CONTEXT_STATE.decode(stored)
        cut = None if value.cut is None else value.cut.place
        return {"marks": [[it.place, it.summary] for it in value.marks], "cut": cut}
    found = msgspec.json.decode(stored.data)
    if name in _ANSWERS and isinstance(found, dict):
        # What was decided counts, and not when.
        return {subject: {**it, "decided_at": 0} for subject, it in found.items()}
    return found


def _explain(
    n: int, kind: DivergenceKind, path: str, one: Any, two: Any
) -> Iterator[ReplayDivergence]:
    """Yield the first place inside of two values where they differ."""
    while True:
        if isinstance(one, dict) and isinstance(two, dict):
            names = [it for it in sorted({*one, *two}) if one.get(it) != two.get(it)]
            name = next((it for it in names if it in one and it in two), None)
            if name is None:
                break
            one, two, path = one[name], two[name], f"{path}/{name}"
        elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
            place = next((p for p, (a, b) in enumerate(zip(one, two, strict=True)) if a != b), None)
            if place is None:
                break
            one, two, path = one[place], two[place], f"{path}/{place}"
        else:
            break
    yield _differ(n, kind, path, one, two)


def _differ(n: int, kind: DivergenceKind, path: str, one: Any, two: Any) -> ReplayDivergence:
    return ReplayDivergence(step=n, kind=kind, path=path, recorded=one, replayed=two)
