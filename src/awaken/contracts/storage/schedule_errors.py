"""Why a schedule or a trigger is refused."""

from awaken.contracts.errors import UsageError


class UnknownSchedule(UsageError):
    """No such schedule exists, or it belongs to another tenant."""

    code = "unknown_schedule"
    template = "Schedule '{schedule_id}' does not exist; list those that do."
    schedule_id: str


class UnknownTrigger(UsageError):
    """No such trigger exists, or it belongs to another tenant."""

    code = "unknown_trigger"
    template = "Trigger '{trigger_id}' does not exist; list those that do."
    trigger_id: str


class ScheduleChanged(UsageError):
    """Another caller changed the schedule or the trigger first; nothing was written."""

    code = "schedule_changed"
    retryable = True
    template = "'{record_id}' was changed meanwhile; read it again."
    record_id: str


class ScheduleUsedUp(UsageError):
    """The schedule has started as many runs as it may."""

    code = "schedule_used_up"
    template = (
        "Schedule '{schedule_id}' has started the {max_count} runs that it may; give it a larger "
        "max_count."
    )
    schedule_id: str
    max_count: int


class NotTheCreator(UsageError):
    """The caller is neither the creator of the schedule or the trigger nor an operator."""

    code = "not_the_creator"
    template = (
        "'{record_id}' starts runs in the name of {owner}: only its creator may change it; an "
        "operator may pause, resume, fire and delete it. Create one of your own."
    )
    record_id: str
    owner: str


class SecretNotAllowed(UsageError):
    """The caller names a secret of the server that is not meant for triggers."""

    code = "secret_not_allowed"
    template = (
        "'{reference}' is a secret of the server: callers may name {allowed}; add it to "
        "ServerConfig.hook_secrets, or let a caller with the scope 'config' and no tenant create "
        "the trigger."
    )
    reference: str
    allowed: str


class RightsUnverifiable(UsageError):
    """The server cannot look up the caller later, so nothing may run in its name by itself."""

    code = "rights_unverifiable"
    template = (
        "What '{principal_id}' may do cannot be checked when no request is made; use a configured "
        "token, or set ServerConfig.find_principal."
    )
    principal_id: str


class HookRefused(UsageError):
    """The request is not verified; the same for every cause, so that it tells nothing."""

    code = "not_verified"
    template = "The request could not be verified."


class HookUnreadable(UsageError):
    """The request is verified, but its body has no event."""

    code = "invalid_event"
    template = "The body has no event: {problem}."
    problem: str


class TriggerPaused(UsageError):
    """The request is verified, but the trigger starts nothing now."""

    code = "trigger_paused"
    template = "The trigger is paused."
