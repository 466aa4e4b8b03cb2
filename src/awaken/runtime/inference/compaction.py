"""Compaction in a run: it applies a finished summary and requests the next one.

Neither waits for a model, and neither can fail the run: without a summary the history is only
longer.
"""

import logging

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.state.context_state import CompactionConfig
from awaken.runtime.context.compaction import CompactionPlan, build_mark, saves_enough
from awaken.runtime.context.summaries import Summary, SummaryJob
from awaken.runtime.context.window import ContextWindow
from awaken.runtime.resolution.models import ModelRoute, routes_of
from awaken.runtime.resolution.registries import AgentSource
from awaken.runtime.run import Run
from awaken.runtime.spending.ledgers import note_spent

logger = logging.getLogger(__name__)

SECTION = "compaction"


def take_summary(run: Run, window: ContextWindow) -> None:
    """Replace the beginning of the history by a finished summary, if there is one."""
    summary = run.services.compactor.take(run.identity.thread_id)
    if summary is not None:
        usage = run.services.price_usage(summary.usage, summary.job.model)
        run.usage = run.usage.plus(usage)
        note_spent(run, usage)
        _take_in(run, window, summary)


def ask_for_summary(run: Run, window: ContextWindow) -> None:
    """Request a summary of the beginning when the history is long enough."""
    compactor, thread_id = run.services.compactor, run.identity.thread_id
    if window.wants_summary and compactor.is_free(thread_id):
        plan = window.plan_summary()
        job = None if plan is None else _job(run, plan)
        if job is None:
            window.put_off_summary()
        else:
            compactor.start(thread_id, job)


def _take_in(run: Run, window: ContextWindow, summary: Summary) -> None:
    problem, job = summary.problem, summary.job
    if not problem:
        now = run.services.clock.now_ms()
        mark = build_mark(job.plan, summary.text, run.tickets.values(), now)
        if not saves_enough(mark, job.config.min_savings_ratio):
            problem = f"it has {mark.post_tokens} tokens in place of {mark.pre_tokens}"
        elif not window.take_mark(mark):
            problem = "the history has changed"
    if problem:
        thread_id = run.identity.thread_id
        logger.warning("A summary of thread '%s' is not used: %s.", thread_id, problem)
        window.put_off_summary()


def _job(run: Run, plan: CompactionPlan) -> SummaryJob | None:
    spec = run.agent.spec
    try:
        config = spec.config(SECTION, CompactionConfig)
        route = _route(run, config.summary_model)
    except AwakenError as error:
        logger.warning("Agent '%s' cannot summarise: %s", spec.id, error)
        return None
    return SummaryJob(
        plan=plan,
        config=config,
        client=route.client,
        model=route.spec,
        overrides=route.overrides(InferenceOverride(max_tokens=config.summary_max_tokens)),
    )


def _route(run: Run, model_id: str | None) -> ModelRoute:
    if model_id is None:
        return run.agent.models[0]
    spec = msgspec.structs.replace(run.agent.spec, model_id=model_id)
    routes, _ = routes_of(run.pinned.registries, AgentSource(spec=spec))
    return routes[0]
