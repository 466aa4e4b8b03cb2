"""One inference: build the request, call the model until the answer is complete, log it.

Streamed output is never thrown away if it can be continued, and never repeated: text continues
where it stopped, complete calls are used as they are, and only an answer with neither is
requested again from its beginning.
"""

from collections.abc import Coroutine
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.events import InferenceComplete, StreamReset, ToolCallReady
from awaken.contracts.messages.deltas import ToolCallStart
from awaken.contracts.messages.message import Visibility, assistant, user
from awaken.contracts.models.errors import ContextOverflow, ModelError
from awaken.contracts.models.inference import InferenceRequest, StopReason, StreamResult
from awaken.contracts.models.stream_recovery import (
    INTERRUPTED_PROMPT,
    TRUNCATED_PROMPT,
    RecoveryPlan,
    recovery_plan,
)
from awaken.contracts.plugins.loop_state import STEP_ANSWER
from awaken.contracts.storage.store import StreamCheckpoint
from awaken.runtime.journal.streams import block_events
from awaken.runtime.resolution.models import ModelRoute
from awaken.runtime.run import Run

from .answer import Answer
from .checkpoints import StreamCheckpoints
from .model_calls import make_call, routes_for
from .request import build_request, digest_request, smaller_request
from .retry_planner import RetryPlanner
from .screens import answer_streams, screen_answer, take_given_answer
from .streamed_answer import ShownAnswer

# Bound once: Python 3.11 reads a member through its class slowly.
_MAX_TOKENS = StopReason.MAX_TOKENS


def infer(run: Run) -> Coroutine[Any, Any, StreamResult]:
    """Call the model until its answer is complete or no further attempt is allowed.

    Parts of a broken or truncated answer are joined into one; neither the parts nor the prompts
    between them enter the transcript.

    Raises:
        ModelError: The provider failed.
    """
    if STEP_ANSWER.name in run.state.values and (given := take_given_answer(run)) is not None:
        return _give_answer(run, given)
    began = run.services.clock.monotonic_ms()
    request = build_request(run)
    streamed = None
    if run.recovery is not None and run.recovery.streamed is not None:
        streamed, run.recovery.streamed = run.recovery.streamed, None
        # Readers may have seen more than what was saved.
        run.emit(StreamReset(reason="the process that streamed the answer stopped"))
    agent = run.agent
    # An answer that has to be screened is neither shown nor saved before its screening.
    is_held, shown = bool(agent.env.answer_screens), None
    if is_held and answer_streams(run) is not None:
        shown = ShownAnswer(run, partial(answer_streams, run))
    answer = Answer(run, agent.models[0].client, run.watchdog, is_held=is_held, shown=shown)
    run.streaming = shown if is_held else answer
    has_checkpoints = run.journal.lease is not None and run.streaming is not None
    checkpoints = StreamCheckpoints(run) if has_checkpoints else None
    is_plain = agent.pool is None and request.upstream_model == agent.upstream_model
    routes = agent.models if is_plain else routes_for(run, request)
    session = InferenceSession(run, request, answer, checkpoints, routes, began)
    if checkpoints is None:
        return session.complete_answer(streamed)
    return session.save_and_complete(streamed, checkpoints)


async def _give_answer(run: Run, given: StreamResult) -> StreamResult:
    """Show an answer that a plugin gave in place of the model's."""
    _show_answer(run, given)
    return given


def _show_answer(run: Run, result: StreamResult, shown: ShownAnswer | None = None) -> None:
    """Show the part of an answer that readers have not seen, and keep all of it for the log."""
    events = block_events(result.content)
    run.journal.events += events
    for event in events if shown is None else shown.rest(result.content):
        run.emit(event)
    for call in result.tool_calls:
        run.show(ToolCallStart(id=call.id, name=call.name))
    for call in result.tool_calls:
        run.show(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))


