"""Hooks around a step: they hide and list deferred tools, and count calls."""

import logging
from collections.abc import Iterable, Mapping

from awaken.contracts.messages.content import text_of
from awaken.contracts.messages.context_messages import ContextMessage, system_context
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import (
    CONTEXT_MESSAGES,
    TOOL_FILTER,
    RemoveContext,
    ToolFilter,
    UpsertContext,
)
from awaken.contracts.plugins.plugin import (
    BeforeInferenceContext,
    BeforeToolExecuteContext,
    PhaseContext,
)
from awaken.contracts.state.keys import ScheduledActionSpec, StateCommand
from awaken.contracts.suspension.permissions import WANTED_TOOLS
from awaken.patterns import PatternError

from .catalog import DeferredCatalog, match_tools
from .config import TOOL_SEARCH
from .policy import DEFAULT_PRIOR, belief_after, is_worth_deferring, prior_belief
from .state import (
    HIDDEN_TOOLS,
    LOADED_TOOLS,
    TOOL_USE,
    Called,
    Conversation,
    FirstTurn,
    Shift,
    ToolUsage,
)
from .usage_profile import load_expected_use

logger = logging.getLogger(__name__)

LIST_KEY = "deferred_tools.list"
LIST_HEADER = "The following deferred tools are available via ToolSearch:"

HIDE_DEFERRED = ScheduledActionSpec[None]("deferred_tools.hide", Phase.BEFORE_INFERENCE, type(None))
"""An action, not a hook: it runs after the hooks and sees which tools they have hidden."""


class WantedTools:
    """The tools that a run's wanted patterns match, computed once for each pattern."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    def match(self, patterns: Iterable[str], catalog: DeferredCatalog) -> frozenset[str]:
        """The deferred tools that any of the patterns matches."""
        for pattern in patterns:
            if pattern not in self._known:
                self._known[pattern] = _match_pattern(pattern, catalog)
        return frozenset().union(*(self._known[pattern] for pattern in patterns))


def _match_pattern(pattern: str, catalog: DeferredCatalog) -> frozenset[str]:
    try:
        return match_tools(pattern, catalog.tools)
    except PatternError as error:
        # The author of a pattern may not know this plugin; a malformed pattern loads nothing.
        logger.warning("Wanted tools '%s' are ignored: %s", pattern, error)
        return frozenset()


async def begin_turn(context: BeforeInferenceContext) -> StateCommand | None:
    """Count the turn, and schedule the hiding of deferred tools after the other hooks."""
    catalog: DeferredCatalog = context.prepared
    if not catalog.is_on:
        # No tool is deferred, so there is nothing to search.
        hidden = ToolFilter(excluded=(TOOL_SEARCH,))
        return StateCommand().update(TOOL_FILTER, hidden) if catalog.has_search else None
    agent_id = context.agent.id
    before = context.state(LOADED_TOOLS).get(agent_id, Conversation()).turn
    command = StateCommand().update(LOADED_TOOLS, Shift(agent_id=agent_id, turn=before + 1))
    if agent_id not in context.state(TOOL_USE):
        priors = await load_expected_use(context, catalog)
        first = FirstTurn(agent_id=agent_id, since=before, priors=priors)
        command = command.update(TOOL_USE, first)
    return command.schedule(HIDE_DEFERRED, None)


async def hide_deferred(context: PhaseContext, _payload: None) -> StateCommand:
    """Defer idle tools, remove deferred tools from the request, and list their ids."""
    catalog: DeferredCatalog = context.prepared
    agent_id = context.agent.id
    conversation = context.state(LOADED_TOOLS)[agent_id]
    wanted = context.own.match(context.state(WANTED_TOOLS), catalog)
    idle = idle_tools(catalog, conversation, context.state(TOOL_USE)[agent_id])
    offered = (conversation.active_tools.keys() - set(idle)) | wanted
    deferred = tuple(tool_id for tool_id in catalog.tools if tool_id not in offered)
    elsewhere = frozenset(context.state(TOOL_FILTER).excluded)
    hidden = tuple(tool_id for tool_id in catalog.tools if tool_id in elsewhere)
    shown = tuple(tool_id for tool_id in catalog.tools if tool_id in offered)
    command = StateCommand().update(TOOL_FILTER, ToolFilter(excluded=deferred, last=shown))
    if idle:
        shift = Shift(agent_id=agent_id, turn=conversation.turn, defer=idle)
        command = command.update(LOADED_TOOLS, shift)
    if hidden != context.state(HIDDEN_TOOLS):
        command = command.update(HIDDEN_TOOLS, hidden)
    listed = [tool_id for tool_id in catalog.tools if tool_id not in elsewhere]
    return command.extend(_update_list(context.state(CONTEXT_MESSAGES), listed))


async def note_call(context: BeforeToolExecuteContext) -> StateCommand | None:
    """Count a call; a call of a deferred tool loads it, since the model knows it."""
    catalog: DeferredCatalog = context.prepared
    tool_id, agent_id = context.call.name, context.agent.id
    if tool_id not in catalog.tools or agent_id not in context.state(TOOL_USE):
        return None
    turn = context.state(LOADED_TOOLS)[agent_id].turn
    return (
        StateCommand()
        .update(LOADED_TOOLS, Shift(agent_id=agent_id, turn=turn, load=(tool_id,)))
        .update(TOOL_USE, Called(agent_id=agent_id, tool_id=tool_id, turn=turn))
    )


def idle_tools(
    catalog: DeferredCatalog, conversation: Conversation, use: ToolUsage
) -> tuple[str, ...]:
    """The ids of loaded tools that cost more in the request than a new search would."""
    rules = catalog.config.disc_beta
    turns_over = conversation.turn - 1
    found = []
    for tool_id, latest in sorted(conversation.active_tools.items()):
        if tool_id not in catalog.tools or turns_over - latest < rules.defer_after:
            continue
        prior = prior_belief(use.priors.get(tool_id, DEFAULT_PRIOR), rules.n0)
        called = use.calls.get(tool_id, ())
        belief = belief_after(prior, called, turns_over - use.since, rules.omega)
        if is_worth_deferring(belief, catalog.tools[tool_id].saving, rules):
            found.append(tool_id)
    return tuple(found)


def _update_list(contexts: Mapping[str, ContextMessage], listed: list[str]) -> StateCommand:
    """List all tools that can be searched, loaded or not, so that loading changes no text.

    The list is written only when it changes: prompts with the same beginning are cheaper.
    """
    current = contexts.get(LIST_KEY)
    if not listed:
        removal = StateCommand().update(CONTEXT_MESSAGES, RemoveContext(key=LIST_KEY))
        return StateCommand() if current is None else removal
    text = f"{LIST_HEADER}\n{', '.join(listed)}"
    if current is not None and text_of(current.content) == text:
        return StateCommand()
    message = system_context(LIST_KEY, text, persistent=True)
    return StateCommand().update(CONTEXT_MESSAGES, UpsertContext(message=message))
