"""How often a model may send refused arguments again: the limit of a tool, counted in state."""

from awaken.contracts.lifecycle import Failed
from awaken.contracts.plugins.loop_state import TOOL_REFUSALS
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import InvalidArguments, Retry, ToolDescriptor
from awaken.runtime.run import Run

RETRIES_EXCEEDED = "tool_retries_exceeded"
_REFUSALS = (InvalidArguments.code, Retry.code)


def count_refusal(run: Run, descriptor: ToolDescriptor, result: ToolResult) -> None:
    """Count a refusal of a tool that has a limit; the one beyond its limit ends the run.

    Refusals of one step count once: the model has seen none of them when it made the calls. A
    failure that is not about the arguments is no refusal and breaks no row of them.
    """
    limit, name = descriptor.retries, descriptor.id
    if limit is None or result.metadata.get("code") not in _REFUSALS:
        return
    counts, step = run.state.get(TOOL_REFUSALS), run.record.steps
    before, last = counts.get(name, (0, -1))
    if last == step:
        return
    count = before + 1
    run.state.update(TOOL_REFUSALS, {**counts, name: (count, step)})
    if count > limit:
        text = f"Tool '{name}' refused its call {count} times in a row: {result.message}"
        run.end(Failed(message=text, code=RETRIES_EXCEEDED))


def forget_refusals(run: Run, name: str) -> None:
    """Begin a new row of refusals: the tool has accepted a call."""
    counts = run.state.get(TOOL_REFUSALS)
    if name in counts:
        rest = {tool: count for tool, count in counts.items() if tool != name}
        run.state.update(TOOL_REFUSALS, rest)
