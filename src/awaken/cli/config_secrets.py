"""`awaken config secrets`: stored secrets; no command prints a value."""

import sys
from typing import Annotated

import typer

from awaken.contracts.config.secret_fields import STORE
from awaken.contracts.errors import InvalidInput
from awaken.managed.secrets import SECRET_BYTES_MAX

from .command_line import new_app
from .config_context import ConfigContext, config_command
from .output import moment, plain, table
from .standard_input import read_input

app = new_app("Stored secrets; no command prints a value.")

Ref = Annotated[
    str, typer.Argument(metavar="REF", help="Its name, such as providers/openai/api_key.")
]


@app.command("list")
@config_command
async def list_secrets(context: ConfigContext) -> None:
    """List stored secrets: their names, keys, and who set them when."""
    found = await context.managed.heads.list_secrets()
    items = [
        {"ref": it.ref, "key_id": it.key_id, "updated_at": it.updated_at, "by": it.updated_by}
        for it in found
    ]
    rows = [(it.ref, it.key_id, moment(it.updated_at), it.updated_by) for it in found]
    text = table(("REF", "KEY", "SET", "BY"), rows) if rows else "Nothing is there."
    context.show({"items": items}, text)


@app.command("set")
@config_command
async def set_secret(context: ConfigContext, ref: Ref) -> None:
    """Store a secret from stdin, over one of the same name; a last line break is dropped."""
    if sys.stdin.isatty():
        text = typer.prompt("Value", hide_input=True)
    else:
        text = read_input(SECRET_BYTES_MAX + 2).removesuffix("\n").removesuffix("\r")
    if "\ufffd" in text:
        raise InvalidInput(what="stdin", problem="it is no text in the encoding of this terminal")
    if not text:
        raise InvalidInput(what="stdin", problem="it is empty; write the secret to it")
    name = ref.removeprefix(STORE)
    await context.managed.heads.set_secret(name, text, context.author)
    context.show({"ref": name}, f"'{plain(STORE + name)}' is set.")


@app.command("unset")
@config_command
async def unset_secret(
    context: ConfigContext,
    ref: Ref,
    *,
    is_forced: Annotated[
        bool, typer.Option("--force", help="Although a live record names it.")
    ] = False,
) -> None:
    """Remove a stored secret."""
    name = ref.removeprefix(STORE)
    await context.managed.heads.unset_secret(name, context.author, is_forced=is_forced)
    context.show({"ref": name}, f"'{plain(STORE + name)}' is removed.")


@app.command("rotate")
@config_command
async def rotate_secrets(context: ConfigContext) -> None:
    """Encrypt every stored secret with the first key of AWAKEN_SECRET_KEYS."""
    found = await context.managed.heads.rotate_secrets(context.author)
    refs = [it.ref for it in found]
    context.show({"rotated": refs}, f"{len(refs)} secrets have the first key now.")
