"""Numbered migrations of an adapter, and which versions of the code may share a store.

An expand script adds what newer code needs and leaves everything that older code uses: a process
that starts runs it, and processes of the version before go on. A contract script takes away what
only older code used: an operator runs it with `awaken db contract` when no such process is left.
Contract N closes expand N; from then on the store is readable from N.
"""

import re
from importlib.resources import files

from awaken.contracts.errors import StoreTooNew
from awaken.contracts.storage.inspection import SchemaVersions

_NAME = re.compile(r"(\d{4})_\w+\.(expand|contract)\.sql")
VERSION = "schema_version"
READABLE_FROM = "readable_from"
"""The names of the facts; a file of SQLite keeps its version in its header."""


def migrations(package: str) -> list[str]:
    """Return the expand scripts in order: `migrations/0001_first.expand.sql`, `0002_…`.

    Raises:
        ValueError: A file is named otherwise, or a number is missing or there twice.
    """
    scripts = _read_scripts(package, "expand")
    if [number for number, _ in scripts] != list(range(1, len(scripts) + 1)):
        message = f"The migrations of {package} are not numbered 1, 2, 3, …"
        raise ValueError(message)
    return [script for _, script in scripts]


def contracts(package: str) -> dict[int, str]:
    """Return the contract scripts by the number of the expand script that each one closes.

    Raises:
        ValueError: A file is named otherwise.
    """
    return dict(_read_scripts(package, "contract"))


def check_readable(store: str, versions: SchemaVersions) -> None:
    """Refuse a store that needs newer code; one that has only been expanded is readable.

    Raises:
        StoreTooNew: What this version needs was taken away.
    """
    if versions.known < versions.readable_from:
        raise StoreTooNew(
            store=store,
            found=versions.found,
            readable_from=versions.readable_from,
            known=versions.known,
        )


def _read_scripts(package: str, kind: str) -> list[tuple[int, str]]:
    found = []
    for entry in files(package).joinpath("migrations").iterdir():
        if not entry.name.endswith(".sql"):
            continue
        match = _NAME.fullmatch(entry.name)
        if match is None:
            message = f"'{entry.name}' is named neither 0001_name.expand.sql nor ….contract.sql"
            raise ValueError(message)
        if match[2] == kind:
            found.append((int(match[1]), entry.read_text("utf-8")))
    return sorted(found)
