"""After a result it is noted what is to be said, before a request it is said.

In between the conversation may be handed over: what was noted goes with the agent whose rule it is.
"""

from awaken.contracts.loop_state import ADD_CONTEXT_MESSAGE
from awaken.contracts.plugins import AfterToolExecuteContext, BeforeInferenceContext
from awaken.contracts.state import StateCommand
from awaken.patterns import call_of

from .rules import Reminders
from .state import DUE


async def note(context: AfterToolExecuteContext) -> StateCommand | None:
    """Note the reminders that a result calls for."""
    reminders: Reminders = context.prepared
    call = call_of(context.call.name, context.call.arguments)
    command = StateCommand()
    for key in reminders.due(call, context.result):
        command = command.update(DUE, key)
    return None if command.is_empty else command


async def remind(context: BeforeInferenceContext) -> StateCommand | None:
    """Put what was noted into the coming request, except what cools down."""
    due = context.state(DUE)
    if not due:
        return None
    reminders: Reminders = context.prepared
    command = StateCommand().clear(DUE)
    for key in due:
        if key in reminders.messages:
            command = command.schedule(ADD_CONTEXT_MESSAGE, reminders.messages[key])
    return command
