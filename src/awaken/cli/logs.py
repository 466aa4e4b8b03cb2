"""What commands that go on running log, on stderr."""

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
"""`json` for one object on each line; anything else, or nothing, for lines that people read."""

RUNS = "awaken.runs"
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


Command = Callable[..., None]
Level = Annotated[LogLevel, typer.Option("--log-level", help="From what on things are logged.")]
Format = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help=f"Absent: {FORMAT_VARIABLE}, else text."),
]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Log one line for each request.")]


def with_logs(*, has_requests: bool = False) -> Callable[[Command], Command]:
    """Let a command log to stderr, and give it the options that say how."""

    def decorated(body: Command) -> Command:
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
        # What typer makes arguments and options of.
        named.__signature__ = inspect.Signature(shown)
        named.__annotations__ = {each.name: each.annotation for each in shown}
        return command

    return decorated


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def log_to_stderr(level: int, log_format: LogFormat | None = None) -> None:
    """Log from this level on, in the format that is wanted, here or by the environment."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    wanted = log_format or os.environ.get(FORMAT_VARIABLE, "").strip().lower()
    if wanted == LogFormat.JSON:
        handler = json_handler(handler)
    else:
        handler.setFormatter(TextLogFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    if handler not in logging.getLogger().handlers:
        # Whoever called this has set up logging already.
        return
    if level == logging.WARNING:
        # What becomes of runs is worth a line also where nothing is wrong with it.
        logging.getLogger(RUNS).setLevel(logging.INFO)
    # Requests are many: they are logged when somebody asks for them.
    logging.getLogger(ACCESS).setLevel(logging.WARNING)


def log_requests() -> None:
    """Log one line for each request, whatever the level of everything else is."""
    logging.getLogger(ACCESS).setLevel(logging.INFO)
