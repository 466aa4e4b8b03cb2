"""Reports the progress of a run to a client, as progress and log notifications."""

from typing import get_args

import mcp_types as types
from mcp.server.connection import allowed_log_levels

from awaken.contracts import events
from awaken.contracts.lifecycle import Failed, Suspended

from .callers import Context, caller_of, is_stateless

_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
_NOTES: dict[type, tuple[types.LoggingLevel, str]] = {
    events.RunStart: ("info", "starting"),
    events.StepStart: ("info", "step {steps}"),
    events.ToolCallReady: ("info", "calling tool '{event.name}'"),
    events.ToolCallDone: ("info", "tool call '{event.id}' {event.outcome}"),
    events.InferenceComplete: ("debug", "inference complete"),
    events.RunFinish: ("notice", "ended"),
}


class ProgressReporter:
    """Sends notifications to the client of one request, from the log level that it wants."""

    def __init__(self, ctx: Context, agent_id: str) -> None:
        self._ctx = ctx
        self._logger = f"agent/{agent_id}"
        self._progress = self._steps = 0
        # The client sets the level with the request, or once for the whole session.
        self._wanted = allowed_log_levels(ctx.protocol_version, ctx.meta)
        if not is_stateless(ctx):
            self._wanted = frozenset(_LEVELS[_LEVELS.index(caller_of(ctx).link.log_level) :])

    async def report(self, event: events.AgentEvent) -> None:
        """Report an event, if there is a notification for it."""
        if type(event) not in _NOTES:
            return
        level, text = _NOTES[type(event)]
        self._progress += 1
        self._steps += isinstance(event, events.StepStart)
        match event:
            case events.RunStart() if self._progress > 1:
                text = "going on"
            case events.RunFinish(awaits_tasks=True):
                level, text = "info", "waiting for its tasks"
            case events.RunFinish(termination=Suspended()):
                text = "waiting"
            case events.RunFinish(termination=Failed()):
                level, text = "error", "failed"
        note = text.format(event=event, steps=self._steps)
        await self._ctx.session.report_progress(self._progress, message=note)
        if level in self._wanted:
            params = types.LoggingMessageNotificationParams(
                level=level, logger=self._logger, data=note
            )
            notification = types.LoggingMessageNotification(params=params)
            await self._ctx.session.send_notification(notification, self._ctx.request_id)
