"""All calls of one model turn: gate them, run those that may run, settle in call order.

Calls that pass the gate run side by side on one frozen snapshot. Each records what it read and
wrote. If an earlier call has changed what a call read by the time it is settled, it is run again
if its tool is repeatable, and otherwise gets a typed conflict as its result.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial

from awaken.contracts.lifecycle import Blocked, ToolCallStatus
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import (
    BeforeToolExecuteContext,
    Block,
    GateDecision,
    SetResult,
    Suspend,
)
from awaken.contracts.runs.records import RunKind
from awaken.contracts.state.keys import EMPTY_COMMAND
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolState
from awaken.contracts.tools.tool import ToolError, ToolOutput
from awaken.runtime.journal.outcomes import CONTINUE, SUSPEND, Finish, StepOutcome
from awaken.runtime.phases.contexts import tool_phase_context
from awaken.runtime.phases.runner import run_phase
from awaken.runtime.primitives.task_groups import Siblings
from awaken.runtime.run import Run
from awaken.runtime.spending.questions import question
from awaken.runtime.switches import NO_SWITCHES

from .execution import (
    ToolExecution,
    build_error_output,
    build_finish_record,
    build_timeout_output,
    check_attempt,
    intent,
    keep_output,
    perform,
    perform_watched,
    prepare_attempt,
)
from .gate import ask_gates, refuse_disabled
from .recall import recall
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

    With `parallel_tools`, all calls that pass the gate run together. Otherwise each call is gated
    after those before it are settled, and the first that is suspended interrupts the rest.
    """
    is_parallel, recovery = run.agent.spec.parallel_tools, run.recovery
    passed: list[ToolExecution] = []
    for index, call in enumerate(calls):
        resume = resumes.get(call.id) if resumes else None
        attempt = await recall(run, recovery, call, resume) if recovery is not None else None
        if run.services.switches.current is not NO_SWITCHES and (
            refused := refuse_disabled(run, call, resume, attempt)
        ):
            await settle(run, call, refused, resume, is_gated=True)
            continue
        if attempt is None:
            decision = None
            agent = run.agent
            if agent.env.gates or agent.approvals or run.record.purpose is not RunKind.CHAT:
                decision = await _ask_gates(run, call, resume, passed)
            if decision is not None and isinstance(decision, Block):
                return await _refuse(run, call, decision, calls[index + 1 :], resume)
            if run.has_budgets and not isinstance(decision, Suspend):
                decision = await question(run, call, resume) or decision
            if decision is not None:
                await settle(run, call, _answer(run, call, decision), resume, is_gated=True)
                continue
            attempt = prepare_attempt(run, call, resume)
            if call.name in agent.checks:
                await check_attempt(attempt)
        passed.append(attempt)
        if not is_parallel:
            await _execute(run, passed)
            passed.clear()
            if call.id in run.tickets:
                # Decided calls are left for the next round: they were approved.
                interrupt(run, tuple(it for it in calls[index + 1 :] if it.id not in resumes))
                break
    if passed:
        await _execute(run, passed)
    return SUSPEND if run.tickets else CONTINUE


async def _ask_gates(
    run: Run, call: ToolCall, resume: ToolCallResume | None, passed: list[ToolExecution]
) -> GateDecision | None:
    """Ask the gates; if one would stop the call, run those that passed and ask again."""
    decision = await ask_gates(run, call, resume)
    if decision is None or not passed:
        return decision
    # The earlier calls may change the state that the gate reads.
    await _execute(run, passed)
    passed.clear()
    return await ask_gates(run, call, resume)


async def _refuse(
    run: Run,
    call: ToolCall,
    decision: Block,
    rest: Sequence[ToolCall],
    resume: ToolCallResume | None,
) -> StepOutcome:
    """Answer a call that a gate blocked; this ends the run, and the later calls never run."""
    result = ToolResult.error(call.name, decision.reason, code="blocked")
    run.step.ending = Blocked(reason=decision.reason)
    await settle(run, call, ToolOutput(result=result), resume)
    interrupt(run, tuple(rest))
    return Finish(termination=run.step.ending)


def _answer(run: Run, call: ToolCall, decision: GateDecision) -> ToolOutput:
    if isinstance(decision, SetResult):
        return keep_output(run, call.name, ToolOutput(result=decision.result))
    assert not isinstance(decision, Block)
    return ToolOutput(result=ToolResult.from_ticket(call.name, decision.ticket))


