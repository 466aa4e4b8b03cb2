"""Plugins: what they register, and the contexts that their hooks receive.

A plugin is a stateless factory. State of one run comes from `Plugin.activate` and is available as
`PhaseContext.own`; nothing mutable is shared between runs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

import msgspec

from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.models.inference import InferenceFailure, ModelTool, StreamResult
from awaken.contracts.phases import Phase
from awaken.contracts.record import EMPTY, Record
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import (
    EffectSpec,
    ScheduledActionSpec,
    Snapshot,
    StateCommand,
    StateKey,
)
from awaken.contracts.state.profile import ProfileAccess, ProfileKey
from awaken.contracts.suspension.tickets import SuspendTicket, ToolCallResume
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolKind

from .instruments import InstrumentMaker
from .screens import AnswerScreen, MessageScreen, StreamScreen, ValueScreen

if TYPE_CHECKING:
    # Few programs have memory.
    from awaken.contracts.memory.access import MemoryAccess

T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")


class PhaseContext(msgspec.Struct, kw_only=True, gc=False):
    """What every hook receives: a frozen snapshot and the identity. One subclass per phase."""

    snapshot: Snapshot
    agent: AgentSpec
    run: RunIdentity
    messages: Sequence[Message]
    """The transcript so far; hooks must not change it."""
    step: int = 0
    """Steps begun, this one included."""
    profile: ProfileAccess | None = None
    """Values shared between threads and agents."""
    context: Mapping[str, Any] = EMPTY
    """The context of the run, as JSON; hooks must not change it. It is what the caller claims."""
    own: Any = None
    """What this plugin's `activate` returned for the run."""
    prepared: Any = None
    """What this plugin's `prepare` returned for the agent."""

    def state(self, key: StateKey[V, Any]) -> V:
        """Return a state value, or the key's default."""
        return self.snapshot.get(key)

    def config(self, section: str, type_: type[T]) -> T:
        """Return a typed config section of the agent."""
        return self.agent.config(section, type_)


class RunStartContext(PhaseContext, kw_only=True, gc=False):
    """The run is about to begin or to continue."""


class StepStartContext(PhaseContext, kw_only=True, gc=False):
    """A step begins."""


class BeforeInferenceContext(PhaseContext, kw_only=True, gc=False):
    """The request is about to be built."""

    tool_ids: tuple[str, ...] = ()
    """The tools this step would offer."""


class AfterInferenceContext(PhaseContext, kw_only=True, gc=False):
    """The model answered; the answer is part of `messages` already."""

    response: StreamResult | InferenceFailure


class ToolPhaseContext(PhaseContext, kw_only=True, gc=False):
    """A phase of one tool call."""

    call: ToolCall
    tool_kind: ToolKind
    is_kind_declared: bool = False
    resume: ToolCallResume | None = None
    suspension_id: str | None = None
    suspension_reason: str | None = None
    asked_by: str | None = None
    """The plugin whose gate requested the decision; blank if the tool itself did."""


class ToolGateContext(ToolPhaseContext, kw_only=True, gc=False):
    """A call is about to be gated; this phase runs again when a suspended call resumes."""

    needs_approval: bool = False
    """Whether the tool requires an approval of this call that no person has given yet."""


class BeforeToolExecuteContext(ToolPhaseContext, kw_only=True, gc=False):
    """A call that passed the gate is about to run."""


class AfterToolExecuteContext(ToolPhaseContext, kw_only=True, gc=False):
    """A call has its result."""

    result: ToolResult


class StepEndContext(PhaseContext, kw_only=True, gc=False):
    """The step is about to be committed."""


class RunEndContext(PhaseContext, kw_only=True, gc=False):
    """The run is ending; `termination` says how."""

    termination: Termination


class AskModel(Protocol):
    """Calls the agent's model on behalf of a plugin, within the budgets."""

    async def __call__(
        self, messages: Sequence[Message], system: tuple[str, ...] = ()
    ) -> StreamResult:
        """Return the answer to these messages; without tools, outside of any transcript.

        Raises:
            ModelError: The model could not answer.
            BudgetExceeded: A budget does not allow the call.
        """
        ...


