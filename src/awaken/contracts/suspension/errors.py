"""What is wrong with a decision, or with the name of what it decides on."""

from awaken.contracts.errors import InvalidInput, UsageError


class InvalidDecision(InvalidInput):
    """A decision is no clear answer to what its ticket asks; nothing was decided."""

    code = "invalid_decision"
    template = "{what} is refused: {problem}."


class AmbiguousTicket(UsageError):
    """The name of a decision may mean several tickets; nothing was decided."""

    code = "ambiguous_ticket"
    template = "'{name}' may mean several tickets: {problem}; name one by its ticket id: {known}."
    name: str
    problem: str
    known: str


class ArgumentsChanged(UsageError):
    """The decision is on other arguments than those of the ticket; nothing was decided."""

    code = "arguments_changed"
    template = (
        "The decision on ticket '{ticket_id}' is on other arguments than those it holds; look at "
        "the ticket again."
    )
    ticket_id: str


class InvalidEdit(InvalidDecision):
    """Edited arguments do not fit the tool of the call; nothing was decided."""

    code = "invalid_edit"


class EditDenied(UsageError):
    """The rules of the agent deny the call with the edited arguments; nothing was decided."""

    code = "edit_denied"
    template = (
        "The edit of ticket '{ticket_id}' is refused: the rule '{rule}' denies tool '{tool_name}' "
        "with these arguments."
    )
    ticket_id: str
    tool_name: str
    rule: str


class FrontendToolConflict(UsageError):
    """A client brings a tool that the agent has itself; nothing was run."""

    code = "frontend_tool_conflict"
    template = (
        "Tool '{tool_name}' of the client would replace the one that agent '{agent_id}' has; "
        "rename it, or let the agent's spec say `frontend_tools_may_replace`."
    )
    tool_name: str
    agent_id: str
