"""Errors of the caller: what was asked for cannot be."""

from .awaken_error import AwakenError, field


class UsageError(AwakenError):
    """The caller asked for something that cannot be."""

    code = "usage_error"


class Misuse(UsageError):
    """A method was called in a way, or at a time, that it does not allow."""

    template = "{message}"
    message: str = field(kw_only=False)


class NotServedHere(UsageError):
    """This process cannot execute a run of the agent; another one may."""


class UnknownAgent(NotServedHere):
    """No such agent is registered."""

    code = "unknown_agent"
    template = "Agent '{agent_id}' is not registered; known agents: {known}."
    agent_id: str
    known: str
    """The ids that are registered, for the message."""


class UnknownDefaultAgent(UnknownAgent):
    """The agent that runs when none was named is not registered."""

    template = (
        "Agent '{agent_id}', which runs when no agent was named and the thread has none, is not "
        "registered; known agents: {known}."
    )


class UnknownThread(UsageError):
    """No such thread exists, or it belongs to another tenant."""

    code = "unknown_thread"
    template = "thread not found: {thread_id}"
    thread_id: str


class UnknownRun(UsageError):
    """No such run exists."""

    code = "unknown_run"
    template = "run not found: {run_id}"
    run_id: str


class UnknownTicket(UsageError):
    """No such ticket exists, or it belongs to another run."""

    code = "unknown_ticket"
    template = "Ticket '{ticket_id}' does not exist; {remedy}."
    ticket_id: str
    remedy: str = "list the open ones with `tickets()`"


class UnknownAnswer(UsageError):
    """No such remembered answer exists in this scope."""

    code = "unknown_answer"
    template = "Answer '{answer_id}' is not remembered here; list those that are."
    answer_id: str


class InvalidInput(UsageError):
    """An argument is malformed; nothing was changed."""

    code = "invalid_input"
    template = "{what} is invalid: {problem}."
    what: str
    problem: str


class InvalidContext(UsageError):
    """The context of a run does not fit its agent; nothing was written."""

    code = "invalid_context"
    template = "The context does not fit agent '{agent_id}': {problem}."
    agent_id: str
    problem: str


class DependenciesFailed(UsageError):
    """What the runtime was given as `deps` could not be opened; the runtime is closed."""

    code = "dependencies_failed"
    template = "The dependencies of the runtime could not be opened: {problem}."
    problem: str


class RefusedInput(InvalidInput):
    """An argument is malformed, and `problem` is the whole message."""

    template = "{problem}"


class InvalidSpec(UsageError):
    """A declarative spec cannot be accepted; nothing was changed."""

    code = "invalid_spec"
    template = "{what} is invalid: {problem}."
    what: str
    problem: str


class InvalidValue(InvalidSpec, ValueError):
    """A value made in code is invalid; when one is decoded, the decoder adds its place."""


class DemoRecord(UsageError):
    """It is demo data, which starts nothing, goes on with nothing and is removed as a whole."""

    code = "demo_record"
    template = (
        "'{record_id}' is demo data: it starts nothing and cannot be changed; use one of your own, "
        "or remove the demo data."
    )
    record_id: str


class IllegalTransition(UsageError):
    """A life cycle does not allow this transition."""

    code = "illegal_transition"
    template = "{thing} cannot go from '{old}' to '{new}'."
    thing: str
    old: str
    new: str


class ThreadBusy(UsageError):
    """The thread (or the run id) is active; one run per thread at a time."""

    code = "thread_busy"
    retryable = True
    template = (
        "Thread '{thread_id}' has an active run '{run_id}'; steer it, wait for it or cancel it."
    )
    thread_id: str
    run_id: str


class ThreadHasWorkflow(UsageError):
    """A message names another agent than the workflow whose run is open on the thread."""

    code = "thread_has_workflow"
    template = (
        "Thread '{thread_id}' belongs to the open run '{run_id}' of workflow '{workflow}'; name "
        "that workflow or no agent, use another thread, or cancel the run."
    )
    thread_id: str
    run_id: str
    workflow: str


class AlreadyDecided(UsageError):
    """The ticket was decided differently, or closed, before this decision arrived."""

    code = "already_decided"
    template = "Ticket '{ticket_id}' is {status}; a decision is taken once."
    ticket_id: str
    status: str


class InvalidResume(UsageError):
    """The run to continue does not exist or cannot be continued."""

    code = "invalid_resume"
    template = "Run '{run_id}' cannot be continued: {problem}."
    run_id: str
    problem: str


class NothingToResume(InvalidResume):
    """No run of the thread waits for a decision or a message."""

    template = "Nothing to resume: {problem}."


class UnsupportedFeature(UsageError):
    """The agent's backend lacks what the request needs; refused before the run began."""

    code = "unsupported_feature"
    template = "agent '{agent_id}' backend does not support: {features}"
    agent_id: str
    features: str


class DuplicateRegistration(UsageError):
    """The same id was registered twice."""

    code = "duplicate_registration"
    template = "{kind} '{name}' is registered twice; ids must be unique."
    kind: str
    name: str


class PluginGivenTwice(DuplicateRegistration):
    """An agent has a plugin of its own that has the name of one that every agent gets."""

    template = (
        "Agent '{agent_id}' has its own plugin '{name}', and one of that name is given to every "
        "agent; leave it out of the agent's plugins or of `everywhere`."
    )
    agent_id: str


class UnknownReference(UsageError):
    """A spec names something that is not registered."""

    code = "unknown_reference"
    template = "{owner} names {kind} '{name}', which is not registered; known: {known}."
    owner: str
    kind: str
    name: str
    known: str
    """The names that are registered, for the message."""


class UnknownProvider(UnknownReference):
    """A model names a provider that is not registered."""

    template = (
        "{agent}: no provider '{name}' is registered (model '{model_id}'); {hint}: {known}{models}"
        "; for another one pass providers={{'{name}': ProviderSpec(…)}} or a client of your own."
    )
    agent: str
    """What uses the model, for the message."""
    model_id: str
    models: str
    """The models that are registered, for the message; empty if there are none."""
    hint: str = "known"
    """How the message goes on to the registered names: with the name that was probably meant."""


class InvalidPluginConfig(UsageError):
    """A config section does not fit the schema its plugin declared."""

    code = "invalid_plugin_config"
    template = "Section '{section}' of agent '{agent_id}' is invalid: {problem}."
    section: str
    agent_id: str
    problem: str


class AgentPaused(UsageError):
    """An operator has paused the agent."""

    code = "agent_paused"
    retryable = True
    template = "Agent '{agent_id}' is paused by an operator: {reason}"
    agent_id: str
    reason: str


class AmbiguousId(UsageError):
    """An id is that of a run and that of a thread on which another run executes."""

    code = "ambiguous_id"
    template = (
        "'{given}' is a run on thread '{thread_id}', and a thread with another run, '{run_id}'; "
        "name thread '{thread_id}' to mean the first, or run '{run_id}' to mean the second."
    )
    given: str
    thread_id: str
    run_id: str
