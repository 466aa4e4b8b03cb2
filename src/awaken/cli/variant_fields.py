"""Changes of an agent on the command line: `KEY=VALUE`, alike for evals and replays."""

from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.evals.worlds import Variant

_SHORT = {"agent": "agent_id", "model": "model_id"}
_TEXTS = ("agent_id", "model_id", "instructions", "draft_id")
_VALUES = ("publication", "tool_descriptions", "overrides")


class VariantFields:
    """Collects what the command line says of one variant."""

    def __init__(self, name: str, option: str) -> None:
        """`option` is the option that errors name."""
        self._option = option
        self._fields: dict[str, Any] = {"name": name}
        self._changes: dict[str, Any] = {}

    def set(self, key: str, text: str) -> None:
        """Set a field of the variant, else of its agent's spec.

        Raises:
            InvalidInput: It is set already.
        """
        key = _SHORT.get(key, key)
        target = self._fields if key in (*_TEXTS, *_VALUES) else self._changes
        if key in target:
            raise InvalidInput(what=self._option, problem=f"'{key}' is given twice")
        target[key] = text if key in _TEXTS else _read_value(text)

    def build(self, **others: Any) -> Variant:
        """Return the variant; `others` are fields that other options give, if they do.

        Raises:
            InvalidInput: A field does not fit, or an option gives what is set already.
        """
        given = {name: value for name, value in others.items() if value is not None}
        for name in given:
            if name in self._fields:
                raise InvalidInput(what=self._option, problem=f"'{name}' is given twice")
        try:
            return msgspec.convert({**self._fields, **given, "changes": self._changes}, Variant)
        except msgspec.ValidationError as error:
            raise InvalidInput(what=self._option, problem=str(error)) from error

    def has(self, name: str) -> bool:
        """Whether a field of the variant is set."""
        return name in self._fields


def _read_value(text: str) -> Any:
    """Read a value as JSON, else as the text that it is."""
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return text
