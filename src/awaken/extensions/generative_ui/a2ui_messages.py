"""Validates A2UI messages and components; each problem names the place and the correction."""

import re
from collections.abc import Iterator
from typing import Any

from awaken.contracts.record import Record

from .a2ui_language import Language, Properties, schema_of

COMPONENTS_MAX = 300
"""How many components one message, and one surface, may have."""
DEPTH_MAX = 50

Fields = dict[str, Any]

_RESERVED = re.compile(r"@(?!@|path$|call$)")


class Component(Record, frozen=True, kw_only=True):
    """One component of a message, in a form that is the same for every version."""

    id: str
    type: str
    properties: Fields
    path: str
    """Where its properties are in the arguments."""
    catalog_id: str | None = None
    """The catalog that the component names."""


def message_problems(language: Language, message: Any, path: str) -> Iterator[str]:
    """The problems of the form of one message."""
    known = ", ".join(language.messages)
    if not isinstance(message, dict):
        yield f"{path}: a message is an object with one of {known}"
        return
    names = [name for name in message if name != "version"]
    if len(names) != 1 or names[0] not in language.messages:
        shown = ", ".join(map(repr, names))[:200] or "nothing"
        yield f"{path}: give exactly one of {known}; found {shown}"
        return
    if message.get("version", language.version) != language.version:
        yield f"{path}.version: it must be {language.version!r}"
    body, place = message[names[0]], f"{path}.{names[0]}"
    yield from _fields_problems(language, names[0], language.messages[names[0]], body, place)


def component_problems(language: Language, component: Component) -> Iterator[str]:
    """The problems of a component's properties, for the language's own catalog."""
    table = language.components.get(component.type)
    if table is None:
        known = ", ".join(language.components)
        yield f"{component.path}: there is no component {component.type[:80]!r}; use one of {known}"
        return
    properties = component.properties
    yield from _fields_problems(language, component.type, table, properties, component.path)
    yield from _call_problems(language, properties, component.path)


def components_of(language: Language, body: Any, path: str) -> tuple[list[Component], list[str]]:
    """The components of a message, and the problems of their form."""
    given = body.get("components") if isinstance(body, dict) else None
    if given is None:
        return [], []
    place = f"{path}.components"
    if not isinstance(given, list) or not 1 <= len(given) <= COMPONENTS_MAX:
        return [], [f"{place}: give a list of 1 to {COMPONENTS_MAX} components"]
    found: list[Component] = []
    problems: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(given):
        at = f"{place}[{index}]"
        wrong = list(_envelope_problems(language, item, at))
        problems += wrong
        if not wrong:
            component = _component(language, item, at)
            if component.id in seen:
                problems.append(f"{at}.id: {component.id!r} is given twice in one message")
            seen.add(component.id)
            found.append(component)
    return found, problems


def references_of(component: Component, kinds: Properties) -> tuple[str, ...]:
    """The ids of the components that a component has as its children."""
    found: list[Any] = []
    for name, kind in kinds.items():
        value = component.properties.get(name.rstrip("?"))
        if kind == "child":
            found.append(value)
        elif kind == "tabs" and isinstance(value, list):
            found += [tab.get("child") for tab in value if isinstance(tab, dict)]
        elif kind == "children":
            found += _children(value)
    return tuple(dict.fromkeys(it for it in found if isinstance(it, str)))


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        template = value.get("template", value)
        made = template.get("componentId") if isinstance(template, dict) else None
        value = [*_children(value.get("explicitList")), made]
    return value if isinstance(value, list) else []


def _fields_problems(
    language: Language, owner: str, table: Properties, value: Any, path: str
) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: it must be an object with {', '.join(table)}"
        return
    kinds = {name.rstrip("?"): kind for name, kind in table.items()}
    for name in value:
        if name not in kinds:
            yield f"{path}.{name[:80]}: {owner} has no such property; it takes {', '.join(table)}"
    for name, kind in kinds.items():
        if name in value:
            yield from _value_problems(language, kind, value[name], f"{path}.{name}")
        elif f"{name}?" not in table:
            yield f"{path}: {owner} needs {name!r}, {language.describe_kind(kind)}"


def _value_problems(language: Language, kind: str, value: Any, path: str) -> Iterator[str]:
    for violation in schema_of(language.version, kind).violations(value)[:1]:
        _, is_inner, inner = violation.partition(" - at `$")
        place = f" (see {path}{inner.rstrip('`')})" if is_inner else ""
        yield f"{path}: it must be {language.describe_kind(kind)}{place}"


def _envelope_problems(language: Language, item: Any, path: str) -> Iterator[str]:
    table = language.envelope
    given = item
    if isinstance(item, dict) and not language.is_nested:
        given = {name: value for name, value in item.items() if {name, f"{name}?"} & table.keys()}
    yield from _fields_problems(language, "a component", table, given, path)
    wrapped = item.get("component") if isinstance(item, dict) else None
    if language.is_nested and isinstance(wrapped, dict):
        is_one = len(wrapped) == 1 and all(isinstance(it, dict) for it in wrapped.values())
        if not is_one:
            yield f"{path}.component: give one type with its properties, like {{Text: {{…}}}}"


def _component(language: Language, item: Fields, path: str) -> Component:
    if language.is_nested:
        ((type_, properties),) = item["component"].items()
        at = f"{path}.component.{type_}"
        return Component(id=item["id"], type=type_, properties=properties, path=at)
    common = {name.rstrip("?") for name in language.envelope}
    properties = {name: value for name, value in item.items() if name not in common}
    named = item.get("catalogId")
    type_ = item["component"]
    return Component(id=item["id"], type=type_, properties=properties, path=path, catalog_id=named)


def _call_problems(language: Language, value: Any, path: str, depth: int = 0) -> Iterator[str]:
    """The problems of function calls inside a value."""
    if depth > DEPTH_MAX:
        yield f"{path}: it is nested more than {DEPTH_MAX} levels deep"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _call_problems(language, item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        if language.functions and isinstance(called := value.get(f"{language.mark}call"), str):
            yield from _function_problems(language, called, value.get("args") or {}, path)
        for name, item in value.items():
            if language.mark and _RESERVED.match(name):
                yield f"{path}.{name[:80]}: names that begin with @ are reserved"
            yield from _call_problems(language, item, f"{path}.{name[:80]}", depth + 1)


def _function_problems(language: Language, called: str, args: Any, path: str) -> Iterator[str]:
    table = language.functions.get(called)
    if not isinstance(args, dict):
        return  # The check of the value's kind reports it.
    if table is None:
        known = ", ".join(language.functions)
        yield f"{path}: there is no function {called[:80]!r}; use one of {known}"
        return
    yield from _fields_problems(language, called, table, args, f"{path}.args")
    if {"min?", "max?"} <= table.keys() and not {"min", "max"} & set(args):
        yield f"{path}.args: {called} needs 'min' or 'max'"
