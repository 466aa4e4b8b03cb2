"""Collects what one plugin declares."""

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from awaken.contracts.errors import (
    DuplicateRegistration,
    HandlerAlreadyRegistered,
    InvalidSpec,
    KeyAlreadyRegistered,
)
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.instruments import InstrumentMaker
from awaken.contracts.plugins.plugin import (
    PHASE_CONTEXTS,
    ActionHandler,
    AfterRunWork,
    EffectHandler,
    IsWanted,
    PhaseContext,
    PhaseHook,
    PhaseObserver,
    RequestTransform,
    ToolGate,
    ToolPhaseContext,
)
from awaken.contracts.plugins.screens import AnswerScreen, MessageScreen, StreamScreen, ValueScreen
from awaken.contracts.state.keys import EffectSpec, ScheduledActionSpec, StateKey
from awaken.contracts.state.profile import ProfileKey
from awaken.contracts.tools.tool import Tool

P = TypeVar("P")

_CONTEXT_TYPES: tuple[type[PhaseContext], ...] = (
    PhaseContext,
    ToolPhaseContext,
    *PHASE_CONTEXTS.values(),
)
_CONTEXTS = {it.__name__: it for it in _CONTEXT_TYPES}


class WrongAnswer(TypeError):
    """A gate returned something that is not a gate's answer."""


class Registrations:
    """One plugin's declarations, in order. Implements `PluginRegistrar`."""

    def __init__(self, plugin_name: str) -> None:
        self.plugin_name = plugin_name
        self.keys: dict[StateKey[Any, Any], bool] = {}
        self.profile_keys: dict[str, ProfileKey[Any]] = {}
        self.hooks: list[tuple[Phase, PhaseHook]] = []
        self.observers: list[tuple[Phase, PhaseObserver]] = []
        self.gates: list[ToolGate] = []
        self.actions: dict[str, tuple[ScheduledActionSpec[Any], ActionHandler]] = {}
        self.effects: dict[str, tuple[EffectSpec[Any], EffectHandler]] = {}
        self.tools: dict[str, Tool] = {}
        self.transforms: list[RequestTransform] = []
        self.message_screens: list[MessageScreen] = []
        self.result_screens: list[ValueScreen] = []
        self.answer_screens: list[AnswerScreen] = []
        self.stream_screens: list[StreamScreen | None] = []
        self.instruments: list[InstrumentMaker] = []
        self.after_runs: list[tuple[IsWanted, AfterRunWork]] = []

    def key(self, key: StateKey[Any, Any], *, retain_on_uninstall: bool = False) -> None:
        """Declare a state key."""
        if any(known.name == key.name for known in self.keys):
            raise KeyAlreadyRegistered(key=key.name)
        self.keys[key] = retain_on_uninstall

    def profile_key(self, key: ProfileKey[Any]) -> None:
        """Declare a profile key."""
        if key.name in self.profile_keys:
            raise KeyAlreadyRegistered(key=key.name)
        self.profile_keys[key.name] = key

    def hook(self, phase: Phase, hook: PhaseHook) -> None:
        """Run a pure hook in a phase."""
        self.hooks.append((self._check_phase(phase, hook), hook))

    def observer(self, phase: Phase, observer: PhaseObserver) -> None:
        """Run an observer after a phase."""
        self.observers.append((self._check_phase(phase, observer), observer))

    def gate(self, gate: ToolGate) -> None:
        """Ask this gate about every tool call."""
        self._check_context(Phase.TOOL_GATE, gate)
        self.gates.append(gate)

    def action(self, spec: ScheduledActionSpec[P], handler: ActionHandler) -> None:
        """Handle one kind of scheduled action."""
        if spec.key in self.actions:
            raise HandlerAlreadyRegistered(kind="action", key=spec.key)
        self.actions[spec.key] = (spec, handler)

    def effect(self, spec: EffectSpec[P], handler: EffectHandler) -> None:
        """Handle one kind of effect."""
        if spec.key in self.effects:
            raise HandlerAlreadyRegistered(kind="effect", key=spec.key)
        self.effects[spec.key] = (spec, handler)

    def tool(self, tool: Tool) -> None:
        """Offer a tool."""
        if tool.descriptor.id in self.tools:
            raise DuplicateRegistration(kind="Tool", name=tool.descriptor.id)
        self.tools[tool.descriptor.id] = tool

    def transform(self, transform: RequestTransform) -> None:
        """Rewrite requests."""
        self.transforms.append(transform)

    def screen_messages(self, screen: MessageScreen) -> None:
        """Screen messages before they enter the transcript."""
        self.message_screens.append(screen)

    def screen_results(self, screen: ValueScreen) -> None:
        """Screen tool results before they are kept."""
        self.result_screens.append(screen)

    def screen_answers(self, screen: AnswerScreen, stream: StreamScreen | None = None) -> None:
        """Screen model answers before they are kept or shown."""
        self.answer_screens.append(screen)
        self.stream_screens.append(stream)

    def instrument(self, maker: InstrumentMaker) -> None:
        """Watch runs that begin with this agent."""
        self.instruments.append(maker)

    def after_run(self, work: AfterRunWork, *, is_wanted: IsWanted) -> None:
        """Do work after runs that `is_wanted` chooses."""
        self.after_runs.append((is_wanted, work))

    def _check_phase(self, phase: Phase, function: Callable[..., Any]) -> Phase:
        what = f"Plugin '{self.plugin_name}'"
        try:
            known = Phase(phase)
        except ValueError as error:
            problem = f"there is no phase {phase!r}; phases: {', '.join(Phase)}"
            raise InvalidSpec(what=what, problem=problem) from error
        if known is Phase.TOOL_GATE:
            problem = "no hook runs in tool_gate; use gate()"
            raise InvalidSpec(what=what, problem=problem)
        self._check_context(known, function)
        return known

    def _check_context(self, phase: Phase, function: Callable[..., Any]) -> None:
        given = PHASE_CONTEXTS[phase]
        if (taken := find_context_type(function)) is None or issubclass(given, taken):
            return
        name = getattr(function, "__qualname__", type(function).__name__)
        problem = f"'{name}' takes a {taken.__name__}, and {phase} gives a {given.__name__}"
        raise InvalidSpec(what=f"Plugin '{self.plugin_name}'", problem=problem)


def find_context_type(function: Callable[..., Any]) -> type[PhaseContext] | None:
    """The context that the first parameter of a hook is annotated with, if it names one."""
    called: Any = function if hasattr(function, "__code__") else type(function).__call__
    called = getattr(called, "__func__", called)
    code: CodeType | None = getattr(called, "__code__", None)
    first = int(called is not function)  # After `self`.
    if code is None or code.co_argcount <= first:
        return None
    annotation: Any = called.__annotations__.get(code.co_varnames[first])
    if isinstance(annotation, str):
        return _CONTEXTS.get(annotation.rpartition(".")[2])
    is_context = isinstance(annotation, type) and issubclass(annotation, PhaseContext)
    return annotation if is_context else None
