"""Workflows as declared in code: a function of steps, registered and run like an agent."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict, Unpack, get_args, get_origin, overload

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.messages.message import Message
from awaken.contracts.models.budgets import Budget
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.record import OutputT
from awaken.contracts.tools.tool import Tool, ToolInternalError
from awaken.contracts.workflows.context import WorkflowContext
from awaken.contracts.workflows.errors import InvalidWorkflowInput, WorkflowResultInvalid
from awaken.contracts.workflows.operations import WorkflowOperation

from .agents import Agent
from .json_schemas import JsonSchema
from .output import OutputInvalid, OutputType
from .pydantic_models import decode_model, encode_model, list_members
from .refusals import describe_refusal
from .results import to_json_form
from .schema import Schema, schema_of
from .signatures import Source, parameters_schema, read_hints, read_parameters, source_of

NO_MODEL = "workflow"
"""The name in place of a model's: a workflow asks none."""


class WorkflowInput:
    """The parameters of a workflow's function, compiled once.

    Raises:
        InvalidSpec: The function is not async, takes no context, or a parameter has no JSON form.
    """

    __slots__ = ("_decode", "_text_name", "_workflow", "names", "schema")

    def __init__(self, workflow_id: str, source: Source) -> None:
        if not inspect.iscoroutinefunction(source.function):
            source.refuse("a workflow is an async function: `async def name(ctx, …)`")
        if not inspect.signature(source.callable).parameters:
            source.refuse("its first parameter is the context: `async def name(ctx, …)`")
        first = next(iter(inspect.signature(source.callable).parameters))
        wanted = read_hints(source).get(first, Any)
        if wanted not in (Any, object, WorkflowContext):
            source.refuse(f"its first parameter is the context: `async def name(ctx, {first}, …)`")
        parameters = read_parameters(source, has_context_first=True)
        self._workflow = workflow_id
        self.schema: Schema = parameters_schema(parameters, source)
        self.names: tuple[str, ...] = parameters.arguments_type.__struct_fields__
        decoder = msgspec.json.Decoder(parameters.arguments_type, dec_hook=decode_model)
        self._decode = decoder.decode
        hints = read_hints(source)
        is_text = len(self.names) == 1 and _is_text(hints.get(self.names[0]))
        self._text_name = self.names[0] if is_text else None
        """The only parameter, if it is a text: it takes everything that is no JSON object."""

    def read(self, text: str) -> dict[str, Any]:
        """Return the arguments that a text carries: a JSON object with a field for each.

        A workflow with a single text takes any other text as that, and one without parameters
        takes none.

        Raises:
            InvalidWorkflowInput: It does not fit; names the field and no value.
        """
        if not self.names and not text.lstrip().startswith("{"):
            return {}
        try:
            if self._text_name is not None and not _is_object(text):
                decoded = self._decode(msgspec.json.encode({self._text_name: text}))
            else:
                decoded = self._decode(text or "{}")
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            problem = describe_refusal(error)
            if not isinstance(error, msgspec.ValidationError):
                fields = ", ".join(self.names) or "none"
                problem = f"{problem}; it is one JSON object with the fields: {fields}"
            raise InvalidWorkflowInput(workflow=self._workflow, problem=problem) from error
        return {name: getattr(decoded, name) for name in self.names}


