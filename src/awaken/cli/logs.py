"""What commands that go on running log, on stderr."""

import logging
import os
import sys

from awaken.extensions.observability.logs import json_handler

from .printing import plain

FORMAT_VARIABLE = "AWAKEN_LOG_FORMAT"
"""`json` for one object on each line; anything else, or nothing, for lines that people read."""


def log_to_stderr(level: int) -> None:
    """Log from this level on, as the environment wants it."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if os.environ.get(FORMAT_VARIABLE, "").strip().lower() == "json":
        handler = json_handler(handler)
    else:
        handler.setFormatter(_PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


class _PlainFormatter(logging.Formatter):
    """Log lines with everything invisible spelled out: errors quote what models wrote."""

    def format(self, record: logging.LogRecord) -> str:
        """One record; only its own line breaks stay."""
        return "\n".join(plain(line) for line in super().format(record).split("\n"))
