"""The key of a provider at the time of a call."""

from awaken.contracts.secrets import RedactedString, SecretReference, SecretUnresolved

from .errors import Unauthorized
from .model_specs import ProviderSpec


def read_key(spec: ProviderSpec) -> RedactedString | None:
    """Return the key of a spec as it is now: a reference to a secret is resolved at every call.

    Raises:
        Unauthorized: The secret that the key refers to cannot be read; names the reference.
    """
    key = spec.key
    if not isinstance(key, SecretReference):
        return key
    try:
        return RedactedString(key.reveal())
    except SecretUnresolved as error:
        problem = f"provider '{spec.id}' has no key: {error}"
    raise Unauthorized(problem)