def _is_text(hint: Any) -> bool:
    """Whether a parameter is a text, which may be missing."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return {it for it in list_members(hint) or (hint,) if it is not type(None)} == {str}


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Workflow(Agent[Any, OutputT]):
    """A workflow: an agent without a model, whose runs execute a function of steps.

    Args:
        function: The function: `async def name(ctx, …)`.
        events: The type of each event that it takes, by name. Unless given, any event is taken.
    """

    function: Callable[..., Any] = field(kw_only=True)
    events: Mapping[str, Any] = field(kw_only=True, default_factory=dict)
    arguments: WorkflowInput = field(init=False)
    event_schemas: dict[str, JsonSchema] = field(init=False)

    def __post_init__(self) -> None:
        Agent.__post_init__(self)
        source = source_of(self.function)._replace(kind="workflow")
        object.__setattr__(self, "arguments", WorkflowInput(self.id, source))
        returned = read_hints(source).get("return", Any)
        if self.output is None and returned not in (Any, object, None, type(None)):
            object.__setattr__(self, "output", OutputType(returned))
        schemas = {name: compile_schema(f"event '{name}'", it) for name, it in self.events.items()}
        object.__setattr__(self, "event_schemas", {n: it for n, it in schemas.items() if it})

    def __repr__(self) -> str:
        return f"Workflow({self.id!r})"

    def read_arguments(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the arguments that the messages of a request carry; its events carry none.

        Raises:
            InvalidWorkflowInput: They do not fit; names the field and no value.
        """
        given = [it for it in messages if it.sender is None or it.sender.event is None]
        return self.arguments.read("".join(message.text for message in given))

    def encode_result(self, value: Any) -> str:
        """Return the text that a result is stored as: JSON, or the text that it is.

        Raises:
            WorkflowResultInvalid: It has no JSON form, or is not of the declared type; names the
                place and no value.
        """
        try:
            data = None if value is None else to_json_form(value)
        except ToolInternalError as error:
            raise WorkflowResultInvalid(workflow=self.id, problem=error.message) from error
        text = msgspec.json.encode(data).decode()
        is_text = self.output is not None and self.output.schema is None
        problem = ""
        if is_text and not isinstance(data, str):
            problem = f"Expected `str`, got `{type(value).__name__}`"
        elif self.output is not None and not is_text:
            try:
                self.output.decode(text)
            except OutputInvalid as error:
                problem = error.problem
        if problem:
            raise WorkflowResultInvalid(workflow=self.id, problem=problem)
        if data is None:
            return ""
        return data if is_text and isinstance(data, str) else text


class TypeSchema(JsonSchema):
    """The JSON Schema of a type, and what only the type can say: dates, decimals, validators.

    Raises:
        InvalidSpec: The type has no JSON Schema.
    """

    __slots__ = ("_type",)

    def __init__(self, wanted: Any, *, what: str) -> None:
        super().__init__(schema_of(wanted, what=what), what=what)
        self._type = wanted

    def violations(self, value: Any) -> list[str]:
        """Return what is wrong with a value, and where; an empty list if it is one of the type."""
        if found := super().violations(value):
            return found
        try:
            decode_as(self._type, value)
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            return [describe_refusal(error)]
        return []


def compile_schema(what: str, wanted: Any) -> JsonSchema | None:
    """Compile a type or a JSON Schema; None accepts everything.

    Raises:
        InvalidSpec: It is neither.
    """
    if wanted is None or wanted is Any:
        return None
    if isinstance(wanted, dict):
        return JsonSchema(wanted, what=what)
    return TypeSchema(wanted, what=what)


def decode_as(wanted: Any, data: Any) -> Any:
    """Return JSON data as a value of a type; a JSON Schema or None leaves it as it is.

    Raises:
        msgspec.ValidationError: It does not fit.
    """
    if wanted is None or wanted is Any or isinstance(wanted, dict):
        return data
    return msgspec.convert(data, wanted, str_keys=True, dec_hook=decode_model)


def encode_input(given: Any) -> str:
    """Return the text that carries arguments or a prompt: a text itself, anything else as JSON."""
    if isinstance(given, str):
        return given
    return msgspec.json.encode(_sort_sets(given), enc_hook=_encode_model).decode()


def to_exact_form(value: Any) -> Any:
    """Return the JSON form of a value, the same in every process: sets are sorted.

    Raises:
        ToolInternalError: It has no JSON form.
    """
    try:
        plain = msgspec.to_builtins(_sort_sets(value), str_keys=True, enc_hook=_encode_model)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolInternalError(str(error)) from error
    return to_json_form(plain)


