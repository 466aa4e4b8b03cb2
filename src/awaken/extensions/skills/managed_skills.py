"""Skills of managed configuration: like those that are defined in code, with text files."""

from collections.abc import Mapping

from awaken.contracts.specs.skills import Skill

from .static_skills import StaticSkills


class ManagedSkills(StaticSkills):
    """A source of skills with their text files, which never changes: another set is another source.

    Raises:
        InvalidSpec: A skill cannot be accepted.
    """

    def __init__(self, skills: tuple[Skill, ...], files: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(*skills, name="configuration")
        self._files = files

    def find_file(self, skill: str, path: str) -> str | None:
        """The text of a file of a skill, by its path; None if there is none."""
        return self._files.get(skill, {}).get(path)
