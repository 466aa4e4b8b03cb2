"""All calls of one model turn: gate them, run what may run, settle in call order.

Calls that pass the gate run side by side on one frozen snapshot. Each records what it read and
wrote. When a call is settled, an earlier one may have changed what it relied on; then it is run
again if its tool is repeatable, and otherwise gets a typed conflict as its result.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from awaken.contracts.lifecycle import Blocked, ToolCallStatus
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import RUN_LIFECYCLE, End
from awaken.contracts.plugins.plugin import (
    BeforeToolExecuteContext,
    Block,
    GateDecision,
    SetResult,
    Suspend,
)
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolError, ToolOutput
from awaken.runtime.journal.outcomes import CONTINUE, SUSPEND, Finish, StepOutcome
from awaken.runtime.phases.contexts import tool_phase_context
from awaken.runtime.phases.runner import has_work, run_phase
from awaken.runtime.primitives.task_groups import Siblings
from awaken.runtime.run import Run
from awaken.runtime.spending.questions import question

from .execution import (
    ToolExecution,
    failed,
    finished,
    intent,
    perform,
    prepared,
    timed_out,
    timeout_of,
)
from .gate import ask_gates
from .recalled import recalled
from .results import kept
from .settle import (
    CANCELLED,
    INTERRUPTED,
    apply_updates,
    interrupt,
    put_states,
    settle,
    write_result,
)

NO_RESUMES: Mapping[str, ToolCallResume] = {}


async def run_calls(
    run: Run, calls: Sequence[ToolCall], resumes: Mapping[str, ToolCallResume] = NO_RESUMES
) -> StepOutcome:
    """Gate, execute and settle the calls; resumed ones come with their decision.

    Side by side, all calls that pass the gate run together. One after another, each is gated
    when those before it are settled, and the first that is suspended ends the row.
    """
    is_parallel = run.agent.spec.parallel_tools
    passed: list[ToolExecution] = []
    for index, call in enumerate(calls):
        resume = resumes.get(call.id)
        attempt = await recalled(run, call, resume) if run.lost else None
        if attempt is None:
            decision = await _gated(run, call, resume, passed)
            if isinstance(decision, Block):
                return await _refuse(run, call, decision, calls[index + 1 :], resume)
            if not isinstance(decision, Suspend):
                decision = await question(run, call, resume) or decision
            if decision is not None:
                await settle(run, call, _answer(run, call, decision), resume, is_gated=True)
                continue
            attempt = prepared(run, call, resume)
        passed.append(attempt)
        if not is_parallel:
            await _execute(run, passed)
            if call.id in run.tickets:
                # Decided ones are left for the next round: somebody has approved them.
                interrupt(run, tuple(it for it in calls[index + 1 :] if it.id not in resumes))
                break
    await _execute(run, passed)
    return SUSPEND if run.tickets else CONTINUE


async def _gated(
    run: Run, call: ToolCall, resume: ToolCallResume | None, passed: list[ToolExecution]
) -> GateDecision | None:
    """Ask the gates; before one stops the call, those that passed are run and it is asked again."""
    if not run.agent.env.gates:
        return None
    decision = await ask_gates(run, call, resume)
    if decision is None or not passed:
        return decision
    # The calls before may change what the gate looks at.
    await _execute(run, passed)
    return await ask_gates(run, call, resume)


async def _refuse(
    run: Run,
    call: ToolCall,
    decision: Block,
    rest: Sequence[ToolCall],
    resume: ToolCallResume | None,
) -> StepOutcome:
    """Answer a call that a gate blocked; it ends the run, and the calls behind it never run."""
    result = ToolResult.error(call.name, decision.reason, code="blocked")
    run.verdict = Blocked(reason=decision.reason)
    await settle(run, call, ToolOutput(result=result), resume)
    interrupt(run, tuple(rest))
    return Finish(termination=run.verdict)


def _answer(run: Run, call: ToolCall, decision: GateDecision) -> ToolOutput:
    if isinstance(decision, SetResult):
        return ToolOutput(result=kept(run, call.name, decision.result))
    assert not isinstance(decision, Block)
    return ToolOutput(result=ToolResult.suspended(call.name, decision.ticket))


async def _execute(run: Run, passed: list[ToolExecution]) -> None:
    """Run the attempts that passed the gate, and take them off the list."""
    if passed:
        attempts = passed.copy()
        passed.clear()
        await _execute_group(run, attempts)


async def _execute_group(run: Run, attempts: Sequence[ToolExecution]) -> None:
    """Run attempts side by side, and settle each as soon as those before it are settled."""
    await _before(run, attempts)
    if run.ending is not None:
        # Gates and hooks are foreign code: what they swallowed or decided counts before tools run.
        interrupt(run, tuple(attempt.call for attempt in attempts))
        return
    running = [attempt for attempt in attempts if attempt.output is None]
    is_recalled = run.is_recovered and any(it.context is not None for it in attempts)
    run.batch_base = 0 if is_recalled else run.state.revision
    siblings = _started(run, running)
    settled = 0
    try:
        while True:
            while settled < len(attempts) and attempts[settled].output is not None:
                await _settle(run, attempts[settled])
                settled += 1
            if settled == len(attempts):
                run.batch_base = None
                return
            if run.journal.tool_records or run.journal.has_announcements:
                # What is known becomes durable and visible before slower calls are waited for.
                await run.flush()
            await _collect(run, siblings, running)
    except BaseException as error:
        is_cancelled = isinstance(error, asyncio.CancelledError)
        try:
            await siblings.stop(run.services.limits.cancel_grace_ms / 1000)
        finally:
            _note_finished(run, siblings, running)
            _answer_rest(run, attempts[settled:], CANCELLED if is_cancelled else INTERRUPTED)
        raise


async def _before(run: Run, attempts: Sequence[ToolExecution]) -> None:
    """Run the hooks before execution, then make the intents durable."""
    hooked = has_work(run, Phase.BEFORE_TOOL_EXECUTE)
    for attempt in attempts:
        if attempt.output is None and hooked and attempt.call.id not in run.hooked:
            context = tool_phase_context(
                run, BeforeToolExecuteContext, attempt.call, attempt.resume
            )
            await run_phase(run, Phase.BEFORE_TOOL_EXECUTE, context)
        if attempt.needs_intent:
            run.journal.tool_records.append(intent(run, attempt))
    starting = [attempt.call for attempt in attempts if attempt.output is None]
    put_states(run, starting, ToolCallStatus.RUNNING)
    if run.journal.tool_records:
        await run.flush()


def _started(run: Run, attempts: Sequence[ToolExecution]) -> Siblings[ToolOutput]:
    """Start attempts side by side on one frozen snapshot."""
    snapshot = run.state.snapshot()
    now = asyncio.get_running_loop().time()
    for attempt in attempts:
        attempt.deadline = now + timeout_of(run, attempt) / 1000
        attempt.is_late = False
    return Siblings([partial(perform, run, attempt, snapshot) for attempt in attempts])


async def _collect(
    run: Run, siblings: Siblings[ToolOutput], running: Sequence[ToolExecution]
) -> None:
    """Wait for results and note them in the journal, in the order they arrive."""
    first = min(attempt.deadline for attempt in running if attempt.output is None)
    finished_now = await siblings.finished_before(first, run.alarm)
    for index in finished_now:
        if running[index].output is None:
            _take_output(run, running[index], siblings.tasks[index])
    if not finished_now:
        _stop_late_ones(run, siblings, running)


def _stop_late_ones(
    run: Run, siblings: Siblings[ToolOutput], running: Sequence[ToolExecution]
) -> None:
    """Cancel tools that take too long; after a grace to clean up they are not waited for."""
    now = asyncio.get_running_loop().time()
    for index, attempt in enumerate(running):
        if attempt.output is not None or attempt.deadline > now:
            continue
        if attempt.is_late:
            siblings.abandon(index)
            _note_output(run, attempt, timed_out(run, attempt))
        else:
            attempt.is_late = True
            attempt.deadline = now + run.services.limits.cancel_grace_ms / 1000
            siblings.tasks[index].cancel()


def _take_output(run: Run, attempt: ToolExecution, task: asyncio.Task[ToolOutput]) -> None:
    if task.cancelled():
        output = failed(attempt.call.name, ToolError("the tool cancelled itself"))
    else:
        output = task.result()
    _note_output(run, attempt, output)


def _note_output(run: Run, attempt: ToolExecution, output: ToolOutput) -> None:
    attempt.output = output
    if attempt.is_journalled:
        run.journal.tool_records.append(finished(run, attempt))


async def _settle(run: Run, attempt: ToolExecution) -> None:
    output = attempt.output
    assert output is not None
    if _is_stale(run, attempt):
        output = await _again(run, attempt)
    await settle(run, attempt.call, output, attempt.resume)


def _is_stale(run: Run, attempt: ToolExecution) -> bool:
    """Whether a call settled since the snapshot changed what this one read or also wrote."""
    context = attempt.context
    if context is None:
        return False
    state, written = context.state, run.state.written
    base = state.snapshot.revision
    if any(written.get(name, 0) > base for name in state.reads):
        return True
    return any(written.get(op.key.name, 0) > base and not op.key.is_commutative for op in state.ops)


async def _again(run: Run, attempt: ToolExecution) -> ToolOutput:
    """Run a repeatable tool once more on fresh state; others get a typed conflict."""
    assert attempt.output is not None
    if attempt.output.result.status is ToolStatus.ERROR:
        return ToolOutput(result=attempt.output.result)
    if attempt.tool is None or not attempt.tool.descriptor.is_repeatable:
        return _conflict(attempt)
    decision = await _gated(run, attempt.call, attempt.resume, [])
    if decision is not None:
        return _stopped(run, attempt.call, decision)
    attempt.output = None
    attempt.number += 1
    attempt.is_again = True
    if attempt.is_journalled:
        run.journal.tool_records.append(intent(run, attempt))
        await run.flush()
    siblings = _started(run, [attempt])
    try:
        while attempt.output is None:
            await _collect(run, siblings, [attempt])
        return attempt.output
    finally:
        await siblings.stop(run.services.limits.cancel_grace_ms / 1000)


def _stopped(run: Run, call: ToolCall, decision: GateDecision) -> ToolOutput:
    """What a call comes to that a gate stopped on its second run."""
    if not isinstance(decision, Block):
        return _answer(run, call, decision)
    run.state.update(RUN_LIFECYCLE, End(termination=Blocked(reason=decision.reason)))
    return ToolOutput(result=ToolResult.error(call.name, decision.reason, code="blocked"))


def _conflict(attempt: ToolExecution) -> ToolOutput:
    return ToolOutput(
        result=ToolResult.error_with_code(
            attempt.call.name,
            "state_conflict",
            "another call of this step changed the same state; nothing of this call's state "
            "was kept, and its tool is not declared repeatable",
        )
    )


def _note_finished(
    run: Run, siblings: Siblings[ToolOutput], running: Sequence[ToolExecution]
) -> None:
    """Take over the outputs that nobody has collected; a later attempt makes the first void."""
    for attempt, task in zip(running, siblings.tasks, strict=True):
        is_over = task.done() and not task.cancelled() and task.exception() is None
        if is_over and not attempt.is_again and attempt.output is None:
            attempt.output = task.result()
            if run.stopped_by is not None and attempt.is_journalled:
                # Whoever goes on with the run must not do it again.
                run.journal.tool_records.append(finished(run, attempt))


def _answer_rest(run: Run, unsettled: Sequence[ToolExecution], text: str) -> None:
    """Keep the results of calls that were over before the batch was broken off."""
    for attempt in unsettled:
        output = attempt.output
        if attempt.call.id not in run.open_calls:
            continue
        is_stale = _is_stale(run, attempt)
        is_void = is_stale and attempt.tool is not None and attempt.tool.descriptor.is_repeatable
        if output is None or is_void or output.result.status is ToolStatus.PENDING:
            interrupt(run, (attempt.call,), text)
            continue
        result = apply_updates(run, attempt.call, _conflict(attempt) if is_stale else output)
        write_result(run, attempt.call, result, attempt.resume)
