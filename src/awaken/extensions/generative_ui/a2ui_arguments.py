"""Reads the messages in a call's arguments as models write them.

Models omit wrappers, send JSON as text, or mix the forms of two versions. Unambiguous mistakes are
corrected; everything else is left unchanged, and validation refuses it.
"""

from typing import Any

import msgspec

from .a2ui_language import Language, Properties

MESSAGES_MAX = 50

Fields = dict[str, Any]


def messages_of(language: Language, arguments: Fields) -> tuple[list[Any], str]:
    """The corrected messages in a call's arguments, and the path of a message as a format."""
    given = _decode_text(arguments.get("messages"))
    if isinstance(given, list):
        return [_normalize(language, message) for message in given], "$.messages[{}]"
    return [_normalize(language, arguments)], "$"


def _normalize(language: Language, message: Any) -> Any:
    message = _decode_text(message)
    if not isinstance(message, dict):
        return message
    own = {name: value for name, value in message.items() if name != "version"}
    named = [name for name in language.messages if name in own]
    if not named:
        named = [name for name in language.messages if _is_body_of(language, name, own)]
        own = {named[0]: own} if len(named) == 1 else own
    elif len(named) == 1:
        own = _gather_body(language.messages[named[0]], named[0], own)
    for name in named:
        if name in own:
            own[name] = _normalize_body(language, own[name])
    version = message.get("version", language.version)
    is_said = version != language.version or not language.is_nested
    return {"version": version, **own} if is_said else own


def _is_body_of(language: Language, name: str, fields: Fields) -> bool:
    table = language.messages[name]
    needed = {it for it in table if not it.endswith("?")}
    # A deletion is never guessed.
    is_clear = name != "deleteSurface" and len(fields) > 1
    return is_clear and needed <= fields.keys() <= {it.rstrip("?") for it in table}


def _gather_body(table: Properties, name: str, fields: Fields) -> Fields:
    """Move fields that were written beside the body of a message into it."""
    beside = [it.rstrip("?") for it in table if it.rstrip("?") in fields]
    body = _decode_text(fields[name])
    if beside and not isinstance(body, dict):
        body = {}
    if isinstance(body, dict):
        body = {**{it: fields[it] for it in beside}, **body}
    rest = {it: value for it, value in fields.items() if it not in beside and it != name}
    return {name: body, **rest}


def _normalize_body(language: Language, body: Any) -> Any:
    body = _decode_text(body)
    if not isinstance(body, dict) or "components" not in body:
        return body
    items = _decode_text(body["components"])
    if isinstance(items, list):
        items = [_normalize_component(language, item) for item in items]
    return {**body, "components": items}


def _normalize_component(language: Language, item: Any) -> Any:
    """A component in the form of its version: older versions nest it, newer ones do not."""
    type_ = item.get("component") if isinstance(item, dict) else None
    if language.is_nested and isinstance(type_, str):
        kept = {name: item[name] for name in ("id", "weight") if name in item}
        properties = {it: value for it, value in item.items() if it not in (*kept, "component")}
        return {**kept, "component": {type_: properties}}
    if not language.is_nested and isinstance(type_, dict) and len(type_) == 1:
        ((name, properties),) = type_.items()
        if isinstance(properties, dict) and not properties.keys() & item.keys():
            return {**item, "component": name, **properties}
    return item


def _decode_text(value: Any) -> Any:
    """Decode JSON that was sent as text; other values are unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value