def _sort_sets(value: Any) -> Any:
    """Return a value with lists in place of sets, in an order that no process changes."""
    match value:
        case str() | int() | float() | None:
            return value
        case set() | frozenset():
            return sorted((_sort_sets(it) for it in value), key=repr)
        case dict():
            return {key: _sort_sets(it) for key, it in value.items()}
        case list() | tuple():
            return [_sort_sets(it) for it in value]
    kind = type(value)
    if isinstance(value, msgspec.Struct) or hasattr(kind, "__dataclass_fields__"):
        # The names of fields keep their order.
        return msgspec.to_builtins(
            value, str_keys=True, enc_hook=_encode_model, order="deterministic"
        )
    return value


def _encode_model(value: Any) -> Any:
    """Return a pydantic model's JSON form with sorted sets.

    Raises:
        WorkflowMisuse: It is an operation that was not awaited.
    """
    if isinstance(value, WorkflowOperation):
        raise value.explain()
    data = encode_model(value)
    return _sort_dumped(value.model_dump(), data)


def _sort_dumped(value: Any, data: Any) -> Any:
    match value, data:
        case ((set() | frozenset()), list()):
            return sorted(data, key=repr)
        case dict(), dict():
            pairs = zip(value.values(), data.items(), strict=False)
            return {key: _sort_dumped(it, found) for it, (key, found) in pairs}
        case ((list() | tuple()), list()):
            return [_sort_dumped(it, found) for it, found in zip(value, data, strict=False)]
    return data


class WorkflowOptions(TypedDict, total=False):
    """What `@workflow` takes besides the function; `workflow` explains each of them."""

    id: str
    description: str
    tools: Sequence[Tool | Callable[..., Any]]
    plugins: Sequence[Plugin]
    delegates: Sequence[Any]
    budgets: Sequence[Budget]
    config: Mapping[str, Any] | Sequence[Any]
    events: Mapping[str, Any]


@overload
def workflow(function: Callable[..., Any], /) -> Workflow[Any]: ...


@overload
def workflow(
    **options: Unpack[WorkflowOptions],
) -> Callable[[Callable[..., Any]], Workflow[Any]]: ...


def workflow(
    function: Callable[..., Any] | None = None, /, **options: Unpack[WorkflowOptions]
) -> Any:
    """Make a workflow of an async function; use as `@workflow` or `@workflow(tools=[…])`.

    The function's first parameter is its `WorkflowContext`. Its other parameters are the input of
    a run, as one JSON object, and what it returns is the result.

    Args:
        function: The function, when `@workflow` is used without options.
        **options: See `WorkflowOptions`:
        id: The name under which it is run. The function's name unless given.
        description: What it is for. The function's docstring unless given.
        tools: Tools that it calls by their id, and that gates and switches know.
        plugins: Plugins that only this workflow has.
        delegates: Agents that it asks. Naming them is optional.
        budgets: What a run may spend.
        config: Configuration of plugins.
        events: The type of each event that it takes, by name. Others are then refused.

    Raises:
        InvalidSpec: The function or an option cannot be accepted; names it.
    """
    unknown = sorted(options.keys() - WorkflowOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(WorkflowOptions.__annotations__)
        problem = f"there is no option {', '.join(unknown)}; the options are: {known}"
        raise InvalidSpec(what="@workflow", problem=problem)

    def declare(declared: Callable[..., Any]) -> Workflow[Any]:
        if not callable(declared):
            raise InvalidSpec(what=f"@workflow({declared!r})", problem="it is no function")
        source, given = source_of(declared), dict(options)
        name = str(given.pop("id", source.name))
        given.setdefault("description", source.documentation.description)
        return Workflow(name, model=NO_MODEL, function=declared, **given)  # type: ignore[arg-type]

    return declare if function is None else declare(function)
