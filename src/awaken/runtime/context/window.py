"""The window on a transcript: which of its messages a request carries.

Created once per run and kept up to date with its transcript, so that a step costs only what is
new. What it leaves out is a function of the transcript and the thread's context state alone: every
process sends the same messages, and the beginning of a request changes only when a mark or a cut
is written.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec

from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import ContextWindowPolicy, ModelTool
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.state.context_state import (
    CONTEXT_STATE,
    CompactionMark,
    Corrected,
    Cut,
    CutMoved,
    MarkAdded,
)
from awaken.runtime.state.store import StateStore

from .compaction import CompactionPlan, plan_compaction
from .effective import effective, locate_message
from .estimate import (
    BYTES_PER_TOKEN,
    estimate_message_tokens,
    estimate_tokens,
    estimate_tool_tokens,
    text_bytes,
)
from .rewritten import RewrittenMessages, Sizes, find_question
from .truncation import split_point, truncate_output

CORRECTIONS = (0.25, 4.0)
CORRECTION_STEP = 0.1
MIN_OBSERVED = 512
"""A smaller request is no evidence: most of its tokens are added by the vendor."""
OVERFLOW = 1.5
"""The factor by which an estimate is raised when a provider rejects a request as too long."""


def clamp_policy(policy: ContextWindowPolicy, models: Iterable[ModelSpec]) -> ContextWindowPolicy:
    """Return the policy within the limits of every model that may be called.

    An answer may reserve many tokens, but always leaves some for the request.
    """
    context, output = policy.max_context_tokens, policy.max_output_tokens
    for model in models:
        context = min(context, model.context_window or context)
        output = min(output, model.max_output_tokens or output)
    if output >= context:
        output = context // 2
    threshold = policy.autocompact_threshold
    return msgspec.structs.replace(
        policy,
        max_context_tokens=context,
        max_output_tokens=output,
        autocompact_threshold=None if threshold is None else min(threshold, context - output),
    )


class Frame(msgspec.Struct, frozen=True):
    """The parts of a request beside the history."""

    system: tuple[str, ...] = ()
    before: Sequence[Message] = ()
    after: Sequence[Message] = ()
    tools: tuple[ModelTool, ...] = ()

    def around(self, history: Sequence[Message]) -> Sequence[Message]:
        """Put the messages around the history, which is not copied if there are none."""
        has_messages = self.before or self.after
        return [*self.before, *history, *self.after] if has_messages else history


class ContextWindow:
    """The part of a run's transcript that is sent."""

    __slots__ = (
        "_applied", "_correction", "_fixed", "_frame", "_messages", "_previews", "_put_off",
        "_rewritten", "_shape", "_sizes", "_state", "_tokens", "_tool_tokens", "_total", "_view",
        "policy",
    )  # fmt: skip

    def __init__(
        self, policy: ContextWindowPolicy, messages: Sequence[Message], state: StateStore
    ) -> None:
        self.policy = policy
        self._messages = messages
        self._state = state
        self._correction = state.get(CONTEXT_STATE).correction
        self._previews: dict[int, Message] = {}
        self._frame = Frame()
        self._fixed = 0
        self._tool_tokens: tuple[tuple[ModelTool, ...], int] = ((), 0)
        self._put_off = 0
        self._rewritten: RewrittenMessages | None = None
        self._sizes: Sizes = {}
        self._rebuild()

    @property
    def first(self) -> int:
        """The place of the first message that is sent as it is."""
        return self._shape.first

    @property
    def tokens(self) -> int:
        """The estimated tokens of the next request."""
        return round(self._estimate * self._correction)

    @property
    def available(self) -> int:
        """How many tokens a request may have."""
        return max(0, self.policy.max_context_tokens - self.policy.max_output_tokens)

    @property
    def _estimate(self) -> int:
        rewritten = self._rewritten
        return self._fixed + (self._total if rewritten is None else rewritten.total)

    @property
    def _target(self) -> int:
        # With room to grow, so that the beginning of the request stays the same for many steps.
        return self.available * 3 // 4

    def catch_up(self, frame: Frame) -> None:
        """Process new messages of the transcript, and the frame of the next request."""
        self._frame = frame
        self._fixed = self._frame_tokens(frame)
        self._rewritten = None
        if self._state.get(CONTEXT_STATE) is not self._applied:
            self._rebuild()
            return
        for place in range(self._shape.first + len(self._tokens), len(self._messages)):
            self._add(place, self._messages[place])

    def rewrite(self, transform: Callable[[Sequence[Message]], Sequence[Message]]) -> None:
        """Let plugins rewrite the next request; their output then has to fit.

        They receive every message that no summary replaces, even if earlier requests left it out.
        """
        frame, state = self._frame, self._applied
        shape = self._shape
        if state.cut is not None:
            shape = effective(self._messages, msgspec.structs.replace(state, cut=None))
        history = (*shape.prefix, *islice(self._messages, shape.first, None))
        rewritten = self._rewritten = RewrittenMessages(
            transform(frame.around(history)),
            first=(*frame.before, *shape.beginning),
            last=frame.after,
            asked=find_question(self._messages),
            sizes=self._sizes,
        )
        self._sizes = rewritten.sizes
        # The frame's messages are part of the rewritten messages.
        self._fixed = self._frame_tokens(Frame(system=frame.system, tools=frame.tools))
        if state.cut is not None:
            rewritten.begin_with(state.cut, self._messages)

    def fit_messages(self) -> Sequence[Message]:
        """Return the messages of the next request, without old ones if it would be too long."""
        while self.tokens > self.available and self._cut(self.policy.min_recent_messages):
            # Cut again: the user's question that stays may be too long by itself.
            pass
        return self.get_messages()

    def get_messages(self) -> Sequence[Message]:
        """Return the messages of the request, with the frame around the history."""
        if self._rewritten is not None:
            return self._rewritten.get_messages()
        return self._frame.around(self._view)

    def observe(self, prompt_tokens: int | None) -> None:
        """Correct the estimate by the tokens that the provider counted for the latest request."""
        if prompt_tokens is not None and prompt_tokens > 0 and self._estimate >= MIN_OBSERVED:
            lowest, highest = CORRECTIONS
            self._correction = min(highest, max(lowest, prompt_tokens / self._estimate))
            self._keep_correction()

    def shrink(self) -> bool:
        """Leave out more messages, because the provider rejected the request as too long.

        Returns whether there were messages to leave out.
        """
        known_from = self.available / max(1, self._estimate)
        self._correction = max(self._correction * OVERFLOW, known_from)
        return self._cut(1)

    @property
    def wants_summary(self) -> bool:
        """Whether the history is long enough for a summary."""
        threshold = self.policy.autocompact_threshold
        return threshold is not None and self.tokens >= max(threshold, self._put_off)

    def put_off_summary(self) -> None:
        """Request the next summary only after the history has grown considerably."""
        self._put_off = min(self.tokens * 5 // 4, self.available)

    def plan_summary(self) -> CompactionPlan | None:
        """Plan a summary of the unsummarised history; None when it would save nothing."""
        limit, shape = int(self._target / self._correction), self._shape
        return plan_compaction(self._messages, shape.unsummarised, self.policy, limit, shape.mark)

    def take_mark(self, mark: CompactionMark) -> bool:
        """Replace the beginning by a summary from now on; False if the summary is out of date."""
        place = locate_message(self._messages, mark.message_id, mark.place)
        if place is None or place < self._shape.unsummarised:
            return False
        self._state.update(CONTEXT_STATE, MarkAdded(mark=mark))
        self._put_off = 0
        self._rebuild()
        return True

    def _keep_correction(self) -> None:
        """Store the correction for later runs of the thread, but not every small change."""
        kept = self._state.get(CONTEXT_STATE).correction
        if abs(self._correction / kept - 1) > CORRECTION_STEP:
            self._state.update(CONTEXT_STATE, Corrected(correction=self._correction))
            self._applied = self._state.get(CONTEXT_STATE)

    def _cut(self, min_recent: int) -> bool:
        budget = int(self._target / self._correction) - self._fixed
        if self._rewritten is not None:
            return self._cut_rewritten(self._rewritten, budget, max(1, min_recent))
        body = self._view[len(self._shape.prefix) :]
        budget -= self._total - sum(self._tokens)
        split = split_point(body, self._tokens, budget, max(1, min_recent))
        if split == 0:
            return False
        place = self._shape.first + split
        self._move_cut(Cut(message_id=self._messages[place].id or "", place=place))
        return True

    def _cut_rewritten(self, rewritten: RewrittenMessages, budget: int, min_recent: int) -> bool:
        if not rewritten.cut(budget, min_recent):
            return False
        cut = rewritten.keep_cut(self._messages, min_recent)
        if cut is not None:
            self._move_cut(cut)
        return True

    def _move_cut(self, cut: Cut) -> None:
        self._state.update(CONTEXT_STATE, CutMoved(cut=cut, correction=self._correction))
        self._rebuild()

    def _rebuild(self) -> None:
        """Recompute the window from the context state and the messages that it selects."""
        messages, state = self._messages, self._state.get(CONTEXT_STATE)
        self._applied = state
        shape = self._shape = effective(messages, state)
        self._view = list(shape.prefix)
        self._tokens: list[int] = []
        self._total = estimate_tokens(shape.prefix)
        self._previews = {at: kept for at, kept in self._previews.items() if at >= shape.first}
        for place, message in enumerate(islice(messages, shape.first, None), shape.first):
            self._add(place, message)

    def _add(self, place: int, message: Message) -> None:
        shown = self._previews.get(place) or truncate_output(message)
        if shown is not message:
            # One object for all requests, because its wire form is cached on it.
            self._previews[place] = shown
        tokens = estimate_message_tokens(shown)
        self._view.append(shown)
        self._tokens.append(tokens)
        self._total += tokens

    def _frame_tokens(self, frame: Frame) -> int:
        tools, tokens = self._tool_tokens
        if tools is not frame.tools:
            tokens = estimate_tool_tokens(frame.tools)
            self._tool_tokens = (frame.tools, tokens)
        texts = sum(map(text_bytes, frame.system)) // BYTES_PER_TOKEN
        return tokens + texts + estimate_tokens(frame.before) + estimate_tokens(frame.after)
