"""`ToolSearch`: the tool by which a model loads the tools that it needs."""

from typing import Annotated, Any

from msgspec import Meta

from awaken.authoring.functions import tool
from awaken.contracts.tools.context import ToolContext

from .catalog import DeferredCatalog
from .config import TOOL_SEARCH
from .search import find_tools, format_tools, parse_query
from .state import HIDDEN_TOOLS, LOADED_TOOLS, Conversation, Shift


# It changes only state, which is stored with the call's result: it may run any number of times.
@tool(id=TOOL_SEARCH, effect="none", kind="search")
async def tool_search(
    query: str, ctx: ToolContext, max_results: Annotated[int, Meta(ge=1, le=50)] = 5
) -> Any:
    """Load deferred tools, so that they can be called from the next step on.

    The result has their full definitions.

    Args:
        query: "select:id1,id2" for tools by id, "+word other words" for tools that must have a
            word, or plain keywords.
        ctx: The call.
        max_results: How many tools a search by words loads at most.
    """
    catalog: DeferredCatalog = ctx.prepared
    # Read from the snapshot, not as tracked reads: no other call of the step changes these values.
    snapshot = ctx.state.snapshot
    hidden: tuple[str, ...] = snapshot.get(HIDDEN_TOOLS)
    tools = find_tools(parse_query(query), catalog.tools, hidden, max_results)
    loaded = tuple(it.id for it in tools)
    if loaded:
        turn = snapshot.get(LOADED_TOOLS).get(ctx.agent.id, Conversation()).turn
        shift = Shift(agent_id=ctx.agent.id, turn=turn, load=loaded)
        ctx.state.update(LOADED_TOOLS, shift)
    return {"tools": format_tools(tools), "loaded": loaded}
