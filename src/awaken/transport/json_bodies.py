"""JSON from outside: decoded into a type, and no deeper than everybody can follow."""

from collections.abc import Mapping
from typing import Any

import msgspec

from .problems import Problem
from .unknown_fields import unknown_field

DEPTH_MAX = 100
"""How deeply a document may be nested, so that every step on its way can follow."""


def decoded(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """The document as the decoder's type.

    Raises:
        Problem: 400 when it is no JSON or nested too deeply, 422 when it does not fit the type.
    """
    try:
        value = decoder.decode(data)
        # Nearly no document has as many brackets: only then a look inside is worth its time.
        if data.count(b"[") + data.count(b"{") > DEPTH_MAX:
            _check_depth(msgspec.json.decode(data))
    except msgspec.ValidationError as error:
        raise misfit(error, decoder.type) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "malformed_json", f"The body is no JSON: {error}") from error
    return value


def misfit(error: Exception, type_: Any) -> Problem:
    """The refusal of a body that is JSON, but not of the type that is wanted."""
    if (unknown := unknown_field(error, type_)) is not None:
        return Problem(422, "unknown_field", f"The body does not fit: {unknown}")
    return Problem(422, "invalid_body", f"The body does not fit: {error}")


def spelled(given: Any, aliases: Mapping[str, str]) -> Any:
    """An object with its keys in their first spelling.

    Raises:
        Problem: A key is there in both spellings.
    """
    if not isinstance(given, dict) or aliases.keys().isdisjoint(given):
        return given
    twice = [name for name, first in aliases.items() if name in given and first in given]
    if twice:
        raise Problem(400, "given_twice", f"'{aliases[twice[0]]}' and '{twice[0]}' are the same.")
    return {aliases.get(name, name): value for name, value in given.items()}


def camel_aliases(*types: Any) -> dict[str, str]:
    """The camelCase spelling of every field of these types that is spelled otherwise."""
    names = [
        field.encode_name
        for type_ in types
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct)
        for field in msgspec.structs.fields(type_)
    ]
    heads = {name: name.split("_") for name in names}
    return {
        first + "".join(map(str.capitalize, rest)): name
        for name, (first, *rest) in heads.items()
        if rest
    }


def _check_depth(document: Any) -> None:
    level = [document]
    for _ in range(DEPTH_MAX + 1):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise Problem(400, "invalid_json", f"The body is nested more than {DEPTH_MAX} deep.")