async def _execute(run: Run, attempts: Sequence[ToolExecution]) -> None:
    """Run attempts side by side, and settle each as soon as those before it are settled."""
    running = [attempt for attempt in attempts if attempt.output is None]
    await _prepare(run, running)
    if run.find_due_end() is not None:
        # Gates and hooks are foreign code: a cancellation that they swallowed, or an end that they
        # decided, takes effect before tools run.
        interrupt(run, tuple(attempt.call for attempt in attempts))
        return
    run.step.batch_base = run.state.revision
    if run.recovery is not None and any(attempt.state is not None for attempt in attempts):
        run.step.batch_base = 0
    siblings = _start(run, running)
    settled, count = 0, len(attempts)
    try:
        while True:
            while settled < count and (output := attempts[settled].output) is not None:
                attempt = attempts[settled]
                if attempt.state is not None and is_stale(run, attempt.state):
                    output = await _again(run, attempt)
                is_hooked = run.has_phases and run.has_work(Phase.AFTER_TOOL_EXECUTE)
                if output.command is EMPTY_COMMAND and not is_hooked:
                    write_result(run, attempt.call, output.result, attempt.resume, attempt)
                else:
                    await settle(run, attempt.call, output, attempt.resume, attempt)
                settled += 1
            if settled == count:
                run.step.batch_base = None
                return
            if run.journal.tool_records or run.journal.announced:
                # Known results become durable and visible before the run waits for slower calls.
                await run.flush()
            await _collect(run, siblings, running)
    except BaseException as error:
        is_cancelled = isinstance(error, asyncio.CancelledError)
        try:
            await siblings.stop(run.services.limits.cancel_grace_ms / 1000)
        finally:
            _note_finished(run, siblings, running)
            _answer_rest(run, attempts[settled:], CANCELLED if is_cancelled else INTERRUPTED)
            siblings.forget()
        raise


async def _prepare(run: Run, starting: Sequence[ToolExecution]) -> None:
    """Run the hooks before execution, then make the intents durable."""
    is_hooked = run.has_phases and run.has_work(Phase.BEFORE_TOOL_EXECUTE)
    for attempt in starting:
        if is_hooked and attempt.call.id not in run.step.hooked:
            context = tool_phase_context(
                run, BeforeToolExecuteContext, attempt.call, attempt.resume
            )
            await run_phase(run, Phase.BEFORE_TOOL_EXECUTE, context)
        if attempt.is_journalled:
            run.journal.tool_records += (intent(attempt),)
    if run.agent.env.has_behaviour:
        put_states(run, [attempt.call for attempt in starting], ToolCallStatus.RUNNING)
    if run.journal.tool_records:
        await run.flush()


def _start(
    run: Run, attempts: Sequence[ToolExecution], timeout_ms: int | None = None
) -> Siblings[ToolOutput]:
    """Start attempts side by side on one frozen snapshot."""
    now, limit_ms = run.loop.time(), run.services.limits.tool_timeout_ms
    first = math.inf
    if run.loop_zero_ms is None:
        since_open = run.services.clock.monotonic_ms() - run.started_ms
        run.loop_zero_ms = run.opened_at + since_open - int(now * 1000)
    for attempt in attempts:
        assert attempt.tool is not None
        deadline = now + (timeout_ms or attempt.tool.descriptor.timeout_ms or limit_ms) / 1000
        attempt.deadline, attempt.is_late = deadline, False
        attempt.started = attempt.ended = now
        if deadline < first:
            first = deadline
    snapshot, work = run.state.snapshot(), perform_watched if run.instruments else perform
    return Siblings([partial(work, attempt, snapshot) for attempt in attempts], first)


async def _collect(
    run: Run, siblings: Siblings[ToolOutput], running: Sequence[ToolExecution]
) -> None:
    """Wait for results and record them in the journal, in the order in which they arrive."""
    finished_now = await siblings.next_finished(run.watchdog)
    for index in finished_now:
        attempt = running[index]
        if attempt.output is not None:
            continue
        try:
            attempt.output = siblings.tasks[index].result()
        except asyncio.CancelledError:
            problem = ToolError("the tool cancelled itself")
            attempt.output = build_error_output(attempt.call.name, problem)
        if attempt.is_journalled or (attempt.updates and not attempt.is_step):
            # What a call without effects did to the state is kept too: a replay repeats it.
            run.journal.tool_records += (build_finish_record(attempt),)
    if not finished_now:
        _stop_late_ones(run, siblings, running)