class FinishedRun(msgspec.Struct, kw_only=True, gc=False):
    """A run that has ended."""

    run: RunIdentity
    agent: AgentSpec
    """The agent that spoke last."""
    termination: Termination
    prepared: Any = None
    """What this plugin's `prepare` returned for the agent."""


class AfterRunContext(FinishedRun, kw_only=True, gc=False):
    """What work after a run receives."""

    messages: Sequence[Message]
    """What was said in the run, the newest messages if they are many."""
    is_said_by_user: Callable[[Message], bool]
    """Whether the run's user said a message: a run may have words of other users, of agents and of
    webhooks."""
    is_private: Callable[[], Awaitable[bool]]
    """Whether only its user has spoken on its thread, so that answers quote nobody else."""
    ask_model: AskModel
    """Calls the agent's model; the follow-up run is charged for it."""
    exists: Callable[[], Awaitable[bool]]
    """Whether the run is still stored: its thread may have been deleted meanwhile."""


IsWanted = Callable[[FinishedRun], bool]
"""Whether there is work after a run; pure and cheap, as it is asked while the run ends."""

AfterRunWork = Callable[[AfterRunContext], Awaitable[None]]
"""Work after a run; after a crash it is done again, so it must be idempotent."""


class Block(Record, frozen=True, kw_only=True, tag_field="type", tag="block"):
    """Refuse the call and end the run."""

    reason: str


class Suspend(Record, frozen=True, kw_only=True, tag_field="type", tag="suspend"):
    """Suspend the call until it is decided."""

    ticket: SuspendTicket


class SetResult(Record, frozen=True, kw_only=True, tag_field="type", tag="set_result"):
    """Answer the call without running it."""

    result: ToolResult


GateDecision = Block | Suspend | SetResult


class Allow(Record, frozen=True, kw_only=True, tag_field="type", tag="allow"):
    """Let the call pass, also a call of a remote agent that requests permission.

    A gate that returns None neither refuses nor permits the call.
    """

    approves: bool = False
    """Whether it also stands for the approval that the tool requires (`needs_approval`)."""


PHASE_CONTEXTS: Mapping[Phase, type[PhaseContext]] = {
    Phase.RUN_START: RunStartContext,
    Phase.STEP_START: StepStartContext,
    Phase.BEFORE_INFERENCE: BeforeInferenceContext,
    Phase.AFTER_INFERENCE: AfterInferenceContext,
    Phase.TOOL_GATE: ToolGateContext,
    Phase.BEFORE_TOOL_EXECUTE: BeforeToolExecuteContext,
    Phase.AFTER_TOOL_EXECUTE: AfterToolExecuteContext,
    Phase.STEP_END: StepEndContext,
    Phase.RUN_END: RunEndContext,
}
"""What the hooks of a phase are given."""

C = TypeVar("C", bound=PhaseContext)

HookOf = Callable[[C], Awaitable[StateCommand | None]]
"""Pure: reads its context, returns a command, and may be run twice."""

ObserverOf = Callable[[C], Awaitable[None]]
"""May have effects: runs once, after the commands of the phase are applied."""

PhaseHook = HookOf[Any]
PhaseObserver = ObserverOf[Any]

ToolGate = Callable[[ToolGateContext], Awaitable[GateDecision | Allow | None]]
"""Pure: may be called twice for one call."""

ActionHandler = Callable[[PhaseContext, Any], Awaitable[StateCommand | None]]
EffectHandler = Callable[[Any, Snapshot], Awaitable[None]]


class RequestTransform(Protocol):
    """Rewrites the messages of a request, never the transcript. Synchronous and pure.

    It receives every message that no summary replaces. With a context policy, its result is cut to
    fit.
    """

    def __call__(self, messages: list[Message], tools: tuple[ModelTool, ...]) -> list[Message]:
        """Return the messages to send."""
        ...


