"""Log lines: one JSON object per line with its run and trace, or text.

No logged text can break out of its field or look like another line: control characters are
escaped, long texts are cut, and secrets are removed.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from awaken.contracts.messages.content import escape_unprintable
from awaken.contracts.tracing import CURRENT_RUN, CURRENT_TRACE

from .redactor import Redactor

FIELD_CHARS = 8_192
STACK_MARK = "  | "
_TRACEPARENT_PARTS = 4
_OWN = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
"""The attributes of every record; all others come from the logging call."""


class RunContextFilter(logging.Filter):
    """Adds the current run and trace to each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Accept every record; a record that names its run keeps it."""
        run, trace = CURRENT_RUN.get(), CURRENT_TRACE.get()
        if run is not None and not hasattr(record, "run_id"):
            record.run_id = run.run_id
            record.thread_id = run.thread_id
            record.agent_id = run.active_agent_id or run.agent_id
            if run.tenant_id is not None:
                record.tenant_id = run.tenant_id
        if trace is not None and not hasattr(record, "trace_id"):
            parts = trace.traceparent.split("-")
            if len(parts) == _TRACEPARENT_PARTS:
                record.trace_id, record.span_id = parts[1], parts[2]
        return True


class JsonLogFormatter(logging.Formatter):
    """Writes each record as one line of ASCII."""

    def __init__(self, redactor: Redactor | None = None, field_chars: int = FIELD_CHARS) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()
        self._limit = field_chars

    def format(self, record: logging.LogRecord) -> str:
        """Format one line of ASCII, so that it contains no terminal control sequences."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._redactor.text(record.getMessage(), self._limit),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__qualname__
            trace = self.formatException(record.exc_info)
            line["stack"] = self._redactor.text(trace, self._limit)
        given = {name: it for name, it in vars(record).items() if name not in _OWN}
        line = {**self._redactor.value(given, self._limit), **line}
        return json.dumps(line, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")


class TextLogFormatter(logging.Formatter):
    """Writes each record as one line; a stack follows on lines that begin with a bar."""

    def __init__(self, redactor: Redactor | None = None, field_chars: int = FIELD_CHARS) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()
        self._limit = field_chars

    def format(self, record: logging.LogRecord) -> str:
        """Format the record; no line after its first looks like another record."""
        at = datetime.fromtimestamp(record.created, UTC)
        message = escape_unprintable(self._redactor.text(record.getMessage(), self._limit))
        name = escape_unprintable(record.name)
        head = f"{at:%Y-%m-%d %H:%M:%S}Z {record.levelname} {name}: {message}"
        if not record.exc_info or record.exc_info[0] is None:
            return head
        stack = self._redactor.text(self.formatException(record.exc_info), self._limit)
        return "\n".join(
            (head, *(f"{STACK_MARK}{escape_unprintable(it)}" for it in stack.splitlines()))
        )


def json_handler(handler: logging.Handler, redactor: Redactor | None = None) -> logging.Handler:
    """Configure a handler to write JSON lines that name their run."""
    handler.addFilter(RunContextFilter())
    handler.setFormatter(JsonLogFormatter(redactor))
    return handler
