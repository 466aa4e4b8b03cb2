"""Combines all sources: a versioned snapshot of every skill, rebuilt only after a change."""

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


class SkillSnapshot(Record, frozen=True, kw_only=True):
    """Every skill at one time; a later snapshot is another object with a higher version."""

    version: int
    entries: Mapping[str, Entry]
    """By name, sorted."""
    problems: tuple[str, ...] = ()


class SkillLibrary:
    """The skills of several sources; of two skills of one name the earlier source's counts.

    Raises:
        InvalidSpec: There is no source, or two of them have the same skill.
    """

    def __init__(self, sources: Sequence[SkillSource]) -> None:
        if not sources:
            raise InvalidSpec(what="SkillsPlugin", problem="it needs a folder or another source")
        self._sources = tuple(sources)
        self._folders = tuple(it for it in sources if isinstance(it, FolderSkills))
        self._seen: tuple[tuple[Skill, ...], ...] = ()
        self._shelf = SkillSnapshot(version=0, entries={})
        self._warned: tuple[str, ...] = ()
        here = [it for it in sources if not it.is_remote]
        if doubles := _collect_skills(here, [it.skills() for it in here])[1]:
            raise InvalidSpec(what="SkillsPlugin", problem=doubles[0])
        self.snapshot()

    def with_source(self, source: SkillSource) -> "SkillLibrary":
        """Return a library with one more source.

        Raises:
            InvalidSpec: A skill of the source is already in another one.
        """
        return SkillLibrary((*self._sources, source))

    @property
    def problems(self) -> tuple[str, ...]:
        """Current problems; these skills are not offered, or in their last valid version."""
        return (*(it for folder in self._folders for it in folder.problems), *self._shelf.problems)

    def snapshot(self) -> SkillSnapshot:
        """The current skills of the sources; cheap while nothing has changed."""
        seen = tuple(source.skills() for source in self._sources)
        # A source that has not changed is compared by identity.
        if seen != self._seen:
            entries, problems = _collect_skills(self._sources, seen)
            version = self._shelf.version + 1
            self._shelf = SkillSnapshot(version=version, entries=entries, problems=problems)
            self._warn()
        self._seen = seen
        return self._shelf

    def scan(self) -> bool:
        """Scan the folders; return whether something has changed. Blocks on files."""
        changes = [folder.scan() for folder in self._folders]
        self._warn()
        return any(changes)

    def find(self, name: str, agent: AgentSpec) -> Entry:
        """Find a skill that the agent's model may use; all tools use this method.

        Raises:
            SkillProblem: There is none; a hidden skill gives the same error as an unknown one.
        """
        entry = self.snapshot().entries.get(name)
        config = agent.config(SECTION, SkillsConfig)
        if entry is None or not config.shows(entry.skill) or self.build_exclusion(agent)(name):
            raise SkillProblem(
                kind="unknown_skill", message=f"There is no skill {name[:MAX_NAME]!r}."
            )
        return entry

    def build_exclusion(self, agent: AgentSpec) -> Callable[[str], bool]:
        """Build the check whether a source withholds the skill of a name from the agent."""
        found = [it.build_exclusion(agent) for it in self._sources if isinstance(it, SharedSkills)]
        return lambda name: any(withholds(name) for withholds in found)

    def find_unknown(self, names: Iterable[str]) -> list[str]:
        """Which of these names have no skill; empty if a remote source may still add them."""
        if any(source.is_remote for source in self._sources):
            return []
        known = self.snapshot().entries
        return [name for name in dict.fromkeys(names) if name not in known]

    def _warn(self) -> None:
        """Log each problem once while it lasts."""
        problems = self.problems
        for problem in problems:
            if problem not in self._warned:
                logger.warning("skills: %s", problem)
        self._warned = problems


def _collect_skills(
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
    """Why a name cannot be used; remote names are ASCII, so that none looks like another."""
    if not 0 < len(name) <= MAX_NAME or (is_remote and not name.isascii()):
        return f"its name must have 1 to {MAX_NAME} characters of ASCII"
    if not all(it.isalnum() or it in "-_.:" for it in name):
        return "its name may have letters, digits and -_.: only"
    return None
