"""The context of a run: its declared type, and what functions of an agent get of the run."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from awaken.contracts.errors import InvalidContext, InvalidSpec
from awaken.contracts.identity import RunIdentity
from awaken.contracts.record import ContextT, DepsT
from awaken.contracts.specs.agents import AgentSpec

from .functions import is_interruption
from .pydantic_models import build_decoder
from .refusals import describe_refusal
from .schema import Schema, schema_of

FIELD_LISTS = ("__struct_fields__", "__dataclass_fields__", "model_fields")
"""Where the types of contexts keep the names of their fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Generic[DepsT, ContextT]):
    """What a function of an agent, such as its instructions, may read of a run."""

    run: RunIdentity
    agent: AgentSpec
    context: ContextT
    """The context of the run, in the agent's context type. It is what the caller claims."""
    deps: DepsT
    """The dependencies of the runtime."""

    if not TYPE_CHECKING:
        # Accepts `RunContext[Deps]` as well: the second variable has a default.
        __class_getitem__ = classmethod(GenericAlias)


class ContextType:
    """The context type of an agent, compiled once.

    Raises:
        InvalidSpec: The type has no JSON form, or its JSON form is not an object.
    """

    __slots__ = ("_decoder", "name", "schema")

    schema: Schema

    def __init__(self, type_: Any) -> None:
        self.name: str = type_.__name__ if isinstance(type_, type) else str(type_)
        what = f"context type '{self.name}'"
        self.schema = schema_of(type_, what=what)
        if self.schema.get("type") != "object":
            problem = "a context is a JSON object: use a dataclass, a Struct or a pydantic model"
            raise InvalidSpec(what=what, problem=problem)
        self._decoder = build_decoder(type_)

    def decode(self, agent_id: str, context: dict[str, Any] | None) -> Any:
        """Return the typed value of a context; an absent context is an empty one.

        Raises:
            InvalidContext: It does not fit; the message names the field and no value.
        """
        try:
            # Through JSON: the value shares nothing with the stored context.
            return self._decoder.decode(msgspec.json.encode(context or {}))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise InvalidContext(agent_id=agent_id, problem=describe_refusal(error)) from error
        except BaseException as error:
            if is_interruption(error):
                raise
            # Code of the type itself, such as `__post_init__`; its text may have the value.
            problem = f"'{self.name}' raised {type(error).__name__}"
            raise InvalidContext(agent_id=agent_id, problem=problem) from error


def decode_context(kind: ContextType | None, agent_id: str, context: dict[str, Any] | None) -> Any:
    """Return a run's context as its agent sees it; without a context type, a JSON object.

    Raises:
        InvalidContext: It does not fit the agent's context type.
    """
    if kind is not None:
        return kind.decode(agent_id, context)
    return {} if context is None else msgspec.json.decode(msgspec.json.encode(context))


def find_context_problem(given: Any, tools: Iterable[Any]) -> str | None:
    """Return which tool of an agent reads a context that its context type does not give, or None.

    Args:
        given: The agent's context type.
        tools: Tools with a `context_type`: what the context of their function is annotated with.
    """
    for tool in tools:
        wanted = tool.context_type
        is_class = isinstance(wanted, type) and any(hasattr(wanted, it) for it in FIELD_LISTS)
        if is_class and not (isinstance(given, type) and issubclass(given, wanted)):
            name = wanted.__name__
            reader = f"tool '{tool.descriptor.id}' reads a context of type {name}"
            return f"{reader}; give the agent context_type={name}"
    return None
