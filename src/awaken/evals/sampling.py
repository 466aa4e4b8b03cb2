"""Executes one sample: its turns are durable runs on a thread of its own, wherever they execute.

Nothing is kept in memory that the store does not have: another process that takes the sample over
finds its runs by their ids and goes on.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import (
    AlreadyDecided,
    AwakenError,
    StorageError,
    UnknownRun,
    UsageError,
    VersionConflict,
)
from awaken.contracts.evals.cases import CaseTurn
from awaken.contracts.evals.eval_runs import EvalMode, ItemStatus
from awaken.contracts.evals.store import EvalStore, encode_eval_object
from awaken.contracts.evals.worlds import ModelSource, Variant, World
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus, Stopped, Termination
from awaken.contracts.messages.message import Message, user
from awaken.contracts.models.budgets import BudgetExceeded, BudgetScope
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunResult
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import Ticket
from awaken.services.control import RunControl

from .decisions import FindCall
from .judging import SimulatedPerson
from .planning import MODELS
from .provider_failures import PROVIDER_CODES
from .recorded_tools import CallPlan
from .samples import (
    SampleSetup,
    build_request,
    build_state,
    build_world,
    choose_decisions,
    find_next_deadline,
    list_history,
    list_messages,
    run_of,
)

DIVERGED = "diverged"
CANCEL_CAUSE = "eval"
LOOK_MS = 50
"""How long a run that goes on by itself is waited for at least, before it is looked at again."""
END_MS = 10_000
"""How long a sample that is cancelled may take to end."""


class SampleEnd(Record, frozen=True, kw_only=True):
    """How the runs of a sample ended."""

    status: ItemStatus
    run_ids: tuple[str, ...] = ()
    """The runs of its turns, in order; a workflow that continues as new has several in a turn."""
    error: str | None = None
    has_begun: bool = True
    """Whether a model was asked at all."""
    has_unused_script: bool = False
    """Whether the script of the case had answers left over: the agent did something else."""


class PersonSilent(Exception):
    """The model that plays the person of a sample did not answer."""

    def __init__(self, status: ItemStatus, problem: str) -> None:
        super().__init__(problem)
        self.end = SampleEnd(status=status, error=problem)


class SampleRunner:
    """Executes samples through the mailbox, so that any worker of the store executes their runs."""

    def __init__(self, control: RunControl, evals: EvalStore, clock: Clock) -> None:
        self._control = control
        self._evals = evals
        self._clock = clock
        self._worlds: dict[str, World] = {}

    async def run(
        self, setup: SampleSetup, changes: Variant | None, person: SimulatedPerson | None
    ) -> SampleEnd:
        """Execute the turns of a sample until its end, or until its time is over.

        Raises:
            StorageError: The store fails; the sample can be run again.
        """
        run_ids: list[str] = []
        turn = 0
        deadline = self._clock.monotonic_ms() + setup.spec.sample_time_ms
        turns = self._list_turns(setup, person)
        end = SampleEnd(status=ItemStatus.SCORED)
        try:
            async for messages, further in turns:
                world = build_world(setup.spec, setup.given, changes, further)
                run_ids.append(run_of(setup.thread_id, turn))
                try:
                    end = await self._take_turn(setup, turn, messages, world, deadline, run_ids)
                except BudgetExceeded as error:
                    end = SampleEnd(status=ItemStatus.CUT, error=str(error))
                turn += 1
                if end.status is not ItemStatus.SCORED:
                    break
        except PersonSilent as error:
            end = error.end
        finally:
            await turns.aclose()
        return msgspec.structs.replace(end, run_ids=tuple(run_ids))

    async def _list_turns(
        self, setup: SampleSetup, person: SimulatedPerson | None
    ) -> "AsyncGenerator[tuple[tuple[Message, ...], CaseTurn | None], None]":
        """Yield the input of each turn; of a simulated person, as far as the conversation goes."""
        case = setup.given.case
        if person is None:
            yield list_messages(setup.given), None
            for turn in case.continued_turns:
                yield (user(turn.user_input),), turn
            return
        for number in range(person.user.max_turns):
            said = await self._find_said(setup, number)
            if said is None and number == 0 and (case.user_input is not None or case.input):
                said = list_messages(setup.given)
            if said is None:
                text = await self._hear(person, setup)
                if text is None:
                    return
                said = (user(text),)
            yield said, None

    async def _hear(self, person: SimulatedPerson, setup: SampleSetup) -> str | None:
        """Return what the person says next; None when the person is done.

        Raises:
            PersonSilent: The model that plays the person does not answer: no fault of the agent.
            StorageError: The store fails.
        """
        transcript = await self._list_transcript(setup)
        try:
            return await person.speak(transcript)
        except BudgetExceeded as error:
            raise PersonSilent(ItemStatus.CUT, str(error)) from error
        except StorageError:
            raise
        except AwakenError as error:
            problem = f"the simulated person could not be asked: {error}"
            raise PersonSilent(ItemStatus.INFRA_ERROR, problem) from error

    async def _find_said(self, setup: SampleSetup, turn: int) -> tuple[Message, ...] | None:
        """Return what was said in a turn that another process began."""
        dispatch = await self._control.engine.store.find_dispatch_of_run(
            run_of(setup.thread_id, turn)
        )
        return None if dispatch is None else dispatch.request.messages

    async def _list_transcript(self, setup: SampleSetup) -> tuple[Message, ...]:
        checkout = await self._control.engine.store.checkout(setup.thread_id)
        return () if checkout is None else tuple(checkout.messages)

    async def _take_turn(
        self,
        setup: SampleSetup,
        turn: int,
        messages: tuple[Message, ...],
        world: World,
        deadline: int,
        run_ids: list[str],
    ) -> SampleEnd:
        """Execute a turn; the runs as which a workflow continues are added to `run_ids`."""
        run_id = run_of(setup.thread_id, turn)
        # A recording has one run: what followed it is not in there.
        follows = MODELS[setup.spec.mode_or_live] is not ModelSource.RECORDED
        store = self._control.engine.store
        if await store.load_run(run_id) is None:
            if await store.find_dispatch_of_run(run_id) is None:
                if turn == 0:
                    await self._seed_thread(setup)
                hashed = await self._keep_world(world)
                request = build_request(setup, turn, messages, hashed)
                await self._control.submit(request, InputMode.QUEUE, {"dedupe_key": run_id})
            else:
                self._control.start_queued()
        while True:
            left = deadline - self._clock.monotonic_ms()
            try:
                result = await self._control.wait(run_id, max(1, left))
            except TimeoutError:
                return await self._stop(run_id, ItemStatus.TIMEOUT, "it took too long")
            except UnknownRun:
                return SampleEnd(status=ItemStatus.INFRA_ERROR, error="its dispatch was lost")
            if follows and result.continued_as is not None:
                run_id = result.continued_as
                run_ids.append(run_id)
                continue
            if result.status is not RunStatus.WAITING:
                return classify_end(result, setup.spec.mode_or_live)
            find_call = await self._match_calls(setup, world, result)
            end = await self._answer(result.tickets, world, find_call, deadline)
            if end is not None:
                return await self._stop(run_id, end.status, end.error or "")

    async def _answer(
        self, tickets: Sequence[Ticket], world: World, find_call: FindCall, deadline: int
    ) -> SampleEnd | None:
        """Decide the open questions of a waiting run, or wait until it goes on by itself.

        Returns how the sample ends if it does not go on.
        """
        chosen = choose_decisions(tickets, world, find_call)
        due = find_next_deadline(tickets)
        if chosen:
            try:
                await self._control.decide(chosen)
            except AlreadyDecided:
                # Its deadline was faster, or another driver.
                due = self._clock.now_ms()
            except UsageError as error:
                return SampleEnd(status=ItemStatus.FAILED, error=f"waiting: {error}")
            else:
                return None
        if chosen is None or due is None:
            asked = ", ".join(it.tool_name for it in tickets) or "input"
            return SampleEnd(status=ItemStatus.FAILED, error=f"waiting: {asked}")
        pause = max(due - self._clock.now_ms(), LOOK_MS)
        if pause > deadline - self._clock.monotonic_ms():
            return SampleEnd(status=ItemStatus.TIMEOUT, error="it waits for longer than it may")
        await asyncio.sleep(pause / 1000)
        return None

    async def _match_calls(self, setup: SampleSetup, world: World, result: RunResult) -> FindCall:
        """Match the calls of a waiting run with those of its recording, as its tools do."""
        recording = setup.given.recording
        plan = CallPlan(recording, world.tools)
        if recording is not None:
            checkout = await self._control.engine.store.checkout(result.thread_id)
            plan.read(() if checkout is None else checkout.messages, result.run_id)
        return partial(plan.find_decided, result.steps)

    async def _seed_thread(self, setup: SampleSetup) -> None:
        """Make the thread of a sample that begins with state, unless a process did so before."""
        store, state = self._control.engine.store, build_state(setup.given)
        if not state or await store.checkout(setup.thread_id) is not None:
            return
        now = self._clock.now_ms()
        thread = Thread(id=setup.thread_id, tenant_id=setup.tenant_id).touch(now)
        commit = Commit(
            commit_id=f"{setup.thread_id}:seed",
            thread_id=setup.thread_id,
            expected_version=0,
            committed_at=now,
            thread=thread,
            messages=tuple(
                it if it.id else msgspec.structs.replace(it, id=f"{setup.thread_id}:before:{no}")
                for no, it in enumerate(list_history(setup.given))
            ),
            state=state,
        )
        try:
            await store.commit(commit)
        except VersionConflict:
            # Another driver was faster; what it wrote is the same.
            return

    async def _keep_world(self, world: World) -> str:
        hashed, body = encode_eval_object(world)
        if hashed not in self._worlds:
            await self._evals.put_eval_objects({hashed: body})
            self._worlds[hashed] = world
        return hashed

    async def _stop(self, run_id: str, status: ItemStatus, problem: str) -> SampleEnd:
        await self._control.cancel_run(run_id, CANCEL_CAUSE)
        try:
            await self._control.wait(run_id, END_MS)
        except (TimeoutError, AwakenError):
            # Its worker will end it; what it spends is in the ledger.
            await asyncio.sleep(0)
        return SampleEnd(status=status, error=problem)


def classify_end(result: RunResult, mode: EvalMode) -> SampleEnd:
    """Say what the end of a run means for its sample."""
    end = classify_termination(result.termination, mode)
    has_begun = end.status is not ItemStatus.CUT or result.steps > 0
    return msgspec.structs.replace(end, has_begun=has_begun)


def classify_termination(termination: Termination | None, mode: EvalMode) -> SampleEnd:
    """Say what an end means for the sample whose run, or a run below it, ended so."""
    match termination:
        case Failed(code=code, message=message):
            status = ItemStatus.FAILED
            if code == DIVERGED:
                status = ItemStatus.DIVERGED
            elif code in PROVIDER_CODES and mode is EvalMode.LIVE:
                status = ItemStatus.INFRA_ERROR
            return SampleEnd(status=status, error=f"{code}: {message}")
        case Stopped(reason=reason) if reason.code == BudgetExceeded.code:
            is_group = (reason.detail or "").startswith(f"{BudgetScope.GROUP}:")
            status = ItemStatus.CUT if is_group else ItemStatus.FAILED
            return SampleEnd(status=status, error=reason.detail)
        case Cancelled(cause=cause):
            return SampleEnd(status=ItemStatus.FAILED, error=f"cancelled by {cause}")
        case _:
            return SampleEnd(status=ItemStatus.SCORED)
