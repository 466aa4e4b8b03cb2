"""A model that needs no key: it works by three fixed steps on whatever order a mail names."""

import json
import re

from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.testing import Answer, ScriptedModel, ToolCalls


def scripted_desk() -> ScriptedModel:
    """A model that looks the orders up, pays the one in the mail back, and files a ticket."""
    return ScriptedModel([answer], cycle=True)


def answer(request: InferenceRequest) -> Answer:
    """The next step, by what happened since the mail."""
    last_user = max(i for i, it in enumerate(request.messages) if it.role is Role.USER)
    mail, *results = request.messages[last_user:]
    told = [it.text for it in results if it.role is Role.TOOL]
    named = re.search(r"\bA-\d+\b", mail.text)
    if not told:
        return ToolCalls([("list_orders", {})])
    order = next((it for it in json.loads(told[0]) if named and it["id"] == named[0]), None)
    if order is None:
        reply = "Which order do you mean? Please write its number."
        return json.dumps({"category": "question", "summary": "Names no order.", "reply": reply})
    if len(told) == 1:
        return ToolCalls([("refund", {"order_id": order["id"], "cents": order["cents"]})])
    is_paid = told[1].startswith("paid back")
    ticket = {
        "category": "refund",
        "summary": f"{order['item']}: refund {'made' if is_paid else 'declined'}.",
        "reply": f"We paid back your {order['item']}." if is_paid else f"We cannot: {told[1]}",
        "order_id": order["id"],
        "refunded_cents": order["cents"] if is_paid else 0,
    }
    return json.dumps(ticket)
