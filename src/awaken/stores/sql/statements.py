"""Named statements from files of this folder."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from .listed_rows import make_statements

_FILES = ("statements.sql", "config.sql", "schedules.sql")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def _texts() -> Mapping[str, str]:
    folder = files(__package__)
    return _split("\n".join(folder.joinpath(name).read_text("utf-8") for name in _FILES))


def _split(source: str) -> dict[str, str]:
    _, *parts = _NAME.split(source)
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def read_statements(file: str, **words: str) -> dict[str, str]:
    """Return the statements of one file of this folder, which few programs need."""
    texts = _split(files(__package__).joinpath(file).read_text("utf-8"))
    return {name: text.format(**words).strip() for name, text in texts.items()}


def statements(*, has_hints: bool = False, **words: str) -> dict[str, str]:
    """Return every statement by its name, with the database's own keywords filled in.

    `has_hints` says whether a statement can name the index that it uses.
    """
    texts = {name: text.format(**words).strip() for name, text in _texts().items()}
    return texts | make_statements(has_hints=has_hints)
