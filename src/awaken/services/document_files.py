"""Files with JSON or YAML: read with limits, refused by name and place, written canonically."""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

from awaken.contracts.errors import InvalidSpec

FILE_BYTES_MAX = 4 * 1024 * 1024
VALUES_MAX = 500_000
"""How many values a document may have after its aliases are replaced by what they name."""
_WIDTH = 100
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SPECIAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML keeps only as escapes."""
_LOOSE = re.compile(" \n| $|^[ \n]")
"""Spaces at the edges of lines, which a block does not keep or show."""


def read_bytes(path: Path, name: str) -> bytes:
    """Read a file whose name in errors is `name`.

    Raises:
        InvalidSpec: It cannot be read, or is too large.
    """
    try:
        with path.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise invalid_file(name, error.strerror or type(error).__name__) from error
    if len(data) > FILE_BYTES_MAX:
        raise invalid_file(name, f"it is larger than {FILE_BYTES_MAX} bytes")
    return data


def decode_document(data: bytes, name: str) -> Any:
    """Decode a document; JSON if its name ends with `.json`, else YAML.

    Raises:
        InvalidSpec: It is neither, or too large; repeats no value.
    """
    if len(data) > FILE_BYTES_MAX:
        raise invalid_file(name, f"it is larger than {FILE_BYTES_MAX} bytes")
    is_json = name.lower().endswith(".json")
    try:
        document = msgspec.json.decode(data) if is_json else msgspec.yaml.decode(data)
        if not is_json:
            _check_keys(yaml.compose(data, _LOADER), name)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise invalid_file(name, explain_refusal(error)) from error
    _check_values(document, name)
    return document


def _check_keys(root: Any, name: str) -> None:
    """Refuse a mapping that has a key twice: the decoder keeps the last one and drops the others.

    Raises:
        InvalidSpec: There is one; names the key and its line.
    """
    todo, seen = [root], set[int]()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        # An alias is the same node again.
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, str]] = set()
            for key, value in node.value:
                todo += (key, value)
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if (key.tag, key.value) in keys:
                    line = key.start_mark.line + 1
                    raise invalid_file(
                        name, f"the key '{key.value:.80}' is there twice (line {line})"
                    )
                keys.add((key.tag, key.value))


def format_document(document: dict[str, Any]) -> str:
    """Return a document as canonical YAML: sorted keys, texts of several lines as blocks."""
    text: str = yaml.dump(
        document, Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=_WIDTH
    )
    return text


def explain_refusal(error: Exception) -> str:
    """Say why a document was refused, on one line and without the document's text."""
    cause: Any = error.__context__
    mark = getattr(cause, "problem_mark", None)
    if mark is None:
        return str(error)
    return f"{cause.problem} (line {mark.line + 1}, column {mark.column + 1})"


def invalid_file(name: str, problem: str) -> InvalidSpec:
    """The error about a file."""
    return InvalidSpec(what=f"File '{name}'", problem=problem)


def _check_values(document: Any, name: str) -> None:
    """Refuse a document that is endless, or far larger than its file, because of aliases."""
    unseen, count = [document], 0
    while unseen:
        value = unseen.pop()
        count += 1
        if isinstance(value, dict):
            unseen.extend(value.values())
        elif isinstance(value, list):
            unseen.extend(value)
        if count + len(unseen) > VALUES_MAX:
            raise invalid_file(name, f"it has more than {VALUES_MAX} values, or contains itself")


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes no aliases, and texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if _SPECIAL.search(text) is not None:
        style = '"'
    elif "\n" in text and _LOOSE.search(text) is None:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