class InferenceSession(msgspec.Struct, eq=False):
    """One inference, over as many model calls as it needs and the policy allows."""

    run: Run
    request: InferenceRequest
    answer: Answer
    checkpoints: StreamCheckpoints | None
    routes: tuple[ModelRoute, ...]
    """The models that may be asked, in this order."""
    began: int
    calls: int = 0
    """How many calls of models were made."""
    _made_retry_planner: RetryPlanner | None = None

    async def save_and_complete(
        self, streamed: StreamCheckpoint | None, checkpoints: StreamCheckpoints
    ) -> StreamResult:
        """Complete the answer while it is saved from time to time; see `complete_answer`."""
        async with checkpoints:
            result = await self.complete_answer(streamed)
        # Only now: the last save reads the answer as it streams.
        return self._close(result)

    async def complete_answer(self, streamed: StreamCheckpoint | None) -> StreamResult:
        """Call the model until nothing is missing, or until the continuations are used up.

        `streamed` is what another process has streamed of this answer.

        Raises:
            ModelError: The answer could not be completed; its output so far is kept.
            BudgetExceeded: The budget does not allow the call.
        """
        asked: InferenceRequest | None = self.request
        if streamed is not None:
            self.answer.take_up(streamed)
            self._keep()
            asked = self._rest()
        continuations = self.run.agent.spec.max_continuation_retries
        while True:
            try:
                if asked is None:
                    result = self.answer.end_with_calls()
                else:
                    patience = self._made_retry_planner
                    routes = self.routes if patience is None else patience.usable_routes
                    self.calls += 1
                    await make_call(self.run, self.answer, asked, routes)
                    result = self.answer.result()
            except ModelError as error:
                if not (self.answer.has_stopped and error.retryable):
                    asked = await self._recover(error)
                    continue
                # The answer is complete; only the connection broke.
                result = self.answer.result()
            is_cut = result.stop_reason is _MAX_TOKENS
            if not (is_cut and continuations and result.needs_truncation_recovery):
                return result if self.checkpoints is not None else self._close(result)
            continuations -= 1
            asked = self._rest_of_text(result.text, TRUNCATED_PROMPT)

    def _close(self, result: StreamResult) -> StreamResult:
        """Screen the answer if it has to be, log it, and show that the inference is complete."""
        run, answer = self.run, self.answer
        events, has_readers = run.journal.events, bool(run.feed.readers)
        if answer.is_held:
            result = screen_answer(run, result)
            _show_answer(run, result, answer.shown)
        else:
            # The log has the text as one delta per block; readers have seen how calls began.
            events += block_events(result.content)
            for call in result.tool_calls:
                events.append(ToolCallStart(id=call.id, name=call.name))
            for call in result.tool_calls:
                ready = ToolCallReady(id=call.id, name=call.name, arguments=call.arguments)
                events.append(ready)
                if has_readers:
                    run.emit(ready)
        run.streaming = None
        asked, began, window = answer.asked, self.began, run.window
        first = answer.first_output_ms
        complete = InferenceComplete(
            model=self.request.upstream_model if asked is None else asked.spec.upstream_model,
            usage=result.usage,
            duration_ms=run.services.clock.monotonic_ms() - began,
            started_at=run.opened_at + began - run.started_ms,
            first_token_ms=None if first is None else first - began,
            attempts=self.calls or 1,
            request_digest=digest_request(run, self.request),
            sent_from=0 if window is None else window.first,
        )
        events.append(complete)
        if has_readers:
            run.emit(complete)
        return result

    async def _recover(self, error: ModelError) -> InferenceRequest | None:
        """Return the next request after a failure; None when no further call is needed.

        Raises:
            ModelError: No further attempt is allowed.
        """
        self._keep()
        if not (self._fits_now(error) or await self._outlasts(error)):
            if self._retry_planner.has_root_cause(error, has_begun=self.answer.has_begun):
                raise self._retry_planner.root_cause(error) from error
            raise error
        return self._rest()

    @property
    def _retry_planner(self) -> RetryPlanner:
        """Created by the first failure: most answers need no retry."""
        if self._made_retry_planner is None:
            self._made_retry_planner = RetryPlanner(self.run, self.routes, self.began)
        return self._made_retry_planner

    def _keep(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save_soon()

    async def _outlasts(self, error: ModelError) -> bool:
        has_begun = self.answer.has_begun
        return await self._retry_planner.outlasts(error, self.answer.asked, has_begun=has_begun)

    def _fits_now(self, error: ModelError) -> bool:
        """Whether the request was too long and could be shortened."""
        smaller = None
        if isinstance(error, ContextOverflow):
            smaller = smaller_request(self.run, self.request)
        if smaller is None:
            return False
        self.request = smaller
        return True

    def _rest(self) -> InferenceRequest | None:
        """Return the request for the rest of a broken answer; None when no rest is needed."""
        snapshot = self.answer.snapshot()
        if recovery_plan(snapshot) is RecoveryPlan.SYNTHESIZE_TOOL_USE:
            return None
        return self._rest_of_text(snapshot.text or "", INTERRUPTED_PROMPT)

    def _rest_of_text(self, text: str, prompt: str) -> InferenceRequest:
        request = self.request
        if not text.strip() or request.output_schema is not None:
            # Models do not continue half of a structured answer: they begin a new one.
            self.answer.start_over("the answer broke off; the model is asked again")
            return request
        self.answer.reopen()
        asked = (assistant(text), user(prompt, visibility=Visibility.INTERNAL))
        return msgspec.structs.replace(request, messages=[*request.messages, *asked])
