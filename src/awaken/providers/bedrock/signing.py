"""AWS credentials and signatures; the only module that needs botocore."""

import threading
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import HTTPClientError
from botocore.session import Session

from awaken.contracts.models.errors import TransportFailed, Unauthorized
from awaken.contracts.record import Record
from awaken.contracts.secrets import RedactedString

_METADATA_S = 1
_METADATA_ATTEMPTS = 2


class Signed(Record, frozen=True, kw_only=True):
    """The headers of one request, and the secrets that no error may repeat."""

    headers: dict[str, str]
    secrets: tuple[RedactedString, ...]


class Signer:
    """Signs requests with the credentials of botocore's provider chain; it may block."""

    __slots__ = ("_lock", "_region", "_session")

    def __init__(self, region: str) -> None:
        self._region = region
        self._lock = threading.Lock()
        self._session = Session()
        # A machine that is not an EC2 instance must not wait for instance metadata.
        self._session.set_config_variable("metadata_service_timeout", _METADATA_S)
        self._session.set_config_variable("metadata_service_num_attempts", _METADATA_ATTEMPTS)

    def sign(self, url: str, headers: dict[str, str], body: bytes) -> Signed:
        """Return the headers of a POST with its signature; credentials are renewed when due.

        Raises:
            ModelError: There are no credentials, or they cannot be read; gives no details.
        """
        found = self._credentials()
        request = AWSRequest(method="POST", url=url, data=body, headers=headers)
        _QuietAuth(found, "bedrock", self._region).add_auth(request)
        secrets = [found.secret_key, found.token]
        return Signed(
            headers=dict(request.headers.items()),
            secrets=tuple(RedactedString(secret) for secret in secrets if secret),
        )

    def _credentials(self) -> Any:
        try:
            with self._lock:
                found = self._session.get_credentials()
            frozen = found and found.get_frozen_credentials()
        except (HTTPClientError, OSError) as error:
            message = f"the source of the AWS credentials cannot be reached: {_kind(error)}"
            raise TransportFailed(message) from None
        except Exception as error:  # noqa: BLE001 - sources are plug-ins and raise anything
            message = f"the AWS credentials cannot be read: {_kind(error)}"
            raise Unauthorized(message) from None
        if not frozen or not frozen.access_key or not frozen.secret_key:
            message = (
                "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "a profile, a role, or AWS_BEARER_TOKEN_BEDROCK"
            )
            raise Unauthorized(message)
        return frozen


def _kind(error: Exception) -> str:
    return type(error).__name__


class _QuietAuth(SigV4Auth):  # type: ignore[misc]
    """Keeps the signed text, including the session token, out of botocore's debug log."""

    def canonical_request(self, request: AWSRequest) -> str:
        return _Unshown(super().canonical_request(request))


class _Unshown(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "***"

    __repr__ = __str__
