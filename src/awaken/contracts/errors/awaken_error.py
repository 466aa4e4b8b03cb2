"""The root of every error: fields that the type checker knows, and a message made from them."""

from collections.abc import Callable, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform, get_origin

_CLASS_FACTS = ("code", "retryable", "template")
_REQUIRED: Any = object()


class _Positional:
    """Marks a field that may be passed by its position."""


def field(*, kw_only: bool) -> Any:
    """Declare a required field that is passed by its position if `kw_only` is false.

    It is for errors whose only fact is a text: `raise ToolError("The order is closed.")`.
    """
    return _REQUIRED if kw_only else _Positional()


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class AwakenError(Exception):
    """Root of every error that awaken raises on purpose.

    A subclass annotates its fields, and `template` makes the message from them. A type checker
    and the constructor accept exactly these fields, by keyword; a field with a default may be
    left out. A class without a template is a family: it is caught, and its subclasses are raised.
    A class with an `__init__` of its own passes the fields of its parent to `super().__init__`.
    """

    code: ClassVar[str] = "awaken_error"
    retryable: ClassVar[bool] = False
    template: ClassVar[str] = ""
    _fields: ClassVar[Mapping[str, Any]] = {}
    _positional: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        fields: dict[str, Any] = {}
        for parent in reversed(cls.__mro__[1:]):
            fields |= vars(parent).get("_fields", {})
        if "__init__" not in vars(cls):
            fields |= _declared_fields(cls)
        cls._fields = fields
        cls._positional = tuple(
            name for name, default in fields.items() if isinstance(default, _Positional)
        )
        named = {name for _, name, _, _ in Formatter().parse(cls.template) if name is not None}
        if unknown := sorted(named - fields.keys()):
            message = f"the template of {cls.__name__} names unknown fields: {', '.join(unknown)}"
            raise TypeError(message)

    if TYPE_CHECKING:
        # Type checkers make the `__init__` of a subclass from its fields.
        def __init__(self) -> None: ...
    else:

        def __init__(self, *texts: Any, **given: Any) -> None:
            values = {**self._fields, **dict(zip(self._positional, texts, strict=False)), **given}
            if (
                len(texts) > len(self._positional)
                or not given.keys().isdisjoint(self._positional[: len(texts)])
                or values.keys() != self._fields.keys()
                or any(map(_is_missing, values.values()))
            ):
                raise TypeError(_explain_misuse(type(self)))
            self.__dict__.update(values)
            super().__init__(self.describe())

    @property
    def fields(self) -> dict[str, Any]:
        """The fields by name, those with a default included."""
        return {name: getattr(self, name) for name in self._fields}

    def describe(self) -> str:
        """Make the message from the fields; a subclass overrides it if a template cannot.

        Raises:
            TypeError: The class has no template: it is a family, and its subclasses are raised.
        """
        if not self.template:
            message = f"{type(self).__name__} is a family of errors; raise one of its subclasses"
            raise TypeError(message)
        return self.template.format(**self.fields)

    def __reduce__(self) -> tuple[Callable[..., BaseException], tuple[Any, ...], dict[str, Any]]:
        # A copy is made from what the error has, not by calling a constructor again.
        return _remake, (type(self), self.args), self.__dict__


def _remake(kind: type[AwakenError], args: tuple[Any, ...]) -> BaseException:
    return kind.__new__(kind, *args)


def _declared_fields(kind: type[AwakenError]) -> dict[str, Any]:
    """The fields that a class itself annotates, each with its default or a marker."""
    fields: dict[str, Any] = {}
    for name, type_ in kind.__annotations__.items():
        if name in _CLASS_FACTS or _is_class_variable(type_):
            continue
        if hasattr(AwakenError, name):
            message = f"{kind.__name__} cannot have the field '{name}'; every error has one"
            raise TypeError(message)
        fields[name] = vars(kind).get(name, _REQUIRED)
        if name in vars(kind) and _is_missing(fields[name]):
            delattr(kind, name)  # A marker is no value of the field.
    return fields


def _is_missing(value: Any) -> bool:
    return value is _REQUIRED or isinstance(value, _Positional)


def _is_class_variable(type_: Any) -> bool:
    if isinstance(type_, str):
        return type_.removeprefix("typing.").startswith("ClassVar")
    return type_ is ClassVar or get_origin(type_) is ClassVar


def _explain_misuse(kind: type[AwakenError]) -> str:
    shown = [
        name if isinstance(default, _Positional) else
        f"{name}=" if default is _REQUIRED else
        f"{name}={default!r}"
        for name, default in kind._fields.items()
    ]  # fmt: skip
    return f"{kind.__name__} takes exactly these fields: {', '.join(shown) or 'none'}"
