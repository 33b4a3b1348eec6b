"""What the tests of faults share."""

import asyncio

import pytest

from offbook import MockProvider, run
from tests.fakes import user


@pytest.fixture
def apply():
    """Declares a fault in a recording and asks: gives what came, the error, and after how many seconds."""

    def apply(fault, *, stream=True, **entry):
        async def work():
            mock = MockProvider(responses={"a": entry | {"fault": fault}}, strict=True)
            ask = mock.stream if stream else mock.complete
            came = []
            try:
                reply = await ask(user("Hi"), "m", step_id="a")
                async for event in reply:
                    came.append(event)  # noqa: PERF401 - a comprehension would lose them
            except Exception as error:
                return came, error, asyncio.get_running_loop().time()
            raise AssertionError("nothing fired")

        return run(work(), virtual_time=True)

    return apply
