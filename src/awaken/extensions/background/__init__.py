"""Tools by which a model starts, watches and cancels background tasks, and writes to agents.

`BackgroundTasksPlugin` offers them; the work itself is behind `ToolContext.sub_runs`.
"""

from .plugin import BackgroundTasksPlugin

__all__ = ["BackgroundTasksPlugin"]
