"""The compiled environment of an agent: hook chains are built once, not looked up per step."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import (
    AwakenError,
    DuplicateRegistration,
    HandlerAlreadyRegistered,
    InvalidPluginConfig,
    KeyAlreadyRegistered,
)
from awaken.contracts.identity import RunIdentity
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.instruments import InstrumentMaker
from awaken.contracts.plugins.plugin import (
    ActionHandler,
    AfterRunWork,
    EffectHandler,
    IsWanted,
    PhaseHook,
    PhaseObserver,
    Plugin,
    RequestTransform,
    ToolGate,
)
from awaken.contracts.plugins.screens import AnswerScreen, MessageScreen, StreamScreen, ValueScreen
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import EffectSpec, ScheduledActionSpec, StateKey
from awaken.contracts.state.profile import ProfileAccess, ProfileKey
from awaken.contracts.tools.tool import Tool, ToolDescriptor

from .registrar import Registrations


class ExecutionEnv:
    """What the plugins of one agent do, collected in plugin order.

    The filter switches behaviour off (hooks, gates, observers, tools, transforms); structure
    (keys, handlers, profile keys) is always there, because stored state may need it. The
    runtime's own plugins, and those that every agent has, are exempt from the filter.
    """

    __slots__ = (
        "actions", "activated", "after_runs", "answer_screens", "effects", "gates",
        "has_behaviour", "hooks", "instruments", "keys", "message_screens", "observers",
        "offered_by", "phases", "plugins", "prepared", "profile", "profile_keys",
        "result_screens", "stream_screens", "tools", "transforms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.plugins: list[Plugin] = []
        self.activated: list[Plugin] = []
        """The plugins that do something when a run begins."""
        self.keys: dict[str, StateKey[Any, Any]] = {}
        self.profile_keys: dict[str, ProfileKey[Any]] = {}
        self.hooks: dict[Phase, list[tuple[str, PhaseHook]]] = {}
        self.observers: dict[Phase, list[tuple[str, PhaseObserver]]] = {}
        self.gates: list[tuple[str, ToolGate]] = []
        self.actions: dict[str, tuple[str, ScheduledActionSpec[Any], ActionHandler]] = {}
        self.effects: dict[str, tuple[EffectSpec[Any], EffectHandler]] = {}
        self.tools: dict[str, Tool] = {}
        self.offered_by: dict[str, str] = {}
        """The name of the plugin that offers each tool, by tool id."""
        self.transforms: list[tuple[str, RequestTransform]] = []
        self.message_screens: list[tuple[str, MessageScreen]] = []
        self.result_screens: list[tuple[str, ValueScreen]] = []
        self.answer_screens: list[tuple[str, AnswerScreen]] = []
        self.stream_screens: list[tuple[str, StreamScreen | None]] = []
        self.instruments: list[tuple[str, InstrumentMaker]] = []
        self.after_runs: list[tuple[str, IsWanted, AfterRunWork]] = []
        """Work after the end of runs, which follow-up runs do."""
        self.profile: ProfileAccess | None = None
        """Access to the profile keys; made when the first run of the agent begins."""
        self.phases: frozenset[Phase] = frozenset()
        """The phases in which a hook or an observer runs."""
        self.has_behaviour = False
        """Whether any plugin acts on runs, and so may read a run's state."""
        self.prepared: dict[str, Any] = {}
        """What `prepare` of each plugin returned for the agent, by plugin name."""

    @classmethod
    def compile(
        cls,
        plugins: Sequence[Plugin],
        *,
        active: Collection[str] = (),
        everywhere: Collection[str] = (),
        runtime_owned: Sequence[Plugin] = (),
    ) -> "ExecutionEnv":
        """Collect the plugins' declarations.

        Raises:
            DuplicateRegistration: Two plugins have one name, or offer one tool id.
            HandlerAlreadyRegistered: Two plugins handle one action or effect.
            KeyAlreadyRegistered: Two plugins declare different (profile) keys with one name.
        """
        env = cls()
        names = [plugin.name for plugin in plugins]
        for name in names:
            if names.count(name) > 1:
                raise DuplicateRegistration(kind="Plugin", name=name)
        for plugin in runtime_owned:
            env._add(plugin, is_active=True)
        for plugin in plugins:
            is_chosen = plugin.name in active or plugin.name in everywhere
            env._add(plugin, is_active=not active or is_chosen)
        return env

    def prepare(self, agent: AgentSpec, tools: Mapping[str, Tool]) -> None:
        """Let every plugin check and compile its part of the agent's configuration.

        Raises:
            InvalidPluginConfig: A plugin cannot use its part.
        """
        described: dict[str, ToolDescriptor] = {}
        for plugin in self.plugins:
            if type(plugin).prepare is Plugin.prepare:
                continue
            described = described or {name: tool.descriptor for name, tool in tools.items()}
            try:
                made = plugin.prepare(agent, described)
            except AwakenError:
                raise
            except BaseException as error:
                if is_interruption(error):
                    raise
                problem = f"prepare() raised {type(error).__name__}: {error}"
                raise InvalidPluginConfig(
                    section=plugin.name, agent_id=agent.id, problem=problem
                ) from error
            if made is not None:
                self.prepared[plugin.name] = made

    def find_prepared(self, tool_id: str) -> Any:
        """What the plugin that offers a tool has prepared, or None."""
        return self.prepared.get(self.offered_by.get(tool_id, ""))

    def own_objects(self, run: RunIdentity, agent: AgentSpec) -> dict[str, Any]:
        """Let every plugin make its object for one run."""
        if not self.activated:
            return {}
        made = {plugin.name: plugin.activate(run, agent) for plugin in self.activated}
        return {name: own for name, own in made.items() if own is not None}

    def _add(self, plugin: Plugin, *, is_active: bool) -> None:
        declared = Registrations(plugin.name)
        plugin.register(declared)
        self.plugins.append(plugin)
        if _takes_part(plugin):
            self.activated.append(plugin)
        self._add_structure(declared)
        if is_active:
            self._add_behaviour(declared)

    def _add_structure(self, declared: Registrations) -> None:
        for key in declared.keys:
            if self.keys.setdefault(key.name, key) is not key:
                raise KeyAlreadyRegistered(key=key.name)
        for name, profile_key in declared.profile_keys.items():
            if self.profile_keys.setdefault(name, profile_key) is not profile_key:
                raise KeyAlreadyRegistered(key=name)
        for name in declared.actions:
            if name in self.actions:
                raise HandlerAlreadyRegistered(kind="action", key=name)
        for name in declared.effects:
            if name in self.effects:
                raise HandlerAlreadyRegistered(kind="effect", key=name)
        for name, (spec, handler) in declared.actions.items():
            self.actions[name] = (declared.plugin_name, spec, handler)
        self.effects.update(declared.effects)

    def _add_behaviour(self, declared: Registrations) -> None:
        name = declared.plugin_name
        for phase, hook in declared.hooks:
            self.hooks.setdefault(phase, []).append((name, hook))
        for phase, observer in declared.observers:
            self.observers.setdefault(phase, []).append((name, observer))
        self.gates.extend((name, gate) for gate in declared.gates)
        self.transforms.extend((name, transform) for transform in declared.transforms)
        self.message_screens.extend((name, screen) for screen in declared.message_screens)
        self.result_screens.extend((name, screen) for screen in declared.result_screens)
        self.answer_screens.extend((name, screen) for screen in declared.answer_screens)
        self.stream_screens.extend((name, stream) for stream in declared.stream_screens)
        self.instruments.extend((name, maker) for maker in declared.instruments)
        self.after_runs.extend((name, *it) for it in declared.after_runs)
        self.phases = frozenset([*self.hooks, *self.observers])
        self.has_behaviour = bool(self.phases or self.gates)
        for tool_id, tool in declared.tools.items():
            if tool_id in self.tools:
                raise DuplicateRegistration(kind="Tool", name=tool_id)
            self.tools[tool_id] = tool
            self.offered_by[tool_id] = name


def _takes_part(plugin: Plugin) -> bool:
    kind = type(plugin)
    return kind.activate is not Plugin.activate or kind.on_activate is not Plugin.on_activate
