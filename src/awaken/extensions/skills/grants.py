"""The tools of skills: granted while a skill is active, and loaded if they are deferred."""

from collections.abc import Iterable

from awaken.contracts.specs.skills import Skill
from awaken.contracts.state.keys import Snapshot
from awaken.contracts.suspension.permissions import TOOL_GRANTS, ToolGrant
from awaken.patterns import ConditionKind, PatternError, ToolPattern, parse_pattern

from .config import SkillsConfig
from .state import ActiveSkill


def pattern_problems(skill: Skill) -> tuple[str, ...]:
    """Why entries of the skill's `allowed-tools` cannot be granted, one text for each."""
    return tuple(
        f"{skill.name}: allowed-tools: {found}"
        for text in skill.allowed_tools
        if isinstance(found := _try_parse(text), PatternError)
    )


def usable_patterns(skill: Skill) -> tuple[str, ...]:
    """The valid tool patterns of a skill, in their canonical form."""
    found = map(_try_parse, skill.allowed_tools)
    return tuple(it.text for it in found if isinstance(it, ToolPattern))


def list_wanted_tools(skill: ActiveSkill, grant: ToolGrant) -> tuple[str, ...]:
    """The tools that a skill names, as ids or globs; regular expressions are left out."""
    # Wanting a tool is not a permission, but a remote skill must not fill the request.
    patterns = grant.patterns if skill.is_remote else skill.allowed_tools
    tools = (parse_pattern(text).tool for text in patterns)
    return tuple(dict.fromkeys(it.text for it in tools if it.kind is not ConditionKind.REGEX))


def grant_of(skill: ActiveSkill, config: SkillsConfig, agent_id: str) -> ToolGrant:
    """The grant of an active skill for an agent by its configuration; it may be empty."""
    is_granting = config.permits(skill.name) and config.grants_of(is_remote=skill.is_remote)
    patterns = skill.allowed_tools if is_granting else ()
    return ToolGrant(source=f"skill:{skill.name}", patterns=patterns, agent_id=agent_id)


def find_grant_changes(
    active: Iterable[ActiveSkill], config: SkillsConfig, agent_id: str, snapshot: Snapshot
) -> tuple[ToolGrant, ...]:
    """The grants that have to change, for example after a handoff to another agent."""
    held = snapshot.get(TOOL_GRANTS)
    wanted = (grant_of(skill, config, agent_id) for skill in active)
    return tuple(
        it for it in wanted if it != held.get(it.source) and (it.patterns or it.source in held)
    )


def _try_parse(text: str) -> ToolPattern | PatternError:
    try:
        return parse_pattern(text)
    except PatternError as error:
        return error
