"""A real MCP server that asks and notifies its client, over stdio, HTTP or HTTP+SSE, and with a login if it is to have
one: run by an interpreter that has `mcp` 1."""

import secrets
import sys

from mcp.server.auth.provider import AccessToken, AuthorizationCode, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.auth import OAuthToken
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel


class Accounts:
    """An authorization server that lets everybody in."""

    def __init__(self):
        self.clients, self.codes, self.tokens = {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=4_000_000_000,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        token = "issued-" + secrets.token_urlsafe(24)
        scopes = authorization_code.scopes
        self.tokens[token] = AccessToken(token=token, client_id=client.client_id, scopes=scopes)
        return OAuthToken(access_token=token, token_type="Bearer", expires_in=3600)

    async def load_refresh_token(self, client, refresh_token):
        return None

    async def load_access_token(self, token):
        return self.tokens.get(token)


class Answer(BaseModel):
    name: str


def settings(port, transport):
    if transport != "login":
        return {}
    url = f"http://127.0.0.1:{port}"
    registration = ClientRegistrationOptions(enabled=True)
    auth = AuthSettings(issuer_url=url, resource_server_url=f"{url}/mcp", client_registration_options=registration)
    return {"auth": auth, "auth_server_provider": Accounts()}


def build(port, transport):
    server = FastMCP("asking", port=port, **settings(port, transport))

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask the user and the model."""
        asked = await ctx.elicit("Who is there?", Answer)
        said = await ctx.session.create_message(
            [SamplingMessage(role="user", content=TextContent(type="text", text="Greet them"))],
            max_tokens=10,
            related_request_id=ctx.request_id,
        )
        await ctx.report_progress(1, 2)
        await ctx.info("asked")
        return f"{said.content.text}, {asked.data.name}"

    @server.tool()
    async def change(ctx: Context) -> str:
        """Change the tools."""
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_resource_updated("note://one")
        return "changed"

    return server


if __name__ == "__main__":
    transport, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    build(port, transport).run({"http": "streamable-http", "login": "streamable-http"}.get(transport, transport))
