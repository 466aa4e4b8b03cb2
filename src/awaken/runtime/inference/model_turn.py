"""One model turn: build the request, have the answer, keep it for the log."""

from functools import partial

from awaken.contracts.events import InferenceComplete, StreamReset, ToolCallReady
from awaken.contracts.messages.deltas import ToolCallStart
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.loop_state import STEP_ANSWER
from awaken.runtime.journal.streams import block_events
from awaken.runtime.run import Run

from .answer import Answer
from .checkpoints import StreamCheckpoints
from .inference_session import InferenceSession
from .request import build_request
from .screening import answer_streams, given_answer, screened_answer
from .streamed_answer import ShownAnswer


async def infer(run: Run) -> StreamResult:
    """Ask the model, until its answer is whole or everything that may be tried was tried.

    Parts of a broken or truncated answer are joined into one; neither the parts nor the prompts
    between them enter the transcript.

    Raises:
        ModelError: The provider failed.
    """
    if STEP_ANSWER.name in run.state.values and (given := given_answer(run)) is not None:
        _show_answer(run, given)
        return given
    clock, env = run.services.clock, run.agent.env
    began = clock.monotonic_ms()
    request = build_request(run)
    streamed = None
    if run.recovery is not None and run.recovery.streamed is not None:
        streamed, run.recovery.streamed = run.recovery.streamed, None
        # Readers may have seen more than what was kept.
        run.emit(StreamReset(reason="the process that streamed the answer stopped"))
    # What is screened before it is kept is not shown, nor written down, before that either.
    is_held, shown = bool(env.answer_screens), None
    if is_held and answer_streams(run) is not None:
        shown = ShownAnswer(run, partial(answer_streams, run))
    answer = Answer(run, is_held=is_held, shown=shown)
    run.streaming = shown if is_held else answer
    has_checkpoints = run.journal.lease is not None and run.streaming is not None
    checkpoints = StreamCheckpoints(run) if has_checkpoints else None
    session = InferenceSession(run, request, answer, checkpoints)
    if checkpoints is None:
        result = await session.complete_answer(streamed)
    else:
        async with checkpoints:
            result = await session.complete_answer(streamed)
    if is_held:
        result = screened_answer(run, result)
        _show_answer(run, result, shown)
    else:
        _log_answer(run, result)
    run.streaming = None
    asked = session.calls.asked
    run.show(
        InferenceComplete(
            model=request.upstream_model if asked is None else asked.spec.upstream_model,
            usage=result.usage,
            duration_ms=clock.monotonic_ms() - began,
        )
    )
    return result


def _show_answer(run: Run, result: StreamResult, shown: ShownAnswer | None = None) -> None:
    """Show what readers have not seen yet of an answer, and keep all of it for the log."""
    events = block_events(result.content)
    for event in events:
        run.journal.events.append(event)
    for event in events if shown is None else shown.rest(result.content):
        run.emit(event)
    for call in result.tool_calls:
        run.show(ToolCallStart(id=call.id, name=call.name))
    for call in result.tool_calls:
        run.show(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))


def _log_answer(run: Run, result: StreamResult) -> None:
    """Keep the turn for the log: its text as one delta per block, its calls as they were made."""
    journal = run.journal
    for event in block_events(result.content):
        journal.events.append(event)
    for call in result.tool_calls:
        journal.events.append(ToolCallStart(id=call.id, name=call.name))
    for call in result.tool_calls:
        run.show(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
