"""Skills of managed configuration: offered beside those of folders, with their text files."""

import asyncio
from pathlib import Path

import pytest
from tests.extensions.skill_folders import write_skill
from tests.unit.extensions.test_skills_files import call

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.specs.skills import Skill
from awaken.contracts.tool_results import ToolStatus
from awaken.extensions.skills import SkillsPlugin
from awaken.extensions.skills.library import SkillLibrary
from awaken.extensions.skills.managed_skills import ManagedSkills
from awaken.extensions.skills.resources import resource_tool

PDF = Skill(name="pdf", description="Reads PDFs.", body="Read.")
FILES = {"pdf": {"references/guide.md": "The guide.", "assets/form.txt": "A form."}}


def test_a_file_of_a_managed_skill_is_read_by_its_path_alone() -> None:
    tool = resource_tool(SkillLibrary([ManagedSkills((PDF,), FILES)]))
    found = call(tool, {}, skill="pdf", path="references/guide.md")
    assert found.status is ToolStatus.SUCCESS
    assert "The guide." in str(found.data)
    for path in ("references/other.md", "references/../assets/form.txt", "/etc/passwd", "x"):
        assert call(tool, {}, skill="pdf", path=path).status is ToolStatus.ERROR
    wrong_kind = call(tool, {}, skill="pdf", path="assets/form.txt", kind="reference")
    assert wrong_kind.status is ToolStatus.ERROR
    hidden = call(tool, {"excluded": ["pdf"]}, skill="pdf", path="references/guide.md")
    assert hidden.status is ToolStatus.ERROR


def test_a_plugin_with_one_more_source_leaves_the_first_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        write_skill(tmp_path, "own")
        plugin = SkillsPlugin(tmp_path)
        more = plugin.with_source(ManagedSkills((PDF,), FILES))
        assert [it.name for it in plugin.skills] == ["own"]
        assert [it.name for it in more.skills] == ["own", "pdf"]
        write_skill(tmp_path, "later")
        await plugin.refresh()
        assert [it.name for it in more.skills] == ["later", "own", "pdf"], "folders are shared"

    asyncio.run(scenario())


def test_a_skill_that_a_folder_has_already_is_refused(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    with pytest.raises(InvalidSpec):
        SkillsPlugin(tmp_path).with_source(ManagedSkills((PDF,), FILES))
