"""Hostile request bodies: what a client can write into up to eight megabytes of JSON.

A shape is a name, a kind, and a function from a number of bytes to JSON text. The kind says into
which places of a route's body it goes: `value` where any JSON is taken, `text` (without quotes)
into what a person says, `schema` into the parameters of a client's tool, `items` repeats whatever
a route takes a list of, and `body` is the whole body.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

Make = Callable[[int], str]


class Shape(NamedTuple):
    """One hostile shape."""

    name: str
    kind: str
    make: Make


def repeat(piece: str, opening: str = "[", closing: str = "]") -> Make:
    """A list of the same piece over and over."""
    return lambda size: opening + ",".join([piece] * (size // (len(piece) + 1))) + closing


def numbered(piece: Callable[[int], str], opening: str = "[", closing: str = "]") -> Make:
    """A list of pieces that differ by a number."""

    def make(size: int) -> str:
        count = size // (len(piece(10**6)) + 1)
        return opening + ",".join(map(piece, range(count))) + closing

    return make


def nested(opening: str, closing: str, core: str = "1", depth: int | None = None) -> Make:
    """Something inside itself, as deep as it goes or as is said."""

    def make(size: int) -> str:
        count = depth or size // (len(opening) + len(closing))
        return opening * count + core + closing * count

    return make


def flood(piece: str) -> Make:
    """A text that is one piece over and over."""
    return lambda size: piece * (size // len(piece.encode()))


def fixed(value: object) -> Make:
    """A small document, whatever the size."""
    text = value if isinstance(value, str) else json.dumps(value)
    return lambda _: text


def doubled_references(depth: int, keyword: str) -> dict[str, object]:
    """Definitions that each name the next one twice: 2**depth when they are expanded."""
    named = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)} | {
        f"d{depth}": {"type": "integer"}
    }
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": named}


def doubled_properties(depth: int) -> dict[str, object]:
    """The same with two properties each."""
    both = lambda n: {"$ref": f"#/$defs/d{n + 1}"}  # noqa: E731
    named = {
        f"d{n}": {"type": "object", "properties": {"a": both(n), "b": both(n)}}
        for n in range(depth)
    } | {f"d{depth}": {"type": "integer"}}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": named}


def recursive(keyword: str, times: int) -> dict[str, object]:
    """A schema that applies itself several times to each level of a value."""
    again = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {keyword: [again] * times}},
    }


def properties_of(count: int, schema: object) -> dict[str, object]:
    """An object with many properties of one schema."""
    return {"type": "object", "properties": {f"p{n}": schema for n in range(count)}}


def inside(opening: str, make: Make, closing: str) -> Make:
    """Something with something hostile in it."""
    return lambda size: opening + make(size - len(opening) - len(closing)) + closing


def pattern(text: str) -> dict[str, object]:
    """A schema with one pattern."""
    return {"properties": {"a": {"pattern": text}}}


def noise(size: int) -> str:
    """What no compression makes shorter."""
    return base64.b64encode(random.Random(7).randbytes(size // 4 * 3)).decode()


def medley(size: int) -> str:
    """Beginnings of everything that detectors look for, in no order."""
    pieces = ("passwd=", "secret:", "sk-a", "rk-", "xoxb-", "ghp_", "http://", "a:b", "@a.", "eyJ",
              "-----BEGIN ", "bearer ", "AKIA", "+1 ", "4111", "GB82", " ", "_", "x", "1", "AB12",
              " a@b", "\u00e9", "\uff14")  # fmt: skip
    return "".join(random.Random(7).choices(pieces, k=size // 5))


def _values() -> Iterator[Shape]:
    def value(name: str, make: Make) -> Shape:
        return Shape(name, "value", make)

    yield value("empty objects", repeat("{}"))
    yield value("empty lists", repeat("[]"))
    yield value("empty texts", repeat('""'))
    yield value("short texts", repeat('"ab"'))
    yield value("two-byte texts", repeat('"é"'))
    yield value("different short texts", numbered(lambda n: f'"{n:x}"'))
    yield value("nulls", repeat("null"))
    yield value("digits", repeat("1"))
    yield value("integers", numbered(lambda n: str(10**9 + n)))
    yield value("floats", repeat("1.5"))
    yield value("long floats", repeat("1.23456789012345678901234567890"))
    yield value("halfway floats", repeat("9007199254740993.0000000000000000000000000000000001"))
    yield value("large exponents", repeat("1e308"))
    yield value("small exponents", repeat("5e-324"))
    yield value("exponents out of range", repeat("1e-999999999"))
    yield value("one exponent too large", fixed("1e999999999"))
    yield value("long exponent", lambda size: "1e" + "9" * (size - 2))
    yield value("exponent with zeros", lambda size: "1e" + "0" * (size - 3) + "1")
    yield value("long integer", lambda size: "1" * size)
    yield value("long fraction", lambda size: "0." + "1" * (size - 2))
    yield value("long zero fraction", lambda size: "1." + "0" * (size - 3) + "1")
    yield value("long integers", repeat("1" * 4000))
    yield value("integers beyond 64 bits", repeat("1" * 25))
    yield value("deep lists", nested("[", "]"))
    yield value("deep objects", nested('{"a":', "}"))
    yield value("lists of depth 90", lambda size: repeat("[" * 90 + "]" * 90)(size))
    yield value("objects of depth 90", lambda size: repeat('{"a":' * 90 + "1" + "}" * 90)(size))
    yield value("many keys", numbered(lambda n: f'"key{n}":1', "{", "}"))
    yield value("many snake keys", numbered(lambda n: f'"a_b_c_d_{n}":1', "{", "}"))
    yield value("many camel keys", numbered(lambda n: f'"aBcD{n}":1', "{", "}"))
    yield value("many objects of one key", repeat('{"a_b":1}'))
    yield value("many objects of different keys", numbered(lambda n: f'{{"k{n}":1}}'))
    yield value("repeated keys", repeat('"a":{}', "{", "}"))
    yield value("long key", lambda size: '{"' + "a" * (size - 6) + '":1}')
    yield value("long keys", numbered(lambda n: f'"{n}{"k" * 1000}":1', "{", "}"))
    yield value("underscored key", lambda size: '{"' + "_a" * (size // 2 - 3) + '":1}')
    yield value("escaped text", lambda size: '"' + "\\n" * (size // 2 - 1) + '"')
    yield value("escaped unicode", lambda size: '"' + "\\u00e9" * (size // 6 - 1) + '"')
    yield value("escaped zeros", lambda size: '"' + "\\\\u0000" * (size // 7 - 1) + '"')
    yield value("escaped quotes", lambda size: '"' + '\\"' * (size // 2 - 1) + '"')
    yield value("escaped pairs", lambda size: '"' + "\\ud83d\\ude00" * (size // 12 - 1) + '"')
    yield value("backslashes", lambda size: '"' + "\\\\" * (size // 2 - 1) + '"')
    yield value("brackets in a text", lambda size: '"' + "[{," * (size // 3 - 1) + '"')
    yield value("blanks", lambda size: " " * (size - 1) + "1")
    yield value("blanks between", repeat("1" + " " * 50))
    yield value("tools", numbered(lambda n: f'{{"name":"t{n}","parameters":{{}}}}'))
    yield value("secret names", numbered(lambda n: f'"api_key_{n}_token":"x"', "{", "}"))


def _texts() -> Iterator[Shape]:
    floods = {
        "letters": "a", "words": "word ", "digits": "4", "grouped digits": "4111 ",
        "single digits": "4 ", "dashed digits": "4-", "cards": "4111 1111 1111 1112 ",
        "real cards": "4111 1111 1111 1111 ", "IBANs": "GB82 WEST 1234 5698 7654 33 ",
        "country codes": "GB82", "spaced country codes": "GB82 WE ", "capitals": "AB12 CD34 ",
        "phones": "+1 (2) ", "plus signs": "+1", "mail addresses": "a@b.co ", "at signs": "a@",
        "dotted": "a.b@c.", "tokens": "eyJaaaaaaaa.", "dashes": "-----BEGIN ",
        "key beginnings": "sk-aaaa-", "bearers": "bearer ", "assignments": "password=",
        "AWS keys": "AKIAABCDEFGHIJKLMNOP ", "URLs": "http://a:b@", "schemes": "a://b:c",
        "SSNs": "123-45-6789 ", "two-byte letters": "é", "wide digits": "\uff14", "emoji": "😀",
        "unseen": "\u200b", "marks": "e\u0301", "ligatures": "\ufdfa", "combining": "\u0301",
        "zero-width digits": "4\u200b", "underscores": "_", "lines": "a\\n", "markup": "<b>",
    }  # fmt: skip
    yield Shape("random base64", "text", noise)
    yield Shape("data URI, random", "text", lambda size: f"data:a/b;base64,{noise(size - 20)}")
    yield Shape("one wide character", "text", lambda size: "a" * (size - 4) + "\U0001f600")
    yield Shape("everything", "text", medley)
    for name, piece in floods.items():
        yield Shape(f"flood of {name}", "text", flood(piece))
    yield Shape(
        "data URI, percent-encoded", "text", lambda size: "data:a/b," + "%41" * (size // 3 - 4)
    )
    yield Shape(
        "data URI, base64", "text", lambda size: "data:a/b;base64," + "QUFB" * (size // 4 - 5)
    )
    yield Shape(
        "data URI, encoded base64",
        "text",
        lambda size: "data:a/b;base64," + "%51" * (size // 3 - 9),
    )
    yield Shape("data URI, options", "text", lambda size: "data:a" + ";b" * (size // 2 - 5) + ",")
    yield Shape("web address", "text", lambda size: "https://a/" + "%41/" * (size // 4 - 4))
    yield Shape("JSON in a text", "text", lambda size: "[" + "{}," * (size // 3 - 2) + "{}]")
    yield Shape("deep JSON in a text", "text", lambda size: "[" * (size // 2) + "]" * (size // 2))
    yield Shape("long number in a text", "text", lambda size: "1" * size)


def _schemas() -> Iterator[Shape]:
    found: dict[str, Make] = {}
    for keyword in ("allOf", "anyOf", "oneOf"):
        wide = repeat('{"type":"object","required":["z"]}')
        deep = nested(f'{{"{keyword}":[', "]}", '{"type":"integer"}', 30)
        found |= {
            f"doubled {keyword}": fixed(doubled_references(26, keyword)),
            f"recursive {keyword}": fixed(recursive(keyword, 3)),
            f"wide {keyword}": inside('{"properties":{"a":{"%s":' % keyword, wide, "}}}"),  # noqa: UP031
            f"deep {keyword}": inside('{"properties":{"a":', deep, "}}"),
        }
    integer = {"type": "integer"}
    texts, objects = numbered(lambda n: f'"{n}"'), numbered(lambda n: f'{{"a":{n}}}')
    patterns = numbered(lambda n: f'"(a|b)*{n}":{{}}', "{", "}")
    definitions = numbered(lambda n: f'"d{n}":{{"type":"integer"}}', "{", "}")
    named = numbered(lambda n: f'"p{n}":{{"type":"integer"}}', "{", "}")
    pointing = numbered(lambda n: f'"p{n}":{{"$ref":"#/$defs/x"}}', "{", "}")
    shared = json.dumps(properties_of(100, integer))
    found |= {
        "doubled properties": fixed(doubled_properties(26)),
        "recursive allOf of four": fixed(recursive("allOf", 4)),
        "many properties": inside('{"properties":', named, "}"),
        "many references": inside(f'{{"$defs":{{"x":{shared}}},"properties":', pointing, "}"),
        "many definitions": inside('{"properties":{},"$defs":', definitions, "}"),
        "long enumeration": inside('{"properties":{"a":{"enum":', texts, "}}}"),
        "enumeration of objects": inside('{"properties":{"a":{"enum":', objects, "}}}"),
        "long required": inside('{"required":', texts, "}"),
        "many patterns": inside('{"properties":{},"patternProperties":', patterns, "}"),
        "large pattern": fixed(pattern("(?:a{1,900}){1,900}")),
        "nested repeats": fixed(pattern("((a{0,99}){0,99}){0,99}")),
        "unicode classes": fixed(pattern("\\p{L}" * 1000)),
        "slow pattern": fixed(pattern("^(?=(a+)+$)")),
        "long pattern": inside('{"properties":{"a":{"pattern":"', flood("(a|b)"), '"}}}'),
        "large bounds": fixed('{"properties":{"a":{"multipleOf":1e-300,"maximum":1e308}}}'),
        "unique items": fixed({"properties": {"a": {"type": "array", "uniqueItems": True}}}),
        "long title": inside('{"properties":{"a":{"title":"', flood("t"), '"}}}'),
        "dynamic references": fixed(
            {
                "$id": "http://x/a",
                "$dynamicAnchor": "n",
                "properties": {"a": {"anyOf": [{"$dynamicRef": "#n"}] * 8}},
            }
        ),
        "foreign reference": fixed({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}),
        "reference to itself": fixed({"properties": {}, "$ref": "#"}),
    }
    for name, make in found.items():
        yield Shape(name, "schema", make)


def _others() -> Iterator[Shape]:
    yield Shape("many items", "items", lambda size: str(size))
    yield Shape("root list", "body", repeat("{}"))
    yield Shape("root digits", "body", lambda size: "1" * size)
    yield Shape("root text", "body", lambda size: '"' + "a" * (size - 2) + '"')
    yield Shape("no JSON", "body", lambda size: "x" * size)
    yield Shape("half an object", "body", lambda size: '{"a":' * (size // 5))
    yield Shape("half a text", "body", lambda size: '{"a":"' + "a" * (size - 6))
    yield Shape("not UTF-8", "body", lambda size: '{"a":"' + "\udc80" * (size - 8) + '"}')
    yield Shape("batch", "body", repeat('{"jsonrpc":"2.0","id":1,"method":"ping"}'))


SHAPES = (*_values(), *_texts(), *_schemas(), *_others())