class ConfigSection(Record, frozen=True, kw_only=True):
    """A config section that a plugin understands, with its JSON Schema."""

    name: str
    schema: dict[str, Any]
    agent_fields: tuple[str, ...] = ()
    """Fields that list agents, or `rules.agent` for one in each item of a list.

    An agent that is not registered is refused.
    """

    @classmethod
    def of(cls, name: str, type_: Any, *, agent_fields: tuple[str, ...] = ()) -> "ConfigSection":
        """Derive the schema from a type."""
        return cls(name=name, schema=_schema_of(type_), agent_fields=agent_fields)


@lru_cache(maxsize=256)
def _schema_of(type_: Any) -> dict[str, Any]:
    # Derived once: every agent that is resolved asks for the sections of its plugins.
    return msgspec.json.schema(type_)


class PluginRegistrar(Protocol):
    """Collects the declarations of a plugin. A duplicate declaration is an error."""

    def key(self, key: StateKey[Any, Any], *, retain_on_uninstall: bool = False) -> None:
        """Declare a state key."""
        ...

    def profile_key(self, key: ProfileKey[Any]) -> None:
        """Declare a profile key."""
        ...

    @overload
    def hook(self, phase: Literal[Phase.RUN_START], hook: HookOf[RunStartContext]) -> None: ...
    @overload
    def hook(self, phase: Literal[Phase.STEP_START], hook: HookOf[StepStartContext]) -> None: ...
    @overload
    def hook(
        self, phase: Literal[Phase.BEFORE_INFERENCE], hook: HookOf[BeforeInferenceContext]
    ) -> None: ...
    @overload
    def hook(
        self, phase: Literal[Phase.AFTER_INFERENCE], hook: HookOf[AfterInferenceContext]
    ) -> None: ...
    @overload
    def hook(
        self, phase: Literal[Phase.BEFORE_TOOL_EXECUTE], hook: HookOf[BeforeToolExecuteContext]
    ) -> None: ...
    @overload
    def hook(
        self, phase: Literal[Phase.AFTER_TOOL_EXECUTE], hook: HookOf[AfterToolExecuteContext]
    ) -> None: ...
    @overload
    def hook(self, phase: Literal[Phase.STEP_END], hook: HookOf[StepEndContext]) -> None: ...
    @overload
    def hook(self, phase: Literal[Phase.RUN_END], hook: HookOf[RunEndContext]) -> None: ...
    @overload
    def hook(self, phase: Phase, hook: HookOf[PhaseContext]) -> None: ...
    def hook(self, phase: Phase, hook: PhaseHook) -> None:
        """Run a pure hook in a phase; the tool gate takes gates instead.

        The hook takes the context of the phase, or a base class of it.

        Raises:
            InvalidSpec: There is no such phase, or the hook takes the context of another one.
        """
        ...

    @overload
    def observer(
        self, phase: Literal[Phase.RUN_START], observer: ObserverOf[RunStartContext]
    ) -> None: ...
    @overload
    def observer(
        self, phase: Literal[Phase.STEP_START], observer: ObserverOf[StepStartContext]
    ) -> None: ...
    @overload
    def observer(
        self, phase: Literal[Phase.BEFORE_INFERENCE], observer: ObserverOf[BeforeInferenceContext]
    ) -> None: ...
    @overload
    def observer(
        self, phase: Literal[Phase.AFTER_INFERENCE], observer: ObserverOf[AfterInferenceContext]
    ) -> None: ...
    @overload
    def observer(
        self,
        phase: Literal[Phase.BEFORE_TOOL_EXECUTE],
        observer: ObserverOf[BeforeToolExecuteContext],
    ) -> None: ...
    @overload
    def observer(
        self,
        phase: Literal[Phase.AFTER_TOOL_EXECUTE],
        observer: ObserverOf[AfterToolExecuteContext],
    ) -> None: ...
    @overload
    def observer(
        self, phase: Literal[Phase.STEP_END], observer: ObserverOf[StepEndContext]
    ) -> None: ...
    @overload
    def observer(
        self, phase: Literal[Phase.RUN_END], observer: ObserverOf[RunEndContext]
    ) -> None: ...
    @overload
    def observer(self, phase: Phase, observer: ObserverOf[PhaseContext]) -> None: ...
    def observer(self, phase: Phase, observer: PhaseObserver) -> None:
        """Run an observer after a phase; it takes the context of the phase, as a hook does.

        Raises:
            InvalidSpec: There is no such phase, or the observer takes another one's context.
        """
        ...

    def gate(self, gate: ToolGate) -> None:
        """Call this gate for every tool call.

        Raises:
            InvalidSpec: The gate takes the context of a phase.
        """
        ...

    def action(self, spec: ScheduledActionSpec[P], handler: ActionHandler) -> None:
        """Handle one kind of scheduled action."""
        ...

    def effect(self, spec: EffectSpec[P], handler: EffectHandler) -> None:
        """Handle one kind of effect."""
        ...

    def tool(self, tool: Tool) -> None:
        """Offer a tool to agents that use this plugin."""
        ...

    def transform(self, transform: RequestTransform) -> None:
        """Rewrite requests."""
        ...

    def screen_messages(self, screen: MessageScreen) -> None:
        """Screen messages before they enter the transcript."""
        ...

    def screen_results(self, screen: ValueScreen) -> None:
        """Screen the results of tools before they are stored."""
        ...

    def screen_answers(self, screen: AnswerScreen, stream: StreamScreen | None = None) -> None:
        """Screen the answers of models before they are stored or shown.

        Nothing is shown before the answer is complete, unless every screen has a `stream` that can
        screen the text while it arrives.
        """
        ...

    def instrument(self, maker: InstrumentMaker) -> None:
        """Watch runs that begin with this agent."""
        ...

    def after_run(self, work: AfterRunWork, *, is_wanted: IsWanted) -> None:
        """Do work after runs that `is_wanted` chooses.

        It is done in a follow-up run of the same agent, tenant and user, which is queued by the
        commit that ends the run: it delays no caller, and no crash loses it.
        """
        ...


