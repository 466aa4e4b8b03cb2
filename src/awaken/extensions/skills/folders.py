"""Skills in folders: one directory per skill, read again when its SKILL.md has changed.

The operator chooses the root, but its content is not trusted to point elsewhere: neither a skill's
directory nor its document may be a symlink.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from awaken.contracts.clock import Clock, SystemClock
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import Record
from awaken.contracts.specs.skills import Skill

from .documents import parse_skill
from .grants import pattern_problems
from .problems import InvalidSkill, printable_name
from .static_skills import LocalSkills

MAX_DOCUMENT_BYTES = 262_144
MAX_SKILLS = 2_000
SETTLED_MS = 100
"""How coarse file timestamps may be."""
DOCUMENTS = ("SKILL.md", "skill.md")

Stamp = tuple[str, int, int, int]
"""The name, time, size and inode of a document: at least one changes with its content."""


class LoadedSkill(Record, frozen=True, kw_only=True):
    """The result of the last reading of a directory."""

    stamp: Stamp | None
    skill: Skill | None
    """The last valid version, if there was one."""
    problem: str | None = None


class FolderSkills(LocalSkills):
    """The skills of one root; `scan` reads changes and keeps the last valid version of a skill.

    Raises:
        InvalidSpec: The root is not a directory.
    """

    def __init__(self, root: str | os.PathLike[str], clock: Clock | None = None) -> None:
        super().__init__(str(root), ())
        self._clock = clock or SystemClock()
        self._root = Path(root).resolve()
        self._loaded: dict[str, LoadedSkill] = {}
        self._directories: Mapping[str, Path] = {}
        self.problems: tuple[str, ...] = ()
        if not self._root.is_dir():
            raise InvalidSpec(what=f"skill folder '{self.name}'", problem="it is not a directory")
        self.scan()

    def directory(self, name: str) -> Path | None:
        """The directory of a skill of the last scan; None if it was removed."""
        return self._directories.get(name)

    def scan(self) -> bool:
        """Read changed documents; return whether any changed. Unchanged stamps are not read."""
        try:
            stamps = _stamps(self._root)
        except OSError as error:
            self.problems = (f"{self.name}: cannot be read ({error.strerror}); nothing changed",)
            return False
        loaded = {name: self._load_directory(name, stamp) for name, stamp in stamps.items()}
        self.problems = tuple(it.problem for it in loaded.values() if it.problem is not None)
        is_changed = loaded != self._loaded
        if is_changed:
            skills = {name: it.skill for name, it in loaded.items() if it.skill is not None}
            self._loaded = loaded
            self._directories = {it.name: self._root / name for name, it in skills.items()}
            self._skills = tuple(skills.values())
        return is_changed

    def _load_directory(self, directory: str, stamp: Stamp | str) -> LoadedSkill:
        known = self._loaded.get(directory) or LoadedSkill(stamp=None, skill=None)
        if isinstance(stamp, str):
            problem = f"{printable_name(directory)}: {stamp}"
            return LoadedSkill(stamp=None, skill=known.skill, problem=problem)
        if known.stamp == stamp:
            return known
        try:
            skill = parse_skill(_read_document(self._root / directory / stamp[0]), directory)
        except (OSError, InvalidSkill, UnicodeDecodeError) as error:
            seen = None if isinstance(error, OSError) else self._stamp_if_settled(stamp)
            return LoadedSkill(
                stamp=seen, skill=known.skill, problem=_describe_error(directory, error)
            )
        problem = "; ".join(pattern_problems(skill))
        return LoadedSkill(
            stamp=self._stamp_if_settled(stamp), skill=skill, problem=problem or None
        )

    def _stamp_if_settled(self, stamp: Stamp) -> Stamp | None:
        """The stamp, or None if a further change could leave it the same."""
        age_ms = self._clock.now_ms() - stamp[1] // 1_000_000
        return stamp if age_ms >= SETTLED_MS else None


def _stamps(root: Path) -> dict[str, Stamp | str]:
    """The stamp of each visible directory in the root, or why it has none.

    Raises:
        OSError: The root cannot be read.
    """
    with os.scandir(root) as entries:
        found = sorted(
            (entry.name, entry.is_symlink())
            for entry in entries
            if not entry.name.startswith(".") and _may_be_skill(entry)
        )
    stamps: dict[str, Stamp | str] = {name: "there are too many skills" for name, _ in found}
    for name, is_symlink in found[:MAX_SKILLS]:
        stamps[name] = "it is a symlink" if is_symlink else _stamp(f"{root}/{name}")
    return stamps


def _may_be_skill(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a directory; an unreadable entry may be one, and is reported."""
    try:
        return entry.is_dir()
    except OSError:
        return True


def _stamp(directory: str) -> Stamp | str:
    for name in DOCUMENTS:
        try:
            status = os.lstat(f"{directory}/{name}")
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"SKILL.md cannot be read ({error.strerror})"
        return (name, status.st_mtime_ns, status.st_size, status.st_ino)
    return "it has no SKILL.md"


def _read_document(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        problem = f"its SKILL.md has more than {MAX_DOCUMENT_BYTES} bytes"
        raise InvalidSkill(where=path.parent.name, problem=problem)
    return data.decode()


def _describe_error(directory: str, error: Exception) -> str:
    match error:
        case OSError():
            return f"{printable_name(directory)}: SKILL.md cannot be read ({error.strerror})"
        case UnicodeDecodeError():
            return f"{printable_name(directory)}: SKILL.md is not UTF-8"
        case _:
            return str(error)
