"""Support for pydantic models in users' annotations and results.

A model is recognised by its methods, so pydantic is never imported. Each function has the shape
of one of msgspec's hooks for types that msgspec does not know.
"""

from typing import Any

import msgspec


def is_model(type_: Any) -> bool:
    """Whether the type is a pydantic model class."""
    return isinstance(type_, type) and all(
        hasattr(type_, name) for name in ("model_validate_json", "model_json_schema")
    )


def decode_model(type_: Any, value: Any) -> Any:
    """Validate JSON data into a model; msgspec adds the path to the error.

    Raises:
        ValueError: The data does not fit; the message names fields and no values.
    """
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
