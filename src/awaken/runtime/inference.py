"""One model turn: build the request, have the answer, keep it for the log."""

from awaken.contracts.deltas import ToolCallStart
from awaken.contracts.events import InferenceComplete, StreamReset, ToolCallReady
from awaken.contracts.inference import StreamResult

from .answer import Answer, block_events
from .attempts import Attempts
from .checkpoints import StreamCheckpoints
from .request import build_request
from .run import Run
from .screening import given_answer, screened_answer


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
    heard, run.heard = run.heard, None
    if heard is not None:
        # Readers may have seen more than what was kept.
        run.emit(StreamReset(reason="the process that streamed the answer stopped"))
    answer = Answer(run, run.agent.client, is_held=is_held)
    run.streaming = None if is_held else answer
    has_checkpoints = run.journal.lease is not None and not is_held
    kept = StreamCheckpoints(run) if has_checkpoints else None
    attempts = Attempts(run, request, answer, kept)
    if kept is None:
        result = await attempts.whole_answer(heard)
    else:
        async with kept:
            result = await attempts.whole_answer(heard)
    run.streaming = None
    if is_held:
        result = screened_answer(run, result)
        _show_answer(run, result)
    else:
        _log_answer(run, result)
    run.show(
        InferenceComplete(
            model=attempts.model,
            usage=result.usage,
            duration_ms=clock.monotonic_ms() - began,
        )
    )
    return result


def _show_answer(run: Run, result: StreamResult) -> None:
    """Show an answer that nobody has seen coming, and keep it for the log."""
    for event in block_events(result.content):
        run.show(event)
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
