"""The port of skills: instructions that a model can activate, from any source.

A source lists skills and renders one with arguments. Folders, code and remote servers are all
sources; the skills extension uses them only through this port.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from awaken.contracts.errors import RunError, field
from awaken.contracts.record import Record

from .agents import AgentSpec


class SkillContext(StrEnum):
    """Where a skill's instructions are executed."""

    INLINE = "inline"
    """In the run that activates the skill."""
    FORK = "fork"
    """By another agent, in a run of its own."""


class SkillArgument(Record, frozen=True, kw_only=True):
    """A parameter of a skill's instructions."""

    name: str
    description: str = ""
    required: bool = False


class Skill(Record, frozen=True, kw_only=True):
    """The description of a skill before it is activated."""

    name: str
    """Unique among all sources of an agent, for example `pdf` or `mcp:github:triage`."""
    description: str
    body: str = ""
    """The instructions; empty if the source renders them on demand."""
    when_to_use: str | None = None
    arguments: tuple[SkillArgument, ...] = ()
    argument_hint: str | None = None
    allowed_tools: tuple[str, ...] = ()
    """Tool patterns that are granted while the skill is active."""
    user_invocable: bool = True
    model_invocable: bool = True
    model: str | None = None
    context: SkillContext = SkillContext.INLINE
    agent: str | None = None
    """The agent that executes the instructions of a forked skill."""
    paths: tuple[str, ...] = ()
    """Globs of the files that the skill applies to."""
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = {}
    content_hash: str = ""
    """Changes whenever the skill changes; empty: derived from the other fields."""


class SkillUnavailable(RunError):
    """A source cannot render a skill now; the message says why and is shown to the model."""

    code = "skill_unavailable"
    template = "{message}"
    message: str = field(kw_only=False)


@runtime_checkable
class SkillSource(Protocol):
    """A source of skills. Runs call it concurrently."""

    name: str
    """The name in error messages and logs."""
    is_remote: bool
    """Whether a third party writes the skills: their tool grants are off unless configured."""

    def skills(self) -> tuple[Skill, ...]:
        """The currently known skills, without waiting.

        Returns the same tuple object until something changes: callers detect changes by identity.
        """
        ...

    async def render(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return the instructions of a skill without a body, for arguments by declared name.

        Raises:
            SkillUnavailable: It does not exist, refuses the arguments, or cannot be rendered.
        """
        ...


@runtime_checkable
class SharedSkills(Protocol):
    """Implemented by a source that offers an agent only a part of its skills."""

    def build_exclusion(self, agent: AgentSpec) -> Callable[[str], bool]:
        """Return a predicate that tells whether a skill of this source is hidden from the agent."""
        ...
