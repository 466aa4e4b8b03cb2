"""Support for pydantic in users' annotations and results, and for unions that msgspec refuses.

What pydantic made is recognised by its attributes, so that pydantic is only imported for types that
it made itself. The functions for models have the shape of msgspec's hooks for unknown types.
"""

import dataclasses
import importlib
from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec

_CONSTRAINTS = frozenset({"pydantic", "annotated_types"})
"""The packages whose constraints only pydantic checks."""


class JsonDecoder(Protocol):
    """Decodes JSON into values of one type."""

    def decode(self, data: bytes | str, /) -> Any:
        """Return the value.

        Raises:
            msgspec.ValidationError: The JSON does not fit the type.
            msgspec.DecodeError, ValueError: It is not JSON.
        """
        ...


def build_decoder(type_: Any) -> JsonDecoder:
    """Build the decoder of a type: of msgspec, of pydantic, or of the members of a union.

    Raises:
        TypeError: The type has no JSON form.
    """
    if is_made_by_pydantic(type_):
        return _AdapterDecoder(type_)
    members = list_refused_members(type_)
    if any(map(is_model, members)):
        return _AdapterDecoder(type_)
    if members:
        return _UnionDecoder(members)
    return msgspec.json.Decoder(type_, dec_hook=decode_model)


def describe_type(type_: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a type that only pydantic can check; None for all others.

    Raises:
        TypeError: Neither can pydantic.
    """
    if is_made_by_pydantic(type_) or any(map(is_model, list_refused_members(type_))):
        schema: dict[str, Any] = _adapter_of(type_).json_schema()
        return schema
    return None


def list_refused_members(type_: Any) -> tuple[Any, ...]:
    """The members of a union that msgspec does not take as a whole."""
    members = list_members(type_)
    if members:
        try:
            msgspec.json.Decoder(type_, dec_hook=decode_model)
        except TypeError:
            return members
    return ()


def is_made_by_pydantic(type_: Any) -> bool:
    """Whether only pydantic checks a type: one of its dataclasses, or one with its constraints.

    A model is none of them: msgspec asks a hook about models, wherever they stand.
    """
    return _is_made_by_pydantic(type_, set())


def _is_made_by_pydantic(type_: Any, seen: set[int]) -> bool:
    if id(type_) in seen or is_model(type_):
        return False
    seen.add(id(type_))
    if dataclasses.is_dataclass(type_) and hasattr(type_, "__pydantic_validator__"):
        return True
    metadata = getattr(type_, "__metadata__", ()) if get_origin(type_) is Annotated else ()
    if any(type(it).__module__.partition(".")[0] in _CONSTRAINTS for it in metadata):
        return True
    parts: Iterable[Any] = get_args(type_)
    if isinstance(type_, type) and not parts and hasattr(type_, "__annotations__"):
        try:
            parts = get_type_hints(type_, include_extras=True).values()
        except (NameError, TypeError, AttributeError):
            # What makes its schema reports what is missing.
            return False
    return any(_is_made_by_pydantic(it, seen) for it in parts)


def list_members(type_: Any) -> tuple[Any, ...]:
    """The members of a union; none if it is another type."""
    bare = type_.__origin__ if get_origin(type_) is Annotated else type_
    return get_args(bare) if get_origin(bare) in (Union, UnionType) else ()


def _adapter_of(type_: Any) -> Any:
    try:
        return importlib.import_module("pydantic").TypeAdapter(type_)
    except ImportError:
        raise
    except Exception as error:
        problem = f"pydantic cannot check it ({type(error).__name__}); use msgspec.Meta in structs"
        raise TypeError(problem) from error


class _AdapterDecoder:
    """Has pydantic validate whole values."""

    def __init__(self, type_: Any) -> None:
        self._adapter = _adapter_of(type_)

    def decode(self, data: bytes | str, /) -> Any:
        msgspec.json.decode(data)
        try:
            return self._adapter.validate_json(data)
        except ValueError as error:
            raise msgspec.ValidationError(_describe_problems(error)) from error


class _UnionDecoder:
    """Decodes the first member that fits; one that knows all fields of an object goes first."""

    def __init__(self, members: tuple[Any, ...]) -> None:
        self._members = [(_field_names(it), build_decoder(it)) for it in members]

    def decode(self, data: bytes | str, /) -> Any:
        value = msgspec.json.decode(data)
        keys = set(value) if isinstance(value, dict) else set()
        problems = []
        for _, decoder in sorted(self._members, key=lambda it: not it[0] >= keys):
            try:
                return decoder.decode(data)
            except msgspec.ValidationError as error:
                problems.append(str(error))
        raise msgspec.ValidationError("; or: ".join(problems))


def _field_names(type_: Any) -> frozenset[str]:
    return frozenset(getattr(type_, "__annotations__", ()))


def is_model(type_: Any) -> bool:
    """Whether the type is a pydantic model class."""
    return isinstance(type_, type) and all(
        hasattr(type_, name) for name in ("model_validate_json", "model_json_schema")
    )


def decode_model(type_: Any, value: Any) -> Any:
    """Validate JSON data into a model; msgspec adds the path to the error.

    Any data is an `object`.

    Raises:
        ValueError: The data does not fit; the message names fields and no values.
        TypeError: The type is not a model.
    """
    if type_ is object:
        return value
    if not is_model(type_):
        message = f"type '{getattr(type_, '__name__', type_)}' has no JSON form"
        raise TypeError(message)
    try:
        # Not `model_validate`: with it, a strict model refuses the strings of JSON dates.
        return type_.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_describe_problems(error)) from error


def encode_model(value: Any) -> Any:
    """Return a model's JSON form.

    Raises:
        TypeError: The value is not a model.
    """
    if not is_model(type(value)):
        message = f"values of type '{type(value).__qualname__}' are unsupported"
        raise TypeError(message)
    return value.model_dump(mode="json")


def encode_claim(value: Any) -> Any:
    """Return the JSON form of a value that is decoded as its own type again, such as a context.

    Raises:
        TypeError: It has none, or is another value when it is decoded.
    """
    is_dataclass = dataclasses.is_dataclass(value) and is_made_by_pydantic(type(value))
    if not is_dataclass and not is_model(type(value)):
        return encode_model(value)
    adapter = _adapter_of(type(value))
    data = adapter.dump_python(value, mode="json", by_alias=True, round_trip=True)
    name = type(value).__qualname__
    try:
        again = adapter.validate_json(msgspec.json.encode(data))
    except ValueError as error:
        message = f"the JSON form of '{name}' does not fit it: {_describe_problems(error)}"
        raise TypeError(message) from error
    if again != value:
        message = f"'{name}' is another value after its JSON form, as with a secret"
        raise TypeError(message)
    return data


def model_schema(type_: Any) -> dict[str, Any]:
    """Return a model's JSON Schema, with its references.

    Raises:
        TypeError: The type is neither known to msgspec nor a pydantic model.
    """
    if not is_model(type_):
        message = f"type '{getattr(type_, '__name__', type_)}' has no JSON form"
        raise TypeError(message)
    schema: dict[str, Any] = type_.model_json_schema()
    return schema


def _describe_problems(error: ValueError) -> str:
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    problems = listed(include_url=False, include_input=False, include_context=False)
    return "; ".join(_describe_problem(problem) for problem in problems)


def _describe_problem(problem: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])
