"""The target of a call: the relation that the model names, checked."""

from collections.abc import Collection
from typing import Any

from awaken.authoring.refusals import truncate_text
from awaken.contracts.record import Record
from awaken.contracts.tools.tool import InvalidArguments


class Own(Record, frozen=True, kw_only=True):
    """The run that calls."""


class Parent(Record, frozen=True, kw_only=True):
    """The agent that started the run that calls."""


class Child(Record, frozen=True, kw_only=True):
    """A background task of the calling thread."""

    name: str
    """Its name or its id."""


class MessagePeer(Record, frozen=True, kw_only=True):
    """The agent of another thread."""

    thread_id: str
    agent_id: str | None = None


Target = Own | Parent | Child | MessagePeer


def target_of(arguments: Any, field: str, relations: Collection[str]) -> Target:
    """Read the target in one field of a call's arguments.

    Raises:
        InvalidArguments: The target is missing, incomplete, or of another relation.
    """
    if not isinstance(arguments, dict) or field not in arguments:
        raise InvalidArguments(f"missing '{field}'")
    target = arguments[field]
    relation = target.get("relation") if isinstance(target, dict) else None
    if not isinstance(relation, str):
        raise InvalidArguments(f"missing '{field}.relation'")
    if relation not in relations:
        raise InvalidArguments(truncate_text(f"unknown relation '{relation}'"))
    match relation:
        case "child":
            return Child(name=_require_field(target, relation, "name"))
        case "agent":
            agent_id = target.get("agent_id")
            return MessagePeer(
                thread_id=_require_field(target, relation, "thread_id"),
                agent_id=agent_id if isinstance(agent_id, str) and agent_id else None,
            )
        case "parent":
            return Parent()
        case _:
            return Own()


def relation_schema(relation: str, optional: Collection[str] = (), **fields: Any) -> dict[str, Any]:
    """The JSON Schema of a target of one relation with these further fields."""
    return {
        "type": "object",
        "properties": {"relation": {"const": relation}, **fields},
        "required": ["relation", *(name for name in fields if name not in optional)],
    }


def _require_field(target: dict[str, Any], relation: str, name: str) -> str:
    value = target.get(name)
    if not isinstance(value, str):
        raise InvalidArguments(f"{relation} requires '{name}'")
    return value
