"""Summaries written in the background: a run requests one, the thread's next request uses it.

They are kept in memory only. If the process stops, the history is still stored, and the next run
that needs a summary requests it again.
"""

import asyncio
import logging
from contextlib import aclosing

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import user
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.inference import (
    InferenceOverride,
    InferenceRequest,
    ModelClient,
    Stop,
    StopReason,
    TokenUsage,
    UsageReport,
)
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.state.context_state import CompactionConfig

from .compaction import CompactionPlan

logger = logging.getLogger(__name__)

TASKS_MAX = 8
FINISHED_MAX = 256
SUMMARY_CHARS_MAX = 64 * 1024
_CLOSE_S = 5.0
_CUMULATIVE_PROMPT = (
    "This is the summary of the conversation so far:\n\n{summary}\n\nThe conversation went on as "
    "follows. Write one new summary that replaces the old one and covers all of it.\n\n{messages}"
)


class SummaryJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to summarise, and the model that writes the summary."""

    plan: CompactionPlan
    config: CompactionConfig
    client: ModelClient
    model: ModelSpec
    overrides: InferenceOverride | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a job: either a text or a problem."""

    job: SummaryJob
    text: str
    usage: TokenUsage
    problem: str = ""


class Compactor:
    """Writes at most one summary for each thread at a time, and keeps it until it is taken."""

    __slots__ = ("_finished", "_running", "_stopping")

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Summary]] = {}
        self._finished: dict[str, Summary] = {}
        self._stopping: set[asyncio.Task[Summary]] = set()

    def is_free(self, thread_id: str) -> bool:
        """Whether a summary of the thread may be started now."""
        is_known = thread_id in self._running or thread_id in self._finished
        return not is_known and len(self._running) < TASKS_MAX

    def start(self, thread_id: str, job: SummaryJob) -> bool:
        """Start a summary unless one is in progress or not taken yet; return whether it started."""
        if not self.is_free(thread_id):
            return False
        task = asyncio.create_task(write_summary(job), name=f"compaction of {thread_id}")
        self._running[thread_id] = task
        task.add_done_callback(lambda done: self._over(thread_id, done))
        return True

    def take(self, thread_id: str) -> Summary | None:
        """Remove and return the finished summary of a thread."""
        return self._finished.pop(thread_id, None)

    def forget(self, thread_id: str) -> None:
        """Stop and drop the summary of a thread."""
        self._finished.pop(thread_id, None)
        task = self._running.pop(thread_id, None)
        if task is not None:
            task.cancel()
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def close(self) -> None:
        """Stop all summaries in progress and forget the finished ones."""
        tasks = {*self._running.values(), *self._stopping}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)
        self._running.clear()
        self._finished.clear()

    def _over(self, thread_id: str, task: asyncio.Task[Summary]) -> None:
        if self._running.get(thread_id) is not task:
            return
        del self._running[thread_id]
        if task.cancelled():
            return
        self._finished[thread_id] = task.result()
        if len(self._finished) > FINISHED_MAX:
            self._finished.pop(next(iter(self._finished)))


async def write_summary(job: SummaryJob) -> Summary:
    """Write the summary; a failure is returned, not raised, because no task awaits it."""
    answer = _Heard()
    problem = ""
    try:
        async with asyncio.timeout(job.config.timeout_ms / 1000):
            await answer.listen(job.client, _request(job))
        problem = "the summary was cut off by its token limit" if answer.is_cut else ""
    except TimeoutError:
        problem = "the summary took too long"
    except ModelError as error:
        problem = str(error)
    except BaseException as error:
        if is_interruption(error):
            raise
        logger.exception("Provider '%s' raised.", job.client.name)
        problem = f"{type(error).__name__}: {error}"
    text = "" if problem else replace_surrogates("".join(answer.parts)).strip()
    if not text:
        problem = problem or "the summary is empty"
    return Summary(job=job, text=text, usage=answer.usage, problem=problem)


def _request(job: SummaryJob) -> InferenceRequest:
    previous = job.plan.previous
    prompt = job.config.user_prompt if previous is None else _CUMULATIVE_PROMPT
    if previous is not None:
        prompt = prompt.replace("{summary}", previous.summary, 1)
    before, _, after = prompt.rpartition("{messages}")
    return InferenceRequest(
        upstream_model=job.model.upstream_model,
        messages=[user(f"{before}{job.plan.transcript}{after}")],
        system=(job.config.system_prompt,),
        overrides=job.overrides,
    )


class _Heard:
    """Collects the answer of the summarising model."""

    __slots__ = ("is_cut", "parts", "usage")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.usage = TokenUsage()
        self.is_cut = False

    async def listen(self, client: ModelClient, request: InferenceRequest) -> None:
        size = 0
        async with aclosing(client.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    self.parts.append(event.delta)
                    size += len(event.delta)
                elif isinstance(event, UsageReport):
                    self.usage = self.usage.plus(event.usage)
                elif isinstance(event, Stop):
                    self.is_cut = event.reason is StopReason.MAX_TOKENS
                if size > SUMMARY_CHARS_MAX:
                    raise ModelError("the summary does not end")
