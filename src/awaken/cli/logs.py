"""What commands that go on running log, on stderr."""

import logging
import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from awaken.extensions.observability.logs import TextLogFormatter, json_handler

FORMAT_VARIABLE = "AWAKEN_LOG_FORMAT"
"""`json` for one object on each line; anything else, or nothing, for lines that people read."""

ACCESS = "awaken.access"
"""The logger that has one line for each request."""


class LogFormat(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """From what on things are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level as `logging` knows it."""
        return logging.getLevelNamesMapping()[self.upper()]


Level = Annotated[LogLevel, typer.Option("--log-level", help="From what on things are logged.")]
Format = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help=f"Absent: {FORMAT_VARIABLE}, else text."),
]


def log_to_stderr(level: int, log_format: LogFormat | None = None) -> None:
    """Log from this level on, in the format that is wanted, here or by the environment."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    wanted = log_format or os.environ.get(FORMAT_VARIABLE, "").strip().lower()
    if wanted == LogFormat.JSON:
        handler = json_handler(handler)
    else:
        handler.setFormatter(TextLogFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    # Requests are many: they are logged when somebody asks for them.
    logging.getLogger(ACCESS).setLevel(logging.WARNING)


def log_requests() -> None:
    """Log one line for each request, whatever the level of everything else is."""
    logging.getLogger(ACCESS).setLevel(logging.INFO)
