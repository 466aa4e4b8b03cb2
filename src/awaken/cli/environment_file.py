"""Reads `.env` in the current folder: variables for `awaken` commands, never for the library.

A variable that the environment has already keeps its value. No value is ever printed.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from awaken.contracts.errors import InvalidInput

VARIABLE = "AWAKEN_ENV_FILE"
"""Names another file; empty: none is read."""
DEFAULT_FILE = ".env"
BYTES_MAX = 256 * 1024

_ENTRY = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?:
        (?:"(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>[^']*)') [ \t]*(?:\#[^\n]*)?
        | (?P<bare>[^"'\n][^\n]*)?
    )
    (?:\n|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_NOTHING = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_loaded: set[str] = set()


def load_environment_file() -> None:
    """Add the variables of the file to the environment of this process.

    Raises:
        InvalidInput: The file is malformed, too large, or cannot be read; nothing was added.
    """
    path = environment_file()
    if path is None:
        return
    found = read_environment_file(path)
    for name, value in found.items():
        if name not in os.environ:
            os.environ[name] = value
            _loaded.add(name)


def list_loaded() -> frozenset[str]:
    """The names of the variables that came from the file."""
    return frozenset(_loaded)


def forget_loaded() -> None:
    """Remove what came from the file, so that a process that follows reads it again."""
    for name in _loaded:
        os.environ.pop(name, None)
    _loaded.clear()


def environment_file() -> Path | None:
    """The file that is read; None if there is none, or if it is switched off.

    Raises:
        InvalidInput: The variable names a file that does not exist.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None
    if not named.strip():
        return None
    if not Path(named).is_file():
        raise InvalidInput(what=VARIABLE, problem=f"'{named}' is not a file")
    return Path(named)


def read_environment_file(path: Path) -> Mapping[str, str]:
    """Read the variables of a file; the last line of a name counts.

    `NAME=value`, also with `export`, with quotes of either kind, and with comments. A value in
    double quotes may have several lines and escapes for them. Nothing is expanded.

    Raises:
        InvalidInput: A line is malformed; the message has its number and none of its text.
    """
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        problem = "it is not UTF-8" if isinstance(error, ValueError) else error.strerror
        raise InvalidInput(what=f"'{path}'", problem=f"it cannot be read: {problem}") from None
    if len(content) > BYTES_MAX:
        raise InvalidInput(what=f"'{path}'", problem=f"it is larger than {BYTES_MAX} bytes")
    if "\0" in text:
        raise InvalidInput(what=f"'{path}'", problem="it has a NUL character")
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        if nothing := _NOTHING.match(text, place):
            place = nothing.end()
            continue
        entry = _ENTRY.match(text, place)
        if entry is None:
            line = text.count("\n", 0, place) + 1
            problem = "write NAME=value; quote a value that has quotes or line breaks"
            raise InvalidInput(what=f"'{path}', line {line}", problem=problem)
        found[entry["name"]] = _value_of(entry)
        place = entry.end()
    return found


def _value_of(entry: re.Match[str]) -> str:
    if entry["double"] is not None:
        return re.sub(r"\\(.)", _unescape, entry["double"], flags=re.DOTALL)
    if entry["single"] is not None:
        return entry["single"]
    return _COMMENT.sub("", entry["bare"] or "").strip()


def _unescape(found: re.Match[str]) -> str:
    mark = found[1]
    return _ESCAPES.get(mark, mark if mark in "\"\\$'" else found[0])
