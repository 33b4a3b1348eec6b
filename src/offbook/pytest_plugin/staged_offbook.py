"""The fixture `offbook` in a test that is explored: models and tools on the stage of the run under way."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Never, TypeVar

from offbook.clock import refuse_in_loop
from offbook.errors import InputError
from offbook.explore.performance import Watch
from offbook.explore.run import ModelCall
from offbook.explore.stage import Stage
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.recording.cursor import Unused
from offbook.tools import Toolbox, ToolDef
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTool, GivenTools
from offbook.tools.wrapped import wrapped

T = TypeVar("T")


class StagedOffbook:
    """Stands in for models and tools in the runs of one item: without a fault if need be, then with its case.

    What is asked by `provider` and `tools(…)` goes to the stage of the run under way, whenever they were taken.
    """

    is_recording = False

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self.provider: Provider = _CurrentStage(self)
        self._stage: Stage | None = None
        self._watch: Watch | None = None
        self._gateway: ProviderGateway | None = None

    def __repr__(self) -> str:
        return f"<offbook exploring {self.recording}>"

    def bind(self, stage: Stage, watch: Watch) -> None:
        """Let a run begin."""
        self._stage, self._watch, self._gateway = stage, watch, None

    @property
    def stage(self) -> Stage:
        """The stage of the run under way.

        Raises:
            InputError: none is, as while fixtures are set up.
        """
        if self._stage is None:
            hint = "let fixtures keep offbook.provider or offbook.tools(…), and ask in the test"
            raise InputError("nothing is asked before the test runs", source="offbook", hint=hint)
        return self._stage

    @property
    def gateway(self) -> ProviderGateway:
        """The provider behind a gateway that tries failed calls again. It is of the run under way alone."""
        if self._gateway is None:
            self._gateway = ProviderGateway(sink=self.stage.path_count)
            self._gateway.register(self.provider)
        return self._gateway

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """The same tools, answered from the recording if it has calls of tools, and failing as the case says.

        Raises:
            InputError: one of them is no tool.
        """
        named: dict[str, ToolDef] = {}
        for each in given:
            named |= Toolbox([each] if callable(each) or isinstance(each, ToolDef) else each)
        return Toolbox([self._staged(tool) for tool in named.values()])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end, in virtual time.

        Raises:
            EventLoopError: the test is async itself; await `work` there.
        """
        refuse_in_loop(work)
        if self._watch is None:
            work.close()
            raise InputError("nothing runs before the test does", source="offbook.run")
        return self._watch.to_its_end(work)

    @property
    def calls(self) -> list[ModelCall]:
        """The calls of models in the run under way, in the order they ended."""
        return [] if self._stage is None else list(self._stage.calls)

    def live(self, provider: object) -> None:
        """Nothing is asked live."""

    def unused(self) -> list[Unused]:
        """What a run with a fault leaves unused says nothing."""
        return []

    def faults(self, *faults: object) -> Never:
        """The case says which faults strike."""
        hint = "leave out mark.explore, or offbook.faults"
        raise InputError("an explored test is given its faults by the case", source="offbook.faults", hint=hint)

    def __getattr__(self, name: str) -> Never:
        if name in {"stand_in", "http_client", "sync_http_client", "serving"}:
            hint = "ask offbook.provider, or explore it as a program: offbook explore --replay PATH -- COMMAND"
            raise InputError("HTTP clients are not explored in a test", source=f"offbook.{name}", hint=hint)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _staged(self, tool: ToolDef) -> ToolDef:
        def call(**arguments: Any) -> Any:
            return self.stage.wrap(tool).callable(**arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            value = call(**arguments)
            return await value if hasattr(type(value), "__await__") else value

        return wrapped(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=tool.timeout_s)


class _CurrentStage(Provider):
    """Asks the stage of the run under way."""

    name = "explore"

    def __init__(self, offbook: StagedOffbook) -> None:
        self._offbook = offbook

    async def send(self, request: Request) -> Reply:
        return await self._offbook.stage.provider.send(request)