def _stop_late_ones(
    run: Run, siblings: Siblings[ToolOutput], running: Sequence[ToolExecution]
) -> None:
    """Cancel tools that take too long; after a grace period the run stops waiting for them."""
    now = asyncio.get_running_loop().time()
    for index, attempt in enumerate(running):
        if attempt.output is not None or attempt.deadline > now:
            continue
        if attempt.is_late:
            siblings.abandon(index)
            attempt.ended = now
            attempt.output = build_timeout_output(attempt)
            if attempt.is_journalled:
                run.journal.tool_records += (build_finish_record(attempt),)
        else:
            attempt.is_late = True
            attempt.deadline = now + run.services.limits.cancel_grace_ms / 1000
            siblings.tasks[index].cancel()
    waiting = [attempt.deadline for attempt in running if attempt.output is None]
    siblings.deadline = min(waiting, default=math.inf)


def is_stale(run: Run, state: ToolState) -> bool:
    """Whether a call settled since the snapshot changed what this call read or wrote."""
    base = state.snapshot.revision
    if run.state.revision == base:
        return False
    written = run.state.written
    if any(written.get(name, 0) > base for name in state.reads):
        return True
    return any(written.get(op.key.name, 0) > base and not op.key.is_commutative for op in state.ops)


async def _again(run: Run, attempt: ToolExecution) -> ToolOutput:
    """Run a repeatable tool again on fresh state; other tools get a typed conflict."""
    assert attempt.output is not None
    if attempt.output.result.status is ToolStatus.ERROR:
        return ToolOutput(result=attempt.output.result)
    if attempt.tool is None or not attempt.tool.descriptor.is_repeatable:
        return _conflict(attempt)
    if run.services.switches.current is not NO_SWITCHES and (
        refused := refuse_disabled(run, attempt.call, attempt.resume)
    ):
        return refused
    decision = None
    if run.agent.env.gates:
        decision = await ask_gates(run, attempt.call, attempt.resume, has_passed=True)
    if decision is not None:
        return _output_of_gate_stop(run, attempt.call, decision)
    attempt.output = None
    attempt.number += 1
    attempt.is_again = True
    if attempt.is_journalled:
        run.journal.tool_records += (intent(attempt),)
        await run.flush()
    return await execute_alone(run, attempt)


async def execute_alone(
    run: Run, attempt: ToolExecution, timeout_ms: int | None = None
) -> ToolOutput:
    """Run one attempt that passed its gate, within its time."""
    siblings = _start(run, [attempt], timeout_ms)
    try:
        while attempt.output is None:
            await _collect(run, siblings, [attempt])
        return attempt.output
    finally:
        await siblings.stop(run.services.limits.cancel_grace_ms / 1000)
        siblings.forget()


def _output_of_gate_stop(run: Run, call: ToolCall, decision: GateDecision) -> ToolOutput:
    """The output of a call that a gate stopped on its second run."""
    if not isinstance(decision, Block):
        return _answer(run, call, decision)
    run.end(Blocked(reason=decision.reason))
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
    """Take the outputs that are not collected yet; a second attempt makes the first void."""
    for attempt, task in zip(running, siblings.tasks, strict=True):
        is_over = task.done() and not task.cancelled() and task.exception() is None
        if is_over and not attempt.is_again and attempt.output is None:
            attempt.output = task.result()
            if run.journal.closed_by is not None and attempt.is_journalled:
                # The process that continues the run must not repeat the call.
                run.journal.tool_records += (build_finish_record(attempt),)


def _answer_rest(run: Run, unsettled: Sequence[ToolExecution], text: str) -> None:
    """Keep the results of calls that finished before the batch was interrupted."""
    for attempt in unsettled:
        output = attempt.output
        if attempt.call.id not in run.open_calls:
            continue
        is_outdated = attempt.state is not None and is_stale(run, attempt.state)
        is_void = is_outdated and attempt.tool is not None and attempt.tool.descriptor.is_repeatable
        if output is None or is_void or output.result.status is ToolStatus.PENDING:
            interrupt(run, (attempt.call,), text)
            continue
        result = apply_updates(run, attempt.call, _conflict(attempt) if is_outdated else output)
        write_result(run, attempt.call, result, attempt.resume, attempt)
