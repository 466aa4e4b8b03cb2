"""JSON Patch (RFC 6902): applies one operation to a copy of a document."""

from collections.abc import Callable
from typing import Any

from awaken.contracts.errors import UsageError, field

Document = Any
Operation = dict[str, Any]

TOKENS_MAX = 64


class PatchRefused(UsageError):
    """An operation is malformed, or does not fit the document."""

    code = "patch_refused"
    template = "{message}"
    message: str = field(kw_only=False)


def apply_operation(document: Document, operation: Operation) -> Document:
    """Return the document after an operation; unchanged parts are shared with the old one.

    Raises:
        PatchRefused: The operation is malformed, or does not fit the document.
    """
    path = _tokens(operation, "path")
    match operation.get("op"):
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _change_at(document, path, _value(operation), _replace)
        case "move":
            return _move(document, _tokens(operation, "from"), path)
        case "copy":
            return _add(document, path, _find(document, _tokens(operation, "from")))
        case "test":
            if not is_same(_find(document, path), _value(operation)):
                raise PatchRefused(f"test: {operation['path']!r} has another value")
            return document
        case _:
            raise PatchRefused("'op' is none of add, remove, replace, move, copy and test")


def value_at(document: Document, pointer: str) -> Any:
    """The value that a JSON Pointer points to.

    Raises:
        PatchRefused: It is not a pointer, or points to nothing.
    """
    return _find(document, pointer_tokens(pointer))


def is_same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, never equal to true or false."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[it], right[it]) for it in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def pointer_tokens(pointer: str) -> list[str]:
    """The reference tokens of a JSON Pointer (RFC 6901).

    Raises:
        PatchRefused: It is not a pointer.
    """
    if pointer and not pointer.startswith("/"):
        raise PatchRefused("a path is empty or begins with '/'")
    tokens = pointer.split("/")[1:]
    if len(tokens) > TOKENS_MAX:
        raise PatchRefused(f"a path has at most {TOKENS_MAX} parts")
    if any("~" in it.replace("~0", "").replace("~1", "") for it in tokens):
        raise PatchRefused("'~' in a path is written '~0'")
    return [it.replace("~1", "/").replace("~0", "~") for it in tokens]


def _tokens(operation: Operation, member: str) -> list[str]:
    pointer = operation.get(member)
    if not isinstance(pointer, str):
        raise PatchRefused(f"'{member}' is missing")
    return pointer_tokens(pointer)


def _value(operation: Operation) -> Any:
    if "value" not in operation:
        raise PatchRefused("'value' is missing")
    return operation["value"]


def _add(document: Document, path: list[str], value: Any) -> Document:
    return _change_at(document, path, value, _insert)


def _remove(document: Document, path: list[str]) -> Document:
    if not path:
        raise PatchRefused("the whole document cannot be removed")
    return _change_at(document, path, None, _delete)


def _move(document: Document, source: list[str], path: list[str]) -> Document:
    value = _find(document, source)
    if source == path:
        return document
    if path[: len(source)] == source:
        raise PatchRefused("a value cannot be moved into itself")
    return _add(_remove(document, source), path, value)


def _find(document: Document, path: list[str]) -> Any:
    for token in path:
        document = document[_key(document, token)]
    return document


Change = Callable[[Any, str, Any], None]
"""Changes one member of a container in place; the container is a private copy."""


def _change_at(document: Document, path: list[str], value: Any, change: Change) -> Document:
    """Copy the containers along the path, and make the change in the last one."""
    if not path:
        return value
    if not isinstance(document, dict | list):
        raise PatchRefused(f"{path[0]!r} is not there: its parent is neither an object nor a list")
    copied = document.copy()
    if len(path) == 1:
        change(copied, path[0], value)
    else:
        key = _key(document, path[0])
        copied[key] = _change_at(document[key], path[1:], value, change)
    return copied


def _insert(container: Any, token: str, value: Any) -> None:
    if isinstance(container, dict):
        container[token] = value
    elif token == "-":
        container.append(value)
    else:
        container.insert(_index(token, len(container)), value)


def _replace(container: Any, token: str, value: Any) -> None:
    container[_key(container, token)] = value


def _delete(container: Any, token: str, _: Any) -> None:
    del container[_key(container, token)]


def _key(container: Any, token: str) -> Any:
    if isinstance(container, list):
        return _index(token, len(container) - 1)
    if not isinstance(container, dict) or token not in container:
        raise PatchRefused(f"{token[:80]!r} is not there")
    return token


def _index(token: str, last: int) -> int:
    is_number = token.isascii() and token.isdigit() and (token == "0" or token[0] != "0")
    if not is_number or len(token) > len(str(last)) or int(token) > last:
        raise PatchRefused(f"{token[:80]!r} is not an index of a list of this length")
    return int(token)
