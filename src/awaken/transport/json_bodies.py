"""Decodes JSON that clients send into a type, with limits on its depth and size."""

from collections.abc import Mapping
from typing import Any

import msgspec

from .documents import check_document
from .problems import HttpError
from .unknown_fields import unknown_field

VALUES_MAX = 200_000
"""How many values a document may have, unless the server's config says otherwise."""


def decoded(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode a document that `check_document` accepted.

    Raises:
        HttpError: 400 when it is not JSON, 422 when it does not fit the type.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise misfit(error, decoder.type) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, "malformed_json", f"The body is no JSON: {error}") from error


def decoded_text(text: str) -> Any:
    """Decode a JSON document that is inside a string of a body.

    Raises:
        HttpError: 413 or 400, it is larger or deeper than a body may be.
        msgspec.DecodeError: It is not JSON.
    """
    data = text.encode(errors="replace")
    check_document(data, VALUES_MAX)
    try:
        return msgspec.json.decode(data)
    except RecursionError as error:
        raise msgspec.DecodeError(str(error)) from error


def misfit(error: Exception, type_: Any) -> HttpError:
    """The error for a body that is JSON but does not fit the expected type."""
    if (unknown := unknown_field(error, type_)) is not None:
        return HttpError(422, "unknown_field", f"The body does not fit: {unknown}")
    return HttpError(422, "invalid_body", f"The body does not fit: {error}")


def spelled(given: Any, aliases: Mapping[str, str]) -> Any:
    """Rename aliased keys of an object to their canonical spelling.

    Raises:
        HttpError: A key is present in both spellings.
    """
    if not isinstance(given, dict) or aliases.keys().isdisjoint(given):
        return given
    twice = [name for name, first in aliases.items() if name in given and first in given]
    if twice:
        raise HttpError(400, "given_twice", f"'{aliases[twice[0]]}' and '{twice[0]}' are the same.")
    return {aliases.get(name, name): value for name, value in given.items()}


def camel_aliases(*types: Any) -> dict[str, str]:
    """Map camelCase spellings to the field names of these types, where the two differ."""
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
