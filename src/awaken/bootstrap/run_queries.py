"""What a runtime reads of its store, and what outlives its conversations there."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import MessageRecord
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.state.profile import OPEN_EVALS
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Page, Q, RunQuery, at_cursor
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tasks import TaskRecord

from .arguments import check_optional_text, check_text, convert_argument

if TYPE_CHECKING:
    from awaken.contracts.config.specs import LiveScoringSpec
    from awaken.contracts.memory.access import FactAccess, KnowledgeAccess
    from awaken.evals.live_scoring import LiveScoring
    from awaken.evals.retention import EvalRetention
    from awaken.evals.run_replays import RunReplays
    from awaken.evals.runner import EvalRunner, OnEval
    from awaken.managed.configuration import ManagedConfig
    from awaken.runtime.engine import RunEngine
    from awaken.scheduling.rights import FindProblem
    from awaken.scheduling.schedules import Schedules
    from awaken.scheduling.scheduling import Scheduling
    from awaken.scheduling.triggers import Triggers
    from awaken.services.control import RunControl
    from awaken.services.view import AppServices

    from .composition import RuntimeParts

T = TypeVar("T")


class RunQueries:
    """The part of a runtime that reads runs, messages, tasks and tickets."""

    store: Store
    _engine: "RunEngine"
    _control: "RunControl"

    async def get_run(self, run_id: str) -> RunRecord:
        """Return the record of a run. A queued run has the record that it will start with.

        Args:
            run_id: The run.

        Raises:
            UnknownRun: There is no such run.
        """
        check_text("run_id", run_id)
        return await self._control.record(run_id)

    async def list_runs(
        self, thread_id: str | None = None, status: RunStatus | str | None = None
    ) -> tuple[RunRecord, ...]:
        """List runs, oldest first.

        Args:
            thread_id: Only the runs of this thread.
            status: Only the runs with this status.
        """
        check_optional_text("thread_id", thread_id)
        wanted = None if status is None else convert_argument("status", status, RunStatus)
        query = RunQuery(thread_id=thread_id, status=wanted, limit=LIMIT_MAX)
        return await _all_pages(self.store.list_runs, query)

    async def messages(
        self, thread_id: str, query: MessageQuery | None = None
    ) -> tuple[MessageRecord, ...]:
        """List the messages of a thread in order.

        Args:
            thread_id: The thread.
            query: Which page of the messages. None lists all of them.
        """
        check_text("thread_id", thread_id)
        if query is not None:
            wanted = convert_argument("query", query, MessageQuery)
            return (await self.store.list_messages(thread_id, wanted)).items
        list_messages = partial(self.store.list_messages, thread_id)
        return await _all_pages(list_messages, MessageQuery(limit=LIMIT_MAX))

    async def tasks(self, thread_id: str) -> tuple[TaskRecord, ...]:
        """List the background tasks that runs of a thread started, newest first.

        Args:
            thread_id: The thread.
        """
        check_text("thread_id", thread_id)
        return await self._engine.tasks.tasks_of(thread_id)

    async def tickets(self, thread_id: str | None = None) -> tuple[Ticket, ...]:
        """List the open tickets, oldest first.

        Args:
            thread_id: Only the tickets of this thread.
        """
        check_optional_text("thread_id", thread_id)
        return await self.store.list_tickets(thread_id)


async def _all_pages(fetch: Callable[[Q], Awaitable[Page[T]]], query: Q) -> tuple[T, ...]:
    found: list[T] = []
    while True:
        page = await fetch(query)
        found.extend(page.items)
        if page.next_cursor is None:
            return tuple(found)
        query = at_cursor(query, page.next_cursor)


class LastingParts:
    """The part of a runtime that outlives conversations: memory, schedules, triggers, evals."""

    store: Store
    managed: "ManagedConfig | None"
    _parts: "RuntimeParts"
    _judges: "list[FindProblem]"
    _is_open: bool
    _may_work: bool
    _start_worker: Callable[[], None]

    @property
    @abstractmethod
    def _services(self) -> "AppServices": ...

    @property
    def memory(self) -> "FactAccess":
        """Facts about users and projects, in the store of this runtime."""
        return self._parts.memory.find().facts

    @property
    def knowledge(self) -> "KnowledgeAccess":
        """Documents that agents can search, in the store of this runtime."""
        return self._parts.memory.find().knowledge

    @property
    def schedules(self) -> "Schedules":
        """Starts runs at due times: cron expressions, intervals and single times."""
        return self._scheduling.schedules

    @property
    def triggers(self) -> "Triggers":
        """Starts runs by signed webhooks."""
        return self._scheduling.triggers

    @cached_property
    def _scheduling(self) -> "Scheduling":
        """The schedules and triggers; few programs have some, so they are loaded here."""
        from .scheduling import build_scheduling  # noqa: PLC0415

        made = build_scheduling(
            self._services, self._parts.ids, self.managed, self._judges, self._start_worker
        )
        if self._is_open and self._may_work:
            made.firer.start()
        return made

    @cached_property
    def replays(self) -> "RunReplays":
        """Recordings, replays, forks and comparisons of stored runs; few programs need them."""
        from .replays import build_run_replays  # noqa: PLC0415

        return build_run_replays(self._parts.engine, self.managed)

    @cached_property
    def evals(self) -> "EvalRunner":
        """Evals of this runtime's agents: made, driven, cancelled; few programs have some."""
        from .evals import build_eval_runner  # noqa: PLC0415

        parts = self._parts
        watchers = self._eval_watchers
        return build_eval_runner(
            parts.control, parts.node.worker_id, self.managed, on_change=watchers
        )

    @cached_property
    def _eval_watchers(self) -> "list[OnEval]":
        """Who is told of each eval that this process makes, begins or ends."""
        return []

    async def _close_evals(self) -> None:
        """Stop the evals and replays of this process, if it has some."""
        if "_live_scoring" in self.__dict__:
            await self._live_scoring.close()
        if "replays" in self.__dict__:
            await self.replays.close()
        if "_eval_retention" in self.__dict__:
            await self._eval_retention.close()
        if "evals" in self.__dict__:
            await self.evals.close()

    async def _sweep_evals(self) -> None:
        """Take over evals whose driver died; loads nothing if the store has no open eval."""
        profile = self._parts.engine.services.profile
        entry = await profile.find_entry(OPEN_EVALS, OPEN_EVALS)
        if entry is not None and entry.value:
            await self.evals.sweep()
        if entry is not None:
            # It has or had evals: what is old of them is removed, by one process in an hour.
            self._eval_retention.start()

    async def _sweep_scoring(self) -> None:
        """Score real runs, if the live configuration asks for it."""
        if self._list_scoring_specs():
            self._live_scoring.sweep()

    @cached_property
    def _eval_retention(self) -> "EvalRetention":
        from awaken.evals.retention import EvalRetention  # noqa: PLC0415

        return EvalRetention(self.evals.parts)

    def _list_scoring_specs(self) -> "list[LiveScoringSpec]":
        """Return what the live configuration says of real runs; one broken record is left out."""
        if self.managed is None:
            return []
        specs: list[LiveScoringSpec] = self.managed.live.list_specs("scorers")
        return [it for it in specs if it.enabled]

    @cached_property
    def _live_scoring(self) -> "LiveScoring":
        """Scores real runs; loaded by the first sweep that finds a record for it."""
        from awaken.evals.live_scoring import LiveScoring  # noqa: PLC0415

        return LiveScoring(self.evals.parts, self._list_scoring_specs)

    async def _sweep_schedules(self) -> None:
        """Fire what is due in a store of several processes; loads nothing if it has no schedule."""
        if "_scheduling" not in self.__dict__:
            find = getattr(self.store, "find_next_wake", None)
            if find is None or (await find())[1] is None:
                return
        await self._scheduling.sweep()
