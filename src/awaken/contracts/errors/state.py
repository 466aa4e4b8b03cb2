"""Errors of state commands, plugins and their keys."""

from .awaken_error import AwakenError


class StateError(AwakenError):
    """A state command cannot be applied; nothing was applied."""

    code = "state_error"


class RevisionConflict(StateError):
    """The command was made for another revision."""

    code = "revision_conflict"
    template = "State is at revision {actual}, the command expects {expected}."
    expected: int
    actual: int


class BaseRevisionMismatch(StateError):
    """Two batches made for different revisions cannot be joined."""

    code = "base_revision_mismatch"
    template = "Cannot join batches made for revisions {left} and {right}."
    left: int
    right: int


class PluginAlreadyInstalled(StateError):
    """A plugin of this name is installed already."""

    code = "plugin_already_installed"
    template = "Plugin '{name}' is already installed."
    name: str


class PluginNotInstalled(StateError):
    """No plugin of this name is installed."""

    code = "plugin_not_installed"
    template = "Plugin '{name}' is not installed."
    name: str


class KeyAlreadyRegistered(StateError):
    """Another state key has this name."""

    code = "key_already_registered"
    template = "State key '{key}' is registered twice; names are global, choose another."
    key: str


class UnknownKey(StateError):
    """The state key is not registered."""

    code = "unknown_key"
    template = "State key '{key}' is not registered; register it in a plugin."
    key: str


class KeyCodecError(StateError):
    """A value does not fit its state key, profile key or config section, in either direction."""

    code = "key_codec_error"
    template = "Key '{key}': {problem}."
    key: str
    problem: str


class UnknownProfileKey(UnknownKey):
    """The profile key is not declared."""

    template = "Profile key '{key}' is not declared; declare it in a plugin."


class ProfileCodecError(KeyCodecError):
    """A stored profile value does not fit its key."""

    template = "Profile key '{key}': {problem}."


class HandlerAlreadyRegistered(StateError):
    """An action or effect has two handlers."""

    code = "handler_already_registered"
    template = "{kind} '{key}' has two handlers."
    kind: str
    key: str


class UnknownHandler(StateError):
    """An action was scheduled, or an effect emitted, that no plugin handles."""

    code = "unknown_handler"
    template = "No plugin handles {kind} '{key}'."
    kind: str
    key: str


class PhaseNotConverging(StateError):
    """Scheduled actions kept scheduling more of themselves."""

    code = "phase_not_converging"
    template = "Phase '{phase}' still has actions after {max_rounds} rounds."
    phase: str
    max_rounds: int


class MergeConflict(StateError):
    """Two parallel commands touch one exclusive key."""

    code = "merge_conflict"
    template = "Parallel commands {owners} both touch the exclusive state key '{key}'."
    key: str
    owners: str
