"""Servers, proxies and transports that stand in for the vendors' HTTP APIs, so that programs need no change."""

from offbook.server import serving as serving
from offbook.wire.api import StandIn as StandIn
from offbook.wire.api import http_client as http_client
from offbook.wire.api import sync_http_client as sync_http_client
from offbook.wire.server.wire_server import WireServer as WireServer
from offbook.wire.session import Miss as Miss
from offbook.wire.session import WireCall as WireCall
