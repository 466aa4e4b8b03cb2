"""One step: a model call, and the tool calls it asks for."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from awaken.authoring.output import OutputInvalid
from awaken.contracts.lifecycle import Failed, NaturalEnd, StoppedReason
from awaken.contracts.messages.content import Text, text_of
from awaken.contracts.messages.message import Message, Role, ToolCall, Visibility, user
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.inference import InferenceFailure, StopReason, StreamResult
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import TOOL_CALL_STATES
from awaken.contracts.plugins.plugin import (
    AfterInferenceContext,
    BeforeInferenceContext,
    StepStartContext,
)
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.storage.outbox import end_message_id
from awaken.contracts.tasks import BACKGROUND_TASKS, OwnedTask, TaskEndDelivered, TaskFate
from awaken.runtime.inference.inference_session import infer
from awaken.runtime.journal.bookmark import Answered
from awaken.runtime.journal.outcomes import CONTINUE, SUSPEND, Finish, StepOutcome
from awaken.runtime.phases.commands import commit_command
from awaken.runtime.phases.contexts import phase_context
from awaken.runtime.phases.runner import run_phase
from awaken.runtime.primitives.signals import RUNS_PER_TURN
from awaken.runtime.run import Run
from awaken.runtime.stop_conditions import RunProgress
from awaken.runtime.tools.batch import run_calls
from awaken.runtime.tools.settle import interrupt

if TYPE_CHECKING:
    from awaken.authoring.output import OutputType

# Bound once: Python 3.11 reads a member through its class slowly.
_ASSISTANT, _MAX_TOKENS = Role.ASSISTANT, StopReason.MAX_TOKENS


def find_stop_reason(run: Run) -> StoppedReason | None:
    """Return the stop condition that holds now, or None when the run may take another step."""
    rules = run.agent.stop_rules
    if not rules.conditions and not 0 < rules.max_rounds <= run.stats.rounds:
        return None
    progress = RunProgress(
        stats=run.stats,
        usage=run.usage,
        tool_names=tuple(call.name for call in run.step.calls),
        text=run.response,
    )
    return rules.verdict(progress)


async def take_step(run: Run) -> StepOutcome:
    """Prepare, infer, and run the tools that the model asked for."""
    if TOOL_CALL_STATES.name in run.state.values:
        commit_command(run, StateCommand().clear(TOOL_CALL_STATES))
    if run.has_phases and run.has_work(Phase.STEP_START):
        await run_phase(run, Phase.STEP_START, phase_context(run, StepStartContext))
    if run.has_phases and run.has_work(Phase.BEFORE_INFERENCE) and run.find_due_end() is None:
        context = phase_context(run, BeforeInferenceContext, tool_ids=run.agent.tool_ids)
        await run_phase(run, Phase.BEFORE_INFERENCE, context)
    if (ending := run.find_due_end()) is not None:
        return Finish(termination=ending)
    try:
        response = await infer(run)
    except ModelError as error:
        if run.has_phases and run.has_work(Phase.AFTER_INFERENCE):
            failure = InferenceFailure(
                type=type(error).__name__, message=str(error), error_class=error.code
            )
            failed = phase_context(run, AfterInferenceContext, response=failure)
            await run_phase(run, Phase.AFTER_INFERENCE, failed)
        raise
    _write_answer(run, response)
    if run.services.turns.runs > RUNS_PER_TURN:
        # The answers of many runs may arrive at once.
        await run.services.turns.wait(run.loop)
    return await _act_on_answer(run, response)


async def finish_step(run: Run) -> StepOutcome:
    """Do the rest of a step that another process began; nothing durable is repeated."""
    if run.step.is_over:
        return _recall_outcome(run)
    recovery = run.recovery
    if run.step.answer is None or recovery is None:
        return await take_step(run)
    response = StreamResult(
        content=recovery.answered,
        tool_calls=run.step.calls,
        stop_reason=StopReason.MAX_TOKENS if run.step.answer.is_cut else None,
        dropped_calls=run.step.answer.dropped_calls,
    )
    recovery.answered = ()
    run.step.calls = run.step.calls[: run.services.limits.calls_per_step]
    return await _act_on_answer(run, response)


def _recall_outcome(run: Run) -> StepOutcome:
    """Return the outcome of a step whose end was not written."""
    if run.step.ending is None:
        return SUSPEND if run.tickets else CONTINUE
    output = run.agent.output
    if output is not None and isinstance(run.step.ending, NaturalEnd):
        # What was said while tasks still worked need not fit.
        with suppress(OutputInvalid):
            run.output = output.decode(run.response)
    return Finish(termination=run.step.ending)


async def _act_on_answer(run: Run, response: StreamResult) -> StepOutcome:
    """Do what the answer asks for."""
    calls = response.tool_calls
    if run.has_phases and run.has_work(Phase.AFTER_INFERENCE):
        # Hooks are foreign code: the answer is durable before they run.
        await run.flush()
        context = phase_context(run, AfterInferenceContext, response=response)
        await run_phase(run, Phase.AFTER_INFERENCE, context)
    if (ending := run.find_due_end()) is not None:
        interrupt(run, _still_open(run, calls))
        return Finish(termination=ending)
    if not calls:
        outcome = _finish_answer(run, response)
        output = run.agent.output
        if output is not None and type(outcome) is Finish:
            return await _judge_output(run, response.text, output)
        return outcome
    if run.recovery is not None:
        outcome = await _run_open_calls(run)
    else:
        outcome = await run_calls(run, run.step.calls)
    limit = run.services.limits.calls_per_step
    if len(calls) > limit:
        # Answered after the others, to keep the order.
        text = f"Not executed: at most {limit} calls in one step."
        interrupt(run, _still_open(run, calls[limit:]), text)
    if response.dropped_calls:
        _write_hint(run, response)
    if outcome is CONTINUE and (ending := run.find_due_end()) is not None:
        return Finish(termination=ending)
    return outcome


async def _run_open_calls(run: Run) -> StepOutcome:
    """Run the remaining calls of a step that another process may have begun."""
    rest = tuple(it for it in _still_open(run, run.step.calls) if it.id not in run.tickets)
    is_row_ended = not run.agent.spec.parallel_tools and any(
        not ticket.asked_by for ticket in run.tickets.values()
    )
    if run.step.ending is None and not is_row_ended:
        return await run_calls(run, rest)
    interrupt(run, rest)
    return SUSPEND if run.step.ending is None else Finish(termination=run.step.ending)


def _still_open(run: Run, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    return tuple(call for call in calls if call.id in run.open_calls)


def _write_answer(run: Run, response: StreamResult) -> None:
    """Append the answer to the transcript before anything can stop the run.

    An answer without text and calls is left out: no vendor accepts it in a later request.
    """
    calls = response.tool_calls
    if run.journal.lease is not None:
        is_cut = response.stop_reason is _MAX_TOKENS
        run.step.answer = Answered(is_cut=is_cut, dropped_calls=response.dropped_calls)
    run.step.calls = calls[: run.services.limits.calls_per_step]
    if calls or text_of(response.content).strip():
        run.append(
            Message(
                role=_ASSISTANT,
                id=run.step.message_id,
                content=response.content,
                tool_calls=calls or None,
                metadata=run.step.metadata,
            )
        )


def _finish_answer(run: Run, response: StreamResult) -> StepOutcome:
    """The model asked for no tool: the run is over, unless the answer has to be repeated."""
    is_cut = response.stop_reason is _MAX_TOKENS
    if response.dropped_calls and not is_cut:
        _write_hint(run, response)
        return CONTINUE
    return Finish(termination=NaturalEnd())


async def _judge_output(run: Run, text: str, output: "OutputType") -> StepOutcome:
    """Decode and validate the answer; one that does not fit is sent back."""
    if BACKGROUND_TASKS.name in run.state.values and await tasks_to_wait_for(run):
        # Not the final answer: the run goes on with the results of its tasks.
        run.output = None
        return Finish(termination=NaturalEnd())
    try:
        run.output = output.decode(text)
    except OutputInvalid as error:
        return _ask_again(run, error)
    if not output.validators:
        return Finish(termination=NaturalEnd())
    # Loaded by the first agent that has validators.
    from .output_validation import validate_output  # noqa: PLC0415

    match await validate_output(run, output.validators):
        case Failed() as failed:
            return Finish(termination=failed)
        case OutputInvalid() as refusal:
            return _ask_again(run, refusal)
        case _:
            return Finish(termination=NaturalEnd())


async def tasks_to_wait_for(run: Run) -> Mapping[str, OwnedTask]:
    """Return the tasks whose end has not reached the thread; drop those that cannot report it.

    A detached task does not hold up its owner.
    """
    known: Mapping[str, OwnedTask] = run.state.values.get(BACKGROUND_TASKS.name, {})
    found = {}
    for task_id, task in known.items():
        if not await _will_be_delivered(run, task_id):
            run.state.update(BACKGROUND_TASKS, TaskEndDelivered(task_id=task_id))
        elif task.fate is not TaskFate.DETACH:
            found[task_id] = task
    return found


async def _will_be_delivered(run: Run, task_id: str) -> bool:
    """Whether the end message of a task can still arrive; False if it was deleted or given up."""
    record = await run.store.load_run(task_id)
    if record is None or not record.status.is_terminal:
        return record is not None
    message_id = end_message_id(task_id)
    dispatch = await run.store.find_dispatch(message_id)
    if dispatch is not None:
        return not dispatch.status.is_terminal
    given_up = await run.store.list_dead_outbox(record.thread_id)
    return all(entry.entry_id != message_id for entry in given_up)


def _ask_again(run: Run, error: OutputInvalid) -> StepOutcome:
    run.output_retries += 1
    output, limit = run.agent.output, run.services.limits.output_retries
    if output is not None and output.retries is not None:
        limit = output.retries
    if run.output_retries > limit:
        tries = f"The model answered {limit + 1} times; `output_retries` is the limit."
        return Finish(termination=Failed(message=f"{error} {tries}", code=error.code))
    _tell_model(run, f"{error} Answer again.")
    return CONTINUE


def _write_hint(run: Run, response: StreamResult) -> None:
    """Tell the model which of its calls could not be executed, unless the run waits for some."""
    if not run.open_calls:
        reasons = "; ".join(response.dropped_calls)
        _tell_model(
            run, f"Some tool calls were not executed: {reasons}. Issue them again if needed."
        )


def _tell_model(run: Run, text: str) -> None:
    run.append_user(user(Text(text=text), visibility=Visibility.INTERNAL))
