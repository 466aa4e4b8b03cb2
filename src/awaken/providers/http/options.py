"""Options that people configure: those of an adapter, and those added to a request unchanged."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.record import StrictRecord

T = TypeVar("T", bound=StrictRecord)


def read_options(adapter: str, kind: type[T], options: Mapping[str, Any]) -> T:
    """Return an adapter's options.

    Raises:
        InvalidSpec: One is unknown or has a wrong value.
    """
    try:
        return msgspec.convert(dict(options), kind)
    except msgspec.ValidationError as error:
        what = f"The adapter_options of '{adapter}'"
        raise InvalidSpec(what=what, problem=str(error)) from error


def put_options(
    body: dict[str, Any], options: Mapping[str, Any] | None, reserved: frozenset[str]
) -> None:
    """Add provider options to a request; existing objects get the new fields.

    Raises:
        InvalidRequest: An option is a field that the request itself sets.
    """
    for name, value in (options or {}).items():
        if name in reserved:
            message = f"provider option '{name}' is not allowed: the request itself sets it"
            raise InvalidRequest(message)
        known = body.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            value = {**known, **value}
        body[name] = value
