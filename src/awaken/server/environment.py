"""The server's settings in the environment, which override those in code.

`AWAKEN_ADMIN_API_BEARER_TOKEN` is a token that allows everything. The comma list
`AWAKEN_ADMIN_CORS_ALLOWED_ORIGINS` names the origins whose pages may read replies.
`AWAKEN_TOKENS_FILE` names a JSON file with a list of tokens, each as `TokenSpec`, and
`AWAKEN_JWT_FILE` one with a `JwtConfig`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.secrets import RedactedString, decode_secret
from awaken.transport.routes import SCOPES

from .config import JwtConfig, ServerConfig, TokenSpec

T = TypeVar("T")


def with_environment(config: ServerConfig, environment: Mapping[str, str]) -> ServerConfig:
    """Apply the environment to a config.

    Raises:
        InvalidInput: A variable, or the file that it names, is malformed.
    """
    tokens = {token.id: token for token in config.tokens}
    for spec in _file(environment, "AWAKEN_TOKENS_FILE", tuple[TokenSpec, ...]) or ():
        tokens[spec.id] = spec
    admin = environment.get("AWAKEN_ADMIN_API_BEARER_TOKEN", "").strip()
    if admin:
        secret = RedactedString(admin)
        tokens["admin"] = TokenSpec(id="admin", access=SCOPES, token=secret)
    listed = environment.get("AWAKEN_ADMIN_CORS_ALLOWED_ORIGINS", "")
    origins = tuple(origin.strip() for origin in listed.split(",") if origin.strip())
    return msgspec.structs.replace(
        config,
        tokens=tuple(tokens.values()),
        jwt=_file(environment, "AWAKEN_JWT_FILE", JwtConfig) or config.jwt,
        cors_origins=origins or config.cors_origins,
    )


def _file(environment: Mapping[str, str], variable: str, type_: type[T]) -> T | None:
    path = environment.get(variable, "").strip()
    if not path:
        return None
    try:
        data = Path(path).read_bytes()
        return msgspec.json.decode(data, type=type_, dec_hook=decode_secret)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInput(what=f"The file of {variable}", problem=str(error)) from error
