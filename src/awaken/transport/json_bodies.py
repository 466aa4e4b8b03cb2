"""Decodes JSON that clients send into a type, with limits on its depth and size.

How large a document becomes is estimated from its bytes, before it is decoded: a decoded value
takes ten or more times the memory of its shortest spelling, and some numbers take a thousand times
as long to decode as others. Only bytes outside of strings are counted.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from .problems import HttpError
from .unknown_fields import unknown_field

DEPTH_MAX = 100
"""How deeply a document may be nested; all later code can recurse that far."""
DIGITS_MAX = 1_000
"""How many consecutive digits a number may have."""
VALUE_BYTES = 160
"""The memory of a decoded value, without its text."""

_CHUNK = 64 * 1024
_EXPONENT_VALUES = 20
"""A number with an exponent counts as this many values, because it takes longer to decode."""
_EVERYTHING = bytes(range(256))
_SAME_BRACKET = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET = _EVERYTHING.translate(None, b"[]{}")
_SAME_DIGIT = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * DIGITS_MAX


def check_document(data: bytes, values_max: int) -> int:
    """Count the values of a document, at least roughly, without decoding it.

    Raises:
        HttpError: 413, it has too many values; 400, it is nested too deeply, a number is too
            long, or a string contains the zero character.
    """
    rough = data.count(b",") + data.count(b"[") + data.count(b"{")
    if rough <= DEPTH_MAX and len(data) < _CHUNK and b"\\" not in data:
        return rough + 1
    plain = data.replace(b"\\\\", b"") if b"\\" in data else data
    if b"\\u0000" in plain:
        raise HttpError(400, "malformed_json", "Texts may not contain the zero character.")
    if rough <= DEPTH_MAX and len(data) < _CHUNK:
        return rough + 1
    count, brackets = _count(plain.replace(b'\\"', b""), values_max)
    for _ in range(DEPTH_MAX):
        if not brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    # The decoder refuses brackets that are never closed.
    if b"[]" in brackets or brackets.count(b"[") > DEPTH_MAX:
        raise HttpError(400, "invalid_json", f"The body is nested more than {DEPTH_MAX} deep.")
    return count


def _count(data: bytes, values_max: int) -> tuple[int, bytes]:
    """Count the values of a document without escaped quotes; also returns its brackets."""
    count, is_text, brackets = 1, 0, []
    for at in range(0, len(data), _CHUNK):
        parts = data[at : at + _CHUNK].split(b'"')
        outside = b"".join(parts[is_text::2])
        is_text ^= (len(parts) - 1) & 1
        if not outside:
            continue
        count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        exponents = outside.count(b"e") + outside.count(b"E")
        if exponents:
            exponents -= outside.count(b"true") + outside.count(b"false")
            count += _EXPONENT_VALUES * max(0, exponents)
        if count > values_max:
            message = f"The body has more than {values_max} values; send less at once."
            raise HttpError(413, "body_too_large", message)
        if _LONG_NUMBER in outside.translate(_SAME_DIGIT):
            message = f"A number in the body has more than {DIGITS_MAX} digits."
            raise HttpError(400, "invalid_json", message)
        brackets.append(outside.translate(_SAME_BRACKET, _NO_BRACKET))
    return count, b"".join(brackets)


VALUES_MAX = 200_000
"""How many values a document may have, unless the server's config says otherwise."""


def decode_body(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode a document that `check_document` accepted.

    Raises:
        HttpError: 400 when it is not JSON, 422 when it does not fit the type.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise body_error(error, decoder.type) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, "malformed_json", f"The body is no JSON: {error}") from error


def decode_text(text: str) -> Any:
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


def body_error(error: Exception, type_: Any) -> HttpError:
    """The error for a body that is JSON but does not fit the expected type."""
    if (unknown := unknown_field(error, type_)) is not None:
        return HttpError(422, "unknown_field", f"The body does not fit: {unknown}")
    return HttpError(422, "invalid_body", f"The body does not fit: {error}")


def normalize_keys(given: Any, aliases: Mapping[str, str]) -> Any:
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
