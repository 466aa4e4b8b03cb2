"""Skills that are defined in code: like those of folders, but without files."""

from collections.abc import Mapping

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.specs.skills import Skill, SkillUnavailable

from .arguments import render_body
from .documents import name_problem
from .grants import pattern_problems


class LocalSkills:
    """Skills whose text is in memory."""

    is_remote = False

    def __init__(self, name: str, skills: tuple[Skill, ...]) -> None:
        self.name = name
        self._skills = skills

    def skills(self) -> tuple[Skill, ...]:
        """The skills; the same tuple while nothing has changed."""
        return self._skills

    async def render(self, name: str, arguments: Mapping[str, str]) -> str:
        """The skill's body with its arguments inserted.

        Raises:
            SkillUnavailable: There is no such skill.
        """
        for skill in self._skills:
            if skill.name == name:
                return render_body(skill, arguments)
        raise SkillUnavailable(f"There is no skill '{name}' in '{self.name}'.")


class StaticSkills(LocalSkills):
    """A source of skills that are written in code.

    Raises:
        InvalidSpec: A name is invalid or used twice, a skill has no text, or a tool pattern is
            malformed.
    """

    def __init__(self, *skills: Skill, name: str = "code") -> None:
        super().__init__(name, tuple(map(_check_skill, skills)))
        if len({skill.name for skill in skills}) != len(skills):
            raise InvalidSpec(what="StaticSkills", problem="two skills have the same name")


def _check_skill(skill: Skill) -> Skill:
    problem = name_problem(skill.name)
    if not skill.description.strip() or not skill.body.strip():
        problem = problem or "it needs a description and a body"
    if problem := problem or "; ".join(pattern_problems(skill)):
        raise InvalidSpec(what=f"Skill '{skill.name}'", problem=problem)
    return skill
