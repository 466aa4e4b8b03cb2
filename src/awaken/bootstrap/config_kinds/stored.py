"""The stored form of records: the JSON of a spec without defaults, secrets masked while checked."""

import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any

import msgspec

from awaken.contracts.config.kinds import SECRET_KEY
from awaken.contracts.errors import AwakenError
from awaken.contracts.secrets import RedactedString, decode_secret

from .problems import Problems

_MASK = "***"
_REFUSALS = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, AwakenError)


def encode_stored(value: Any, encode_secret: Callable[[RedactedString], Any]) -> Any:
    """Return a spec as builtins in which no field is at its default, at any depth."""
    match value:
        case msgspec.Struct():
            return _encode_fields(value, encode_secret)
        case Mapping():
            return {name: encode_stored(it, encode_secret) for name, it in value.items()}
        case list() | tuple() | frozenset():
            return [encode_stored(it, encode_secret) for it in value]
        case RedactedString():
            return encode_secret(value)
        case Enum():
            return value.value
    return value


def _encode_fields(
    value: msgspec.Struct, encode_secret: Callable[[RedactedString], Any]
) -> dict[str, Any]:
    config, encoded = value.__struct_config__, {}
    if config.tag_field is not None:
        encoded[config.tag_field] = config.tag
    for field in msgspec.structs.fields(value):
        it = getattr(value, field.name)
        if field.required or it != _default_of(field):
            encoded[field.encode_name] = encode_stored(it, encode_secret)
    return encoded


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory()


@cache
def list_fields(type_: type) -> Mapping[str, tuple[msgspec.structs.FieldInfo, Any]]:
    """The fields of a spec with their types, by name."""
    hints = typing.get_type_hints(type_, include_extras=True)
    return {it.name: (it, hints[it.name]) for it in msgspec.structs.fields(type_)}


def fill_defaults(type_: type, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored body with every field of the spec, in the spec's order."""
    filled = {}
    for name, (field, _) in list_fields(type_).items():
        if name in body:
            filled[name] = body[name]
        elif not field.required:
            filled[name] = expand(_default_of(field))
    return filled


def expand(value: Any) -> Any:
    """Return a value as builtins, with every field of the structs in it."""
    match value:
        case msgspec.Struct():
            return {it: expand(getattr(value, it)) for it in value.__struct_fields__}
        case Mapping():
            return {name: expand(it) for name, it in value.items()}
        case list() | tuple():
            return [expand(it) for it in value]
        case Enum():
            return value.value
    return value


def check_fields(
    body: Mapping[str, Any], type_: type, problems: Problems, *, is_whole: bool = True
) -> None:
    """Check each field by itself, so that all problems of a body are found."""
    fields = list_fields(type_)
    for name, value in body.items():
        if name not in fields:
            known = tuple(sorted(fields))
            problems.add(name, "unknown_field", f"There is no field '{name[:80]}'.", known)
            continue
        try:
            msgspec.convert(value, fields[name][1], dec_hook=decode_secret)
        except _REFUSALS as error:
            problems.add_refusal(name, error)
    for name, (field, _) in fields.items():
        if is_whole and field.required and name not in body:
            problems.add(name, "missing", "The field is required.")


def decode_masked(body: Mapping[str, Any], type_: type, problems: Problems) -> Any:
    """Decode a body whose secrets are masked; None, with a problem, if its spec refuses it."""
    try:
        return msgspec.convert(body, type_, dec_hook=decode_secret)
    except _REFUSALS as error:
        problems.add_refusal("", error)
        return None


class MaskedBody:
    """A body whose secrets are replaced by a mask, and what `restore` puts back."""

    def __init__(self, body: Mapping[str, Any], paths: Sequence[str], problems: Problems) -> None:
        self._secrets: dict[tuple[str, ...], Any] = {}
        self._problems = problems
        masked = dict(body)
        for path in paths:
            masked = self._mask(masked, tuple(path.split("/")), ())
        self.body = masked

    def restore(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Put the secrets back, and the marks of those that are to be cleared."""
        for path, value in self._secrets.items():
            place = stored
            for step in path[:-1]:
                place = place.setdefault(step, {})
            place[path[-1]] = value
        return stored

    def _mask(
        self, body: Mapping[str, Any], rest: tuple[str, ...], above: tuple[str, ...]
    ) -> dict[str, Any]:
        masked, (first, *below) = dict(body), rest
        is_listed = first == "*" or first.startswith("!")
        names = [it for it in body if it != first[1:]] if is_listed else [first]
        for name in names:
            if name not in body:
                continue
            path, value = (*above, name), body[name]
            if below and isinstance(value, Mapping) and value:
                masked[name] = self._mask(value, tuple(below), path)
            elif below and not value and len(below) == 1 and below[0][0] in "*!":
                # An empty object of secrets clears what was there: the mark must survive.
                self._secrets[path] = None if below[0] != "*" else {}
                del masked[name]
            elif not below:
                self._mask_value(masked, path, value, is_listed=is_listed)
        return masked

    def _mask_value(
        self, masked: dict[str, Any], path: tuple[str, ...], value: Any, *, is_listed: bool
    ) -> None:
        if isinstance(value, str) or value is None:
            self._secrets[path] = value
            if not value and not is_listed:
                del masked[path[-1]]
            elif value is not None:
                masked[path[-1]] = _MASK
        elif isinstance(value, Mapping) and SECRET_KEY in value:
            if value.keys() != {SECRET_KEY} or not isinstance(value[SECRET_KEY], str):
                message = f'Write {{"{SECRET_KEY}": "env:NAME"}}, with nothing beside it.'
                self._problems.add("/".join(path), "invalid_secret", message)
            self._secrets[path], masked[path[-1]] = dict(value), _MASK
        else:
            message = f'A secret is a text, or {{"{SECRET_KEY}": "env:NAME"}}.'
            self._problems.add("/".join(path), "invalid_secret", message)
            masked[path[-1]] = _MASK
