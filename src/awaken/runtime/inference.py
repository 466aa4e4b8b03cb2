"""One model turn: build the request, have the answer, keep it for the log."""

from awaken.contracts.deltas import ToolCallStart
from awaken.contracts.events import InferenceComplete, StreamReset, ToolCallReady
from awaken.contracts.inference import StreamResult

from .answer import Answer, block_events
from .attempts import Attempts
from .checkpoints import StreamCheckpoints
from .request import build_request
from .run import Run


async def infer(run: Run) -> StreamResult:
    """Ask the model, until its answer is whole or everything that may be tried was tried.

    Parts of a broken or truncated answer are joined into one; neither the parts nor the prompts
    between them enter the transcript.

    Raises:
        ModelError: The provider failed.
    """
    clock = run.services.clock
    began = clock.monotonic_ms()
    request = build_request(run)
    heard, run.heard = run.heard, None
    if heard is not None:
        # Readers may have seen more than what was kept.
        run.emit(StreamReset(reason="the process that streamed the answer stopped"))
    answer = run.streaming = Answer(run, run.agent.client)
    kept = StreamCheckpoints(run) if run.journal.lease is not None else None
    attempts = Attempts(run, request, answer, kept)
    if kept is None:
        result = await attempts.whole_answer(heard)
    else:
        async with kept:
            result = await attempts.whole_answer(heard)
    run.streaming = None
    _log_answer(run, result)
    run.show(
        InferenceComplete(
            model=attempts.model,
            usage=result.usage,
            duration_ms=clock.monotonic_ms() - began,
        )
    )
    return result


def _log_answer(run: Run, result: StreamResult) -> None:
    """Keep the turn for the log: its text as one delta per block, its calls as they were made."""
    journal = run.journal
    for event in block_events(result.content):
        journal.record(event)
    for call in result.tool_calls:
        journal.record(ToolCallStart(id=call.id, name=call.name))
    for call in result.tool_calls:
        run.show(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
