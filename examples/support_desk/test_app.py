"""The desk without a key: what it pays, what it asks, and what it may not claim."""

import dataclasses
import json
import unittest

from app import Customer, Ticket, support
from orders import Orders, open_orders
from scripted_desk import scripted_desk

from awaken import Agent, AgentRuntime
from awaken.errors import InvalidContext
from awaken.testing import ScriptedModel


def desk_with(model: ScriptedModel) -> Agent[Customer, Ticket]:
    return dataclasses.replace(support, model=model)


class SupportDeskTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.orders: Orders = await self.enterAsyncContext(open_orders())
        self.desk = desk_with(scripted_desk())
        runtime = AgentRuntime([self.desk], deps=self.orders)
        self.runtime = await self.enterAsyncContext(runtime)

    async def test_a_small_refund_is_paid_at_once(self) -> None:
        done = await self.runtime.run(self.desk, "A-1001 is stale.", context=Customer("c-7"))
        assert done.output is not None
        self.assertEqual(done.output.refunded_cents, 1_900)
        self.assertEqual([*self.orders.refunds.values()], [("A-1001", 1_900)])

    async def test_a_large_refund_waits_for_a_person(self) -> None:
        waiting = await self.runtime.run(self.desk, "A-1002 leaks.", context=Customer("c-7"))
        (ticket,) = waiting.tickets
        self.assertEqual(ticket.arguments, {"order_id": "A-1002", "cents": 14_900})
        self.assertEqual(self.orders.refunds, {})

        await self.runtime.decide(ticket.ticket_id, decided_by="ann")
        await self.runtime.wait(waiting.run_id)
        self.assertEqual([*self.orders.refunds.values()], [("A-1002", 14_900)])

    async def test_a_declined_refund_is_not_paid_and_not_claimed(self) -> None:
        waiting = await self.runtime.run(self.desk, "A-1002 leaks.", context=Customer("c-7"))
        await self.runtime.decide(waiting.tickets[0].ticket_id, "cancel", reason="Too old.")
        done = await self.runtime.wait(waiting.run_id)
        self.assertEqual(done.output.refunded_cents, 0)
        self.assertEqual(self.orders.refunds, {})

    async def test_the_plan_decides_what_needs_a_person(self) -> None:
        basic, plus = Customer("c-8"), Customer("c-9")
        self.assertTrue((await self.runtime.run(self.desk, "A-1003?", context=basic)).is_waiting)
        done = await self.runtime.run(self.desk, "A-1004?", context=plus)
        self.assertFalse(done.is_waiting)

    async def test_the_order_of_another_customer_is_not_found(self) -> None:
        done = await self.runtime.run(self.desk, "A-1003 broke.", context=Customer("c-7"))
        assert done.output is not None
        self.assertEqual(done.output.category, "question")

    async def test_a_mail_without_a_customer_is_refused(self) -> None:
        with self.assertRaises(InvalidContext):
            await self.runtime.run(self.desk, "Hello.")

    async def test_a_refund_that_was_not_made_cannot_be_reported(self) -> None:
        claim = {"category": "refund", "summary": "s", "reply": "r", "order_id": "A-1001"}
        model = ScriptedModel([json.dumps(claim | {"refunded_cents": 1_900}), json.dumps(claim)])
        desk = desk_with(model)
        done = await desk.run("Pay me.", context=Customer("c-7"), deps=self.orders)
        self.assertEqual(done.steps, 2)
        self.assertIn("0 cents were paid back", model.requests[1].messages[-1].text)


if __name__ == "__main__":
    unittest.main()
