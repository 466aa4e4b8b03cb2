"""Collects what is wrong with a body, with the paths of its HTTP form; repeats no value."""

import re
from collections.abc import Mapping
from typing import NoReturn

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.errors import InvalidConfig

_PLACE = re.compile(r"(?P<text>.*) - at `\$(?P<place>.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


class Problems:
    """The problems of one record; `names` gives HTTP names for stored paths that differ."""

    def __init__(self, record: str, names: Mapping[str, str]) -> None:
        self._record = record
        self._names = names
        self.found: list[ConfigProblem] = []

    def add(self, path: str, code: str, message: str, known: tuple[str, ...] = ()) -> None:
        """Note a problem; an empty path is the whole record."""
        shown = next(
            (
                f"{name}{path[len(stored) :]}"
                for stored, name in self._names.items()
                if path == stored or path.startswith(f"{stored}/")
            ),
            path,
        )
        where = f"{self._record}/{shown}" if shown else self._record
        self.found.append(ConfigProblem(path=where, code=code, message=message, known=known))

    def add_refusal(self, above: str, error: Exception) -> None:
        """Note why a value was refused; the place in the message becomes part of the path."""
        text, path = str(error), above
        if (found := _PLACE.fullmatch(text)) is not None:
            text = found["text"]
            steps = (it[1] or it[2].replace("...", "*") for it in _STEP.finditer(found["place"]))
            path = "/".join((*([above] if above else ()), *steps))
        self.add(path, "invalid", f"{text.rstrip('.')}.")

    def raise_if_any(self) -> None:
        """Raise InvalidConfig with all problems, if there is one."""
        if self.found:
            self.raise_all()

    def raise_all(self) -> NoReturn:
        """Raise InvalidConfig with all problems."""
        raise InvalidConfig(problems=tuple(self.found))
