"""Replays: a recorded run once more, on a runtime of its own that touches nothing outside.

Hooks, gates, screens, plugins and the loop are the real ones. Models and tools answer from the
recording, as far as the mode says. Time and ids are the recording's and a seed's.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.errors import CannotReplay, ReplayTimedOut
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplayResult, ReplaySpec
from awaken.contracts.evals.worlds import ModelSource, ToolSource, Variant, World
from awaken.contracts.lifecycle import Cancelled, tag_of
from awaken.contracts.runs.records import RunKind, RunRequest, RunResult
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.context_state import CONTEXT_STATE, CompactionMark
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.store import Commit, Store
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.journal import CommitWatchers
from awaken.runtime.limits import ToolSlots
from awaken.runtime.model_health.health import ModelHealth
from awaken.runtime.primitives.signals import LoopTurns
from awaken.runtime.primitives.timers import DeadlineWatch
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Services
from awaken.runtime.switches import SwitchBoard

from .decisions import NextInput, choose_input
from .divergences import find_divergences
from .recording import Recorder
from .replay_checks import check_proven, check_tried, find_mode_problem, list_uncompared
from .replay_parts import OverlaidProfiles, RecordedSummaries, ReplayClock, SeededIds
from .variants import change_agents, describe_tool
from .workflow_replays import verify_workflow
from .worlds import OneWorld

ACTIVATIONS_MAX = 10_000
"""How often a replayed run may go on after a wait."""
WORLD = "replay"


class ReplayHost(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay takes of the process that it runs in."""

    registry: RegistryHandle
    services: Services
    make_store: Callable[[Clock], Store]
    """Makes an empty store in memory."""
    make_profile: Callable[[], ProfileStore]
    version: str
    time_ms: int = 600_000
    """How long one replay may take."""


