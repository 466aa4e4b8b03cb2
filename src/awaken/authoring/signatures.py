"""Reads the signature of a function once, when it becomes a tool.

It covers parameters and their types, not the return value.
"""

import copy
import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType, UnionType
from typing import Annotated, Any, NamedTuple, NoReturn, Union, get_args, get_origin, get_type_hints

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.tools.context import ToolContext

from .docstrings import Documentation, read_docstring
from .pydantic_models import encode_model, is_made_by_pydantic
from .schema import Schema, schema_of

_CONTEXT_NAMES = ("ctx", "context", "tool_context")
_PLAIN_DEFAULTS = (str, int, float, bool, type(None))
_REFUSED_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; arguments come by name",
    inspect.Parameter.VAR_POSITIONAL: "collects positional arguments; arguments come by name",
    inspect.Parameter.VAR_KEYWORD: "collects unknown arguments; a tool names all of them",
}


class Parameters(NamedTuple):
    """A function's parameters; the context parameter is separate."""

    arguments_type: type[msgspec.Struct]
    """One field per parameter, with the function's own defaults."""
    descriptions: dict[str, str]
    """The descriptions from `Annotated`, by parameter."""
    defaults: dict[str, Any]
    context_name: str | None
    context_type: Any = None
    """The type of the run's context, as the annotation of the context parameter says it."""


class Source(NamedTuple):
    """A callable and the underlying function that has the annotations and the docstring."""

    callable: Callable[..., Any]
    function: Callable[..., Any]
    name: str
    kind: str = "tool function"

    @property
    def what(self) -> str:
        """The name of the function in error messages."""
        module = getattr(self.function, "__module__", "?")
        return f"{self.kind} '{module}.{getattr(self.function, '__qualname__', self.name)}'"

    @property
    def documentation(self) -> Documentation:
        """The parsed docstring of the function."""
        return read_docstring(inspect.getdoc(self.function))

    def refuse(self, problem: str) -> NoReturn:
        """Raise `InvalidSpec` with the reason why this cannot be what it should."""
        raise InvalidSpec(what=self.what, problem=problem)


def source_of(callable_: Callable[..., Any]) -> Source:
    """Find the function behind a method, a partial or a callable object."""
    function: Any = callable_
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, FunctionType | MethodType):
        called = inspect.getattr_static(type(function), "__call__", None)
        if isinstance(called, FunctionType):
            return Source(callable_, called, "")  # A callable object has no name.
    return Source(callable_, function, str(getattr(function, "__name__", "")))


def read_parameters(source: Source, *, has_context_first: bool = False) -> Parameters:
    """Read a function's parameters; with `has_context_first` the first one is its context.

    Raises:
        InvalidSpec: A parameter has no annotation, no JSON form, or cannot be passed by name.
    """
    hints = read_hints(source)
    context_name: str | None = None
    context_type: Any = None
    fields: list[Any] = []
    descriptions: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    for place, parameter in enumerate(_read_signature(source).parameters.values()):
        if has_context_first and place == 0:
            context_name = parameter.name
            continue
        hint = _check_hint(source, parameter, hints)
        if _is_context(hint):
            context_name = parameter.name
            # `ToolContext[Deps, Context]`
            context_type = (*get_args(hint), None, None)[1]
            continue
        fields.append(_build_field(source, parameter, hint))
        if text := _read_annotated_text(hint):
            descriptions[parameter.name] = text
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
    arguments_type = _build_arguments_type(source, fields)
    return Parameters(arguments_type, descriptions, defaults, context_name, context_type)


def parameters_schema(parameters: Parameters, source: Source) -> Schema:
    """Return the sanitized schema of the arguments; `Annotated` wins over the docstring.

    Raises:
        InvalidSpec: A parameter's type has no JSON form.
    """
    schema = schema_of(parameters.arguments_type, what=source.what)
    documented = {**source.documentation.parameters, **parameters.descriptions}
    for name, property_ in schema["properties"].items():
        if name in documented:
            property_["description"] = documented[name]
        default = parameters.defaults.get(name)
        if default is not None and "default" not in property_:
            _add_default(property_, default)
    return schema


def match_companion(companion: Source, parameters: Parameters) -> tuple[list[str], str | None]:
    """Return the tool arguments that a companion function takes, and its context parameter.

    Raises:
        InvalidSpec: The companion has a parameter that the tool does not have.
    """
    known = parameters.arguments_type.__struct_fields__
    hints = read_hints(companion)
    names: list[str] = []
    context_name: str | None = None
    for parameter in _read_signature(companion).parameters.values():
        is_unknown = parameter.name not in known and parameter.name not in hints
        if _is_context(hints.get(parameter.name)) or (
            # A lambda cannot annotate its parameters.
            is_unknown and parameter.name in (parameters.context_name, *_CONTEXT_NAMES)
        ):
            context_name = parameter.name
        elif parameter.kind in _REFUSED_KINDS or parameter.name not in known:
            companion.refuse(f"parameter '{parameter.name}' is not a parameter of the tool")
        else:
            names.append(parameter.name)
    return names, context_name


