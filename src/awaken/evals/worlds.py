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
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models.inference import InferenceRequest, ModelClient
from awaken.contracts.plugins.loop_state import PENDING_MESSAGES
from awaken.contracts.state.context_state import CONTEXT_STATE, CompactionConfig
from awaken.contracts.suspension.tickets import Question, Ticket
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolEffect, ToolOutput
from awaken.runtime.inference.rebuild import digest_of
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.resolution.resolver import ResolvedAgent, match_patterns, resolve
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.runtime.run import Run
from awaken.runtime.tools.recall import rebuild_command

from .decisions import is_settled
from .recorded_model import RecordedModel, ScriptedAnswers
from .recorded_screens import keep_screened
from .recorded_tools import (
    CallAnswer,
    CallPlan,
    Missing,
    RecordedTool,
    asks_agent,
)
from .recording_files import decode_recording, encode_recording
from .replay_parts import list_marks
from .simulated_tools import simulate_call
from .variants import change_agents, describe_tool, find_lost_agents

_decode_world = msgspec.json.Decoder(World).decode
_encode_world = msgspec.json.Encoder(order="deterministic").encode
Change = Callable[[RegistrySet], RegistrySet]


class StepClock(Protocol):
    """Is told how far the recorded run is; the clock of a replay is one."""

    def begin_step(self, step: RecordedStep) -> None:
        """Note that a recorded step asks its model."""
        ...

    def end_call(self, recording: Recording, step: int, call: RecordedCall) -> None:
        """Note that a recorded call answers in a step."""
        ...


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
        change = None
        if opened.agent is not None or opened.variant is not None:
            # A variant is of the agent that the recorded run began with, also below that run.
            change = partial(change_agents, world=opened, recording=recording)
        return RunWorld(opened, find_child(recording, below), pinned, change=change)

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
        clock: StepClock | None = None,
        change: Change | None = None,
    ) -> None:
        """`clock` is told of recorded steps and calls; `change` makes the variant's agents."""
        self.world = world
        self.recording = recording
        self._clock = clock
        self._change = change
        self.asked: set[str] = set()
        """The agents whose live model was asked, by the run or by runs below it."""
        self.executed: set[str] = set()
        """The tools whose real code was executed."""
        self.shown: set[str] = set()
        """The tools of the agents that spoke."""
        self.current: RunWorld | None = None
        """The world of the latest activation of the run itself, not of runs below it."""

    async def open(self, world: str, pinned: RegistrySnapshot) -> "RunWorld":
        """Return the world for one activation of the run."""
        _, *below = world.split("/")
        recording = find_child(self.recording, below)
        made = RunWorld(self.world, recording, pinned, self._clock, self._change)
        made.asked, made.executed, made.shown = self.asked, self.executed, self.shown
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
        clock: StepClock | None = None,
        change: Change | None = None,
    ) -> None:
        self.world = world
        self.recording = recording
        self.lost: Collection[str] = ()
        """The agents of the recording that are gone here, and are made from their specs."""
        self.snapshot: RegistrySnapshot = WorldSnapshot(pinned, self, change)
        self._clock = clock
        self._run: Run | None = None
        self._delegates: set[str] = set()
        self._plan = CallPlan(recording, world.tools, self._delegates)
        self._steps = {it.n: it for it in recording.steps} if recording is not None else {}
        self.asked: set[str] = set()
        self.executed: set[str] = set()
        self.shown: set[str] = set()

    def attach(self, run: Run) -> None:
        """Bind the world to the run; what reached the recorded run next reaches this one."""
        self._run = run
        if is_settled(self._steps.get(run.step.number), run.tickets.values()):
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
        if self.world.models is ModelSource.LIVE and step >= self.world.from_step:
            self.asked.add(self.run.agent.spec.id)
        recorded = self._steps.get(step)
        if recorded is None:
            return
        if self._clock is not None:
            self._clock.begin_step(recorded)
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

    def has_more_left_out(self) -> bool:
        """Whether the recorded request of this step had less of the history than this one."""
        recorded = self._steps.get(self.step)
        stored = None if recorded is None else recorded.state.get(CONTEXT_STATE.name)
        wanted = None if stored is None else CONTEXT_STATE.decode(stored).cut
        cut = self.run.state.get(CONTEXT_STATE).cut
        return wanted is not None and wanted.place > (0 if cut is None else cut.place)

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
        self._read_calls()
        return self._plan.find(self.step, context.call_id) or Missing()

    def find_decided(self, ticket: Ticket) -> RecordedCall | None:
        """Return the recorded call that a ticket's call is matched with; see `CallPlan`."""
        self._read_calls()
        return self._plan.find_decided(self.step, ticket)

    def find_recorded_id(self, call_id: str) -> str:
        """Return the id that a call of this step had in the recording; its own if it had none."""
        self._read_calls()
        found = self._plan.find(self.step, call_id)
        return found.id if isinstance(found, RecordedCall) else call_id

    def _read_calls(self) -> None:
        """Let the plan know the calls of the transcript that it has not seen."""
        self._plan.read(self.run.messages, self.run.identity.run_id)

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

    def note_execution(self, tool: str) -> None:
        """Note that the real code of a tool is executed."""
        self.executed.add(tool)

    def build_output(self, call: RecordedCall, tool: Tool | None) -> ToolOutput:
        """Return the recorded result with what the tool did to the state."""
        if self._clock is not None and self.recording is not None:
            self._clock.end_call(self.recording, self.step, call)
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
        if self.recording is None:
            problem = f"nothing answers '{call.name}', and there is no recording"
        elif nearest is None:
            problem = f"the recorded run did not call '{call.name}'"
        else:
            problem = f"the recorded run did not call '{call.name}' with these arguments"
        problem += "; give a stub of it, or another on_miss"
        error = ReplayDiverged(problem, step=self.step, kind="call")
        self.run.end(Failed(message=str(error), code=error.code))
        return ToolOutput(result=ToolResult.error(call.name, str(error), code=error.code))

    def equip(self, agent: ResolvedAgent, disabled: Collection[str] = ()) -> ResolvedAgent:
        """Return an agent with the tools of the world; tools of clients only ask, and stay.

        Raises:
            CannotReplay: The agent executes elsewhere, and the world allows no effects.
        """
        if not agent.is_local and not self.world.tools.allow_effects:
            problem = f"agent '{agent.spec.id}' executes elsewhere, which needs allow_effects"
            raise CannotReplay(run_id="?", problem=problem)
        self._delegates.update(name for name, it in agent.tools.items() if asks_agent(it))
        tools = {name: self._replace_tool(it) for name, it in agent.tools.items()}
        for descriptor in self._list_lost_tools(agent, disabled):
            shown = describe_tool(descriptor, self.world.variant)
            tools[descriptor.id] = RecordedTool(shown, None, self)
        self.shown.update(tools)
        agent.env.answer_screens = keep_screened(agent.env.answer_screens, self)
        return agent.with_own_tools(tools)

    def _replace_tool(self, tool: Tool) -> Tool:
        descriptor = describe_tool(tool.descriptor, self.world.variant)
        if not isinstance(tool, FrontEndTool):
            return RecordedTool(descriptor, tool, self)
        return tool if descriptor is tool.descriptor else FrontEndTool(descriptor)

    def _list_lost_tools(
        self, agent: ResolvedAgent, disabled: Collection[str]
    ) -> Iterator[ToolDescriptor]:
        """Yield the tools that the recorded agent had and that are gone: they answer as before.

        A tool that the agent may not use any more is not gone: not having it is the change. Of an
        agent that is gone, the spec alone makes other delegates: their arguments, their texts and
        whether they are tasks were in the code.
        """
        if self.recording is None or self.world.models is ModelSource.SCRIPTED:
            return
        config = self.recording.config
        had = frozenset(config.tools_of.get(agent.spec.id, ()))
        shown = [it.id for it in self.recording.run.frontend_tools]
        recorded = {it.id: it for it in config.tools} if agent.spec.id in self.lost else {}
        own = {
            n for n, it in agent.tools.items() if recorded.get(n, it.descriptor) == it.descriptor
        }
        present = {*own, *shown, *disabled}
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

    def equip_tool(self, tool: Tool) -> Tool:
        """Return a tool that a workflow brings in a step: it is replaced as declared ones are."""
        return RecordedTool(tool.descriptor, tool, self._world)

    def name_child_world(self, world: str, call_id: str) -> str:
        """Name the world by the recorded call: a live model gives its calls other ids."""
        return super().name_child_world(world, self._world.find_recorded_id(call_id))


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
    agents = {} if world.recording is None else find_lost_agents(registries, world.recording)
    world.lost = frozenset(agents)
    for name, source in registries.agents.items():
        model = source.model
        if model is not None and isinstance(model, ModelClient):
            source = replace(source, model=world.make_client(str(model.name), model))
        agents[name] = source
    providers = _EveryProvider(registries.providers, world)
    return replace(registries, agents=agents, providers=providers)
