"""Shows in a parent run how far the tool calls of its child are."""

from collections.abc import Mapping

from awaken.contracts.events import ActivitySnapshot, plain
from awaken.contracts.tool_context import PROGRESS_ACTIVITY

from .run import Run
from .streams import EventReader, StreamItem


class ProgressForwarder(EventReader):
    """A reader of the child's events that keeps none and never falls behind.

    Only reports of the child's own calls are passed on, not those of its children.
    """

    __slots__ = ("_child_run_id", "_parent")

    def __init__(self, parent: Run, child_run_id: str) -> None:
        super().__init__(is_attached=True)
        self._parent = parent
        self._child_run_id = child_run_id

    def push(self, event: StreamItem, size: int = 0) -> None:
        """Pass a report of a call of the child on to the parent."""
        happened = plain(event)
        if isinstance(happened, ActivitySnapshot) and self._is_report(happened):
            self._parent.emit(happened)

    def _is_report(self, activity: ActivitySnapshot) -> bool:
        # Calls of different runs may have the same id: what tells them apart is the run.
        shown = activity.content
        is_own = isinstance(shown, Mapping) and shown.get("run_id") == self._child_run_id
        return is_own and activity.activity_type == PROGRESS_ACTIVITY
