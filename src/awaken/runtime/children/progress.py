"""Shows the progress of a child's tool calls in its parent run."""

import logging
from collections.abc import Mapping

from awaken.authoring.functions import is_interruption
from awaken.contracts.events import ActivitySnapshot, AgentEvent, unwrap_event
from awaken.contracts.tools.context import PROGRESS_ACTIVITY
from awaken.contracts.tools.sub_runs import Listener
from awaken.runtime.journal.streams import EventReader, StreamItem
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)


class ProgressForwarder(EventReader):
    """A reader of the child's events that keeps none and never falls behind.

    It passes on only reports of the child's own calls, not those of the child's children. The
    listener receives every event of the child.
    """

    __slots__ = ("_listen", "_parent", "child_run_id")

    def __init__(self, parent: Run, child_run_id: str, listen: Listener | None = None) -> None:
        super().__init__(is_attached=True)
        self.child_run_id = child_run_id
        self._parent = parent
        self._listen = listen

    def push(self, event: StreamItem) -> None:
        """Pass a report of one of the child's calls on to the parent."""
        happened = unwrap_event(event)
        if self._listen is not None:
            self._tell(happened)
        if isinstance(happened, ActivitySnapshot) and self._is_report(happened):
            self._parent.emit(happened)

    def _tell(self, happened: AgentEvent) -> None:
        assert self._listen is not None
        try:
            self._listen(happened)
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.exception("The listener of run '%s' failed.", self.child_run_id)
            self._listen = None

    def _is_report(self, activity: ActivitySnapshot) -> bool:
        # Calls of different runs may have the same id: the run distinguishes them.
        shown = activity.content
        is_own = isinstance(shown, Mapping) and shown.get("run_id") == self.child_run_id
        return is_own and activity.activity_type == PROGRESS_ACTIVITY
