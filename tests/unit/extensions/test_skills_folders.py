"""Folders of skills: what is found, what is a problem, and what a change does."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from tests.extensions.skill_folders import write_document, write_skill

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.specs.skills import Skill, SkillSource
from awaken.extensions.skills import SkillsPlugin, StaticSkills
from awaken.extensions.skills import folders as folders_module
from awaken.extensions.skills.folders import FolderSkills
from awaken.extensions.skills.library import SkillLibrary

BOUND_S = 20


def names(source: FolderSkills) -> list[str]:
    return [skill.name for skill in source.skills()]


def test_only_the_roots_own_visible_directories_are_skills(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    write_skill(tmp_path, ".hidden")
    write_skill(tmp_path / "pdf", "inner")
    (tmp_path / "README.md").write_text("not a skill")
    source = FolderSkills(tmp_path)
    assert names(source) == ["pdf"]
    assert source.problems == ()
    assert isinstance(source, SkillSource)


def test_a_directory_that_is_no_skill_is_a_problem_that_names_it(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    (tmp_path / "empty").mkdir()
    write_document(tmp_path, "broken", "no frontmatter")
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "SKILL.md").write_bytes(b"---\nname: binary\xff\n---\n")
    write_document(tmp_path, "huge", "---\nname: huge\ndescription: d\n---\n" + "x" * 300_000)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    source = FolderSkills(tmp_path)
    assert names(source) == ["pdf"]
    assert [it.partition(":")[0] for it in source.problems] == [
        "binary", "broken", "empty", "huge", "pipe",
    ]  # fmt: skip


def test_neither_a_skill_nor_its_document_may_be_a_symlink(tmp_path: Path) -> None:
    outside = write_skill(tmp_path / "outside", "evil")
    root = tmp_path / "root"
    write_skill(root, "pdf")
    (root / "evil").symlink_to(outside)
    (root / "linked").mkdir()
    (root / "linked" / "SKILL.md").symlink_to(outside / "SKILL.md")
    source = FolderSkills(root)
    assert names(source) == ["pdf"]
    assert len(source.problems) == 2
    # Nor one that takes its place after the look and before the reading.
    with pytest.raises(OSError, match="symbolic links"):
        folders_module._read_document(root / "linked" / "SKILL.md")


def test_roots_must_be_there_and_have_no_skill_twice(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", "pdf")
    write_skill(tmp_path / "b", "pdf")
    with pytest.raises(InvalidSpec, match="needs a folder"):
        SkillsPlugin()
    with pytest.raises(InvalidSpec, match="not a directory"):
        SkillsPlugin(tmp_path / "nowhere")
    for wrong in (-1, 0, float("nan"), float("inf"), "5", True, None):
        with pytest.raises(InvalidSpec, match="refresh_s"):
            SkillsPlugin(tmp_path / "a", refresh_s=wrong)  # type: ignore[arg-type]
    for roots, sources in (((5,), ()), ((), [5]), ((), 5), ((), "abc")):
        with pytest.raises(InvalidSpec, match=r"not (int|str)"):
            SkillsPlugin(*roots, sources=sources)  # type: ignore[arg-type]
    with pytest.raises(InvalidSpec, match="'pdf'"):
        SkillsPlugin(tmp_path / "a", tmp_path / "b")
    given = StaticSkills(Skill(name="pdf", description="d", body="b"))
    with pytest.raises(InvalidSpec, match="'pdf'"):
        SkillsPlugin(tmp_path / "a", sources=[given])


@pytest.mark.parametrize(
    "skill",
    [
        Skill(name="Pdf", description="d", body="b"),
        Skill(name="", description="d", body="b"),
        Skill(name="pdf", description=" ", body="b"),
        Skill(name="pdf", description="d"),
        Skill(name="pdf", description="d", body="b", allowed_tools=("Bash(git",)),
    ],
)
def test_a_skill_of_a_program_is_checked_when_it_is_given(skill: Skill) -> None:
    with pytest.raises(InvalidSpec):
        StaticSkills(skill)


def test_a_changed_skill_is_read_again_and_an_unchanged_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path, "one", "First.")
    write_skill(tmp_path, "two", "First.")
    source = FolderSkills(tmp_path, _Later())
    before = source.skills()
    read: list[str] = []
    parse = folders_module.parse_skill
    monkeypatch.setattr(
        folders_module, "parse_skill", lambda text, name: read.append(name) or parse(text, name)
    )
    assert (source.scan(), read) == (False, [])
    assert source.skills() is before
    write_skill(tmp_path, "two", "Second, longer.")
    assert (source.scan(), read) == (True, ["two"])
    after = {skill.name: skill for skill in source.skills()}
    assert (after["one"], after["two"].body) == (before[0], "Second, longer.")
    assert after["two"].content_hash != before[1].content_hash


def test_a_second_change_within_the_resolution_of_file_times_is_seen(tmp_path: Path) -> None:
    directory = write_skill(tmp_path, "pdf", "One")
    stamp = (directory / "SKILL.md").stat()
    source = FolderSkills(tmp_path)
    write_skill(tmp_path, "pdf", "Two")
    os.utime(directory / "SKILL.md", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    source.scan()
    assert source.skills()[0].body == "Two"


def test_a_broken_skill_stays_as_it_last_was_and_says_so(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", "Good.")
    plugin = SkillsPlugin(tmp_path)
    write_document(tmp_path, "pdf", "broken")
    assert asyncio.run(plugin.refresh())
    assert [skill.body for skill in plugin.skills] == ["Good."]
    assert plugin.problems[0].startswith("pdf: ")
    write_skill(tmp_path, "pdf", "Better.")
    asyncio.run(plugin.refresh())
    assert [skill.body for skill in plugin.skills] == ["Better."]
    assert plugin.problems == ()


def test_skills_come_and_go_but_a_root_that_vanishes_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_skill(root, "one")
    write_skill(root, "two")
    source = FolderSkills(root)
    shutil.rmtree(root / "one")
    write_skill(root, "three")
    assert source.scan()
    assert names(source) == ["three", "two"]
    shutil.rmtree(root)
    assert not source.scan()
    assert names(source) == ["three", "two"]
    assert "cannot be read" in source.problems[0]


def test_the_earlier_source_keeps_a_name_that_a_later_one_takes_up(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", "The operator's.")
    remote = Server()
    library = SkillLibrary([FolderSkills(tmp_path), remote])
    first = library.snapshot()
    assert library.snapshot() is first
    remote.offered = (
        Skill(name="pdf", description="Mine"),
        Skill(name="mcp:s:ask", description="?"),
    )
    shelf = library.snapshot()
    assert shelf.version == first.version + 1
    assert list(shelf.entries) == ["mcp:s:ask", "pdf"]
    assert shelf.entries["pdf"].skill.body == "The operator's."
    assert "'pdf'" in shelf.problems[0]


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "../a", "a\nb", "x" * 201, "a<b>", "a\0", "\u0440df"]
)
def test_a_servers_skill_with_an_unusable_name_is_a_problem_and_not_offered(name: str) -> None:
    remote = Server()
    library = SkillLibrary([remote])
    remote.offered = (Skill(name=name, description="d"),)
    assert library.snapshot().entries == {}
    assert len(library.problems) == 1


def test_a_server_with_unusable_names_does_not_keep_the_plugin_from_starting(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "pdf")
    remote = Server()
    remote.offered = (Skill(name="a b", description="d"), Skill(name="pdf", description="d"))
    plugin = SkillsPlugin(tmp_path, sources=[remote])
    assert [skill.name for skill in plugin.skills] == ["pdf"]
    assert len(plugin.problems) == 2


def test_skills_beyond_the_cap_are_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders_module, "MAX_SKILLS", 2)
    for name in ("a", "b", "c"):
        write_skill(tmp_path, name)
    source = FolderSkills(tmp_path)
    assert names(source) == ["a", "b"]
    assert source.problems[0].startswith("c: ")


def test_an_open_plugin_sees_changes_by_itself_and_a_closed_one_leaves_nothing(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        write_skill(tmp_path, "one")
        plugin = SkillsPlugin(tmp_path, refresh_s=0.01)
        await plugin.open(_Host())
        write_skill(tmp_path, "two")
        async with asyncio.timeout(BOUND_S):
            while len(plugin.skills) < 2:
                await asyncio.sleep(0)
        await plugin.close()
        await plugin.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_a_look_that_fails_is_logged_and_the_next_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        write_skill(tmp_path, "one")
        plugin = SkillsPlugin(tmp_path, refresh_s=0.01)
        scan, failures = plugin._library.scan, [MemoryError("no room")]

        def failing() -> bool:
            if failures:
                raise failures.pop()
            return scan()

        monkeypatch.setattr(plugin._library, "scan", failing)
        await plugin.open(_Host())
        write_skill(tmp_path, "two")
        async with asyncio.timeout(BOUND_S):
            while len(plugin.skills) < 2:
                await asyncio.sleep(0)
        await plugin.close()

    asyncio.run(scenario())
    assert "could not be scanned" in caplog.text
    assert "no room" in caplog.text


def test_a_skill_that_cannot_be_looked_at_stays_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path, "locked", "Good.")
    source = FolderSkills(tmp_path, _Later())
    (tmp_path / "loop").symlink_to("loop")
    look = os.lstat

    def lstat(path: str) -> os.stat_result:
        if "/locked/" in path:
            raise PermissionError(13, "Permission denied")
        return look(path)

    monkeypatch.setattr(folders_module.os, "lstat", lstat)
    write_skill(tmp_path, "new")
    assert source.scan()
    assert names(source) == ["locked", "new"]
    assert [it.partition(":")[0] for it in source.problems] == ["locked", "loop"]
    assert "Permission denied" in source.problems[0]


class Server:
    """A remote source."""

    name = "server"
    is_remote = True

    def __init__(self) -> None:
        self.offered: tuple[Skill, ...] = ()

    def skills(self) -> tuple[Skill, ...]:
        return self.offered

    async def render(self, name: str, arguments: object) -> str:
        return "text"


class _Host:
    async def renew(self) -> None:
        raise AssertionError


class _Later:
    """A clock by which all files have long been written."""

    def now_ms(self) -> int:
        return 10**15

    def monotonic_ms(self) -> int:
        return 0
