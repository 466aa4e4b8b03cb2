"""Texts that explain to a model, or to a developer, why data was refused.

They name the place and the problem. They never contain the refused value: it may be secret or huge.
"""

from collections.abc import Iterable

from awaken.contracts.messages.content import replace_surrogates

MAX_CHARACTERS = 500


def describe_refusal(error: Exception) -> str:
    """Return why data was refused, without values, bounded and encodable as UTF-8."""
    if isinstance(error, UnicodeError):
        return "text with a lone surrogate cannot be decoded"
    if isinstance(error, RecursionError):
        return "the data is nested too deeply"
    return truncate_text(_remove_value(str(error)))


def truncate_text(text: str) -> str:
    """Return the text, cut at the limit and encodable as UTF-8."""
    cut = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return replace_surrogates(cut)


def format_path(path: Iterable[str | int]) -> str:
    """Format the path of a value like msgspec does, such as `$.items[0].name`."""
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def _remove_value(text: str) -> str:
    # The only message of msgspec that quotes the input.
    if not text.startswith("Invalid enum value "):
        return text
    _, separator, path = text.rpartition(" - at ")
    return f"Invalid enum value{separator}{path}" if separator else "Invalid enum value"
