"""Results of sections as files: what was measured of each row, and of which version.

A section is a folder entry `results/page/NAME.json` (`results/quick/` for short runs). A figure is
the list of its values, one for each round; tables show the median and how far the rounds differ.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trees
from frameworks import RESULTS
from stats import digits

Values = list[float]
Rows = dict[str, dict[str, Values]]
"""Row, figure, one value for each round."""


class MixedVersions(Exception):
    """Results that must not stand on one page, and why."""


def middle(values: Values) -> float:
    """The median; of an even number the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def spread(values: Values) -> float:
    """Half of what the rounds differ by, as a part of the median."""
    return (max(values) - min(values)) / 2 / abs(middle(values)) if middle(values) else 0.0


def shown(values: Values | None, form: str = "") -> str:
    """The median and the spread, or a dash; a figure of one round has no spread."""
    if not values:
        return "-"
    form = form or (",.0f" if all(value == int(value) for value in values) else "")
    text = format(middle(values), form) if form else digits(middle(values))
    if len(values) < 2 or max(values) == min(values):
        return text
    return f"{text} ±{spread(values):.0%}"


@dataclass(slots=True)
class Section:
    """What one section found."""

    name: str
    rows: Rows = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    """Packages of each peer, with their versions."""
    notes: dict[str, str] = field(default_factory=dict)
    """Of a row: how it stores, for one."""
    skipped: dict[str, str] = field(default_factory=dict)
    took: float = 0.0

    def add(self, row: str, figures: dict[str, float | Values]) -> None:
        """Append what a round found of a row."""
        mine = self.rows.setdefault(row, {})
        for name, value in figures.items():
            mine.setdefault(name, []).extend(value if isinstance(value, list) else [value])

    def title(self, row: str) -> str:
        """The shown name of a row."""
        return self.titles.get(row, row)


@dataclass(frozen=True, slots=True)
class Run:
    """Everything a page is made of: sections of one version."""

    version: trees.Version
    before: trees.Version | None
    python: str
    when: str
    cores: int
    is_quick: bool
    sections: dict[str, Section]

    def values(self, section: str, row: str, figure: str) -> Values | None:
        """A figure, or None when it was not measured."""
        found = self.sections.get(section)
        return found.rows.get(row, {}).get(figure) if found else None


def folder(*, is_quick: bool) -> Path:
    """Where results of full, or of short, runs are."""
    return RESULTS / ("quick" if is_quick else "page")


def save(section: Section, *, is_quick: bool) -> Path:
    """Write the file of a section, with the version that it is of.

    Raises:
        MixedVersions: The tree has changed since the measurement began.
    """
    if trees.Version.of(trees.ROOT).source != trees.this().source:
        raise MixedVersions(f"the tree has changed while {section.name} was measured")
    other = trees.before()
    document = {
        "section": {name: getattr(section, name) for name in Section.__dataclass_fields__},
        "version": trees.this().encode(),
        "before": trees.Version.of(other).encode() if other else None,
        "python": platform.python_version(),
        "when": time.strftime("%F %H:%M"),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "is_quick": is_quick,
    }
    target = folder(is_quick=is_quick) / f"{section.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1))
    return target


def load(names: Iterable[str], *, is_quick: bool = False, place: Path | None = None) -> Run:
    """Read the results of these sections; those without a file are left out.

    Raises:
        MixedVersions: They are of different versions, Pythons or machines, or there are none.
    """
    documents = dict(_read(names, place or folder(is_quick=is_quick)))
    if not documents:
        raise MixedVersions("there are no results; measure first")
    for key in ("version", "before", "python", "cores", "is_quick"):
        found: dict[str, list[str]] = {}
        for name, document in documents.items():
            value = document[key]
            # The commit may be another when only the docs have changed.
            what = f"source {value['source']}" if isinstance(value, dict) else str(value)
            found.setdefault(what, []).append(name)
        if len(found) > 1:
            told = "; ".join(f"{what}: {', '.join(those)}" for what, those in found.items())
            raise MixedVersions(f"the sections differ in {key}: {told}. Measure the older again.")
    sections = {name: Section(**it["section"]) for name, it in documents.items()}
    # A section that asks no worker for its name takes it from the others.
    titles = {row: title for it in sections.values() for row, title in it.titles.items()}
    for section in sections.values():
        section.titles = titles | section.titles
    newest = max(documents.values(), key=lambda it: it["when"])
    other = newest["before"]
    return Run(
        version=trees.Version(**newest["version"]),
        before=trees.Version(**other) if other else None,
        python=newest["python"],
        when=newest["when"],
        cores=newest["cores"],
        is_quick=newest["is_quick"],
        sections=sections,
    )


def _read(names: Iterable[str], place: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in names:
        file = place / f"{name}.json"
        if file.exists():
            yield name, json.loads(file.read_text())
