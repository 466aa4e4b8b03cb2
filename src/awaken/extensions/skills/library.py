"""All sources as one: a versioned snapshot of every skill, made again only after a change."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import Record
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.skills import SharedSkills, Skill, SkillSource

from .config import SECTION, SkillsConfig
from .folders import FolderSkills
from .problems import SkillProblem

logger = logging.getLogger(__name__)

MAX_NAME = 200


class Entry(Record, frozen=True, kw_only=True):
    """A skill and where it comes from."""

    skill: Skill
    source: SkillSource


class Shelf(Record, frozen=True, kw_only=True):
    """Every skill at one moment; a later one is another object with a higher version."""

    version: int
    entries: Mapping[str, Entry]
    """By name, sorted."""
    problems: tuple[str, ...] = ()


class SkillLibrary:
    """The skills of several sources, each name once: the earlier source has it.

    Raises:
        InvalidSpec: There is no source, or two of them have the same skill.
    """

    def __init__(self, sources: Sequence[SkillSource]) -> None:
        if not sources:
            raise InvalidSpec(what="SkillsPlugin", problem="it needs a folder or another source")
        self._sources = tuple(sources)
        self._folders = tuple(it for it in sources if isinstance(it, FolderSkills))
        self._seen: tuple[tuple[Skill, ...], ...] = ()
        self._shelf = Shelf(version=0, entries={})
        self._warned: tuple[str, ...] = ()
        here = [it for it in sources if not it.is_remote]
        if doubles := _collected(here, [it.skills() for it in here])[1]:
            raise InvalidSpec(what="SkillsPlugin", problem=doubles[0])
        self.shelf()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with skills now: they are not offered, or as they were before."""
        return (*(it for folder in self._folders for it in folder.problems), *self._shelf.problems)

    def shelf(self) -> Shelf:
        """The skills as the sources know them now; cheap while nothing has changed."""
        seen = tuple(source.skills() for source in self._sources)
        # A source that has not changed is compared by identity.
        if seen != self._seen:
            entries, problems = _collected(self._sources, seen)
            version = self._shelf.version + 1
            self._shelf = Shelf(version=version, entries=entries, problems=problems)
            self._warn()
        self._seen = seen
        return self._shelf

    def scan(self) -> bool:
        """Look at the folders again; returns whether something has changed. Blocks on files."""
        changes = [folder.scan() for folder in self._folders]
        self._warn()
        return any(changes)

    def find(self, name: str, agent: AgentSpec) -> Entry:
        """A skill that the agent's model may use: all tools come through here.

        Raises:
            SkillProblem: There is none; one that is hidden looks the same as one that is not.
        """
        entry = self.shelf().entries.get(name)
        config = agent.config(SECTION, SkillsConfig)
        if entry is None or not config.shows(entry.skill) or self.withholding(agent)(name):
            raise SkillProblem(
                kind="unknown_skill", message=f"There is no skill {name[:MAX_NAME]!r}."
            )
        return entry

    def withholding(self, agent: AgentSpec) -> Callable[[str], bool]:
        """Whether a source keeps the skill of a name from the agent."""
        found = [it.withholding(agent) for it in self._sources if isinstance(it, SharedSkills)]
        return lambda name: any(withholds(name) for withholds in found)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Which of these names no skill has; none while a remote source may still bring them."""
        if any(source.is_remote for source in self._sources):
            return []
        known = self.shelf().entries
        return [name for name in dict.fromkeys(names) if name not in known]

    def _warn(self) -> None:
        """Log each problem once for as long as it is there."""
        problems = self.problems
        for problem in problems:
            if problem not in self._warned:
                logger.warning("skills: %s", problem)
        self._warned = problems


def _collected(
    sources: Sequence[SkillSource], found: Sequence[tuple[Skill, ...]]
) -> tuple[dict[str, Entry], tuple[str, ...]]:
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    for source, skills in zip(sources, found, strict=True):
        for skill in skills:
            if skill.name in entries:
                holder = entries[skill.name].source.name
                problems.append(f"skill '{skill.name}' of '{source.name}' is in '{holder}' already")
            elif problem := _name_problem(skill.name, is_remote=source.is_remote):
                problems.append(f"skill {skill.name[:64]!r} of '{source.name}': {problem}")
            else:
                entries[skill.name] = Entry(skill=skill, source=source)
    return dict(sorted(entries.items())), tuple(problems)


def _name_problem(name: str, *, is_remote: bool) -> str | None:
    """Why a name that a source made up cannot be used; a server's may not look like another."""
    if not 0 < len(name) <= MAX_NAME or (is_remote and not name.isascii()):
        return f"its name must have 1 to {MAX_NAME} characters of ASCII"
    if not all(it.isalnum() or it in "-_.:" for it in name):
        return "its name may have letters, digits and -_.: only"
    return None
