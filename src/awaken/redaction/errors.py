"""Errors of foreign code without the secrets in them: as a text, and as something to be logged.

What an exception says was written for the programmer beside it, and often quotes what it failed on.
"""

from awaken.contracts.messages.content import encodable

from .detectors import detectors_named
from .replacing import redacted

SECRETS = detectors_named(("secrets",))
_DEPTH_MAX = 20


def without_secrets(text: str) -> str:
    """A text of an error as clients, models and logs may read it."""
    return redacted(encodable(text), SECRETS)


def describe_error(error: BaseException) -> str:
    """The type of an error and what it says, without secrets; one that cannot be shown is named."""
    name, text = type(error).__name__, _said(error)
    return f"{name}: {text}" if text else name


def loggable_error(error: BaseException, depth: int = 0) -> BaseException:
    """A stand-in for an error that prints like it, with its causes and notes, without secrets."""
    made = _stand_in(error, depth)
    for name in getattr(error, "__notes__", ()):
        made.add_note(without_secrets(str(name)))
    if depth < _DEPTH_MAX:
        if error.__cause__ is not None:
            made.__cause__ = loggable_error(error.__cause__, depth + 1)
        if error.__context__ is not None:
            made.__context__ = loggable_error(error.__context__, depth + 1)
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def _stand_in(error: BaseException, depth: int) -> BaseException:
    if isinstance(error, BaseExceptionGroup) and depth < _DEPTH_MAX:
        inside = [loggable_error(it, depth + 1) for it in error.exceptions]
        return BaseExceptionGroup(without_secrets(error.message), inside)
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made: BaseException = type(kind.__name__, (Exception,), names)(_said(error))
    return made


def _said(error: BaseException) -> str:
    try:
        return without_secrets(str(error))
    except Exception:  # noqa: BLE001 - an error that cannot even be shown is one all the same
        return ""
