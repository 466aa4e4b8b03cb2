"""All calls of one model turn: gate them, run what may run, settle in call order.

Calls that pass the gate run side by side on one frozen snapshot. Each records what it read and
wrote. When a call is settled, an earlier one may have changed what it relied on; then it is run
again if its tool is repeatable, and otherwise gets a typed conflict as its result.
"""

import asyncio
from collections.abc import Mapping, Sequence

from awaken.contracts.lifecycle import Blocked, ToolCallStatus
from awaken.contracts.messages import ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.plugins import BeforeToolExecuteContext, Block, GateDecision, SetResult
from awaken.contracts.suspension import ToolCallResume
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools import ToolOutput
from awaken.runtime.concurrency import Siblings
from awaken.runtime.contexts import tool_phase_context
from awaken.runtime.outcomes import CONTINUE, SUSPEND, Finish, StepOutcome
from awaken.runtime.phases.runner import has_work, run_phase
from awaken.runtime.run import Run

from .attempt import Attempt, finished, intent, perform, prepared
from .gate import ask_gates
from .settle import apply_updates, interrupt, put_states, settle, write_result

NO_RESUMES: Mapping[str, ToolCallResume] = {}


async def run_calls(
    run: Run, calls: Sequence[ToolCall], resumes: Mapping[str, ToolCallResume] = NO_RESUMES
) -> StepOutcome:
    """Gate, execute and settle the calls; resumed ones come with their decision."""
    passed: list[ToolCall] = []
    for index, call in enumerate(calls):
        resume = resumes.get(call.id)
        decision = await ask_gates(run, call, resume) if run.agent.env.gates else None
        if decision is not None and passed:
            if await _execute(run, passed, resumes) is SUSPEND and not _is_parallel(run):
                interrupt(run, tuple(calls[index:]))
                return SUSPEND
            passed = []
            # The calls before may have changed what the gate looks at.
            decision = await ask_gates(run, call, resume)
        if isinstance(decision, Block):
            await _refuse(run, call, decision, resume)
            interrupt(run, tuple(calls[index + 1 :]))
            return Finish(termination=Blocked(reason=decision.reason))
        if decision is None:
            passed.append(call)
        else:
            await settle(run, call, _answer(call, decision), resume)
    await _execute(run, passed, resumes)
    return SUSPEND if run.tickets else CONTINUE


def _is_parallel(run: Run) -> bool:
    return run.agent.spec.parallel_tools


async def _refuse(run: Run, call: ToolCall, decision: Block, resume: ToolCallResume | None) -> None:
    result = ToolResult.error(call.name, decision.reason, code="blocked")
    await settle(run, call, ToolOutput(result=result), resume)


def _answer(call: ToolCall, decision: GateDecision) -> ToolOutput:
    if isinstance(decision, SetResult):
        return ToolOutput(result=decision.result)
    assert not isinstance(decision, Block)
    return ToolOutput(result=ToolResult.suspended(call.name, decision.ticket))


async def _execute(
    run: Run, calls: Sequence[ToolCall], resumes: Mapping[str, ToolCallResume]
) -> StepOutcome:
    if not calls:
        return CONTINUE
    attempts = [prepared(run, call, resumes.get(call.id)) for call in calls]
    if _is_parallel(run):
        await _execute_group(run, attempts)
        return SUSPEND if run.tickets else CONTINUE
    for index, attempt in enumerate(attempts):
        await _execute_group(run, [attempt])
        if attempt.call.id in run.tickets:
            interrupt(run, tuple(later.call for later in attempts[index + 1 :]))
            return SUSPEND
    return CONTINUE


