"""Opens files of a skill by paths that a model gives; no file outside of the skill is opened.

A path must match a strict pattern. Then each part is opened relative to the directory before it,
without following symlinks, so that no directory can be replaced in between.
"""

import os
import re
import shutil
import stat
from collections.abc import Collection
from pathlib import Path

from .problems import SkillProblem

MAX_PATH = 512
MAX_PARTS = 8
MAX_COPIED_FILES = 2_000
MAX_COPIED_BYTES = 67_108_864

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. +@-]*", re.ASCII)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def parse_path(path: str, first: Collection[str]) -> tuple[str, ...]:
    """The parts of a relative path that begins in one of these directories.

    Raises:
        SkillProblem: It leads elsewhere, or has characters that are not allowed.
    """
    if not 0 < len(path) <= MAX_PATH:
        raise SkillProblem(kind="invalid_path", message=f"A path has 1 to {MAX_PATH} characters.")
    parts = tuple(path.split("/"))
    if path.startswith("/") or ".." in parts:
        raise SkillProblem(kind="path_escapes_root", message=f"{path!r} leads out of the skill.")
    if len(parts) > MAX_PARTS or not all(map(_PART.fullmatch, parts)):
        problem = f"{path!r} is not a plain path of letters, digits, spaces and _.+@-"
        raise SkillProblem(kind="invalid_path", message=problem)
    if parts[0] not in first or len(parts) == 1:
        wanted = " or ".join(f"{name}/" for name in sorted(first))
        raise SkillProblem(kind="unsupported_path", message=f"{path!r} must be a file in {wanted}.")
    return parts


def read_file(root: Path, parts: tuple[str, ...], limit: int) -> bytes:
    """Read at most `limit` bytes of a regular file below the root. Blocks.

    Raises:
        SkillProblem: There is no such file, or its path leads out of the root.
    """
    shown = "/".join(parts)
    try:
        resolved = root.joinpath(*parts).resolve()
        if not resolved.is_relative_to(root.resolve() / parts[0]):
            raise SkillProblem(
                kind="path_escapes_root", message=f"{shown!r} leads out of the skill."
            )
        descriptor = _open_file(root, parts)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SkillProblem(
                    kind="unsupported_path", message=f"{shown!r} is not a regular file."
                )
            return _read(descriptor, limit)
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:
        # A symlink in the path ends here as well: the system refuses to follow it.
        problem = "is not there" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise SkillProblem(kind="io_error", message=f"{shown!r} {problem}.") from error


def copy_skill(root: Path, target: Path) -> None:
    """Copy a skill's regular files; symlinks and special files are skipped. Blocks.

    Raises:
        SkillProblem: There are too many files, or they are too large.
        OSError: A file cannot be read or written.
    """
    files = size = 0
    for directory, _, names, descriptor in os.fwalk(root, follow_symlinks=False):
        into = target / Path(directory).relative_to(root)
        into.mkdir(exist_ok=True)
        for name in names:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                continue
            files, size = files + 1, size + status.st_size
            if files > MAX_COPIED_FILES or size > MAX_COPIED_BYTES:
                problem = "The skill is too large to run scripts of."
                raise SkillProblem(kind="unsupported_operation", message=problem)
            _copy(descriptor, name, into / name)


def _copy(directory: int, name: str, target: Path) -> None:
    source = os.open(name, _FLAGS, dir_fd=directory)
    with os.fdopen(source, "rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer)


def _open_file(root: Path, parts: tuple[str, ...]) -> int:
    """Open the last part, each directory relative to the one before it."""
    *directories, name = parts
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for directory in directories:
            inner = os.open(directory, _FLAGS | os.O_DIRECTORY, dir_fd=current)
            os.close(current)
            current = inner
        return os.open(name, _FLAGS, dir_fd=current)
    finally:
        os.close(current)


def _read(descriptor: int, limit: int) -> bytes:
    chunks: list[bytes] = []
    while limit > 0 and (data := os.read(descriptor, limit)):
        chunks.append(data)
        limit -= len(data)
    return b"".join(chunks)
