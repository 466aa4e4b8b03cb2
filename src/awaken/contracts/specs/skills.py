"""Skills as a port: instructions that a model can take up, wherever they come from.

A source lists skills and renders one with arguments. Folders, code and remote servers are sources
alike; whoever offers skills to models needs to know no more than this.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from awaken.contracts.errors import RunError, field
from awaken.contracts.record import Record

from .agents import AgentSpec


class SkillContext(StrEnum):
    """Where a skill's instructions are followed."""

    INLINE = "inline"
    """In the run that takes it up."""
    FORK = "fork"
    """By another agent, in a run of its own."""


class SkillArgument(Record, frozen=True, kw_only=True):
    """A value that a skill's instructions leave open."""

    name: str
    description: str = ""
    required: bool = False


class Skill(Record, frozen=True, kw_only=True):
    """What is known of a skill before it is taken up."""

    name: str
    """Unique among all sources of an agent, for example `pdf` or `mcp:github:triage`."""
    description: str
    body: str = ""
    """The instructions as they stand; empty when the source makes them only on demand."""
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
    """Who follows the instructions of a forked skill."""
    paths: tuple[str, ...] = ()
    """Globs of the files that the skill is about."""
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = {}
    content_hash: str = ""
    """Changes whenever the skill does; empty: it is derived from the other fields."""


class SkillUnavailable(RunError):
    """A source cannot render a skill now; the model reads the message."""

    code = "skill_unavailable"
    template = "{message}"
    message: str = field(kw_only=False)


@runtime_checkable
class SkillSource(Protocol):
    """Where skills come from. Called by many runs at once."""

    name: str
    """For people, in problems and logs."""
    is_remote: bool
    """Whether somebody else writes the skills: their tool grants are off unless configured."""

    def skills(self) -> tuple[Skill, ...]:
        """The skills as known now, without waiting.

        The same tuple, by identity, as long as nothing has changed: that is how a change is seen.
        """
        ...

    async def render(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return the instructions of a skill without a body, for arguments by declared name.

        Raises:
            SkillUnavailable: It is not there, does not take these arguments, or cannot be had now.
        """
        ...


@runtime_checkable
class SharedSkills(Protocol):
    """What a source has besides, if an agent may have a part of its skills only."""

    def withholding(self, agent: AgentSpec) -> Callable[[str], bool]:
        """Whether the agent may not have the skill of a name; names of other sources it may."""
        ...
