"""The mailbox of a Ray driver: an actor to which running tasks send messages, and which holds the answers.

The class is sent to a process of Ray that imports this file only.
"""

from __future__ import annotations

import asyncio


class Mailbox:
    """Queue of messages to the driver, and of its answers.

    Messages are JSON texts; nobody here reads them.
    """

    def __init__(self) -> None:
        self.messages: asyncio.Queue[tuple[int, str, int]] = asyncio.Queue()
        self.waiting: dict[int, asyncio.Future[str]] = {}
        self.tickets = 0

    async def tell(self, key: int, message: str) -> None:
        """Take a message of the task `key`."""
        await self.messages.put((key, message, 0))

    async def ask(self, key: int, message: str) -> str:
        """Take a message of the task `key`, and return the driver's answer."""
        self.tickets += 1
        ticket = self.tickets
        self.waiting[ticket] = asyncio.get_running_loop().create_future()
        await self.messages.put((key, message, ticket))
        return await self.waiting[ticket]

    async def take(self) -> list[tuple[int, str, int]]:
        """Return all messages as (task, text, ticket of the answer or 0); wait for the first."""
        taken = [await self.messages.get()]
        while not self.messages.empty():
            taken.append(self.messages.get_nowait())
        return taken

    async def answer(self, ticket: int, reply: str) -> None:
        """Answer a message."""
        if (future := self.waiting.pop(ticket, None)) is not None and not future.done():
            future.set_result(reply)