class Replays:
    """Replays recordings, each on an engine of its own."""

    def __init__(self, host: ReplayHost) -> None:
        self._host = host

    async def replay(
        self, recording: Recording, spec: ReplaySpec | None = None, *, acts_for_user: bool = True
    ) -> ReplayResult:
        """Replay a recording and compare what came of it.

        Unless it `acts_for_user`, no live model and no live tool has the user of the run, and with
        it that user's memory.

        Raises:
            CannotReplay: The recording lacks what the mode needs, its agent cannot be resolved, a
                provider failed, or nothing of what should be tried was; or a verification found a
                difference that may come from what was purged.
            ReplayTimedOut: It takes longer than it may; nothing of it is left.
        """
        spec = spec or ReplaySpec()
        self.check(recording, spec)
        is_recorded = spec.mode is ReplayMode.VERIFY
        user_id = recording.run.user_id if acts_for_user or is_recorded else None
        limit_ms = min(spec.time_ms or self._host.time_ms, self._host.time_ms)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                if recording.run.is_workflow:
                    made = await verify_workflow(self._host.registry, recording)
                    return self._name_uncompared(recording, spec, made)
                replayed, worlds = await self._run(recording, spec, user_id)
        except TimeoutError as error:
            run_id = recording.run.run_id
            raise ReplayTimedOut(run_id=run_id, limit_ms=limit_ms) from error
        from_step = spec.from_step
        found = find_divergences(recording, replayed, from_step)
        check_proven(recording, spec, found)
        check_tried(recording, spec, replayed, worlds, is_same=not found)
        kept = found if spec.keep_going else found[:1]
        ended = replayed.run.termination
        made = ReplayResult(
            mode=spec.mode,
            is_same=not found,
            divergences=kept,
            ended=None if ended is None else tag_of(ended),
            replayed=replayed,
        )
        return self._name_uncompared(recording, spec, made)

    def _name_uncompared(
        self, recording: Recording, spec: ReplaySpec, made: ReplayResult
    ) -> ReplayResult:
        live, is_managed = self._host.registry.snapshot().publication, self._has_config()
        found = list_uncompared(recording, spec, live, is_managed=is_managed)
        return msgspec.structs.replace(made, incomplete=tuple(found))

    def check(self, recording: Recording, spec: ReplaySpec) -> None:
        """Refuse what cannot be replayed in this way, before anything is done.

        Raises:
            CannotReplay: It cannot.
        """
        problem, variant = None, spec.variant
        if spec.from_step < 1 or spec.from_step > len(recording.steps) + 1:
            problem = f"it has {len(recording.steps)} steps, and cannot begin with {spec.from_step}"
        elif recording.run.is_workflow and spec.mode is not ReplayMode.VERIFY:
            problem = "it is of a workflow, which can only be verified"
        elif spec.time_ms is not None and spec.time_ms < 1:
            problem = "time_ms must be at least 1"
        elif spec.from_step > 1 and _names_other(recording, variant):
            problem = "another agent begins with the first step; leave from_step out"
        elif variant is not None and variant.draft_id is not None:
            problem = "a draft is pinned to a publication first"
        elif variant is not None and variant.publication is not None and not self._has_config():
            problem = "a publication needs managed configuration"
        else:
            problem = find_mode_problem(recording, spec)
        if problem is not None:
            raise CannotReplay(run_id=recording.run.run_id, problem=problem)

    def _has_config(self) -> bool:
        return self._host.registry.publications is not None

    async def _run(
        self, recording: Recording, spec: ReplaySpec, user_id: str | None
    ) -> tuple[Recording, OneWorld]:
        host, clock = self._host, ReplayClock(recording)
        store = host.make_store(clock)
        store.keeps_state_history = True
        world = _build_world(spec)
        change = None
        if world.variant is not None:
            change = partial(change_agents, world=world, recording=recording)
        worlds = OneWorld(world, recording, clock, change)
        services = self._build_services(recording, worlds, clock, SeededIds(spec.seed))
        engine = RunEngine(store, host.registry, services, worlds=worlds)
        await store.open()
        try:
            await _seed_thread(store, services.ids, recording)
            request = self._build_request(recording, spec, user_id)
            await self._refuse_workflow(recording, request)
            await _drive(engine, worlds, clock, spec, request)
            recorder = Recorder(store, host.registry, host.version, worlds)
            return await recorder.record(recording.run.run_id), worlds
        except CannotReplay:
            raise
        except AwakenError as error:
            problem = str(error).rstrip(".")
            raise CannotReplay(run_id=recording.run.run_id, problem=problem) from error
        finally:
            await engine.close()
            await store.close()

    def _build_services(
        self, recording: Recording, worlds: OneWorld, clock: Clock, ids: IdSource
    ) -> Services:
        given = self._host.services
        is_live = worlds.world.models is ModelSource.LIVE
        profile, began_at = self._host.make_profile(), recording.run.created_at
        return replace(
            given,
            clock=clock,
            ids=ids,
            tool_slots=ToolSlots(),
            profile=OverlaidProfiles(given.profile, profile, began_at, is_live=is_live),
            health=ModelHealth(clock),
            compactor=RecordedSummaries(recording, lambda place: _find_place(worlds, place)),
            message_sink=None,
            may_rest=False,
            instruments=[],
            watchers=CommitWatchers(),
            turns=LoopTurns(),
            switches=SwitchBoard(),
            session_tools={},
            deadlines=DeadlineWatch(),
        )

    async def _refuse_workflow(self, recording: Recording, request: RunRequest) -> None:
        """Refuse to try a run with a workflow: its code is not a variant of an agent.

        Raises:
            CannotReplay: The agent is one.
        """
        assert request.agent_id is not None
        try:
            agent = await self._host.registry.resolve(request.agent_id, request.publication)
        except AwakenError:
            # It is gone here; the recording may have it, and admission says so otherwise.
            return
        if agent.workflow is not None:
            problem = f"agent '{request.agent_id}' is a workflow, which can only be verified"
            raise CannotReplay(run_id=recording.run.run_id, problem=problem)

    def _build_request(
        self, recording: Recording, spec: ReplaySpec, user_id: str | None
    ) -> RunRequest:
        run, variant = recording.run, spec.variant
        overrides = run.overrides
        agent_id, publication = run.agent_id, recording.config.publication
        if variant is not None:
            agent_id = variant.agent_id or agent_id
            publication = variant.publication or publication
            if variant.overrides is not None:
                overrides = (
                    variant.overrides if overrides is None else overrides.merge(variant.overrides)
                )
        if not self._has_config():
            # A recording from elsewhere: this process has no publications.
            publication = None
        return RunRequest(
            thread_id=run.thread_id,
            run_id_hint=run.run_id,
            agent_id=agent_id,
            messages=recording.input,
            overrides=overrides,
            tool_choice=run.tool_choice,
            context=run.context,
            frontend_tools=tuple(describe_tool(it, variant) for it in run.frontend_tools),
            output_schema=run.output_schema,
            budgets=run.budgets,
            publication=publication,
            tenant_id=run.tenant_id,
            user_id=user_id,
            purpose=RunKind.REPLAY,
            world=WORLD,
        )


