"""Checks of the arguments of `AgentRuntime` methods, before anything is written.

They look at types and names only, so that a large message costs no more than a small one.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from awaken.authoring.refusals import describe_refusal
from awaken.contracts.errors import InvalidInput


def check_names(what: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse options that do not exist; a misspelt option must not be ignored.

    Raises:
        InvalidInput: Names the option and lists those that exist.
    """
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        problem = f"it does not exist; the options are: {', '.join(known)}"
        raise InvalidInput(what=f"{what} '{', '.join(unknown)}'", problem=problem)


def check_text(name: str, value: object, field: str = "") -> None:
    """Refuse an id that is not a string; `field` is where a record passed instead has its id.

    Raises:
        InvalidInput: Names the argument, and the id when an object with one was passed.
    """
    if isinstance(value, str):
        return
    problem = f"pass an id as text, not {_kind(value)}"
    for place in (field or name, "id"):
        if isinstance(own := getattr(value, place, None), str):
            problem = f"pass the id, {own!r}, not the {_kind(value)}"
            break
    raise InvalidInput(what=name, problem=problem)


def check_optional_text(name: str, value: object) -> None:
    """Refuse an id that is neither absent nor a string."""
    if value is not None:
        check_text(name, value)


def check_message_sink(sink: Any) -> Any:
    """Return the message sink that was passed, or None.

    Raises:
        InvalidInput: It has no async method `send_agent_message`, or is a class.
    """
    send = getattr(sink, "send_agent_message", None)
    if isinstance(sink, type):
        problem = f"{sink.__name__} is a class; pass what it makes"
        raise InvalidInput(what="message_sink", problem=problem)
    if sink is not None and not inspect.iscoroutinefunction(send):
        problem = f"pass an object with an async `send_agent_message`, not {_kind(sink)}"
        raise InvalidInput(what="message_sink", problem=problem)
    return sink


def convert_argument(name: str, value: object, kind: type) -> Any:
    """Convert an argument to `kind`: text becomes an enum, a mapping becomes a record.

    Raises:
        InvalidInput: It does not fit.
    """
    if isinstance(value, kind):
        return value
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if choices := ", ".join(map(str, getattr(kind, "__members__", {}).values())):
            what = f"{name}={value!r:.80}"
            raise InvalidInput(what=what, problem=f"use one of: {choices}") from error
        raise InvalidInput(what=name, problem=describe_refusal(error)) from error


def check_list(name: str, values: object, example: str) -> list[Any]:
    """Return the members of a list argument.

    Raises:
        InvalidInput: A single object, a string or a mapping was passed.
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(what=name, problem=f"pass a list, {name}=[{example}]")
    return list(values)


def check_members(name: str, values: Iterable[Any], kind: type, hint: str) -> None:
    """Refuse a list with a member of another type.

    Raises:
        InvalidInput: Names the wrong type, and the way out.
    """
    for value in values:
        if not isinstance(value, kind):
            problem = f"it holds {_kind(value)}, not {kind.__name__}; {hint}"
            raise InvalidInput(what=name, problem=problem)


def _kind(value: object) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__
