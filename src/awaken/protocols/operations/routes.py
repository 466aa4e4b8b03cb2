"""The routes of operators in one table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from awaken.mailbox.workflow_runs import ResetReceipt
from awaken.services.budget_status import BudgetStatus
from awaken.services.cluster import ClusterStatus, ScaleFigures
from awaken.services.costly_runs import CostlyRuns
from awaken.services.demo_data import DemoStatus
from awaken.services.model_status import ModelStatus
from awaken.services.run_summary import RunSummary
from awaken.services.usage import UsageSummary
from awaken.services.view import AppServices
from awaken.services.workers import WorkerEntry
from awaken.transport.routes import Access, ApiRoute, WireProtocol, make_route

from . import (
    activity,
    batch_actions,
    demo_data,
    dispatches,
    knowledge,
    memory,
    policy,
    repins,
    runtime_stats,
    system,
    traces,
    usage,
    workflow_resets,
)
from .context import OperatorContext, OperatorList

_route = partial(make_route, tag="operators", takes_camel=True)
_read, _config = partial(_route, Access.READ), partial(_route, Access.CONFIG)
_operate, _admin = partial(_route, Access.OPERATE), partial(_route, Access.ADMIN)
_by_body = partial(_route, Access.KNOWN)


def operations_protocol(context: OperatorContext) -> WireProtocol:
    """Make the routes of operators over these services."""

    @asynccontextmanager
    async def lifespan(services: AppServices) -> AsyncIterator[None]:
        # Streams must end before the web server waits for its connections.
        stop = context.activity.close
        services.streams.on_close.append(stop)
        try:
            yield
        finally:
            services.streams.on_close.remove(stop)
            stop()

    return WireProtocol(name="operations", routes=build_routes(context), lifespan=lifespan)


def build_routes(context: OperatorContext) -> tuple[ApiRoute, ...]:
    """Every route, with the scope that it needs."""
    return (
        *_queue_routes(context),
        *_shown_routes(context),
        *_inspected_routes(context),
        *_memory_routes(context),
        *_knowledge_routes(context),
    )


def _queue_routes(context: OperatorContext) -> tuple[ApiRoute, ...]:
    queue = dispatches.DispatchRoutes(context)
    return (
        _read(
            "GET /v1/dispatches",
            queue.list_dispatches,
            OperatorList[dispatches.DeliveryView],
            query=dispatches.DispatchesQuery,
        ),
        _read("GET /v1/dispatches/{dispatch_id}", queue.get_dispatch, dispatches.DeliveryDetail),
        _operate(
            "POST /v1/dispatches/{dispatch_id}/replay",
            queue.replay,
            dispatches.Replayed,
            status=202,
        ),
        _operate(
            "POST /v1/dispatches/{dispatch_id}/cancel",
            queue.cancel,
            dispatches.CancelledDelivery,
            status=202,
        ),
        _read(
            "GET /v1/outbox/dead",
            queue.list_dead_outbox,
            OperatorList[dispatches.CommandView],
            query=dispatches.OutboxQuery,
        ),
        _operate(
            "POST /v1/outbox/{entry_id}/retry",
            queue.retry_outbox,
            dispatches.CommandView,
            status=202,
        ),
        _operate(
            "POST /v1/runs/{run_id}/repin",
            repins.RepinRoutes(context).repin,
            repins.RepinnedRun,
            body=repins.RepinRun,
            status=202,
            headers=("X-Awaken-Actor",),
        ),
        _operate(
            "POST /v1/runs/{run_id}/reset",
            workflow_resets.ResetRoutes(context).reset,
            ResetReceipt,
            body=workflow_resets.ResetRun,
            status=202,
            headers=("X-Awaken-Actor",),
        ),
        _by_body(
            "POST /v1/batch",
            batch_actions.BatchRoutes(context).run,
            batch_actions.BatchResult,
            body=batch_actions.RunBatch,
            status=202,
            statuses={200: batch_actions.BatchResult},
        ),
    )


def _shown_routes(context: OperatorContext) -> tuple[ApiRoute, ...]:
    shown, stats = system.SystemRoutes(context), runtime_stats.StatsRoutes(context)
    sums, demo = usage.UsageRoutes(context), demo_data.DemoRoutes(context)
    return (
        _read("GET /v1/system/demo-data", demo.get_status, DemoStatus),
        _admin("POST /v1/system/demo-data", demo.fill, DemoStatus),
        _admin("DELETE /v1/system/demo-data", demo.remove, DemoStatus),
        _read("GET /v1/runs/summary", sums.get_summary, RunSummary),
        _read("GET /v1/usage", sums.get_usage, UsageSummary, query=usage.UsagePeriod),
        _read("GET /v1/usage/runs", sums.list_costly_runs, CostlyRuns, query=usage.CostlyPeriod),
        _read("GET /v1/system/workers", shown.list_workers, OperatorList[WorkerEntry]),
        _read("GET /v1/system/cluster", shown.get_cluster, ClusterStatus),
        _read("GET /v1/system/scale", shown.get_scale, ScaleFigures),
        _read("GET /v1/system/models", shown.list_models, OperatorList[ModelStatus]),
        _operate(
            "POST /v1/system/models/{model_id:path}/breaker",
            shown.set_breaker,
            ModelStatus,
            body=system.SetBreaker,
        ),
        _read(
            "GET /v1/budgets",
            shown.list_budgets,
            OperatorList[BudgetStatus],
            query=system.BudgetsQuery,
        ),
        _config(
            "GET /v1/agents/runtime-stats",
            stats.list_stats,
            runtime_stats.AllRuntimeStats,
            query=runtime_stats.StatsQuery,
        ),
        _config(
            "GET /v1/agents/{agent_id}/runtime-stats",
            stats.get_stats,
            runtime_stats.AgentRuntimeStats,
            query=runtime_stats.StatsQuery,
        ),
    )


def _inspected_routes(context: OperatorContext) -> tuple[ApiRoute, ...]:
    rules, logs = policy.PolicyRoutes(context), traces.TraceRoutes(context)
    return (
        _config(
            "GET /v1/agents/{agent_id}/permission-preview",
            rules.permission_preview,
            policy.PermissionPreview,
            query=policy.PublicationQuery,
        ),
        _config(
            "POST /v1/policy/preview",
            rules.preview,
            policy.PolicyPreview,
            body=policy.PreviewPolicy,
        ),
        _config(
            "POST /v1/policy/diff", rules.diff, policy.PolicyComparison, body=policy.ComparePolicies
        ),
        _config("GET /v1/traces", logs.list_traces, traces.TraceList, query=traces.TracesQuery),
        _config(
            "GET /v1/traces/{run_id}",
            logs.get_trace,
            str,
            query=traces.TraceQuery,
            media_type="application/x-ndjson",
        ),
        _config("POST /v1/traces/{run_id}/pin", logs.pin, None, status=204),
        _read("GET /v1/activity/stream", activity.ActivityRoutes(context).stream, bytes),
    )


def _memory_routes(context: OperatorContext) -> tuple[ApiRoute, ...]:
    facts, whose = memory.MemoryRoutes(context), memory.WhoseMemory
    read = partial(_route, Access.READ, tag="memory")
    write = partial(_route, Access.INVOKE, tag="memory")
    return (
        read("GET /v1/memory/status", facts.get_status, memory.MemoryStatus),
        read(
            "GET /v1/memory/facts",
            facts.list_facts,
            OperatorList[memory.FactView],
            query=memory.FactsQuery,
        ),
        write(
            "POST /v1/memory/facts",
            facts.add_fact,
            memory.FactView,
            query=whose,
            body=memory.WriteFact,
            status=201,
            headers=("X-Awaken-Actor",),
        ),
        write("DELETE /v1/memory/facts", facts.forget_all, memory.ForgottenFacts, query=whose),
        read("GET /v1/memory/facts/{fact_id}", facts.get_fact, memory.FactView, query=whose),
        write(
            "PUT /v1/memory/facts/{fact_id}",
            facts.edit_fact,
            memory.FactView,
            query=whose,
            body=memory.EditFact,
            headers=("X-Awaken-Actor",),
        ),
        write(
            "DELETE /v1/memory/facts/{fact_id}",
            facts.forget_fact,
            memory.ForgottenFacts,
            query=whose,
        ),
        read(
            "GET /v1/memory/export",
            facts.export_facts,
            str,
            query=whose,
            media_type="application/x-ndjson",
        ),
        _operate(
            "GET /v1/memory/owners",
            facts.list_owners,
            OperatorList[memory.MemoryOwner],
            tag="memory",
            query=memory.OwnersQuery,
        ),
    )


def _knowledge_routes(context: OperatorContext) -> tuple[ApiRoute, ...]:
    documents, whose = knowledge.KnowledgeRoutes(context), knowledge.WhoseKnowledge
    read = partial(_route, Access.READ, tag="knowledge")
    # All users of the tenant find what is written here.
    write = partial(_route, Access.DECIDE, tag="knowledge")
    return (
        read(
            "GET /v1/knowledge",
            documents.list_collections,
            OperatorList[memory.MemoryOwner],
            query=whose,
        ),
        read(
            "GET /v1/knowledge/{collection}/search",
            documents.search,
            OperatorList[knowledge.PassageView],
            query=knowledge.KnowledgeQuery,
        ),
        read(
            "GET /v1/knowledge/{collection}/documents",
            documents.list_documents,
            OperatorList[knowledge.DocumentView],
            query=knowledge.DocumentsQuery,
        ),
        write(
            "POST /v1/knowledge/{collection}/documents",
            documents.add_document,
            knowledge.DocumentView,
            query=whose,
            body=knowledge.AddDocument,
            status=201,
            headers=("X-Awaken-Actor",),
        ),
        read(
            "GET /v1/knowledge/{collection}/documents/{document_id}",
            documents.get_document,
            knowledge.DocumentView,
            query=whose,
        ),
        write(
            "DELETE /v1/knowledge/{collection}/documents/{document_id}",
            documents.delete_document,
            knowledge.DocumentView,
            query=whose,
        ),
    )
