"""One model turn: build the request, have the answer, keep it for the log."""

from functools import partial

from awaken.contracts.events import InferenceComplete, StreamReset, ToolCallReady
from awaken.contracts.messages.deltas import ToolCallStart
from awaken.contracts.models.inference import StreamResult
from awaken.runtime.run import Run

from .answer import Answer
from .checkpoints import StreamCheckpoints
from .inference_session import InferenceSession
from .request import build_request
from .screening import answer_streams, given_answer, screened_answer
from .streamed_answer import ShownAnswer, block_events


async def infer(run: Run) -> StreamResult:
    """Ask the model, until its answer is whole or everything that may be tried was tried.

    Parts of a broken or truncated answer are joined into one; neither the parts nor the prompts
    between them enter the transcript.

    Raises:
        ModelError: The provider failed.
    """
    if (given := given_answer(run)) is not None:
        _show_answer(run, given)
        return given
    clock = run.services.clock
    began = clock.monotonic_ms()
    request = build_request(run)
    # What is looked at before it is kept is not shown, nor written down, before that either.
    is_held = bool(run.agent.env.answer_screens)
    can_stream = is_held and answer_streams(run) is not None
    shown = ShownAnswer(run, partial(answer_streams, run)) if can_stream else None
    heard, run.heard = run.heard, None
    if heard is not None:
        # Readers may have seen more than what was kept.
        run.emit(StreamReset(reason="the process that streamed the answer stopped"))
    answer = Answer(run, run.agent.client, is_held=is_held, shown=shown)
    run.streaming = shown if is_held else answer
    has_checkpoints = run.journal.lease is not None and run.streaming is not None
    kept = StreamCheckpoints(run) if has_checkpoints else None
    attempts = InferenceSession(run, request, answer, kept)
    if kept is None:
        result = await attempts.whole_answer(heard)
    else:
        async with kept:
            result = await attempts.whole_answer(heard)
    if is_held:
        result = screened_answer(run, result)
        _show_answer(run, result, shown)
    else:
        _log_answer(run, result)
    run.streaming = None
    run.show(
        InferenceComplete(
            model=attempts.model,
            usage=result.usage,
            duration_ms=clock.monotonic_ms() - began,
        )
    )
    return result


def _show_answer(run: Run, result: StreamResult, shown: ShownAnswer | None = None) -> None:
    """Show what nobody has seen yet of an answer, and keep all of it for the log."""
    events = block_events(result.content)
    for event in events:
        run.journal.record(event)
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
        journal.record(event)
    for call in result.tool_calls:
        journal.record(ToolCallStart(id=call.id, name=call.name))
    for call in result.tool_calls:
        run.show(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
