"""The JSON form of a run's result, and how pydantic and FastAPI come to it.

They ask the class of a value; awaken imports pydantic only when one of them does.
"""

import importlib
from functools import cache
from typing import Any

import msgspec


def encode_fields(result: msgspec.Struct) -> dict[str, Any]:
    """Return every field as JSON data.

    Raises:
        TypeError: The output has no JSON form.
    """
    # A record leaves its defaults out, and readers of the JSON want every field.
    fields = {name: getattr(result, name) for name in result.__struct_fields__}
    data = msgspec.json.encode(fields, enc_hook=_encode_model)
    decoded: dict[str, Any] = msgspec.json.decode(data)
    return decoded


def describe_for_pydantic(cls: type[msgspec.Struct]) -> Any:
    """Return a core schema of pydantic: an instance, which is sent as its JSON form."""
    schema = importlib.import_module("pydantic_core.core_schema")
    sent = schema.dict_schema(schema.str_schema())
    made = schema.plain_serializer_function_ser_schema(encode_fields, return_schema=sent)
    return schema.is_instance_schema(cls, serialization=made)


@cache
def build_serializer(cls: type[msgspec.Struct]) -> Any:
    """Build what pydantic serializes a value with of whose type it knows nothing."""
    core = importlib.import_module("pydantic_core")
    return core.SchemaSerializer(describe_for_pydantic(cls))


def _encode_model(value: Any) -> Any:
    """The JSON form of an output that pydantic made."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    message = f"an output of type {type(value).__name__} has no JSON form"
    raise TypeError(message)
