"""Decoders from the JSON of a tool call to typed arguments: the cheapest one that is safe.

`msgspec.convert` does not copy values that it leaves unchanged. This is cheap for long texts, but a
tool that changes an untyped argument in place would then change the transcript.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

from .pydantic_models import decode_model

Decoder = Callable[[Any], msgspec.Struct]


def arguments_decoder(type_: type[msgspec.Struct]) -> Decoder:
    """Return a function from parsed JSON to the struct.

    Its result shares nothing mutable with its input. It raises `msgspec.ValidationError`,
    `UnicodeEncodeError` or `RecursionError`.
    """
    kinds = _collect_kinds(inspect.type_info(type_))
    if inspect.AnyType in kinds:
        return _build_copying_decoder(type_)
    if inspect.CustomType in kinds or any("key_type" in k.__struct_fields__ for k in kinds):
        return functools.partial(_convert, type_)
    return functools.partial(msgspec.convert, type=type_)


def _build_copying_decoder(type_: type[msgspec.Struct]) -> Decoder:
    encode = msgspec.json.Encoder().encode
    decode = msgspec.json.Decoder(type_, dec_hook=decode_model).decode

    def decode_copy(arguments: Any) -> msgspec.Struct:
        try:
            return decode(encode(arguments))
        except UnicodeEncodeError:  # A lone surrogate, which a `str` may contain.
            return _convert(type_, copy.deepcopy(arguments))
        except TypeError as error:
            raise msgspec.ValidationError(str(error)) from error

    return decode_copy


def _convert(type_: type[msgspec.Struct], arguments: Any) -> msgspec.Struct:
    # JSON object keys are text, whatever the key type is.
    return msgspec.convert(arguments, type_, str_keys=True, dec_hook=decode_model)


def _collect_kinds(root: Any) -> set[type[msgspec.Struct]]:
    """Return the kinds of all types that a type consists of."""
    seen: dict[int, Any] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting += node
        elif isinstance(node, inspect.Type | inspect.Field) and id(node) not in seen:
            seen[id(node)] = node
            waiting += [getattr(node, name) for name in node.__struct_fields__]
    return {type(node) for node in seen.values()}
