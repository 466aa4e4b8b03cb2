"""No name that a model gives reaches a file that is not the skill's; caps hold."""

import asyncio
import base64
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.extensions.skill_folders import write_file, write_skill

from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.skills import Skill
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool
from awaken.extensions.skills import files
from awaken.extensions.skills.files import copy_skill, parse_path, read_file
from awaken.extensions.skills.folders import FolderSkills
from awaken.extensions.skills.library import SkillLibrary
from awaken.extensions.skills.problems import SkillProblem
from awaken.extensions.skills.resources import MAX_ASSET_BYTES, MAX_REFERENCE_BYTES, resource_tool
from awaken.extensions.skills.sandbox import Sandbox
from awaken.extensions.skills.scripts import script_tool
from awaken.extensions.skills.static_skills import StaticSkills

CORPUS = tomllib.loads((Path(__file__).parents[2] / "extensions/skill_paths.toml").read_text())
SECRET = "echo TOP-SECRET"
FIRSTS = ("references", "assets", "scripts")
CODES = {"invalid_path", "path_escapes_root", "unsupported_path", "io_error"}


def hostile_skill(root: Path) -> Path:
    """A skill with every trap that a name could step into."""
    write_file(root, "secret.sh", SECRET)
    skill = write_skill(root / "skills", "pdf")
    write_file(root / "skills", "secret.sh", SECRET)
    write_file(skill, "secret.sh", SECRET)
    for first in FIRSTS:
        write_file(root / "skills" / "pdf-evil", f"{first}/secret.sh", SECRET)
        for neighbour in (f"{first}-evil", f"{first}evil", "other", f".{first}"):
            write_file(skill, f"{neighbour}/secret.sh", SECRET)
        write_file(skill, f"{first}/ok.sh", "echo fine")
        write_file(skill, f"{first}/.hidden.sh", SECRET)
        _traps(skill / first, root)
    return skill


def _traps(directory: Path, root: Path) -> None:
    (directory / "link.sh").symlink_to(root / "secret.sh")
    (directory / "inside.sh").symlink_to(directory / "ok.sh")
    (directory / "dir").symlink_to(root)
    (directory / "up").symlink_to(root / "skills")
    (directory / "loop").symlink_to(directory)
    (directory / "self.sh").symlink_to(directory / "self.sh")
    (directory / "proc").symlink_to("/proc")
    (directory / "dangling.sh").symlink_to(root / "nothing.sh")
    (directory / "folder.sh").mkdir()
    (directory / "sub").mkdir()
    os.mkfifo(directory / "pipe.sh")


def names(first: str, skill: Path) -> Iterator[str]:
    values = {
        "first": first, "FIRST": first.upper(), "root": str(skill.parent.parent),
        "skill": str(skill), "long": "a" * 5_000, "deep": "sub/" * 2_000, "dots": "../" * 1_700,
    }  # fmt: skip
    for group in CORPUS.values():
        yield from (name.format(**values) for name in group)


def call(tool: Tool, config: dict[str, Any], **arguments: Any) -> ToolResult:
    """Call a tool as an agent with this section would."""
    agent = AgentSpec(id="a", model_id="m", sections={"skills": config})
    run = RunIdentity(run_id="r", thread_id="t", agent_id="a")
    asked = ToolCall(id="c", name=tool.descriptor.id, arguments=arguments)
    context = ToolContext(run=run, agent=agent, call=asked)
    return asyncio.run(_executed(tool, arguments, context)).result


async def _executed(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    return await tool.execute(tool.validate(arguments), context)


def code(result: ToolResult) -> str:
    return result.data["error"]["code"]


def test_the_corpus_is_large() -> None:
    assert sum(map(len, CORPUS.values())) >= 60


@pytest.mark.parametrize("first", ["references", "assets"])
def test_no_hostile_name_gets_a_resource(tmp_path: Path, first: str) -> None:
    skill = hostile_skill(tmp_path)
    tool = resource_tool(SkillLibrary([FolderSkills(skill.parent)]))
    assert call(tool, {}, skill="pdf", path=f"{first}/ok.sh").status is ToolStatus.SUCCESS
    through = []
    for name in names(first, skill):
        result = call(tool, {}, skill="pdf", path=name)
        if result.status is not ToolStatus.ERROR or code(result) not in CODES:
            through.append(name)
    assert through == []


def test_no_hostile_name_runs_a_script(tmp_path: Path) -> None:
    skill = hostile_skill(tmp_path)
    marker = tmp_path / "ran"
    for path in tmp_path.rglob("*.sh"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            path.write_text(f"touch {marker}")
    tool = script_tool(SkillLibrary([FolderSkills(skill.parent)]), Sandbox())
    through = []
    for name in names("scripts", skill):
        result = call(tool, {"scripts": {"network": "allow"}}, skill="pdf", script=name)
        if result.status is not ToolStatus.ERROR:
            through.append(name)
    assert through == []
    assert not marker.exists()


@pytest.mark.parametrize("name", ["../pdf", "pdf/../pdf", "/pdf", "PDF", "pdf ", "pdf\0", "", "."])
def test_a_skill_is_found_by_its_exact_name_only(tmp_path: Path, name: str) -> None:
    skill = hostile_skill(tmp_path)
    tool = resource_tool(SkillLibrary([FolderSkills(skill.parent)]))
    result = call(tool, {}, skill=name, path="references/ok.sh")
    assert code(result) == "unknown_skill"


def test_a_symlink_that_appears_after_the_check_is_not_followed(tmp_path: Path) -> None:
    """The name was checked; whatever lies there when it is opened is opened without following."""
    skill = hostile_skill(tmp_path)
    for parts in (("references", "link.sh"), ("references", "dir", "secret.sh")):
        with pytest.raises(SkillProblem):
            read_file(skill, parts, 100)
    for parts in (("references", "link.sh"), ("references", "dir", "secret.sh")):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            files._open_file(skill, parts)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../x", "path_escapes_root"),
        ("/etc/passwd", "path_escapes_root"),
        ("references/a\0b", "invalid_path"),
        ("references/a\\b", "invalid_path"),
        ("other/file.md", "unsupported_path"),
        ("references", "unsupported_path"),
        ("r" * 5_000, "invalid_path"),
    ],
)
def test_a_refusal_has_the_code_that_fits(name: str, expected: str) -> None:
    with pytest.raises(SkillProblem) as refusal:
        parse_path(name, ("references",))
    assert refusal.value.kind == expected


