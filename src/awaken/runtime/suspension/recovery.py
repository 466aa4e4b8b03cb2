"""Continuing a run that another process left unfinished.

Everything comes from the store: the record counts the finished steps, the bookmark says how far
the next one got, the tool journal has the state of its calls. Only what was never durable is lost
with the process: the newest text of an unfinished model turn, its token usage, and the execution
time since the last finished step.
"""

from collections.abc import Iterable, Iterator, Sequence

from awaken.contracts.messages.message import Message, MessageMetadata, Role, ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.storage.store import StreamCheckpoint, ToolRecord
from awaken.runtime.journal.bookmark import Answered, Bookmark
from awaken.runtime.progress import Recovery, Step
from awaken.runtime.run import Run

_BEFORE_CALLS = frozenset(
    {Phase.RUN_START, Phase.STEP_START, Phase.BEFORE_INFERENCE, Phase.AFTER_INFERENCE}
)


def latest_turn(messages: Sequence[Message]) -> tuple[Message | None, dict[str, ToolCall]]:
    """The model's latest answer and its calls without a result; earlier answers are ignored."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role is Role.TOOL:
            answered.add(message.tool_call_id or "")
        elif message.role is Role.ASSISTANT:
            calls = message.tool_calls or ()
            return message, {call.id: call for call in calls if call.id not in answered}
        else:
            break
    return None, {}


def restore(
    run: Run,
    bookmark: Bookmark | None,
    records: Iterable[ToolRecord],
    checkpoint: StreamCheckpoint | None,
) -> None:
    """Set a run that was assembled from its record to the point where it stopped."""
    mark = bookmark or _guess_bookmark(run)
    number = max(mark.step, run.record.steps)
    index = number - 1 if number else None
    step = run.step = Step(
        number=number,
        metadata=MessageMetadata(run_id=run.identity.run_id, step_index=index),
        message_id=mark.message_id,
        failures=mark.failures,
        is_open=mark.is_step_open,
        is_over=mark.is_over,
        answer=mark.answer,
        ending=mark.verdict,
        passed=mark.passed,
        hooked=mark.hooked,
        pending_after_hook=mark.owed,
    )
    known = [it for it in records if it.step == number and it.call_id in run.open_calls]
    recovery = run.recovery = Recovery(
        lost={it.call_id: it for it in known}, ending=mark.termination
    )
    for message in _own_messages(run):
        if message.role is Role.ASSISTANT:
            run.response = message.text
            if _step_of(message) == number:
                step.calls, recovery.answered = message.tool_calls or (), message.content
            break
    run.output_retries = mark.output_retries
    run.remote_end = mark.remote_end
    if mark.written:
        # Newer than the state on which the lost calls ran, older than the state of any new attempt.
        step.batch_base = 0
        run.state.revision = max(run.state.revision, 1)
        run.state.written.update(dict.fromkeys(mark.written, 1))
    unanswered = number if mark.is_step_open and mark.answer is None else number + 1
    if checkpoint is not None and checkpoint.step == unanswered:
        recovery.streamed = checkpoint


def _guess_bookmark(run: Run) -> Bookmark:
    """The bookmark of a run without one: an answer beyond the finished steps begins a new step."""
    for message in _own_messages(run):
        if message.role is Role.ASSISTANT and _step_of(message) > run.record.steps:
            return Bookmark(
                step=_step_of(message),
                is_step_open=True,
                message_id=message.id or "",
                answer=Answered(),
                passed=_BEFORE_CALLS,
            )
    return Bookmark(step=run.record.steps, passed=frozenset({Phase.RUN_START}))


def _own_messages(run: Run) -> Iterator[Message]:
    """The run's own messages at the end of the transcript, newest first."""
    messages: Sequence[Message] = run.messages
    for message in reversed(messages):
        if message.metadata is None or message.metadata.run_id != run.identity.run_id:
            return
        yield message


def _step_of(message: Message) -> int:
    index = message.metadata.step_index if message.metadata is not None else None
    return 0 if index is None else index + 1
