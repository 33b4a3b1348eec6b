"""How a program reaches the server: by base URLs, past any proxy, or by interception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from offbook.errors import InputError
from offbook.wire.server.wire_server import no_proxy_variables

if TYPE_CHECKING:
    from offbook.wire.intercept.environment import ProxyEnvironment
    from offbook.wire.intercept.interception import Interception, NetworkTally


class NetworkOptions(Struct, frozen=True, kw_only=True):
    """What a user wants: to intercept the hosts of vendors and `hosts`, and to block the rest of the network."""

    intercepts: bool = False
    hosts: Sequence[str] = ()
    blocks: bool = False

    def check(self) -> None:
        """Raise InputError if an option has no effect."""
        if self.hosts and not self.intercepts:
            raise InputError("--intercept-host requires --intercept", hint="add --intercept")


class ProgramNetwork:
    """How programs with this `environment` reach the server, until `close`.

    Raises:
        InputError: an option has no effect or is not a host, or a package is missing.
    """

    def __init__(self, options: NetworkOptions, environment: Mapping[str, str]) -> None:
        options.check()
        self._environment = environment
        self.interception: Interception | None = None
        self._proxy: ProxyEnvironment | None = None
        if options.intercepts or options.blocks:
            from offbook.wire.intercept.environment import ProxyEnvironment  # noqa: PLC0415 - few programs need it
            from offbook.wire.intercept.hosts import InterceptedHosts  # noqa: PLC0415
            from offbook.wire.intercept.interception import Interception  # noqa: PLC0415

            hosts = InterceptedHosts(options.hosts, environment=environment) if options.intercepts else None
            self.interception = Interception(hosts, blocks_network=options.blocks, environment=environment)
            self._proxy = ProxyEnvironment(self.interception, environment)

    @property
    def tally(self) -> NetworkTally | None:
        """What became of connections to other hosts; None if they are not ours to see."""
        return None if self.interception is None else self.interception.tally

    def environment_of(
        self, own: Mapping[str, str], url: str, *, plain: Mapping[str, str], session: str = ""
    ) -> dict[str, str]:
        """Return the environment of a program in a session of the server at `url`, with its `own` variables.

        `plain` is its environment for a server without TLS. If it is intercepted, its own settings stay: it speaks TLS.
        """
        if self._proxy is None:
            return {**plain, **own, **no_proxy_variables(self._environment)}
        is_intercepted = self.interception is not None and self.interception.hosts is not None
        base = {**plain, **self._environment} if is_intercepted else plain
        return {**base, **self._proxy.variables(own, url, session=session)}

    def aliases(self, *, session: str) -> dict[str, str]:
        """Return what is another text in every run in the variables of a session, and what replaces it."""
        return {} if self._proxy is None else self._proxy.aliases(session=session)

    def close(self) -> None:
        """Remove the files that programs were given."""
        if self._proxy is not None:
            self._proxy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