def test_names_that_files_of_skills_have_are_accepted() -> None:
    for name in ("references/a.md", "references/deep/er/My File_1.2+x@y-z.txt", "references/_x"):
        assert "/".join(parse_path(name, ("references",))) == name


def test_a_reference_is_text_and_an_asset_is_base64(tmp_path: Path) -> None:
    skill = write_skill(tmp_path, "pdf")
    write_file(skill, "references/guide.md", "très bien")
    write_file(skill, "assets/logo.png", b"\x89PNG\xff")
    tool = resource_tool(SkillLibrary([FolderSkills(tmp_path)]))
    guide = call(tool, {}, skill="pdf", path="references/guide.md", kind="reference").data
    logo = call(tool, {}, skill="pdf", path="assets/logo.png").data
    assert guide == {
        "path": "references/guide.md", "kind": "reference", "encoding": "utf-8",
        "content": "très bien", "truncated": False,
    }  # fmt: skip
    assert (logo["kind"], base64.b64decode(logo["content"])) == ("asset", b"\x89PNG\xff")
    wrong = call(tool, {}, skill="pdf", path="assets/logo.png", kind="reference")
    assert code(wrong) == "unsupported_path"
    assert code(call(tool, {}, skill="pdf", path="references/no.md")) == "io_error"


def test_a_long_reference_is_cut_between_characters(tmp_path: Path) -> None:
    skill = write_skill(tmp_path, "pdf")
    write_file(skill, "references/a.md", "é" * MAX_REFERENCE_BYTES)
    write_file(skill, "references/b.md", "x" + "é" * MAX_REFERENCE_BYTES)
    write_file(skill, "references/exact.md", "x" * MAX_REFERENCE_BYTES)
    write_file(skill, "references/binary.md", b"\xff\xfe")
    tool = resource_tool(SkillLibrary([FolderSkills(tmp_path)]))
    for name in ("a", "b"):
        data = call(tool, {}, skill="pdf", path=f"references/{name}.md").data
        assert data["truncated"]
        assert MAX_REFERENCE_BYTES - 1 <= len(data["content"].encode()) <= MAX_REFERENCE_BYTES
    assert not call(tool, {}, skill="pdf", path="references/exact.md").data["truncated"]
    assert code(call(tool, {}, skill="pdf", path="references/binary.md")) == "unsupported_path"


def test_a_large_asset_is_cut_and_says_so(tmp_path: Path) -> None:
    skill = write_skill(tmp_path, "pdf")
    write_file(skill, "assets/big.bin", os.urandom(MAX_ASSET_BYTES + 10))
    tool = resource_tool(SkillLibrary([FolderSkills(tmp_path)]))
    data = call(tool, {}, skill="pdf", path="assets/big.bin").data
    assert data["truncated"]
    assert len(base64.b64decode(data["content"])) == MAX_ASSET_BYTES


def test_a_skill_that_the_agent_does_not_have_has_no_files_for_it(tmp_path: Path) -> None:
    skill = write_skill(tmp_path, "pdf")
    write_file(skill, "references/a.md", "text")
    hidden = write_skill(tmp_path, "hidden", disable_model_invocation="true")
    write_file(hidden, "references/a.md", "text")
    tool = resource_tool(SkillLibrary([FolderSkills(tmp_path)]))
    for config in ({"excluded": ["pdf"]}, {"allowed": []}):
        assert code(call(tool, config, skill="pdf", path="references/a.md")) == "unknown_skill"
    assert code(call(tool, {}, skill="hidden", path="references/a.md")) == "unknown_skill"


def test_a_skill_without_a_folder_has_no_files() -> None:
    given = StaticSkills(Skill(name="pdf", description="d", body="b"))
    result = call(resource_tool(SkillLibrary([given])), {}, skill="pdf", path="references/a.md")
    assert code(result) == "unsupported_operation"


def test_a_copy_has_the_regular_files_and_nothing_else(tmp_path: Path) -> None:
    skill = hostile_skill(tmp_path)
    target = tmp_path / "copy"
    target.mkdir()
    copy_skill(skill, target)
    copied = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert "scripts/ok.sh" in copied
    assert not [path for path in target.rglob("*") if path.is_symlink() or path.is_fifo()]
    assert not [name for name in copied if name.endswith(("link.sh", "inside.sh", "pipe.sh"))]


def test_a_skill_that_is_too_large_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.extensions.skills.files.MAX_COPIED_BYTES", 10)
    skill = write_skill(tmp_path, "pdf")
    (tmp_path / "copy").mkdir()
    with pytest.raises(SkillProblem, match="too large"):
        copy_skill(skill, tmp_path / "copy")