class PluginHost(Protocol):
    """What a plugin may use for the lifetime of its runtime."""

    @property
    def memory(self) -> "MemoryAccess":
        """Facts and documents of the runtime's store; made when it is first asked for.

        Raises:
            MemoryUnavailable: The store keeps no memory.
        """
        ...

    async def renew(self) -> None:
        """Resolve the plugin's agents again, because what the plugin registers has changed.

        Runs in progress keep the version they started with.

        Raises:
            InvalidSpec: An agent fails to resolve; the registry is unchanged.
        """
        ...


class Plugin:
    """An extension of runs. Subclass it and override the methods that are needed.

    `register` is called once per resolved agent and must be repeatable. Built-in extensions use
    exactly this interface.
    """

    name: str = ""

    def register(self, registrar: PluginRegistrar) -> None:
        """Declare keys, hooks, gates, tools and handlers."""

    def config_sections(self) -> Sequence[ConfigSection]:
        """Return the config sections that this plugin reads."""
        return ()

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> Any:
        """Check and compile the agent's configuration; hooks read it from `context.prepared`.

        Called once whenever the agent is resolved, with every tool that it has. For an invalid
        configuration it raises `InvalidPluginConfig`, and the agent is refused.
        """
        return None

    def list_warnings(self, agent: AgentSpec) -> Sequence[str]:
        """Return warnings about the agent's configuration; the runtime logs them."""
        return ()

    async def open(self, host: PluginHost) -> None:
        """Start what lives as long as the runtime, such as connections. Must return quickly."""

    async def close(self) -> None:
        """Stop what `open` started; also called after an `open` that failed."""

    def activate(self, run: RunIdentity, agent: AgentSpec) -> Any:
        """Return this plugin's object for one run; hooks read it from `context.own`."""
        return None

    def on_activate(self, agent: AgentSpec) -> StateCommand | None:
        """Return the state to write when a run, or an agent after a handoff, begins."""
        return None

    def on_deactivate(self) -> StateCommand | None:
        """Return the state to write when another agent takes over."""
        return None
