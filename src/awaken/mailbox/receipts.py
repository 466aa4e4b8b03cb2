"""What whoever sends input to a thread gets back."""

from awaken.contracts.record import Record
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, RunDispatch


class SubmitReceipt(Record, frozen=True, kw_only=True):
    """Input that is durable; the same input under the same dedupe key gives the same receipt.

    `is_duplicate` tells the first submission from those that changed nothing.
    """

    dispatch_id: str
    thread_id: str
    run_id: str
    """The run that it starts or continues. A run that takes steering in keeps its own id."""
    status: DispatchStatus
    mode: InputMode
    message_ids: tuple[str, ...] = ()
    """Under which ids the messages will appear in the thread."""
    is_duplicate: bool = False


def receipt_of(dispatch: RunDispatch, *, is_duplicate: bool = False) -> SubmitReceipt:
    """The receipt for a dispatch as the store has it."""
    return SubmitReceipt(
        dispatch_id=dispatch.dispatch_id,
        thread_id=dispatch.thread_id,
        run_id=dispatch.run_id,
        status=dispatch.status,
        mode=dispatch.mode,
        message_ids=tuple(message.id or "" for message in dispatch.request.messages),
        is_duplicate=is_duplicate,
    )