async def _execute_group(run: Run, attempts: Sequence[Attempt]) -> None:
    """Run attempts side by side, and settle each as soon as those before it are settled."""
    await _before(run, attempts)
    running = [attempt for attempt in attempts if attempt.output is None]
    snapshot = run.state.snapshot()
    siblings = Siblings([perform(run, attempt, snapshot) for attempt in running])
    settled = 0
    try:
        while True:
            while settled < len(attempts) and attempts[settled].output is not None:
                await _settle(run, attempts[settled])
                settled += 1
            if settled == len(attempts):
                return
            await _collect(run, siblings, running)
    except asyncio.CancelledError:
        await siblings.stop(run.services.limits.cancel_grace_ms / 1000)
        _keep_finished(run, siblings, running, attempts[settled:])
        raise
    finally:
        await siblings.stop(run.services.limits.cancel_grace_ms / 1000)


async def _before(run: Run, attempts: Sequence[Attempt]) -> None:
    """Run the hooks before execution, then make the intents durable."""
    hooked = has_work(run, Phase.BEFORE_TOOL_EXECUTE)
    for attempt in attempts:
        if attempt.output is None and hooked:
            context = tool_phase_context(
                run, BeforeToolExecuteContext, attempt.call, attempt.resume
            )
            await run_phase(run, Phase.BEFORE_TOOL_EXECUTE, context)
        if attempt.needs_intent:
            run.journal.tool_records.append(intent(run, attempt))
    put_states(run, [attempt.call for attempt in attempts], ToolCallStatus.RUNNING)
    if run.journal.tool_records:
        await run.flush()


async def _collect(run: Run, siblings: Siblings[ToolOutput], running: Sequence[Attempt]) -> None:
    """Wait for results; those that arrive while others still run become durable at once."""
    for index in await siblings.next_finished():
        attempt = running[index]
        attempt.output = siblings.tasks[index].result()
        if attempt.tool is not None and attempt.tool.descriptor.effect != "none":
            run.journal.tool_records.append(finished(run, attempt))
    if run.journal.tool_records and any(attempt.output is None for attempt in running):
        await run.flush()


async def _settle(run: Run, attempt: Attempt) -> None:
    output = attempt.output
    assert output is not None
    if _is_stale(run, attempt):
        output = await _again(run, attempt)
    await settle(run, attempt.call, output, attempt.resume)


def _is_stale(run: Run, attempt: Attempt) -> bool:
    """Whether a call settled since the snapshot changed what this one read or also wrote."""
    context = attempt.context
    if context is None:
        return False
    state, written = context.state, run.state.written
    base = state.snapshot.revision
    if any(written.get(name, 0) > base for name in state.reads):
        return True
    return any(written.get(op.key.name, 0) > base and not op.key.is_commutative for op in state.ops)


async def _again(run: Run, attempt: Attempt) -> ToolOutput:
    """Run a repeatable tool once more on fresh state; others get a typed conflict."""
    assert attempt.tool is not None
    assert attempt.output is not None
    if attempt.output.result.status is ToolStatus.ERROR:
        return ToolOutput(result=attempt.output.result)
    if not attempt.tool.descriptor.is_repeatable:
        return ToolOutput(
            result=ToolResult.error_with_code(
                attempt.call.name,
                "state_conflict",
                "another call of this step changed the same state; nothing of this call's state "
                "was kept, and its tool is not declared repeatable",
            )
        )
    attempt.number += 1
    siblings = Siblings([perform(run, attempt, run.state.snapshot())])
    try:
        await siblings.next_finished()
        return siblings.tasks[0].result()
    finally:
        await siblings.stop(run.services.limits.cancel_grace_ms / 1000)


def _keep_finished(
    run: Run,
    siblings: Siblings[ToolOutput],
    running: Sequence[Attempt],
    unsettled: Sequence[Attempt],
) -> None:
    """Write the results of calls that were over before the run was cancelled."""
    for attempt, task in zip(running, siblings.tasks, strict=True):
        if task.done() and not task.cancelled() and task.exception() is None:
            attempt.output = task.result()
    for attempt in unsettled:
        if attempt.output is None or attempt.call.id not in run.open_calls:
            continue
        result = attempt.output.result
        if result.status is not ToolStatus.PENDING and not _is_stale(run, attempt):
            result = apply_updates(run, attempt.call, attempt.output)
            write_result(run, attempt.call, result, attempt.resume)
