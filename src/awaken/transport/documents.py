"""How large a JSON document becomes, counted in its bytes before it is decoded.

Every value that is decoded takes ten or more times the memory of its shortest spelling, and some
numbers take a thousand times as long as others. Only what stands outside of texts counts.
"""

from .problems import HttpError

DEPTH_MAX = 100
"""How deeply a document may be nested, so that every step on its way can follow."""
DIGITS_MAX = 1_000
"""How many digits of a number may follow each other."""
VALUE_BYTES = 160
"""What a decoded value takes, beside its text."""

_CHUNK = 64 * 1024
_EXPONENT_VALUES = 20
"""As how many values a number with an exponent counts, by the time that it takes."""
_EVERYTHING = bytes(range(256))
_SAME_BRACKET = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET = _EVERYTHING.translate(None, b"[]{}")
_SAME_DIGIT = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * DIGITS_MAX


def check_document(data: bytes, values_max: int) -> int:
    """How many values a document has, at least roughly; nothing is decoded.

    Raises:
        Problem: 413, it has more values than it may; 400, it is nested too deeply, a number is
            too long, or a text has the zero character.
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
    # Brackets that are never closed are the decoder's to refuse.
    if b"[]" in brackets or brackets.count(b"[") > DEPTH_MAX:
        raise HttpError(400, "invalid_json", f"The body is nested more than {DEPTH_MAX} deep.")
    return count


def _count(data: bytes, values_max: int) -> tuple[int, bytes]:
    """The values and the brackets of a document without escaped quotes."""
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
