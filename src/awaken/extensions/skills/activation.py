"""The tool `skill`: activates a skill for the run, or delegates it to another agent."""

import asyncio
import hashlib
from typing import Any

from awaken.authoring.delegates import TIMEOUT_SECONDS, ask_delegate
from awaken.authoring.functions import tool
from awaken.contracts.messages.message import Provenance
from awaken.contracts.specs.skills import Skill, SkillContext, SkillUnavailable
from awaken.contracts.suspension.permissions import TOOL_GRANTS, WANTED_TOOLS
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import Delegation
from awaken.contracts.tools.tool import Tool

from .arguments import ALL, MAX_TEXT, render_body, resolve_arguments
from .config import SECTION, SkillsConfig
from .grants import grant_of, list_wanted_tools, usable_patterns
from .library import Entry, SkillLibrary
from .problems import SkillProblem
from .state import ACTIVE_SKILLS, FORKS, ActiveSkill, SkillFork

RENDER_SECONDS = 60
MAX_ACTIVE = 16


def skill_tool(library: SkillLibrary) -> Tool:
    """The tool for the skills of a library."""

    @tool(id="skill", effect="idempotent", kind="other", timeout=TIMEOUT_SECONDS)
    async def take_up(
        skill: str,
        ctx: ToolContext,
        args: str | dict[str, str] | None = None,
        arguments: dict[str, str] | None = None,
    ) -> Any:
        """Take up a skill: its instructions are added to this conversation.

        Args:
            skill: The name of the skill, from the list of available skills.
            ctx: The call.
            args: What the skill is to be about, as one text.
            arguments: The skill's arguments by name, for skills that have several.
        """
        if args and arguments:
            problem = "Give 'args' or 'arguments', not both."
            return ToolResult.error_with_code(ctx.tool_name, "invalid_arguments", problem)
        try:
            return await _activate(library, skill, args or arguments, ctx)
        except SkillProblem as error:
            return ToolResult.error_with_code(ctx.tool_name, error.kind, str(error))

    return take_up


async def _activate(
    library: SkillLibrary, name: str, given: str | dict[str, str] | None, ctx: ToolContext
) -> Any:
    if ctx.resume is not None and (fork := ctx.state.snapshot.get(FORKS).get(ctx.call_id)):
        return await _delegate_fork(fork, ctx)
    config = ctx.agent.config(SECTION, SkillsConfig)
    entry = library.find(name, ctx.agent)
    values = resolve_arguments(entry.skill, given)
    text = await _render_text(entry, values)
    if entry.skill.context is SkillContext.FORK:
        fork = _make_fork(entry, text, config, ctx)
        ctx.state.update(FORKS, fork)
        return await _delegate_fork(fork, ctx)
    return _add_to_run(entry, text, _provenance(entry, values), ctx)


async def _render_text(entry: Entry, values: dict[str, str]) -> str:
    """The skill's instructions with the arguments inserted.

    Raises:
        SkillProblem: The source returns no text, or too much.
    """
    skill = entry.skill
    text = render_body(skill, values) if skill.body else await _render_at_source(entry, values)
    if not 0 < len(text.strip()) <= MAX_TEXT:
        problem = f"The text of skill '{skill.name}' must have 1 to {MAX_TEXT} characters."
        raise SkillProblem(kind="invalid_skill_md", message=problem)
    return text


async def _render_at_source(entry: Entry, values: dict[str, str]) -> str:
    name = entry.skill.name
    declared = {argument: value for argument, value in values.items() if argument != ALL}
    if values[ALL] and not declared:
        problem = f"Skill '{name}' takes no plain text; give 'arguments' by name."
        raise SkillProblem(kind="invalid_arguments", message=problem)
    try:
        async with asyncio.timeout(RENDER_SECONDS):
            return await entry.source.render(name, declared)
    except (SkillUnavailable, TimeoutError) as error:
        problem = str(error) or f"Skill '{name}' was not rendered within {RENDER_SECONDS} s."
        raise SkillProblem(kind="io_error", message=problem) from error


def _provenance(entry: Entry, values: dict[str, str]) -> Provenance:
    if entry.source.is_remote:
        return Provenance.REMOTE
    return Provenance.MODEL if any(values.values()) else Provenance.SYSTEM


def _add_to_run(
    entry: Entry, text: str, provenance: Provenance, ctx: ToolContext
) -> dict[str, Any]:
    skill, config = entry.skill, ctx.agent.config(SECTION, SkillsConfig)
    active = ctx.state.snapshot.get(ACTIVE_SKILLS)
    if skill.name not in active and len(active) >= MAX_ACTIVE:
        problem = f"{MAX_ACTIVE} skills are active already; no more can be in one run."
        raise SkillProblem(kind="unsupported_operation", message=problem)
    taken = _make_active_skill(entry, text, provenance)
    ctx.state.update(ACTIVE_SKILLS, taken)
    grant = grant_of(taken, config, ctx.agent.id)
    if grant.patterns:
        ctx.state.update(TOOL_GRANTS, grant)
    if wanted := list_wanted_tools(taken, grant):
        ctx.state.update(WANTED_TOOLS, wanted)
    return {
        "skill": skill.name,
        "status": "active",
        "note": "Its instructions are at the end of the conversation; follow them now.",
        "content_hash": taken.content_hash,
    }


def _make_active_skill(entry: Entry, text: str, provenance: Provenance) -> ActiveSkill:
    skill = entry.skill
    return ActiveSkill(
        name=skill.name,
        text=text,
        content_hash=skill.content_hash or hashlib.sha256(text.encode()).hexdigest(),
        is_remote=entry.source.is_remote,
        provenance=provenance,
        allowed_tools=usable_patterns(skill),
        model=skill.model,
    )


def _make_fork(entry: Entry, text: str, config: SkillsConfig, ctx: ToolContext) -> SkillFork:
    agent_id = _choose_follower(entry.skill, config, ctx)
    followed = _make_active_skill(entry, text, Provenance.MODEL)
    grant = grant_of(followed, config, agent_id)
    return SkillFork(
        call_id=ctx.call_id,
        agent_id=agent_id,
        prompt=text,
        grant=grant if grant.patterns else None,
        wanted_tools=list_wanted_tools(followed, grant),
    )


def _choose_follower(skill: Skill, config: SkillsConfig, ctx: ToolContext) -> str:
    agent_id = skill.agent or config.fork_agent
    if agent_id is None or agent_id not in ctx.agent.delegates:
        problem = (
            f"Skill '{skill.name}' needs another agent to follow it, and {agent_id!r} is not a "
            f"delegate of '{ctx.agent.id}': name one as 'agent' in the skill or 'fork_agent' in "
            "its section."
        )
        raise SkillProblem(kind="unsupported_operation", message=problem)
    return agent_id


async def _delegate_fork(fork: SkillFork, ctx: ToolContext) -> ToolResult:
    """Have the delegate follow the skill; returns its answer or its question."""
    asked = Delegation(
        agent_id=fork.agent_id,
        prompt=fork.prompt,
        grant=fork.grant,
        wanted_tools=fork.wanted_tools,
    )
    return await ask_delegate(asked, ctx)
