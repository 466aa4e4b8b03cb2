"""Parses the docstring of a function into a description and its parameters.

Supports the Google, NumPy and Sphinx styles; other sections stay part of the description.
"""

import inspect
import re
from typing import NamedTuple

_GOOGLE_HEADERS = frozenset(["Args:", "Arguments:", "Params:", "Parameters:", "Keyword Args:"])
_NUMPY_HEADERS = frozenset(["Parameters", "Other Parameters"])
_UNDERLINE = re.compile(r"-{3,}\s*$")
_GOOGLE_ENTRY = re.compile(r"(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_NUMPY_ENTRY = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_SPHINX_ENTRY = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$")
_SPHINX_TYPE = re.compile(r":type\s+\w+\s*:")


class Documentation(NamedTuple):
    """A parsed docstring."""

    description: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None) -> Documentation:
    """Split a docstring into its description and the texts of its parameters."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        if line in _GOOGLE_HEADERS:
            at, block = _read_indented_block(lines, at + 1)
            parameters |= _parse_entries(block, _GOOGLE_ENTRY)
        elif line in _NUMPY_HEADERS and _is_underlined(lines, at):
            at, block = _read_numpy_block(lines, at + 2)
            parameters |= _parse_entries(block, _NUMPY_ENTRY)
        elif _SPHINX_ENTRY.match(line) or _SPHINX_TYPE.match(line):
            at, block = _read_indented_block(lines, at + 1)
            parameters |= _parse_entries([line, *(f" {text}" for text in block)], _SPHINX_ENTRY)
        else:
            kept.append(line)
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Documentation(description, parameters)


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1]) is not None


def _read_indented_block(lines: list[str], start: int) -> tuple[int, list[str]]:
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end][0] == " "):
        end += 1
    return end, inspect.cleandoc("\n" + "\n".join(lines[start:end])).splitlines()


def _read_numpy_block(lines: list[str], start: int) -> tuple[int, list[str]]:
    end = start
    while end < len(lines) and not _is_underlined(lines, end):
        end += 1
    return end, lines[start:end]


def _parse_entries(block: list[str], entry: re.Pattern[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in block:
        match = entry.match(line) if line[:1].strip() else None
        if match is not None:
            names = [name.strip() for name in match[1].split(",")]
            first = match[2] if entry.groups > 1 else None
            found.update({name: [first or ""] for name in names})
        elif names:
            for name in names:
                found[name].append(line.strip())
    return {name: text for name, parts in found.items() if (text := " ".join(parts).strip())}
