"""The same tool in every way in which a tool can be written."""

import asyncio

from offbook.tools import ToolDef, ToolSpec


class Till:
    """Pays orders back, each as often as it is asked, and keeps a list."""

    def __init__(self, error=None):
        self.paid, self._error = [], error

    def refund(self, order_id: int) -> dict:
        self.paid.append(order_id)
        if self._error is not None:
            raise self._error
        return {"status": "paid back", "order": order_id}

    async def refund_later(self, order_id: int) -> dict:
        await asyncio.sleep(0.5)
        return self.refund(order_id)

    def refund_promised(self, order_id: int):
        return self.refund_later(order_id)

    def tool(self, kind, **options):
        """The tool `refund` of one of the KINDS."""
        method, timeout_s = KINDS[kind]
        spec = ToolSpec("refund", "Pay an order back.")
        return ToolDef(spec, getattr(self, method), timeout_s=timeout_s, **options)


KINDS = {
    "plain": ("refund", None),
    "async": ("refund_later", None),
    "plain with a timeout": ("refund", 30.0),
    "async with a timeout": ("refund_later", 30.0),
    "plain that gives something to wait for": ("refund_promised", None),
}
