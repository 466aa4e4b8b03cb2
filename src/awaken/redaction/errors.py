"""Removes secrets from errors: as a text, and as an exception that can be logged.

The text of an exception is written for a programmer, and often quotes the input that failed.
"""

from functools import lru_cache

from awaken.contracts.messages.content import replace_surrogates

_DEPTH_MAX = 20


def remove_secrets(text: str) -> str:
    """The text of an error without secrets, fit for clients, models and logs."""
    # Most programs start, and many run, without an error: RE2 is loaded for the first one.
    from .replacement import ALL_SECRETS, redact_text  # noqa: PLC0415

    return redact_text(replace_surrogates(text), ALL_SECRETS)


def describe_error(error: BaseException) -> str:
    """The type and the text of an error, without secrets; only the type if it has no text."""
    name, text = type(error).__name__, _read_text(error)
    return f"{name}: {text}" if text else name


def make_loggable(error: BaseException, depth: int = 0) -> BaseException:
    """A copy of an error that prints like it, with its causes and notes, without secrets."""
    made = _make_stand_in(error, depth)
    for name in getattr(error, "__notes__", ()):
        made.add_note(remove_secrets(str(name)))
    if depth < _DEPTH_MAX:
        if error.__cause__ is not None:
            made.__cause__ = make_loggable(error.__cause__, depth + 1)
        if error.__context__ is not None:
            made.__context__ = make_loggable(error.__context__, depth + 1)
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def _make_stand_in(error: BaseException, depth: int) -> BaseException:
    if isinstance(error, BaseExceptionGroup) and depth < _DEPTH_MAX:
        inside = [make_loggable(it, depth + 1) for it in error.exceptions]
        return BaseExceptionGroup(remove_secrets(error.message), inside)
    stand_in = _make_stand_in_class(type(error))  # type: ignore[arg-type] # Classes are hashable.
    return stand_in(_read_text(error))


@lru_cache(maxsize=256)
def _make_stand_in_class(kind: type[BaseException]) -> type[Exception]:
    # A class refers to itself: one for each error would be left to the garbage collector.
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (Exception,), names)


def _read_text(error: BaseException) -> str:
    try:
        return remove_secrets(str(error))
    except Exception:  # noqa: BLE001 - an error whose `__str__` raises is still an error
        return ""
