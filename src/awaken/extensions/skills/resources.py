"""The tool `load_skill_resource`: references as text, assets as base64, limited in size."""

import asyncio
import base64
import codecs
from pathlib import Path
from typing import Any, Literal

from awaken.authoring.functions import tool
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool

from .config import RESOURCE
from .files import parse_path, read_file
from .folders import FolderSkills
from .library import Entry, SkillLibrary
from .managed_skills import ManagedSkills
from .problems import SkillProblem

MAX_REFERENCE_BYTES = 262_144
MAX_ASSET_BYTES = 524_288

Kind = Literal["reference", "asset"]
_KINDS: dict[str, Kind] = {"references": "reference", "assets": "asset"}


def resource_tool(library: SkillLibrary) -> Tool:
    """The tool for the skills of a library."""

    @tool(id=RESOURCE, effect="none", kind="read", output_limit=2 * MAX_ASSET_BYTES)
    async def load(skill: str, path: str, ctx: ToolContext, kind: Kind | None = None) -> Any:
        """Read a file that belongs to a skill.

        Args:
            skill: The name of the skill.
            path: The file, for example `references/guide.md` or `assets/logo.png`.
            ctx: The call.
            kind: `reference` for text, `asset` for anything else; follows from the path.
        """
        try:
            entry = library.find(skill, ctx.agent)
            if isinstance(entry.source, ManagedSkills):
                return _load_text(entry.source, entry.skill.name, path, kind)
            return await asyncio.to_thread(_load_file, directory_of(entry), path, kind)
        except SkillProblem as problem:
            return ToolResult.error_with_code(ctx.tool_name, problem.kind, str(problem))

    return load


def directory_of(entry: Entry) -> Path:
    """The directory of a skill's files.

    Raises:
        SkillProblem: It has no files, because it does not come from a folder.
    """
    source, name = entry.source, entry.skill.name
    directory = source.directory(name) if isinstance(source, FolderSkills) else None
    if directory is None:
        raise SkillProblem(kind="unsupported_operation", message=f"Skill '{name}' has no files.")
    return directory


def _load_text(source: ManagedSkills, name: str, path: str, kind: Kind | None) -> dict[str, Any]:
    _, actual = _parse(path, kind)
    text = source.find_file(name, path)
    if text is None:
        raise SkillProblem(kind="io_error", message=f"{path!r} is not there.")
    return {
        "path": path,
        "kind": actual,
        "encoding": "utf-8",
        "content": text,
        "truncated": False,
    }


def _parse(path: str, kind: Kind | None) -> tuple[tuple[str, ...], Kind]:
    parts = parse_path(path, _KINDS)
    actual = _KINDS[parts[0]]
    if kind is not None and kind != actual:
        raise SkillProblem(kind="unsupported_path", message=f"{path!r} is no {kind}.")
    return parts, actual


def _load_file(directory: Path, path: str, kind: Kind | None) -> dict[str, Any]:
    parts, actual = _parse(path, kind)
    limit = MAX_REFERENCE_BYTES if actual == "reference" else MAX_ASSET_BYTES
    data = read_file(directory, parts, limit + 1)
    is_cut = len(data) > limit
    content = _text(data[:limit], path, is_cut=is_cut) if actual == "reference" else None
    return {
        "path": path,
        "kind": actual,
        "encoding": "utf-8" if content is not None else "base64",
        "content": base64.b64encode(data[:limit]).decode() if content is None else content,
        "truncated": is_cut,
    }


def _text(data: bytes, path: str, *, is_cut: bool) -> str:
    """Decode the text, without a last character that was cut in the middle."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not is_cut)
    except UnicodeDecodeError as error:
        raise SkillProblem(
            kind="unsupported_path", message=f"{path!r} is not UTF-8 text."
        ) from error