def _names_other(recording: Recording, variant: Variant | None) -> bool:
    named = None if variant is None else variant.agent_id
    return named is not None and named != recording.run.agent_id


def _build_world(spec: ReplaySpec) -> World:
    is_recorded = spec.mode in (ReplayMode.VERIFY, ReplayMode.MODEL_ONLY)
    tools = spec.tools
    if spec.mode is ReplayMode.MODEL_ONLY:
        tools = msgspec.structs.replace(tools, source=ToolSource.LIVE)
    elif spec.mode is ReplayMode.SIMULATE:
        tools = msgspec.structs.replace(tools, source=ToolSource.SIMULATED)
    return World(
        models=ModelSource.RECORDED if is_recorded else ModelSource.LIVE,
        tools=tools,
        decisions=spec.decisions,
        on_question=spec.on_question,
        from_step=spec.from_step if not is_recorded else 1,
        variant=spec.variant,
        seed=spec.seed,
        # Every difference is found by comparing: a replay that stops early finds only the first.
        keep_going=True,
    )


async def _seed_thread(store: Store, ids: IdSource, recording: Recording) -> None:
    """Make the thread as the recorded run found it."""
    run = recording.run
    thread = Thread(id=run.thread_id, tenant_id=run.tenant_id).touch(run.created_at)
    await store.commit(
        Commit(
            commit_id=ids.new_id(),
            thread_id=run.thread_id,
            expected_version=0,
            committed_at=run.created_at,
            thread=thread,
            messages=recording.history,
            state={**recording.state.thread},
        )
    )


async def _drive(
    engine: RunEngine, worlds: OneWorld, clock: ReplayClock, spec: ReplaySpec, request: RunRequest
) -> RunResult:
    """Run until the end, with the decisions and messages that the recorded run got."""
    recording, is_live = worlds.recording, worlds.world.models is ModelSource.LIVE
    assert recording is not None
    result = await engine.run(request)
    steps = {it.n: it for it in recording.steps}
    for _ in range(ACTIVATIONS_MAX):
        if not result.is_waiting:
            break
        find_call = worlds.current.find_decided if is_live and worlds.current else None
        wanted = choose_input(spec, result.tickets, steps.get(result.steps), steps, find_call)
        if wanted is None:
            ended = recording.run.termination
            if isinstance(ended, Cancelled):
                await engine.cancel_waiting(result.run_id, ended.cause)
            break
        clock.resume(recording, result.steps)
        result = await engine.run(_continue(result, wanted))
    return result


def _continue(result: RunResult, wanted: NextInput) -> RunRequest:
    return RunRequest(
        agent_id=wanted.agent_id,
        thread_id=result.thread_id,
        continue_run_id=result.run_id,
        decisions=wanted.decisions,
        messages=wanted.messages,
    )


def _find_place(worlds: OneWorld, place: int) -> tuple[int, str, CompactionMark | None]:
    assert worlds.current is not None
    run = worlds.current.run
    marks = run.state.get(CONTEXT_STATE).marks
    message_id = run.messages[place].id if place < len(run.messages) else None
    return run.step.number, message_id or "", marks[-1] if marks else None
