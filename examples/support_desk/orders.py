"""The orders of the shop: an in-memory stand-in for your database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class RefundRefused(Exception):
    """An order cannot be paid back like this."""


@dataclass(frozen=True)
class Order:
    """What a customer bought."""

    id: str
    customer_id: str
    item: str
    cents: int
    status: str


@dataclass
class Orders:
    """Reads orders, and pays them back."""

    orders: dict[str, Order]
    plus: frozenset[str] = frozenset()
    """The customers with the plan `plus`: a client cannot claim it, as it could in the context."""
    refunds: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The order and the sum of each refund, by the key that makes it unique."""

    async def plan_of(self, customer_id: str) -> str:
        """The plan of a customer."""
        return "plus" if customer_id in self.plus else "basic"

    async def list_of(self, customer_id: str) -> list[Order]:
        """The orders of a customer."""
        return [order for order in self.orders.values() if order.customer_id == customer_id]

    async def find(self, order_id: str, customer_id: str) -> Order | None:
        """An order, if it belongs to the customer."""
        order = self.orders.get(order_id)
        return order if order is not None and order.customer_id == customer_id else None

    async def refunded(self, order_id: str) -> int:
        """How much of an order was paid back."""
        return sum(cents for order, cents in self.refunds.values() if order == order_id)

    async def refund(self, order: Order, cents: int, *, key: str) -> None:
        """Pay back a part of an order; the same key pays once.

        Raises:
            RefundRefused: More would be paid back than was paid.
        """
        if key in self.refunds:
            return
        left = order.cents - await self.refunded(order.id)
        if cents > left:
            raise RefundRefused(f"only {left} cents of {order.id} can be paid back")
        self.refunds[key] = (order.id, cents)


@asynccontextmanager
async def open_orders() -> AsyncIterator[Orders]:
    """Open the database; the runtime closes it when it ends."""
    shop = [
        Order("A-1001", "c-7", "Tea, 500 g", 1_900, "delivered"),
        Order("A-1002", "c-7", "Copper kettle", 14_900, "delivered"),
        Order("A-1003", "c-8", "Cups, 6 pieces", 5_400, "on its way"),
        Order("A-1004", "c-9", "Cups, 6 pieces", 5_400, "on its way"),
    ]
    yield Orders({order.id: order for order in shop}, plus=frozenset({"c-9"}))
