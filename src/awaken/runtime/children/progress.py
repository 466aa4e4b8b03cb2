"""Shows in a parent run how far the tool calls of its child are."""

import logging
from collections.abc import Mapping

from awaken.contracts.events import ActivitySnapshot, AgentEvent, unwrap_event
from awaken.contracts.tools.context import PROGRESS_ACTIVITY
from awaken.contracts.tools.sub_runs import Listener
from awaken.runtime.journal.streams import EventReader, StreamItem
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)


class ProgressForwarder(EventReader):
    """A reader of the child's events that keeps none and never falls behind.

    Only reports of the child's own calls are passed on, not those of its children. Whoever
    listens hears everything that the child shows.
    """

    __slots__ = ("_listen", "_parent", "child_run_id")

    def __init__(self, parent: Run, child_run_id: str, listen: Listener | None = None) -> None:
        super().__init__(is_attached=True)
        self.child_run_id = child_run_id
        self._parent = parent
        self._listen = listen

    def push(self, event: StreamItem, size: int = 0) -> None:
        """Pass a report of a call of the child on to the parent."""
        happened = unwrap_event(event)
        if self._listen is not None:
            self._tell(happened)
        if isinstance(happened, ActivitySnapshot) and self._is_report(happened):
            self._parent.emit(happened)

    def _tell(self, happened: AgentEvent) -> None:
        assert self._listen is not None
        try:
            self._listen(happened)
        except Exception:
            logger.exception("What listens to run '%s' failed.", self.child_run_id)
            self._listen = None

    def _is_report(self, activity: ActivitySnapshot) -> bool:
        # Calls of different runs may have the same id: what tells them apart is the run.
        shown = activity.content
        is_own = isinstance(shown, Mapping) and shown.get("run_id") == self.child_run_id
        return is_own and activity.activity_type == PROGRESS_ACTIVITY
