"""The receipt that the sender of input gets."""

from awaken.contracts.record import Record
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, RunDispatch


class SubmitReceipt(Record, frozen=True, kw_only=True):
    """Input that is durable; the same input with the same dedupe key has the same receipt.

    `is_duplicate` is True for a repeated submission, which changed nothing.
    """

    dispatch_id: str
    thread_id: str
    run_id: str
    """The run that it starts or continues. A run that takes in steering keeps its own id."""
    status: DispatchStatus
    mode: InputMode
    message_ids: tuple[str, ...] = ()
    """The ids with which the messages will appear in the thread."""
    is_duplicate: bool = False


def receipt_of(dispatch: RunDispatch, *, is_duplicate: bool = False) -> SubmitReceipt:
    """Return the receipt of a stored dispatch."""
    return SubmitReceipt(
        dispatch_id=dispatch.dispatch_id,
        thread_id=dispatch.thread_id,
        run_id=dispatch.run_id,
        status=dispatch.status,
        mode=dispatch.mode,
        message_ids=tuple(message.id or "" for message in dispatch.request.messages),
        is_duplicate=is_duplicate,
    )
