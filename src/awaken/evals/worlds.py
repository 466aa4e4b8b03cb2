"""Worlds: a run's models and tools replaced when it is admitted, in whatever process that is.

A world keeps no position. Which answer comes next follows from the run: its step, its transcript
and its tickets. So a run that another process takes over goes on rightly.
"""

import asyncio
import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import msgspec

from awaken.authoring.frontend import FrontEndTool
from awaken.contracts.config.publications import hash_object
from awaken.contracts.errors import StateError
from awaken.contracts.evals.errors import CannotReplay, ReplayDiverged
from awaken.contracts.evals.recordings import RecordedCall, RecordedStep, Recording
from awaken.contracts.evals.worlds import (
    ModelSource,
    OnMiss,
    ToolPolicy,
    ToolSource,
    World,
)
from awaken.contracts.lifecycle import Cancelled, Failed
from awaken.contracts.messages.message import Role, ToolCall
from awaken.contracts.models.inference import InferenceRequest, ModelClient
from awaken.contracts.plugins.loop_state import PENDING_MESSAGES
from awaken.contracts.state.context_state import CompactionConfig
from awaken.contracts.suspension.tickets import Question
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolEffect, ToolOutput
from awaken.runtime.inference.rebuild import digest_of
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.resolver import ResolvedAgent, match_patterns, resolve
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.runtime.run import Run
from awaken.runtime.tools.recall import rebuild_command

from .recorded_model import RecordedModel, ScriptedAnswers
from .recorded_tools import CallAnswer, CallPlan, Missing, RecordedTool
from .recording_files import decode_recording, encode_recording
from .replay_parts import list_marks
from .simulated_tools import simulate_call
from .variants import change_agents

_decode_world = msgspec.json.Decoder(World).decode
_encode_world = msgspec.json.Encoder(order="deterministic").encode
OnStep = Callable[[RecordedStep], None]
Change = Callable[[RegistrySet], RegistrySet]


