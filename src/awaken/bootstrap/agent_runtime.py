"""`AgentRuntime`: the entry point for developers."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, overload

from awaken.contracts.errors import InvalidInput, Misuse, RunFailed, ThreadBusy, VersionConflict
from awaken.contracts.lifecycle import Failed
from awaken.contracts.messages.message import Input
from awaken.contracts.storage.dispatch import InputMode

from .arguments import check_names, convert_argument
from .calls import ControlCalls, ScriptCalls, ThreadCalls
from .requests import (
    RunOptions,
    SubmitOptions,
    run_request,
    start_request,
    submission,
)
from .run_queries import LastingParts, RunQueries
from .runtime_options import RuntimeOptions

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.contracts.backends.backend import ExecutionBackend, ExecutionBackendFactory
    from awaken.contracts.events import AgentEvent
    from awaken.contracts.models.inference import ModelClient
    from awaken.contracts.models.model_specs import ProviderSpec
    from awaken.contracts.plugins.plugin import Plugin
    from awaken.contracts.record import OutputT
    from awaken.contracts.runs.records import RunRequest, RunResult
    from awaken.contracts.specs.agents import AgentSpec
    from awaken.contracts.specs.remote_registries import RemoteStatus
    from awaken.contracts.storage.store import Store
    from awaken.contracts.tools.tool import Tool
    from awaken.mailbox.receipts import SubmitReceipt
    from awaken.runtime.admission.handles import RunHandle
    from awaken.scheduling.rights import FindProblem
    from awaken.server.app import ServerApp
    from awaken.server.config import ServerConfig
    from awaken.services.view import AppServices, TenantView


class AgentRuntime(ControlCalls, ScriptCalls, ThreadCalls, RunQueries, LastingParts):
    """Runs agents in this process.

    Use it as an async context manager. Without `store` everything is kept in memory, and leaving
    cancels the runs that still execute. With a store that outlives the process, a worker executes
    queued input and takes over the runs of a process that died; leaving releases the runs that
    still execute, so that another process continues them.

    Args:
        agents: The agents. An `AgentSpec` names its model, plugins and tools among the runtime's.
        tools: Tools and plain functions that agents may name by id.
        plugins: Plugins that agents may name by id.
        providers: Model providers by name: a client of your own, or a `ProviderSpec`.
        backends: Execution backends by name, for agents with an endpoint.
        store: A store, or its URL: `sqlite:///awaken.db`, `postgresql://…`.
        **options: See `RuntimeOptions`:
        limits: Bounds for all runs.
        clock: The source of time.
        ids: The source of generated ids.
        profile: Where profile entries are kept. The store's own place unless given.
        models: Models and pools of models that agents may name by their id.
        budgets: Limits of spending for every run. Budgets of a tenant hold for its runs.
        prices: What models cost. Unless given: their own prices, else those of the extra `pricing`.
        mailbox: Leases, retries and bounds of durable work.
        bus: Carries signals between processes: a `Bus`, its URL (`nats://…`), or `none`. Unless
            given: the one that fits the store.
        everywhere: Plugins that every agent has, before its own.
        remotes: Remote servers whose agents can be named as `registry/agent`.
        local_name: The registry name of this runtime's own agents. `local` unless given.
        resolver: Your code that is asked for agents that are not registered.
        message_sink: Takes messages to other threads. Unless given, the store delivers them once.
        has_worker: Whether to execute queued input. Unless given, yes if the store is shared.
        managed: Whether agents, models and rules can be changed while the runtime runs.
        history: `full` keeps what each commit changes in state, `lean` keeps the newest values
            only. Unless given, a durable store has a full history, and one in memory a lean one.
        deps: What tools find as `ctx.deps`. A function or a class is called, and an async context
            manager is entered, when the runtime opens; it is exited last when the runtime closes.
        embeddings: The model that makes vectors of facts and documents, as an `EmbeddingSpec` or
            an `Embedder`. Unless given, they are found by their words.
        memory_limits: Bounds of facts and documents, as `MemoryLimits`.

    Raises:
        InvalidInput: An argument is of the wrong type, or there is no such option.
        InvalidSpec: An agent cannot be resolved; the message names every problem.
        DuplicateRegistration: Two things of one kind have the same id.
    """

    def __init__(
        self,
        agents: Iterable[Agent | AgentSpec] = (),
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        plugins: Iterable[Plugin] = (),
        providers: Mapping[str, ModelClient | ProviderSpec] | None = None,
        backends: Mapping[str, ExecutionBackend | ExecutionBackendFactory] | None = None,
        store: Store | str | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        check_names("runtime option", options, RuntimeOptions.__annotations__)
        agents, tools, plugins = map(_keep_list, (agents, tools, plugins))
        self.given: Mapping[str, Any] = {
            "agents": agents,
            "tools": tools,
            "plugins": plugins,
            "providers": providers,
            "backends": backends,
            **({} if store is None else {"store": store}),
            **options,
        }
        """What it was made of; see `with_options`."""
        # The engine, the mailbox and the store are loaded here, not when this module is imported.
        from .composition import Declared, RuntimeCalls, compose_runtime  # noqa: PLC0415

        parts = compose_runtime(
            Declared(
                agents=agents,
                tools=tools,
                plugins=plugins,
                providers=providers or {},
                backends=backends or {},
            ),
            store,
            options,
            RuntimeCalls(
                start_worker=self._start_worker,
                has_claiming_worker=self._has_claiming_worker,
                list_audit_days=self._list_audit_days,
                sweep_schedules=self._sweep_schedules,
                sweep_evals=(self._sweep_evals, self._sweep_scoring),
            ),
        )
        self._parts = parts
        self.store = parts.node.store
        self.registry = parts.registry
        self.session_tools = parts.engine.services.session_tools
        """The tools that open client sessions offer to their own runs."""
        self.switches = parts.engine.services.switches
        """What an operator has paused or disabled, as this process last heard."""
        self.managed = parts.managed
        """Configuration that changes while the runtime runs; None unless `managed` is on."""
        self.remembered = parts.remembered
        """Decisions that hold for later calls as well: to list and to revoke."""
        self._clock = parts.clock
        self._node = parts.node
        self._engine = parts.engine
        self._control = parts.control
        self._busy = parts.busy
        self._outbox = parts.outbox
        self._has_worker = options.get("has_worker", self.store.is_shared)
        # In memory a worker starts as soon as something is queued, unless `has_worker` is False.
        self._may_work = options.get("has_worker", True)
        self._servers: list[ServerApp] = []
        self._judges: list[FindProblem] = []
        self._is_open = False
        self._unwatch: Callable[[], None] = lambda: None

    def with_options(self, **options: Any) -> AgentRuntime:
        """Make a runtime of the same agents, plugins and options, some of them replaced.

        Both share plugins, dependencies and model clients: open only one of them.

        Args:
            **options: Arguments of `AgentRuntime` that replace those of this one, such as `store`.

        Raises:
            Misuse: This runtime is open.
        """
        if self._is_open:
            raise Misuse("The runtime is open; make another one before you open it.")
        return AgentRuntime(**{**self.given, **options})

    @cached_property
    def _services(self) -> AppServices:
        """The services of all views; a program that serves nothing needs none."""
        from awaken.extensions.permission.inspector import PermissionInspector  # noqa: PLC0415
        from awaken.services.view import AppServices  # noqa: PLC0415

        from .demo_data import build_demo_data  # noqa: PLC0415

        return AppServices(
            engine=self._engine,
            control=self._control,
            streams=self._parts.streams,
            busy=self._busy,
            clock=self._clock,
            ids=self._parts.ids,
            report=self._parts.report,
            audit=None if self.managed is None else self.managed.audit,
            config=None if self.managed is None else self.managed.reading,
            demo=build_demo_data(self.store, self._clock, self._parts, self._node.leases),
            policy=PermissionInspector(),
            find_memory=self._parts.memory.find,
        )

    async def __aenter__(self) -> AgentRuntime:
        works = "worker" if self._has_worker else "runtime"
        self._node.kind = "server" if self._servers else works
        await self._node.open()
        self._parts.streams.open()
        self._is_open = True
        try:
            if (dependencies := self._engine.services.dependencies) is not None:
                await dependencies.open()
            await self._parts.plugins.open()
            if self.managed is not None:
                await self.managed.open()
            await self._parts.discovery.open()
            if self.store.is_shared:
                # Send what a process that died has left in the outbox.
                self._outbox.open()
            if self._has_worker:
                self._node.start_worker(self._engine)
            if self._parts.report is not None:
                await self._parts.report.open()
        except BaseException:
            self._is_open = False
            await self._close()
            raise
        if "_scheduling" in self.__dict__ and self._may_work:
            self._scheduling.firer.start()
        self._unwatch = self.switches.watch(self._continue_released)
        self._engine.services.deadlines.watchers.append(self._meet_deadlines)
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        self._unwatch()
        self._engine.services.deadlines.watchers.clear()
        try:
            for server in self._servers:
                await server.close()
        finally:
            await self._close()

    async def _close(self) -> None:
        try:
            if "_scheduling" in self.__dict__:
                await self._scheduling.firer.stop()
            await self._close_evals()
            if self.managed is not None:
                await self.managed.close()
            if self._parts.report is not None:
                await self._parts.report.close()
            await self._parts.discovery.close()
            await self._node.close(self._stop_runs)
        finally:
            await self._parts.plugins.close()
            await self._parts.backends.close()
            await self._parts.connections.close()
            if (dependencies := self._engine.services.dependencies) is not None:
                await dependencies.close()

    def _has_claiming_worker(self) -> bool:
        return self.store.is_shared and self._node.worker is not None

    def _list_audit_days(self) -> Iterable[int]:
        return [it.context.config.admin.audit_days for it in self._servers]

    def _start_worker(self) -> None:
        # In memory the worker starts only when something is queued.
        if self._may_work:
            self._node.start_worker(self._engine)

    def _continue_released(self) -> None:
        if self.switches.releases:
            # The worker's sweeper queues the runs that were paused.
            self._start_worker()

    def _meet_deadlines(self, _due_ms: int) -> None:
        # In memory no worker may have started: its sweeper wakes runs that sleep.
        self._start_worker()

    async def _stop_runs(self) -> None:
        try:
            await self._engine.close()
        finally:
            await self._outbox.close()
            await self._engine.services.health.close()

    def asgi(self, config: ServerConfig | None = None) -> ServerApp:
        """Build the whole server as an ASGI app, to serve or to mount.

        If the runtime is not open yet, the app opens it at startup or with the first request.

        Args:
            config: Who may call, limits and addresses. None: the defaults of `ServerConfig`.
        """
        # Imported on demand: a program that serves nothing needs no web server.
        serving = importlib.import_module("awaken.bootstrap.server_app")
        scheduling = serving.SchedulingAccess(find=lambda: self._scheduling, judges=self._judges)
        services, ensure_open = self._services, self._ensure_open
        app: ServerApp = serving.server_app(
            services, ensure_open, config, scheduling, self, self.managed
        )
        self._servers.append(app)
        self._node.kind = "server"  # If it is open already, the next beat tells the others.
        return app

    def view(self, principal_id: str) -> TenantView:
        """Return the use cases as one caller sees them, for protocols served over a pipe.

        Args:
            principal_id: The name of the caller, which logs and records show.
        """
        return self._services.view(None, principal_id)

    async def drain(self, timeout_ms: int) -> None:
        """Start no new run, and wait for the runs that execute here.

        Afterwards streams that are still open end with `server_stopping`. Runs that still execute
        are released to other processes if the store is shared, and cancelled otherwise.

        Args:
            timeout_ms: How long to wait for the runs, in milliseconds.
        """
        for server in self._servers:
            server.drain()
        self._node.stop_claiming()
        await self._engine.settle(timeout_ms)
        self._parts.streams.close()
        await self._engine.close()

    async def _ensure_open(self, stack: AsyncExitStack) -> None:
        if not self._is_open:
            await stack.enter_async_context(self)

    @overload
    async def run(
        self,
        agent_id: Agent[Any, OutputT],
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[OutputT]: ...

    @overload
    async def run(
        self,
        agent_id: str | None,
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult: ...

    async def run(
        self,
        agent_id: str | Agent | None,
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run an agent until it ends or is suspended.

        Cancelling the awaiting task cancels the run.

        Args:
            agent_id: The agent or its id; of an agent the result's `output` has its output type.
                None: the thread's active or latest agent, else `default`.
            input: A text, content blocks, or messages.
            thread_id: The conversation. None starts a new one.
            **options: Further fields of the request; see `RunOptions`.

        Raises:
            RunFailed: The run ended with an error; `error.result` has its partial result.
            ThreadBusy: The thread is busy with the caller's own run, or `on_busy` is `reject`.
            UsageError: The request cannot be served; nothing was written.
        """
        if type(agent_id) is not str and agent_id is not None:
            self._check_registered(agent_id)
        request = run_request(agent_id, input, thread_id, options)
        refusal: ThreadBusy | None = None
        try:
            result = await self._engine.run(request)
        except ThreadBusy as error:
            refusal = error
        if refusal is not None:
            result = await self._busy.run(request, refusal)
        match result.termination:
            case Failed(message=cause, code=code):
                raise RunFailed(run_id=result.run_id, cause=cause, cause_code=code, result=result)
        return result

    def stream(
        self,
        agent_id: str | Agent | None,
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[AgentEvent, None]:
        """Run an agent and yield its events; closing the iterator cancels the run.

        A failed run ends with a `RunFinish` event whose termination is `Failed`, not with an error.

        Args:
            agent_id: The agent or its id. None: the thread's active or latest one, else `default`.
            input: A text, content blocks, or messages.
            thread_id: The conversation. None starts a new one.
            **options: Further fields of the request; see `RunOptions`.
        """
        self._check_registered(agent_id)
        request = run_request(agent_id, input, thread_id, options)
        return self._engine.stream(request, partial(self._busy.stream, request))

    async def start(
        self,
        agent_id: str | Agent | RunRequest | None,
        input: Input = (),
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle:
        """Start a run that executes on its own; returns as soon as it is durable.

        Args:
            agent_id: The agent as in `run`, or a whole `RunRequest`, alone.
            input: A text, content blocks, or messages.
            thread_id: The conversation. None starts a new one.
            **options: Further fields of the request; see `RunOptions`.

        Raises:
            ThreadBusy: The thread is busy with the caller's own run, or `on_busy` is `reject`.
            UsageError: The request cannot be served; nothing was written.
        """
        self._check_registered(agent_id)
        request = start_request(agent_id, input, thread_id, options)
        try:
            return await self._engine.start(request)
        except (ThreadBusy, VersionConflict) as error:
            refusal = error
        return await self._busy.start(request, refusal)

    async def submit(
        self,
        agent_id: str | Agent | None,
        input: Input,
        *,
        thread_id: str | None = None,
        mode: InputMode | str = InputMode.QUEUE,
        **options: Unpack[SubmitOptions],
    ) -> SubmitReceipt:
        """Queue input for a thread and return at once; any worker of the store executes it.

        The input is durable when this returns. `wait(receipt.run_id)` waits for the result.

        Args:
            agent_id: The agent or its id. None: the thread's active or latest one, else `default`.
            input: A text, content blocks, or messages.
            thread_id: The conversation. None starts a new one.
            mode: `queue`, `steer`, `interrupt` or `resume`: what happens if a run is active.
            **options: Further fields of the request and of its delivery.

        Raises:
            InvalidInput: An argument is malformed; nothing was written.
            QueueFull: Too much is queued; the error says when to try again.
            DedupeConflict: The dedupe key was used for another request.
            InvalidResume: With `resume`, no run of the thread waits.
        """
        self._check_registered(agent_id)
        request, delivery = submission(agent_id, input, thread_id, options)
        wanted = convert_argument("mode", mode, InputMode)
        return await self._control.submit(request, wanted, delivery)

    def _check_registered(self, agent: object) -> None:
        """Refuse an agent whose id another one has here: that one would run in its place."""
        agent_id = getattr(agent, "id", None)
        if agent_id is None or type(agent) is str:
            return
        found = self.registry.last_seen(agent_id).registries.agents.get(agent_id)
        written = None if found is None else found.written
        if type(written) is type(agent) and written is not agent:
            problem = "another agent with this id is registered; pass that one, or the id"
            raise InvalidInput(what=f"Agent '{agent_id}'", problem=problem)

    def remotes(self) -> tuple[RemoteStatus, ...]:
        """Return the status of each remote registry: its agents, and the latest failure."""
        return self._parts.discovery.status()


def _keep_list(values: Any) -> Any:
    """Return the members of a list for good; what is none is refused where it is read."""
    is_list = isinstance(values, Iterable) and not isinstance(values, str | Mapping)
    return tuple(values) if is_list else values
