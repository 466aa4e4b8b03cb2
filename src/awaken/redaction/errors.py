"""Removes secrets from errors: as a text, and as an exception that can be logged.

The text of an exception is written for a programmer, and often quotes the input that failed.
"""

from awaken.contracts.messages.content import encodable

from .detectors import detectors_named
from .replacing import redacted

SECRETS = detectors_named(("secrets",))
_DEPTH_MAX = 20


def without_secrets(text: str) -> str:
    """The text of an error without secrets, fit for clients, models and logs."""
    return redacted(encodable(text), SECRETS)


def describe_error(error: BaseException) -> str:
    """The type and the text of an error, without secrets; only the type if it has no text."""
    name, text = type(error).__name__, _read_text(error)
    return f"{name}: {text}" if text else name


def loggable_error(error: BaseException, depth: int = 0) -> BaseException:
    """A copy of an error that prints like it, with its causes and notes, without secrets."""
    made = _make_stand_in(error, depth)
    for name in getattr(error, "__notes__", ()):
        made.add_note(without_secrets(str(name)))
    if depth < _DEPTH_MAX:
        if error.__cause__ is not None:
            made.__cause__ = loggable_error(error.__cause__, depth + 1)
        if error.__context__ is not None:
            made.__context__ = loggable_error(error.__context__, depth + 1)
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def _make_stand_in(error: BaseException, depth: int) -> BaseException:
    if isinstance(error, BaseExceptionGroup) and depth < _DEPTH_MAX:
        inside = [loggable_error(it, depth + 1) for it in error.exceptions]
        return BaseExceptionGroup(without_secrets(error.message), inside)
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made: BaseException = type(kind.__name__, (Exception,), names)(_read_text(error))
    return made


def _read_text(error: BaseException) -> str:
    try:
        return without_secrets(str(error))
    except Exception:  # noqa: BLE001 - an error whose `__str__` raises is still an error
        return ""
