"""The plugin: a gate before every call, and a hook that hides denied tools."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from awaken.contracts.errors import InvalidPluginConfig, InvalidSpec, KeyCodecError
from awaken.contracts.identity import RunIdentity
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import ConfigSection, Plugin, PluginRegistrar
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.suspension.remembered_answers import (
    FORGOTTEN,
    RUN_ANSWERS,
    SHARED_ANSWERS,
    THREAD_ANSWERS,
)
from awaken.contracts.tools.tool import ToolDescriptor

from .answer_memory import (
    SHARE_APPROVAL,
    SHARE_REFUSAL,
    remember_approval,
    remember_refusal,
    share_answer,
)
from .config import NAME, SECTION, OnDeny, PermissionConfig, RuleConfig
from .gate import PreparedPolicy, hide_denied_tools, permission_gate
from .remembered_rules import RememberedRules
from .rule_compiler import RefusedRule, compile_rules
from .rules import find_hidden_tools

logger = logging.getLogger(__name__)


class PermissionPlugin(Plugin):
    """Allows calls, asks about them or denies them, by its rules and those of section `permission`.

    Without rules every call needs an approval.

    Args:
        rules: Rules for every agent that has the plugin, made by `allow`, `ask` and `deny`, or as
            data. The rules of an agent's section are added to them.
        default: What happens to a call that no rule matches, unless the agent's section says it.
        on_deny: What follows from a denied call, unless the agent's section says it.

    Raises:
        InvalidSpec: A rule is not a rule, or an argument is none of its values.
    """

    name = NAME

    def __init__(
        self,
        rules: Sequence[RuleConfig | Mapping[str, Any]] = (),
        *,
        default: ToolBehavior | Literal["allow", "ask", "deny"] = ToolBehavior.ASK,
        on_deny: OnDeny | Literal["result", "end"] = OnDeny.RESULT,
    ) -> None:
        try:
            given = {"rules": list(rules), "default_behavior": default, "on_deny": on_deny}
            self._config = msgspec.convert(msgspec.to_builtins(given), PermissionConfig)
            compile_rules(self._config)
        except (TypeError, msgspec.ValidationError, RefusedRule) as error:
            raise InvalidSpec(what="PermissionPlugin", problem=str(error)) from error

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the gate, the hiding of denied tools, and the memory of answers."""
        registrar.key(RUN_ANSWERS)
        registrar.key(THREAD_ANSWERS, retain_on_uninstall=True)
        registrar.profile_key(SHARED_ANSWERS)
        registrar.profile_key(FORGOTTEN)
        registrar.gate(permission_gate)
        registrar.hook(Phase.BEFORE_INFERENCE, hide_denied_tools)
        registrar.hook(Phase.BEFORE_TOOL_EXECUTE, remember_approval)
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, remember_refusal)
        registrar.action(SHARE_APPROVAL, share_answer)
        registrar.action(SHARE_REFUSAL, share_answer)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `permission`."""
        return (ConfigSection.of(SECTION, PermissionConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> PreparedPolicy:
        """Compile the agent's rules and find the tools that they always deny.

        Raises:
            InvalidPluginConfig: A rule is malformed, contradicts another one, or can never match.
        """
        try:
            config = self._add_section(agent)
            made = compile_rules(config, tools)
        except (KeyCodecError, RefusedRule) as error:
            problem = error.problem if isinstance(error, KeyCodecError) else str(error)
            raise InvalidPluginConfig(
                section=SECTION, agent_id=agent.id, problem=problem
            ) from error
        if made.oddities:
            # One line: agents are resolved again whenever an MCP server changes its tools.
            more = f" (and {len(made.oddities) - 1} more)" if len(made.oddities) > 1 else ""
            what = f"Section '{SECTION}' of agent '{agent.id}'"
            logger.warning("%s: %s%s.", what, made.oddities[0], more)
        return PreparedPolicy(
            rules=made.rules,
            on_deny=config.on_deny or OnDeny.RESULT,
            own=self._config,
            config=config,
            tool_ids=frozenset(tools),
            hidden=frozenset(find_hidden_tools(made.rules, tools)),
        )

    def _add_section(self, agent: AgentSpec) -> PermissionConfig:
        """The plugin's rules and those of the agent; they may not contradict each other."""
        if SECTION not in agent.sections:
            return self._config
        return self._config.add_section(agent.config(SECTION, PermissionConfig))

    def activate(self, run: RunIdentity, agent: AgentSpec) -> RememberedRules:
        """Make the remembered answers of the run."""
        return RememberedRules()
