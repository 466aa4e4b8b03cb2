"""The methods of a runtime that change whole threads."""

from typing import TYPE_CHECKING

from awaken.contracts.errors import InvalidInput
from awaken.contracts.runs.threads import Thread

from .arguments import check_optional_text, check_text

if TYPE_CHECKING:
    from awaken.runtime.engine import RunEngine


class ThreadCalls:
    """The methods of a runtime that change threads outside of a run."""

    _engine: "RunEngine"

    async def fork(
        self, thread_id: str, *, at: str | None = None, before: str | None = None
    ) -> Thread:
        """Make a new thread that begins with the messages of another thread.

        The other thread does not change. The new thread has the newest state of the other one,
        because past values of state are not kept.

        Args:
            thread_id: The thread to copy from.
            at: The id of the last message to take over. Without `at` and `before`, all of them.
            before: The id of the first message to leave out.

        Raises:
            InvalidInput: Both `at` and `before` were given.
            UnknownThread: There is no such thread.
            RecordNotFound: It has no such message.
        """
        check_text("thread_id", thread_id)
        check_optional_text("at", at)
        check_optional_text("before", before)
        if at is not None and before is not None:
            raise InvalidInput(what="fork", problem="give `at` or `before`, not both")
        # Imported on demand: few programs fork threads.
        from awaken.runtime.admission.forks import Fork, fork_thread  # noqa: PLC0415

        engine, services = self._engine, self._engine.services
        fork = Fork(at=at, before=before)
        return await fork_thread(engine.store, services.clock, services.ids, thread_id, fork)

    async def undo_compaction(self, thread_id: str) -> bool:
        """Send the whole history of a thread again, without summaries; False if it always was.

        Args:
            thread_id: The thread whose summaries and cuts are removed.

        Raises:
            ThreadBusy: A run of the thread executes in this process.
            ThreadClaimed: A run of the thread executes in another process.
        """
        check_text("thread_id", thread_id)
        return await self._engine.undo_compaction(thread_id)
