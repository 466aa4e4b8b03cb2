"""The spans of a run in its state, so that a resumed run links to its previous span."""

from opentelemetry import trace

from awaken.contracts.plugins.plugin import RunStartContext
from awaken.contracts.record import Record
from awaken.contracts.state.keys import StateCommand, StateKey
from awaken.contracts.tracing import TraceContext

from .scopes import span_context, trace_context


class SpansOfRun(Record, frozen=True, kw_only=True):
    """The span in which a run executes, and the one before it was suspended."""

    current: TraceContext | None = None
    former: TraceContext | None = None


SPANS_OF_RUN = StateKey[SpansOfRun, SpansOfRun](
    "observability.spans", default=SpansOfRun(), type=SpansOfRun
)


async def note_span(context: RunStartContext) -> StateCommand | None:
    """Store the span in which the run executes."""
    current = trace_context(trace.get_current_span())
    known = context.state(SPANS_OF_RUN)
    if current is None or current == known.current:
        return None
    noted = SpansOfRun(current=current, former=known.current)
    return StateCommand().update(SPANS_OF_RUN, noted)


async def link_span(context: RunStartContext) -> None:
    """Link the span of a resumed run to the previous one."""
    noted = context.state(SPANS_OF_RUN)
    span = trace.get_current_span()
    if noted.former is not None and noted.current == trace_context(span):
        span.add_link(span_context(noted.former))
