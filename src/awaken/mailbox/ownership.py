"""Which open run a dispatch has to do with."""

from awaken.contracts.dispatch import RunDispatch
from awaken.contracts.runs import RunRecord
from awaken.contracts.storage import Store


async def open_run_of(store: Store, thread_id: str) -> RunRecord | None:
    """The run of a thread that has not ended, or None."""
    thread = await store.load_thread(thread_id)
    run_id = None if thread is None else thread.open_run_id
    return None if run_id is None else await store.load_run(run_id)


def is_own(run: RunRecord, dispatch: RunDispatch) -> bool:
    """Whether the dispatch began the run or went on with it."""
    is_named = run.run_id in (dispatch.run_id, dispatch.request.continue_run_id)
    return is_named or run.dispatch_id == dispatch.dispatch_id
