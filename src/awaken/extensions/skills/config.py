"""What an agent may do with skills: its section `skills`."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from awaken.contracts.record import StrictRecord
from awaken.contracts.specs.skills import Skill

SECTION = "skills"
SKILL = "skill"
RESOURCE = "load_skill_resource"
SCRIPT = "skill_script"

Positive = Annotated[int, Meta(ge=1)]


class ScriptsConfig(StrictRecord, frozen=True, kw_only=True):
    """How scripts of skills are executed."""

    network: Literal["forbid", "allow"] = "forbid"
    """With `forbid` a script is not run where the platform cannot disable its network."""
    isolation: Literal["required", "none"] = "required"
    """Bubblewrap, which hides files and processes; with `none` a script also runs without it."""
    environment: tuple[Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Environment variables of the server that scripts get; they get no others."""
    timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] = 60_000
    cpu_s: Positive = 30
    memory_mb: Positive = 1_024
    file_mb: Positive = 64
    processes: Positive = 64
    output_bytes: Annotated[int, Meta(ge=1, le=1_048_576)] = 32_768
    """How much of stdout, and of stderr, is kept; the rest is read and discarded."""


class SkillsConfig(StrictRecord, frozen=True, kw_only=True):
    """Which skills an agent has, and what they may do."""

    section: ClassVar[str] = SECTION

    allowed: tuple[str, ...] | None = None
    """Only these skills; absent: all."""
    excluded: tuple[str, ...] = ()
    max_entries: Positive = 32
    max_chars: Annotated[int, Meta(ge=512)] = 16_384
    """The size limit of the catalog that models read."""
    scripts: Literal[False] | ScriptsConfig = False
    grants: bool = True
    """Whether a skill's `allowed-tools` are granted while it is active."""
    remote_grants: bool = False
    """The same for skills of remote servers."""
    models: bool = False
    """Whether a skill's `model` is used while it is active."""
    fork_agent: str | None = None
    """Which delegate of the agent follows forked skills that name no agent."""

    def permits(self, name: str) -> bool:
        """Whether the agent may have a skill of this name at all."""
        return name not in self.excluded and (self.allowed is None or name in self.allowed)

    def shows(self, skill: Skill) -> bool:
        """Whether the agent's model may see, activate and read this skill: the only check."""
        return skill.model_invocable and self.permits(skill.name)

    def grants_of(self, *, is_remote: bool) -> bool:
        """Whether skills of this origin grant tools."""
        return self.grants and (self.remote_grants or not is_remote)
