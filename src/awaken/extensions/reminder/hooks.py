"""After a result it is scheduled what the agent's next request is to say."""

from awaken.contracts.plugins.loop_state import ADD_CONTEXT_MESSAGE
from awaken.contracts.plugins.plugin import AfterToolExecuteContext
from awaken.contracts.state.keys import StateCommand
from awaken.patterns import call_of

from .rules import Reminders


async def remind(context: AfterToolExecuteContext) -> StateCommand:
    """Have the next request carry the reminders that a result calls for, but what cools down."""
    reminders: Reminders = context.prepared
    call = call_of(context.call.name, context.call.arguments)
    command = StateCommand()
    for message in reminders.due(call, context.result):
        command = command.schedule(ADD_CONTEXT_MESSAGE, message)
    return command
