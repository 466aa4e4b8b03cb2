"""The type of an agent's final answer: its schema for the model, its decoder for the caller."""

from collections.abc import Iterator
from typing import Any

import msgspec

from awaken.contracts.errors import RunError

from .functions import is_interruption
from .json_schemas import JsonSchema
from .pydantic_models import JsonDecoder, build_decoder, list_members
from .refusals import describe_refusal
from .schema import Schema, schema_of

_FENCE = "```"


class OutputInvalid(RunError):
    """The model's answer does not fit the output type."""

    code = "invalid_output"
    template = "The answer does not fit '{type_name}': {problem}."
    type_name: str
    problem: str


class OutputType:
    """An output type, compiled once. `str` takes the answer as it is and has no schema.

    A union with `str` takes an answer that is not JSON as it is.

    Raises:
        InvalidSpec: The type has no JSON form.
    """

    __slots__ = ("_decoder", "_takes_text", "name", "retries", "schema", "validators")

    schema: Schema | None
    _decoder: JsonDecoder | None

    def __init__(
        self, type_: Any, validators: tuple[Any, ...] = (), retries: int | None = None
    ) -> None:
        self.validators = validators
        """The agent's own checks of a decoded answer; see `validators.BoundValidator`."""
        self.retries = retries
        """How often the model may answer again; None: the limit of the runtime."""
        self.name: str = type_.__name__ if isinstance(type_, type) else str(type_)
        if type_ is str:
            self.schema = self._decoder = None
            return
        self.schema = schema_of(type_, what=f"output type '{self.name}'")
        self._takes_text = str in list_members(type_)
        self._decoder = build_decoder(type_)

    def decode(self, text: str) -> Any:
        """Return the answer as a value; JSON may be bare or in a Markdown fence.

        Raises:
            OutputInvalid: It is not JSON or does not fit; the message names the place and no value.
        """
        if self._decoder is None:
            return text
        failures: list[Exception] = []
        for candidate in _candidates(text):
            try:
                return self._decoder.decode(candidate)
            except msgspec.ValidationError as error:
                failures = [error]  # It is JSON, so this is the answer.
                break
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                failures.append(error)
            except BaseException as error:
                if is_interruption(error):
                    raise
                # Code of the type itself, such as `__post_init__`; its text may have the value.
                problem = f"the type raised {type(error).__name__}"
                raise OutputInvalid(type_name=self.name, problem=problem) from error
        if self._takes_text and not isinstance(failures[0], msgspec.ValidationError):
            return text
        raise OutputInvalid(
            type_name=self.name, problem=describe_refusal(failures[0])
        ) from failures[0]


class SchemaOutput(OutputType):
    """The output that a request defines with a JSON Schema; the answer stays plain JSON.

    Raises:
        InvalidSpec: The schema is not valid.
    """

    __slots__ = ("_checked",)

    def __init__(self, schema: dict[str, Any]) -> None:
        self.name = "the schema that was asked for"
        self.validators, self.retries = (), None
        self.schema = schema
        self._decoder, self._takes_text = msgspec.json.Decoder(), False
        self._checked = JsonSchema(schema, what="the output schema")

    def decode(self, text: str) -> Any:
        """Return the answer as JSON; see `OutputType.decode`."""
        value = super().decode(text)
        if violations := self._checked.violations(value):
            raise OutputInvalid(type_name=self.name, problem="; ".join(violations))
        return value


def _candidates(text: str) -> Iterator[str]:
    """Yield candidates for the JSON: the whole text, the widest fence, the first fence."""
    yield text
    _, opened, rest = text.partition(_FENCE)
    if not opened:
        return
    rest = rest.removeprefix("json").removeprefix("JSON")
    # A string inside the JSON may contain a fence, so the widest candidate comes first.
    yield rest.rpartition(_FENCE)[0] or rest
    yield rest.partition(_FENCE)[0]
