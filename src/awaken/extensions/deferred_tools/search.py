"""The query language of `ToolSearch`."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.tools.tool import ToolDescriptor

from .catalog import DeferredTool

NOTHING_FOUND = "No matching tools found in the deferred tool registry."
SELECTED_MAX = 50
"""How many tools one query may name."""


class Select(Record, frozen=True, kw_only=True):
    """These tools, in this order."""

    tool_ids: tuple[str, ...]


class Keywords(Record, frozen=True, kw_only=True):
    """Tools that contain all required words, and at least one of the words."""

    words: tuple[str, ...]
    """All of them, the required ones too, in lower case."""
    required: tuple[str, ...] = ()


def parse_query(query: str) -> Select | Keywords:
    """Read `select:a,b`, `+required other words` or plain keywords."""
    text = query.strip()
    if text.startswith("select:"):
        named = (part.strip() for part in text.removeprefix("select:").split(","))
        return Select(tool_ids=tuple(dict.fromkeys(part for part in named if part)))
    terms = tuple(dict.fromkeys(text.lower().split()))
    required = tuple(term[1:] for term in terms if term.startswith("+") and len(term) > 1)
    words = (term.removeprefix("+") for term in terms)
    return Keywords(words=tuple(dict.fromkeys(word for word in words if word)), required=required)


def find_tools(
    query: Select | Keywords,
    tools: Mapping[str, DeferredTool],
    hidden: Collection[str],
    limit: int,
) -> tuple[ToolDescriptor, ...]:
    """The tools that a query names or matches, best first; equal scores are ordered by id.

    Tools that are hidden from the model are not found.
    """
    seen = {tool_id: tool for tool_id, tool in tools.items() if tool_id not in hidden}
    if isinstance(query, Select):
        named = (seen[tool_id] for tool_id in query.tool_ids[:SELECTED_MAX] if tool_id in seen)
        return tuple(tool.descriptor for tool in named)
    scored = [(_score(tool.words, query), tool_id) for tool_id, tool in seen.items()]
    best = sorted((-score, tool_id) for score, tool_id in scored if score)
    return tuple(seen[tool_id].descriptor for _, tool_id in best[:limit])


def format_tools(tools: Iterable[ToolDescriptor]) -> str:
    """The definitions of the tools as the model reads them."""
    lines = [f"<function>{_definition(tool)}</function>" for tool in tools]
    return "\n".join(["<functions>", *lines, "</functions>"]) if lines else NOTHING_FOUND


def _score(words: str, query: Keywords) -> int:
    if not all(word in words for word in query.required):
        return 0
    return sum(word in words for word in query.words)


def _definition(tool: ToolDescriptor) -> str:
    definition = {
        "description": tool.description,
        "name": tool.id,
        "parameters": tool.parameters,
    }
    return msgspec.json.encode(definition).decode()
