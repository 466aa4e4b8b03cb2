"""Before each request: the catalog, the instructions of active skills, and what they change."""

import re
from collections.abc import Callable
from html import escape

import msgspec

from awaken.contracts.messages.context_messages import (
    ContextMessage,
    suffix_context,
    system_context,
)
from awaken.contracts.messages.message import Provenance, Role
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.plugins.loop_state import (
    CONTEXT_MESSAGES,
    STEP_OVERRIDE,
    TOOL_FILTER,
    ToolFilter,
    UpsertContext,
)
from awaken.contracts.plugins.plugin import BeforeInferenceContext
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.suspension.permissions import TOOL_GRANTS

from .catalog import catalog_text
from .config import RESOURCE, SCRIPT, SKILL, SkillsConfig
from .grants import find_grant_changes
from .library import SkillLibrary, SkillSnapshot
from .state import ACTIVE_SKILLS, ActiveSkill

CATALOG_KEY = "skills.catalog"
REMOTE_CATALOG_KEY = "skills.catalog.remote"
ACTIVE_KEY = "skills.active"

_FRAME = re.compile(r"<(?=/?\s*(?:active_skill_instructions|skill)\b)", re.IGNORECASE)


class AgentSkills:
    """The catalogs of one resolved agent, built once for each snapshot of the skills."""

    withholds: Callable[[str], bool]
    """Set with the catalogs: whether a source withholds the skill of a name from the agent."""

    def __init__(self, library: SkillLibrary, config: SkillsConfig, agent: AgentSpec) -> None:
        self.config = config
        self._library, self._agent = library, agent
        self._shelf: SkillSnapshot | None = None
        self._catalogs: tuple[ContextMessage, ...] = ()

    def catalogs(self) -> tuple[ContextMessage, ...]:
        """The catalogs of local and of remote skills; the same as long as no skill changes."""
        shelf = self._library.snapshot()
        if shelf is not self._shelf:
            self.withholds = self._library.build_exclusion(self._agent)
            own, remote = (self._text(shelf, is_remote=it) for it in (False, True))
            found = [system_context(CATALOG_KEY, own)] if own else []
            if remote:
                found.append(
                    _attribute_to(Provenance.REMOTE, system_context(REMOTE_CATALOG_KEY, remote))
                )
            self._catalogs, self._shelf = tuple(found), shelf
        return self._catalogs

    def _text(self, shelf: SkillSnapshot, *, is_remote: bool) -> str:
        entries = (it for it in shelf.entries.values() if it.source.is_remote is is_remote)
        known = (it.skill for it in entries if not self.withholds(it.skill.name))
        return catalog_text(
            (it for it in known if self.config.shows(it)),
            max_entries=self.config.max_entries,
            max_chars=self.config.max_chars,
        )


async def before_inference(context: BeforeInferenceContext) -> StateCommand | None:
    """Add the catalogs and active instructions; the cost does not grow with the skills."""
    skills: AgentSkills = context.prepared
    catalogs = skills.catalogs()
    command = StateCommand()
    for catalog in catalogs if SKILL in context.tool_ids else ():
        command = command.update(CONTEXT_MESSAGES, UpsertContext(message=catalog))
    if hidden := _tools_to_hide(skills.config, has_skills=bool(catalogs)):
        command = command.update(TOOL_FILTER, ToolFilter(excluded=hidden))
    command = _with_active(command, context, skills)
    return None if command.is_empty else command


def _tools_to_hide(config: SkillsConfig, *, has_skills: bool) -> tuple[str, ...]:
    if not has_skills:
        return (SKILL, RESOURCE, SCRIPT)
    return () if config.scripts else (SCRIPT,)


def _with_active(
    command: StateCommand, context: BeforeInferenceContext, skills: AgentSkills
) -> StateCommand:
    active, config = context.state(ACTIVE_SKILLS), skills.config
    if not active:
        return command
    for grant in find_grant_changes(active.values(), config, context.agent.id, context.snapshot):
        command = command.update(TOOL_GRANTS, grant)
    permitted = (it for it in sorted(active) if config.permits(it) and not skills.withholds(it))
    shown = [active[name] for name in permitted]
    for message in _instructions(shown):
        command = command.update(CONTEXT_MESSAGES, UpsertContext(message=message))
    model = next((it.model for it in shown if it.model), None) if config.models else None
    if model is not None:
        command = command.update(STEP_OVERRIDE, InferenceOverride(upstream_model=model))
    return command


def _instructions(active: list[ActiveSkill]) -> list[ContextMessage]:
    """The instructions of active skills, at the end of the request.

    The text of a remote server, and text that a model put into a skill, gets the user role, never
    the system role.
    """
    messages = []
    for whose in (Provenance.SYSTEM, Provenance.MODEL, Provenance.REMOTE):
        if skills := [it for it in active if it.provenance is whose]:
            message = suffix_context(f"{ACTIVE_KEY}.{whose}", _frame_skills(skills))
            messages.append(_attribute_to(whose, message))
    return messages


def _attribute_to(whose: Provenance, message: ContextMessage) -> ContextMessage:
    role = Role.SYSTEM if whose is Provenance.SYSTEM else Role.USER
    return msgspec.structs.replace(message, role=role, provenance=whose)


def _frame_skills(skills: list[ActiveSkill]) -> str:
    # A text cannot close its own frame: tags that look like those of the frame are escaped.
    blocks = [
        f'<skill name="{escape(it.name)}">\n{_FRAME.sub("&lt;", it.text)}\n</skill>'
        for it in skills
    ]
    joined = "\n".join(blocks)
    return f"<active_skill_instructions>\n{joined}\n</active_skill_instructions>"
