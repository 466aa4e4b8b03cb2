"""Logging of long-running commands, on stderr."""

import inspect
import logging
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from awaken.extensions.observability.logs import TextLogFormatter, json_handler

FORMAT_VARIABLE = "AWAKEN_LOG_FORMAT"
"""`json` for one object per line; anything else, or nothing, for readable text."""

RUNS = "awaken.runs"
ACCESS = "awaken.access"
"""The logger that has one line for each request."""


class LogFormat(StrEnum):
    """The format of a log line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level as `logging` knows it."""
        return logging.getLevelNamesMapping()[self.upper()]


Command = Callable[..., None]
Level = Annotated[LogLevel, typer.Option("--log-level", help="The lowest level that is logged.")]
Format = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help=f"Absent: {FORMAT_VARIABLE}, else text."),
]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Log one line for each request.")]


def with_logs(*, has_requests: bool = False) -> Callable[[Command], Command]:
    """Make a command log to stderr, and add the options for it."""

    def decorate(body: Command) -> Command:
        def command(
            log_level: LogLevel,
            log_format: LogFormat | None,
            *,
            is_access_logged: bool = False,
            **given: Any,
        ) -> None:
            log_to_stderr(log_level.number, log_format)
            if is_access_logged:
                log_requests()
            body(**given)

        added = [
            _option("log_level", Level, LogLevel.WARNING),
            _option("log_format", Format, None),
            *([_option("is_access_logged", AccessLog, default=False)] if has_requests else []),
        ]
        shown = [*inspect.signature(body).parameters.values(), *added]
        named: Any = command
        named.__name__, named.__doc__ = body.__name__, body.__doc__
        named.__module__ = body.__module__
        # Typer makes arguments and options from the signature.
        named.__signature__ = inspect.Signature(shown)
        named.__annotations__ = {each.name: each.annotation for each in shown}
        return command

    return decorate


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def log_to_stderr(level: int, log_format: LogFormat | None = None) -> None:
    """Log from this level on, in the given format, else in that of the environment."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    wanted = log_format or os.environ.get(FORMAT_VARIABLE, "").strip().lower()
    if wanted == LogFormat.JSON:
        handler = json_handler(handler)
    else:
        handler.setFormatter(TextLogFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    if handler not in logging.getLogger().handlers:
        # The calling program has configured logging already.
        return
    if level == logging.WARNING:
        # The end of a run is worth a line even if nothing is wrong.
        logging.getLogger(RUNS).setLevel(logging.INFO)
    # There are many requests: they are logged only on demand.
    logging.getLogger(ACCESS).setLevel(logging.WARNING)


def log_requests() -> None:
    """Log one line for each request, independent of the log level."""
    logging.getLogger(ACCESS).setLevel(logging.INFO)
