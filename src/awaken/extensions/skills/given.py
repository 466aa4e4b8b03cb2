"""Skills that a program gives: the same as those of folders, without files."""

from collections.abc import Mapping

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.specs.skills import Skill, SkillUnavailable

from .documents import name_problem
from .grants import pattern_problems
from .rendering import rendered


class LocalSkills:
    """Skills whose text is here."""

    is_remote = False

    def __init__(self, name: str, skills: tuple[Skill, ...]) -> None:
        self.name = name
        self._skills = skills

    def skills(self) -> tuple[Skill, ...]:
        """The skills; the same tuple while nothing has changed."""
        return self._skills

    async def render(self, name: str, arguments: Mapping[str, str]) -> str:
        """The skill's body with its arguments in place.

        Raises:
            SkillUnavailable: There is no such skill.
        """
        for skill in self._skills:
            if skill.name == name:
                return rendered(skill, arguments)
        raise SkillUnavailable(f"There is no skill '{name}' in '{self.name}'.")


class StaticSkills(LocalSkills):
    """A source of skills that are written in code.

    Raises:
        InvalidSpec: A name is unusable or there twice, a skill says nothing, or a tool pattern
            cannot be read.
    """

    def __init__(self, *skills: Skill, name: str = "code") -> None:
        super().__init__(name, tuple(map(_checked, skills)))
        if len({skill.name for skill in skills}) != len(skills):
            raise InvalidSpec(what="StaticSkills", problem="two skills have the same name")


def _checked(skill: Skill) -> Skill:
    problem = name_problem(skill.name)
    if not skill.description.strip() or not skill.body.strip():
        problem = problem or "it needs a description and a body"
    if problem := problem or "; ".join(pattern_problems(skill)):
        raise InvalidSpec(what=f"Skill '{skill.name}'", problem=problem)
    return skill
