"""Estimates how much work a JSON Schema from outside causes, before the work is done.

A validator expands references while it runs, so a schema of one kilobyte can require more steps
than any machine can execute, and native code cannot be interrupted. The count here visits each pair
of a subschema and a value once, however often the validator would visit it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from awaken.contracts.errors import InvalidSpec

NODES_MAX = 10_000
"""How many values a schema may have; a pattern counts as `PATTERN_NODES`."""
STEPS_MAX = 5_000_000
"""How many subschemas may be applied to the parts of one value during a check."""
PATTERN_NODES = 100

_PAIRS_MAX = 50_000
_CHARS_PER_STEP = 256
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SAME_VALUE = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_NAMED = ("dependentSchemas", "dependencies")
_EACH_MEMBER = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_EACH_ITEM = ("items", "additionalItems", "unevaluatedItems", "contains", "prefixItems")
_NAMED = ("properties", "patternProperties")
_REPEATING = ("unevaluatedProperties", "unevaluatedItems")


def count_nodes(document: Any, limit: int) -> int:
    """Count the values of a schema; counting stops above the limit."""
    count, waiting = 0, [document]
    while waiting and count <= limit:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            if "pattern" in value:
                count += PATTERN_NODES
            if isinstance(named := value.get("patternProperties"), dict):
                count += PATTERN_NODES * len(named)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            count += len(value) // _CHARS_PER_STEP
    return count


def count_values(value: Any, limit: float) -> int:
    """Measure the size of a value in steps; counting stops above the limit."""
    count, waiting = 0, [value]
    while waiting and count <= limit:
        it = waiting.pop()
        count += _weight(it)
        if isinstance(it, dict):
            waiting += it.values()
        elif isinstance(it, list | tuple):
            waiting += it
    return count


class SchemaCost:
    """The cost of checking values against one schema.

    Raises:
        InvalidSpec: It is too large, refers to what is not in it, or applies itself to the same
            value without end.
    """

    __slots__ = ("_anchors", "_expanded", "_root")

    def __init__(self, schema: Any, *, what: str) -> None:
        if count_nodes(schema, NODES_MAX) > NODES_MAX:
            raise InvalidSpec(what=what, problem=f"it has more than {NODES_MAX} parts")
        self._root = schema
        self._anchors: dict[str, Any] = {}
        try:
            self._index(what)
            self._expanded = self._expand(schema, {}, [], what)
        except RecursionError as error:
            raise InvalidSpec(what=what, problem="it is nested too deeply") from error

    def estimate_steps(self, value: Any) -> int:
        """An upper bound of the steps of a check; above the limit the number is not exact."""
        if self._expanded is not None:
            rough = self._expanded * count_values(value, STEPS_MAX / self._expanded)
            if rough <= STEPS_MAX:
                return rough
        return self.count_steps(value)

    def count_steps(self, value: Any) -> int:
        """Count the steps of a check; above the limit the number is not exact."""
        return self._count(self._root, value, {})

    def _index(self, what: str) -> None:
        """Index the targets of references, and refuse embedded documents."""
        waiting, seen = [self._root], set()
        while waiting:
            node = waiting.pop()
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            own = node.get("$id")
            if node is not self._root and isinstance(own, str) and not own.startswith("#"):
                raise InvalidSpec(what=what, problem="a part of it has an '$id' of its own")
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(name), str):
                    self._anchors[node[name]] = node
            if isinstance(own, str) and own.startswith("#"):
                self._anchors[own[1:]] = node
            waiting += (sub for sub, _ in _iter_subschemas(node))
            for name in ("$defs", "definitions"):
                if isinstance(node.get(name), dict):
                    waiting += node[name].values()

    def _resolve_references(self, node: dict[str, Any]) -> Iterator[Any]:
        for name in _REFERENCES:
            if isinstance(reference := node.get(name), str):
                yield self._resolve_reference(reference)

    def _resolve_reference(self, reference: str) -> Any:
        own = self._root.get("$id")
        base, _, fragment = reference.partition("#")
        if base and base != (own or "").partition("#")[0]:
            # The target is in another document; the validator refuses it.
            return None
        if not fragment:
            return self._root
        if not fragment.startswith("/"):
            return self._anchors.get(fragment)
        found = self._root
        for part in fragment.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found

    def _expand(
        self, node: Any, known: dict[int, int | None], open_: list[tuple[int, bool]], what: str
    ) -> int | None:
        """Count the subschemas with every reference expanded; None if the expansion is infinite.

        `open_` has the parent nodes, each with whether its child applies to a part of the value.
        """
        if not isinstance(node, dict):
            return 1
        above = [place for place, (it, _) in enumerate(open_) if it == id(node)]
        if above:
            if not any(is_inner for _, is_inner in open_[above[-1] :]):
                problem = "it refers to itself without looking into the value"
                raise InvalidSpec(what=what, problem=problem)
            return None
        if id(node) in known:
            return known[id(node)]
        total: int | None = _own_steps(node)
        subs = [
            *_iter_subschemas(node),
            *((target, False) for target in self._resolve_references(node)),
        ]
        for sub, is_inner in subs:
            more = self._expand(sub, known, [*open_, (id(node), is_inner)], what)
            total = None if more is None or total is None else min(total + more, STEPS_MAX + 1)
        known[id(node)] = total
        return total

    def _count(self, node: Any, value: Any, known: dict[tuple[int, int], int]) -> int:
        if not isinstance(node, dict):
            return 1
        pair = (id(node), id(value))
        found = known.get(pair)
        if found is not None:
            return found
        if len(known) >= _PAIRS_MAX:
            return STEPS_MAX + 1
        known[pair] = 0
        total = _own_steps(node) * _weight(value)
        for sub, part in (
            *_iter_applications(node, value),
            *((it, value) for it in self._resolve_references(node)),
        ):
            total += self._count(sub, part, known)
            if total > STEPS_MAX:
                break
        if any(name in node for name in _REPEATING):
            total *= 2
        known[pair] = total
        return total


def _own_steps(node: dict[str, Any]) -> int:
    """The steps of a subschema itself, without its parts."""
    steps = 1
    if isinstance(listed := node.get("enum"), list):
        steps += len(listed)
    if isinstance(pattern := node.get("pattern"), str):
        steps += len(pattern)
    if isinstance(named := node.get("patternProperties"), dict):
        steps += sum(len(pattern) for pattern in named)
    return steps


def _iter_subschemas(node: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """The subschemas of a schema, and whether each applies to a part of the value."""
    for names, is_inner in ((_SAME_VALUE, False), (_EACH_MEMBER, True), (_EACH_ITEM, True)):
        for name in names:
            sub = node.get(name)
            for it in sub if isinstance(sub, list) else (sub,):
                if isinstance(it, dict):
                    yield it, is_inner
    for name in _SAME_VALUE_LISTS:
        yield from ((it, False) for it in _list_members(node.get(name)))
    for name in _SAME_VALUE_NAMED:
        yield from ((it, False) for it in _list_members(node.get(name)))
    for name in _NAMED:
        yield from ((it, True) for it in _list_members(node.get(name)))


def _iter_applications(node: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of a subschema and the part of the value that it applies to."""
    yield from ((node[name], value) for name in _SAME_VALUE if name in node)
    for name in (*_SAME_VALUE_LISTS, *_SAME_VALUE_NAMED):
        yield from ((it, value) for it in _list_members(node.get(name)))
    if isinstance(value, dict):
        named = node.get("properties")
        named = named if isinstance(named, dict) else {}
        yield from ((sub, value[key]) for key, sub in named.items() if key in value)
        others = node.get("additionalProperties")
        yield from ((others, part) for key, part in value.items() if key not in named)
        everywhere = [*_list_members(node.get("patternProperties"))]
        everywhere += (node[name] for name in _EACH_MEMBER[1:] if name in node)
        yield from ((it, part) for it in everywhere for part in value.values())
    elif isinstance(value, list | tuple):
        for name in _EACH_ITEM:
            sub = node.get(name)
            subs = sub if isinstance(sub, list) else [sub]
            yield from ((it, part) for it in subs if isinstance(it, dict) for part in value)


def _list_members(given: Any) -> Iterable[Any]:
    if isinstance(given, dict):
        return list(given.values())
    return given if isinstance(given, list) else ()


def _weight(value: Any) -> int:
    return 1 + len(value) // _CHARS_PER_STEP if isinstance(value, str) else 1
