"""Which tree is measured: its version, and the one before that is measured beside it.

Standard library only: the worker imports this file inside every peer's environment.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ("src/awaken", "bench", "tests/architecture/turn_cost.py")
"""What decides about the figures: the package, and what measures it."""


def find_tests() -> None:
    """Let `tests` be imported: Python finds what is beside a command, not the folder above it."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))


@dataclass(frozen=True, slots=True)
class Version:
    """What results are of. Two results may stand on one page when their `source` is the same."""

    awaken: str
    commit: str
    is_dirty: bool
    source: str
    """A digest of the measured files, so that uncommitted changes make another version."""

    @classmethod
    def of(cls, tree: Path) -> Version:
        """The version of a checkout."""
        init = (tree / "pyproject.toml").read_text(encoding="utf-8")
        package = (tree / "src" / "awaken" / "__init__.py").read_text(encoding="utf-8")
        found = re.search(r'^(?:__version__|version) = "([^"]+)"', f"{init}\n{package}", re.M)
        return cls(
            found[1] if found else "?",
            _git(tree, "rev-parse", "--short", "HEAD") or "no commit",
            bool(_git(tree, "status", "--porcelain", "--", *MEASURED)),
            _digest(tree),
        )

    @property
    def name(self) -> str:
        """How a page names it."""
        return f"{self.commit}{' with uncommitted changes' if self.is_dirty else ''}"

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def _git(tree: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", tree, *arguments], capture_output=True, text=True)
    return done.stdout.strip()


def _digest(tree: Path) -> str:
    digest = hashlib.sha256()
    for place in MEASURED:
        root = tree / place
        for file in sorted([root] if root.is_file() else root.rglob("*.py")):
            if file.name.startswith("page"):  # makes tables of figures
                continue
            digest.update(str(file.relative_to(tree)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def this() -> Version:
    """The version of this checkout, as it was when first asked."""
    return Version.of(ROOT)


def before() -> Path | None:
    """The checkout of the version before, from the variable `BEFORE`; None: none is measured."""
    given = os.environ.get("BEFORE")
    if not given:
        return None
    tree = Path(given).resolve()
    if not (tree / "src" / "awaken").is_dir():
        raise SystemExit(f"BEFORE={given}: that is no checkout of awaken")
    return tree


def path_of(tree: Path, *more: str | Path) -> str:
    """The PYTHONPATH with which a process imports awaken from a tree."""
    return os.pathsep.join(map(str, (tree / "src", tree, *more)))