def _read_signature(source: Source) -> inspect.Signature:
    try:
        return inspect.signature(source.callable)
    except (TypeError, ValueError) as error:
        source.refuse(f"its signature cannot be read: {error}")


def read_hints(source: Source) -> dict[str, Any]:
    """Read the annotations of a function.

    Raises:
        InvalidSpec: They cannot be read.
    """
    function = inspect.unwrap(source.function)
    known = getattr(function, "__globals__", {})
    # Linters recommend importing the context class only under TYPE_CHECKING.
    local = {} if "ToolContext" in known else {"ToolContext": ToolContext}
    try:
        return get_type_hints(source.function, localns=local, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        problem = f"its annotations cannot be read: {error}"
        if isinstance(error, NameError):
            problem += "; define it in the module, not in a function or under TYPE_CHECKING"
        source.refuse(problem)


def _check_hint(source: Source, parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    if problem := _REFUSED_KINDS.get(parameter.kind):
        source.refuse(f"parameter '{parameter.name}' {problem}")
    if parameter.name not in hints:
        source.refuse(_explain_missing_annotation(source, parameter.name))
    hint = hints[parameter.name]
    extras = (parameter.default, *getattr(hint, "__metadata__", ()))
    if any(_is_pydantic_field(extra) for extra in extras):
        source.refuse(
            f"parameter '{parameter.name}' uses pydantic's Field, which only works inside a "
            "model; use Annotated[..., msgspec.Meta(...)] or a docstring"
        )
    if getattr(get_origin(hint) or hint, "__name__", "").startswith("RunContext"):
        source.refuse(f"parameter '{parameter.name}' is no ToolContext; tools get a ToolContext")
    if is_made_by_pydantic(hint):
        source.refuse(
            f"parameter '{parameter.name}' has constraints that only pydantic checks; use a "
            "pydantic model, or Annotated[..., msgspec.Meta(...)]"
        )
    return hint


def _explain_missing_annotation(source: Source, name: str) -> str:
    """Explain a missing annotation; a context and a method's `self` are the usual cases."""
    if name in _CONTEXT_NAMES:
        return f"parameter '{name}' has no annotation; annotate it as ToolContext"
    owner, _, method = getattr(source.function, "__qualname__", "").rpartition(".")
    if name == "self" and owner:
        object_ = owner.rpartition(".")[2].lower()
        return f"it is a method; pass the bound method: tools=[{object_}.{method}]"
    return f"parameter '{name}' has no annotation, and its JSON Schema needs its type"


def _is_pydantic_field(extra: Any) -> bool:
    return type(extra).__name__ == "FieldInfo" and hasattr(extra, "annotation")


def _is_context(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType, Annotated):
        return any(map(_is_context, get_args(hint)))
    return hint is ToolContext or origin is ToolContext


def _read_annotated_text(hint: Any) -> str | None:
    for extra in getattr(hint, "__metadata__", ()):
        text = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def _build_field(source: Source, parameter: inspect.Parameter, hint: Any) -> tuple[Any, ...]:
    default = parameter.default
    if default is parameter.empty:
        return (parameter.name, hint)
    if isinstance(default, _PLAIN_DEFAULTS):
        return (parameter.name, hint, default)
    try:
        factory = _build_default_factory(default)
    except Exception as error:  # noqa: BLE001 - an object's own copying may raise anything
        source.refuse(f"the default of '{parameter.name}' cannot be copied for each call: {error}")
    return (parameter.name, hint, msgspec.field(default_factory=factory))


def _build_default_factory(default: Any) -> Callable[[], Any]:
    """Return a factory of the default; mutable values are copied, others are shared."""
    try:
        hash(default)
    except TypeError:
        # An unhashable value is mutable. It is also copied now, because a direct call of the
        # function may change the original.
        pristine = copy.deepcopy(default)
        return lambda: copy.deepcopy(pristine)
    return lambda: default


def _build_arguments_type(source: Source, fields: list[Any]) -> type[msgspec.Struct]:
    try:
        return msgspec.defstruct(
            f"{source.name}_arguments",
            fields,
            kw_only=True,
            frozen=True,
            gc=False,
            forbid_unknown_fields=True,
        )
    except (TypeError, ValueError, NameError) as error:
        source.refuse(str(error))


def _add_default(property_: Schema, default: Any) -> None:
    try:
        property_["default"] = msgspec.to_builtins(default, str_keys=True, enc_hook=encode_model)
    except (TypeError, ValueError):
        return  # A default without a JSON form is not shown to the model.