class WorldObjects(Protocol):
    """Reads worlds and recordings by their hashes; an eval store is one."""

    async def load_eval_objects(self, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Return the objects that exist, by hash."""
        ...


def pack_world(world: World, recording: Recording | None) -> tuple[str, dict[str, bytes]]:
    """Return the hash of a world, and the objects that have to be kept for it."""
    objects: dict[str, bytes] = {}
    if recording is not None:
        data = encode_recording(recording)
        objects[hash_object(data)] = data
        world = msgspec.structs.replace(world, recording=hash_object(data))
    body = _encode_world(world)
    objects[hash_object(body)] = body
    return hash_object(body), objects


class StoredWorlds:
    """Opens the worlds of an eval store."""

    def __init__(self, objects: WorldObjects) -> None:
        self._objects = objects

    async def open(self, world: str, pinned: RegistrySnapshot) -> "RunWorld":
        """Return a world for one activation of a run.

        Raises:
            CannotReplay: There is no such world, or its recording is gone or damaged.
        """
        name, *below = world.split("/")
        try:
            opened = _decode_world(await self._load(name, "world"))
        except msgspec.MsgspecError as error:
            raise CannotReplay(run_id="?", problem=f"its world is damaged: {error}") from error
        recording = None
        if opened.recording is not None:
            recording = decode_recording(await self._load(opened.recording, "recording"))
        recording = find_child(recording, below)
        change = None
        if opened.agent is not None or opened.variant is not None:
            change = partial(change_agents, world=opened, recording=recording)
        return RunWorld(opened, recording, pinned, change=change)

    async def _load(self, name: str, what: str) -> bytes:
        found = await self._objects.load_eval_objects([name])
        if name not in found:
            raise CannotReplay(run_id="?", problem=f"there is no {what} '{name}'")
        return found[name]


class OneWorld:
    """The world of one run in this process, whatever name the run gives it."""

    def __init__(
        self,
        world: World,
        recording: Recording | None,
        on_step: OnStep | None = None,
        change: Change | None = None,
    ) -> None:
        """`on_step` is called when a step asks its model; `change` makes the variant's agents."""
        self.world = world
        self.recording = recording
        self._on_step = on_step
        self._change = change
        self.current: RunWorld | None = None
        """The world of the latest activation of the run itself, not of runs below it."""

    async def open(self, world: str, pinned: RegistrySnapshot) -> "RunWorld":
        """Return the world for one activation of the run."""
        _, *below = world.split("/")
        recording = find_child(self.recording, below)
        made = RunWorld(self.world, recording, pinned, self._on_step, self._change)
        if not below:
            self.current = made
        return made


def find_child(recording: Recording | None, below: Sequence[str]) -> Recording | None:
    """Return the recording of a run below the recorded one, by the calls that lead to it.

    A child that the recorded run did not have has an empty recording: it has no answers.
    """
    for part in below:
        if recording is None:
            return None
        call_id = part.replace("%2F", "/")
        children = (it for step in recording.steps for it in step.children)
        found = next((it for it in children if it.run.parent_call_id == call_id), None)
        empty = msgspec.structs.replace(recording, steps=(), history=(), input=())
        recording = found or empty
    return recording


class RunWorld:
    """A world for one activation of one run: gives its clients and tools what they need of it."""

    def __init__(
        self,
        world: World,
        recording: Recording | None,
        pinned: RegistrySnapshot,
        on_step: OnStep | None = None,
        change: Change | None = None,
    ) -> None:
        self.world = world
        self.recording = recording
        self.snapshot: RegistrySnapshot = WorldSnapshot(pinned, self, change)
        self._on_step = on_step
        self._run: Run | None = None
        self._plan = CallPlan(recording, world.tools)
        self._seen = 0
        """How many messages of the transcript the plan knows."""
        self._steps = {it.n: it for it in recording.steps} if recording is not None else {}

    def attach(self, run: Run) -> None:
        """Bind the world to the run; what reached the recorded run next reaches this one."""
        self._run = run
        if all(it.decision is not None for it in run.tickets.values()):
            # While a call waits, a message would be held, and could not replace its decision.
            self._deliver_inputs(run.step.number + 1)

    @property
    def run(self) -> Run:
        """The run."""
        assert self._run is not None
        return self._run

    @property
    def policy(self) -> ToolPolicy:
        """How calls are answered: before `from_step`, always from the recording."""
        if self.step < self.world.from_step:
            return ToolPolicy(ignore=self.world.tools.ignore)
        return self.world.tools

    @property
    def step(self) -> int:
        """The number of the run's current step."""
        return self.run.step.number

    def make_client(self, name: str, live: ModelClient | None) -> ModelClient:
        """Return what answers instead of a client."""
        world, recording = self.world, self.recording
        if world.models is ModelSource.SCRIPTED:
            return ScriptedAnswers(name, world.script, self)
        if recording is None:
            assert live is not None
            return live
        is_live = world.models is ModelSource.LIVE
        return RecordedModel(name, recording, self, live if is_live else None, world.from_step)

    def begin_step(self, step: int, request: InferenceRequest) -> None:
        """Check the request of a step, and let in what reached the recorded run after it.

        Raises:
            ReplayDiverged: The request is not the recorded one.
        """
        recorded = self._steps.get(step)
        if recorded is None:
            return
        if self._on_step is not None:
            self._on_step(recorded)
        is_compared = self.world.models is ModelSource.RECORDED and not self.world.keep_going
        if is_compared and recorded.digest is not None and self._is_plain():
            digest = digest_of(request)
            if digest != recorded.digest:
                problem = f"the request's digest is {digest}, not {recorded.digest}"
                raise ReplayDiverged(problem, step=step, kind="request")
        if not any(call.decisions for call in recorded.calls):
            # Otherwise the run waits first, and takes it in when it goes on.
            self._deliver_inputs(step + 1)

    def find_summary(self, request: InferenceRequest) -> str | None:
        """Return the next recorded summary, if a summary of the history is asked for.

        A blank one is not used: the recorded run had none any more.
        """
        config = self.run.agent.spec.config(CompactionConfig.section, CompactionConfig)
        is_summary = request.system == (config.system_prompt,) and len(request.messages) == 1
        if not is_summary or request.tools or self.recording is None:
            return None
        marks = list_marks(self.recording)
        return next((it.summary for step, it in marks.items() if step >= self.step), "")

    def _is_plain(self) -> bool:
        """Whether clients get requests as they were digested: their models add no options."""
        return not any(route.has_defaults for route in self.run.agent.models)

    def _deliver_inputs(self, step: int) -> None:
        recorded = self._steps.get(step)
        if recorded is None or not recorded.inputs:
            return
        run = self.run
        known = {it.id for it in (*run.request.messages, *run.inbox.messages)}
        known |= {it.id for it in run.state.get(PENDING_MESSAGES)}
        known |= {it.id for it in run.messages[-len(recorded.inputs) - 64 :]}
        missing = [it for it in recorded.inputs if it.id not in known]
        if missing:
            run.inbox.put(missing)

    def cancel(self, cause: str) -> None:
        """Cancel the run."""
        self.run.token.cancel(cause)

    async def wait_for_cancel(self) -> None:
        """Cancel the run at a call that the recorded run was cancelled in."""
        recording = self.recording
        ended = None if recording is None else recording.run.termination
        if not isinstance(ended, Cancelled):
            return
        # The calls beside it that have results come first.
        for _ in range(8):
            await asyncio.sleep(0)
        self.cancel(ended.cause)
        await asyncio.Event().wait()

    def find_answer(self, context: ToolContext) -> CallAnswer:
        """Return what answers a call, by its place among all calls of the run."""
        run = self.run
        messages = run.messages
        for place in range(self._seen, len(messages)):
            message = messages[place]
            metadata = message.metadata
            is_own = metadata is not None and metadata.run_id == run.identity.run_id
            if is_own and message.role is Role.ASSISTANT and metadata is not None:
                self._plan.add((metadata.step_index or 0) + 1, message.tool_calls or ())
        self._seen = len(messages)
        return self._plan.find(self.step, context.call_id) or Missing()

    def list_questions(self, call_id: str) -> tuple[Question, ...]:
        """Return the questions of a call that were decided so far."""
        ticket = self.run.tickets.get(call_id)
        return () if ticket is None else (*ticket.answered, ticket.question)

    def may_execute(self, descriptor: ToolDescriptor, *, is_miss: bool) -> bool:
        """Whether the real code of a tool may run; with effects only if the world allows them."""
        policy = self.policy
        if descriptor.effect is not ToolEffect.NONE and not policy.allow_effects:
            return False
        if policy.source is ToolSource.LIVE and not is_miss:
            return True
        is_allowed = any(fnmatch.fnmatchcase(descriptor.id, it) for it in policy.allow_live)
        return is_allowed or (is_miss and policy.on_miss is OnMiss.LIVE_NONE)

    def build_output(self, call: RecordedCall, tool: Tool | None) -> ToolOutput:
        """Return the recorded result with what the tool did to the state."""
        if not call.updates:
            return ToolOutput(result=call.result)
        try:
            command = rebuild_command(self.run, tool, call.updates)
        except (StateError, msgspec.ValidationError) as error:
            text = f"the recorded state updates cannot be made again: {error}"
            return ToolOutput(result=ToolResult.error(call.tool, text, code="state_update_failed"))
        return ToolOutput(result=call.result, command=command)

    async def simulate(
        self, descriptor: ToolDescriptor, arguments: Any, context: ToolContext
    ) -> ToolOutput:
        """Let the run's model answer in place of a tool, from its schema and recorded examples."""
        return await simulate_call(self.run, self.recording, descriptor, arguments)

    def diverge(self, call: ToolCall, nearest: RecordedCall | None) -> ToolOutput:
        """End the run as diverged at a call; the result says so."""
        problem = f"'{call.name}' was not called with these arguments"
        if nearest is None:
            problem = f"'{call.name}' was not called"
        error = ReplayDiverged(problem, step=self.step, kind="call")
        self.run.end(Failed(message=str(error), code=error.code))
        return ToolOutput(result=ToolResult.error(call.name, str(error), code=error.code))

    def equip(self, agent: ResolvedAgent, disabled: Collection[str] = ()) -> ResolvedAgent:
        """Return an agent with the tools of the world; tools of clients only ask, and stay."""
        tools: dict[str, Tool] = {
            name: it if isinstance(it, FrontEndTool) else RecordedTool(it.descriptor, it, self)
            for name, it in agent.tools.items()
        }
        for descriptor in self._list_lost_tools(agent, disabled):
            tools[descriptor.id] = RecordedTool(descriptor, None, self)
        return agent.with_own_tools(tools)

    def _list_lost_tools(
        self, agent: ResolvedAgent, disabled: Collection[str]
    ) -> Iterator[ToolDescriptor]:
        """Yield the tools that the recorded agent had and that are gone: they answer as before.

        A tool that the agent may not use any more is not gone: not having it is the change.
        """
        if self.recording is None or self.world.models is ModelSource.SCRIPTED:
            return
        config = self.recording.config
        had = frozenset(config.tools_of.get(agent.spec.id, ()))
        shown = [it.id for it in self.recording.run.frontend_tools]
        present = {*agent.tools, *shown, *disabled}
        lost = [it for it in config.tools if it.id in had and it.id not in present]
        names, spec = [it.id for it in lost], agent.spec
        allowed, _ = match_patterns(names, spec.allowed_tools)
        excluded, _ = match_patterns(names, spec.excluded_tools)
        for descriptor in lost:
            is_allowed = spec.allowed_tools is None or descriptor.id in allowed
            if is_allowed and descriptor.id not in excluded:
                yield descriptor


class WorldSnapshot(RegistrySnapshot):
    """The snapshot of one run in a world: its agents have the clients and tools of the world.

    Agents are resolved again, so that nothing of theirs is shared with runs in reality.
    """

    __slots__ = ("_world",)

    def __init__(self, pinned: RegistrySnapshot, world: RunWorld, change: Change | None) -> None:
        real = pinned.registries if change is None else change(pinned.registries)
        registries = _replace_clients(real, world)
        super().__init__(pinned.version, registries, None, pinned.layer, pinned.revision)
        self.publication, self.unusable = pinned.publication, pinned.unusable
        self._world = world

    def resolve(self, agent_id: str) -> ResolvedAgent:
        """Return the agent in its world; see `RegistrySnapshot.resolve`."""
        if agent_id not in self._resolved:
            name = self.registries.name_of(agent_id)
            found = resolve(self.registries, name)
            disabled = self.registries.disabled_tools
            self._resolved[agent_id] = self._world.equip(found, disabled)
        return self._resolved[agent_id]


class _EveryProvider(dict[str, ModelClient]):
    """Gives a client for every provider, also for those that this process does not have."""

    def __init__(self, real: Mapping[str, ModelClient], world: RunWorld) -> None:
        super().__init__()
        self._real = real
        self._world = world
        for name, client in real.items():
            self[name] = world.make_client(name, client)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the client of a provider."""
        if name not in self and self._world.world.models is not ModelSource.LIVE:
            self[name] = self._world.make_client(name, None)
        return super().get(name, default)


def _replace_clients(registries: RegistrySet, world: RunWorld) -> RegistrySet:
    agents: dict[str, AgentSource] = {}
    if world.recording is not None:
        # Agents that are gone come from the recording.
        agents = {
            name: AgentSource(spec=msgspec.structs.replace(spec, plugin_ids=()))
            for name, spec in world.recording.config.agents.items()
        }
    for name, source in registries.agents.items():
        model = source.model
        if model is not None and isinstance(model, ModelClient):
            source = replace(source, model=world.make_client(str(model.name), model))
        agents[name] = source
    providers = _EveryProvider(registries.providers, world)
    return replace(registries, agents=agents, providers=providers)
