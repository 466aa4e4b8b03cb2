"""Executes one sample: its turns are durable runs on a thread of its own, wherever they execute.

Nothing is kept in memory that the store does not have: another process that takes the sample over
finds its runs by their ids and goes on.
"""

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import AwakenError, UnknownRun, VersionConflict
from awaken.contracts.evals.eval_runs import EvalMode, ItemStatus
from awaken.contracts.evals.store import EvalStore, encode_eval_object
from awaken.contracts.evals.worlds import ScriptedTurn, Variant, World
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus, Stopped
from awaken.contracts.messages.message import Message, user
from awaken.contracts.models.budgets import BudgetExceeded, BudgetScope
from awaken.contracts.models.errors import (
    AllModelsUnavailable,
    ModelTimeout,
    Overloaded,
    ProviderBroken,
    ProviderFailed,
    QuotaExceeded,
    RateLimited,
    StreamInterrupted,
    TransportFailed,
)
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunResult
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.store import Commit
from awaken.services.control import RunControl

from .judging import SimulatedPerson
from .samples import (
    SampleSetup,
    build_request,
    build_state,
    build_world,
    choose_decisions,
    list_history,
    list_messages,
    run_of,
)

INFRA_CODES = frozenset(
    it.code
    for it in (
        AllModelsUnavailable,
        ModelTimeout,
        Overloaded,
        ProviderBroken,
        ProviderFailed,
        QuotaExceeded,
        RateLimited,
        StreamInterrupted,
        TransportFailed,
    )
)
"""Errors of providers and networks: they say nothing about a variant."""
DIVERGED = "diverged"
CANCEL_CAUSE = "eval"
END_MS = 10_000
"""How long a sample that is cancelled may take to end."""


class SampleEnd(Record, frozen=True, kw_only=True):
    """How the runs of a sample ended."""

    status: ItemStatus
    run_ids: tuple[str, ...] = ()
    """The runs of its turns, in order."""
    error: str | None = None
    has_begun: bool = True
    """Whether a model was asked at all."""


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
        deadline = self._clock.monotonic_ms() + setup.spec.cell_timeout_ms
        turns = self._list_turns(setup, person)
        end = SampleEnd(status=ItemStatus.SCORED)
        try:
            async for messages, script in turns:
                world = build_world(setup.spec, setup.given, changes, script)
                run_ids.append(run_of(setup.thread_id, len(run_ids)))
                try:
                    end = await self._take_turn(setup, len(run_ids) - 1, messages, world, deadline)
                except BudgetExceeded as error:
                    end = SampleEnd(status=ItemStatus.CUT, error=str(error))
                if end.status is not ItemStatus.SCORED:
                    break
        except BudgetExceeded as error:
            # The simulated person could not be asked.
            end = SampleEnd(status=ItemStatus.CUT, error=str(error))
        finally:
            await turns.aclose()
        return msgspec.structs.replace(end, run_ids=tuple(run_ids))

    async def _list_turns(
        self, setup: SampleSetup, person: SimulatedPerson | None
    ) -> "AsyncGenerator[tuple[tuple[Message, ...], tuple[ScriptedTurn, ...] | None], None]":
        """Yield the input of each turn; of a simulated person, as far as the conversation goes."""
        case = setup.given.case
        if person is None:
            yield list_messages(setup.given), None
            for turn in case.continued_turns:
                yield (user(turn.user_input),), turn.provider_script
            return
        for number in range(person.user.max_turns):
            said = await self._find_said(setup, number)
            if said is None and number == 0 and (case.user_input is not None or case.input):
                said = list_messages(setup.given)
            if said is None:
                text = await person.speak(await self._list_transcript(setup))
                if text is None:
                    return
                said = (user(text),)
            yield said, None

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
    ) -> SampleEnd:
        run_id = run_of(setup.thread_id, turn)
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
            if result.status is not RunStatus.WAITING:
                return classify_end(result, setup.spec.mode)
            chosen = choose_decisions(result.tickets, world, setup.given.recording)
            if not chosen:
                asked = ", ".join(it.tool_name for it in result.tickets) or "input"
                return await self._stop(run_id, ItemStatus.FAILED, f"waiting: {asked}")
            await self._control.decide(chosen)

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
    match result.termination:
        case Failed(code=code, message=message):
            status = ItemStatus.FAILED
            if code == DIVERGED:
                status = ItemStatus.DIVERGED
            elif code in INFRA_CODES and mode is EvalMode.LIVE:
                status = ItemStatus.INFRA_ERROR
            return SampleEnd(status=status, error=f"{code}: {message}")
        case Stopped(reason=reason) if reason.code == BudgetExceeded.code:
            is_group = (reason.detail or "").startswith(f"{BudgetScope.GROUP}:")
            status = ItemStatus.CUT if is_group else ItemStatus.FAILED
            return SampleEnd(status=status, error=reason.detail, has_begun=result.steps > 0)
        case Cancelled(cause=cause):
            return SampleEnd(status=ItemStatus.FAILED, error=f"cancelled by {cause}")
        case _:
            return SampleEnd(status=ItemStatus.SCORED)
