"""MCP servers of the official SDK: one line, ``guard(server)``, guards the calls of their tools.

It adds a middleware to an `MCPServer` or to a low-level `Server`; where the SDK has none (`FastMCP` and
`Server` of mcp 1) it takes the place of the handler of tool calls.

Each client's task is a run of its own. Which one a call belongs to is told by the `_meta` of its request,
``{"repeatguard/run_id": "..."}``, which a client sends with ``call_tool(name, arguments, meta=...)``; it
should be as hard to guess as a session id. With ``"repeatguard/turn"`` and ``"repeatguard/call_id"`` a
client marks the calls of one response of its model, and one call that it sends again. Without a run id
the run is that of the authenticated principal, else, where there is no HTTP, of the process. Anonymous
clients over HTTP are not guarded. Runs are kept in the memory of one process: of several workers each
counts for itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from repeatguard_sdk._types import is_mapping
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._server import GuardedServer
from repeatguard_sdk.integrations._server_forms import Listed, Request

_exceptions = load("mcp.shared.exceptions", extra="mcp")
_server = load("mcp.server", extra="mcp")

# By which a tool sends its user to a web page first, in the versions that have it.
_ELICITS: Any = getattr(_exceptions, "UrlElicitationRequiredError", None)
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
_MARK = "__repeatguard__"
# No server of ours lists so many pages of tools; one that never ends is not read for ever.
_PAGES = 50


class RepeatGuard:
    """The guard of one server.

    Args:
        server: an `MCPServer`, or a low-level `Server` (of mcp 1: a `FastMCP` or a `Server`).
        options: idle, longest and principal (see `guard`); policy, events, memory, registry,
            effects, control_flow.
    """

    def __init__(self, server: Any, **options: Any) -> None:
        self._low = _low_level(server)
        # Of the protocol; mcp 1 has no middleware, and none of them.
        self._with_envelopes: frozenset[str] = frozenset()
        if hasattr(self._low, "middleware"):
            versions = load("mcp_types.version", extra="mcp")
            self._with_envelopes = frozenset(versions.MODERN_PROTOCOL_VERSIONS)
        self._tools: Any = getattr(server, "_tool_manager", None)
        elicits = () if _ELICITS is None else (_ELICITS,)
        self._guarded = GuardedServer(_WireForm(), elicits, **options)

    def close(self) -> None:
        """End all runs, so that their records go to the sink; it happens at exit, too."""
        self._guarded.runs.close()

    async def __call__(self, context: Any, call_next: Any) -> Any:
        """Guard the calls of tools; the SDK calls this for each request."""
        params: Any = context.params
        if context.method != "tools/call" or not is_mapping(params):
            return await call_next(context)
        request = Request(
            str(params.get("name")),
            _mapping(params.get("arguments")),
            _mapping(params.get("_meta")),
            context.request,
        )

        async def page(cursor: Mapping[str, str]) -> Mapping[str, Any]:
            meta = {"_meta": params["_meta"]} if "_meta" in params else {}
            listing = dataclasses.replace(context, method="tools/list", params={**meta, **cursor})
            return _as_wire(await call_next(listing))

        async def execute() -> Any:
            return _as_wire(await call_next(context))

        tools = _ServerTools(self._tools, page)
        return self._enveloped(context, await self._guarded.serve(request, tools, execute))

    def _enveloped(self, context: Any, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a result with what the SDK puts around those of handlers, and not of middleware."""
        version = getattr(context, "protocol_version", None)
        if "resultType" in result or version not in self._with_envelopes:
            return result
        stamp = {_SERVER_INFO: self._low.server_info_stamp, **_mapping(result.get("_meta"))}
        return {**result, "resultType": "complete", "_meta": stamp}


def guard(server: Any, **options: Any) -> RepeatGuard:
    """Guard the tools of a server, also those that are added later.

    Args:
        server: an `MCPServer`, or a low-level `Server` (of mcp 1: a `FastMCP` or a `Server`).
        options: `idle`: seconds without a call after which a run is closed, and the next call opens
            a new one (300). `longest`: seconds after which a run is closed that no client has named,
            for it may have become another task (600). `principal`: a callable that tells from the
            HTTP request who it is from, `None` for nobody (default: whom the SDK has authenticated).
            And policy, events, memory, registry, effects, control_flow.

    Raises:
        TypeError: it is no such server.
        ValueError: it is guarded already, or has no handler of tool calls yet.

    Example:
        >>> server = MCPServer("shop")                                          # doctest: +SKIP
        >>> @server.tool()                                                      # doctest: +SKIP
        ... @guarded_tool(case_fold=["order_id"])
        ... def track_order(order_id: str) -> str: ...
        >>> guard(server)                                                       # doctest: +SKIP
    """
    low = _low_level(server)
    other = any(base.__module__.split(".")[0] == "fastmcp" for base in type(server).__mro__)
    if other or not isinstance(low, _server.Server):
        msg = (
            f"{server!r} cannot be guarded; give an MCPServer, or a low-level Server. For a FastMCP of "
            "the package fastmcp there is repeatguard_sdk.integrations.fastmcp"
        )
        raise TypeError(msg)
    if hasattr(low, _MARK):
        msg = f"{server!r} is guarded already; call guard(server) once"
        raise ValueError(msg)
    guarded = RepeatGuard(server, **options)
    if hasattr(low, "middleware"):
        low.middleware.append(guarded)
    else:
        _replace_handler(low, guarded)
    setattr(low, _MARK, guarded)
    return guarded


def _low_level(server: Any) -> Any:
    """Return the low-level server that an `MCPServer` or a `FastMCP` is made of."""
    for name in ("_lowlevel_server", "_mcp_server"):
        server = getattr(server, name, server)
    return server


# -- results ---------------------------------------------------------------------------------------


class _WireForm:
    """Results as they go to the client: mappings in the protocol's spelling."""

    def failure(self, result: Any) -> str | None:
        return _texts(result.get("content")) if result.get("isError") else None

    def pause(self, result: Any) -> bool:
        # To be continued with the client's input; or a task, whose result is asked for otherwise.
        return "content" not in result

    def kept(self, result: Any) -> Any:
        return result

    def rebuilt(self, kept: Any) -> Any:
        return kept

    def tells(self, error: Exception) -> bool:
        # An error of the protocol; the tool's own have become results.
        return False

    def raised(self, error: Exception, text: str) -> Exception:
        return error

    def add(self, result: Any, text: str, *, failed: bool) -> Any:
        block = [{"type": "text", "text": text}] if text else []
        added = {**result, "content": [*result["content"], *block]}
        return {**added, "isError": True} if failed else added

    def refusal(self, text: str) -> Any:
        return {"content": [{"type": "text", "text": text}], "isError": True}


def _as_wire(result: Any) -> Mapping[str, Any]:
    """Return what another middleware, or the handler, answered as it goes to the client."""
    if is_mapping(result):
        return result
    if result is None:
        return {}
    dumped: Mapping[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


def _texts(blocks: Any) -> str:
    return "\n".join(str(block.get("text", "")) for block in blocks or () if is_mapping(block))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if is_mapping(value) else {}


# -- tools -----------------------------------------------------------------------------------------


class _ServerTools:
    """What a server lists; where its tools are functions, with their functions.

    Args:
        manager: the SDK's own list of functions, if the server has one.
        page: asks the handler that lists the tools, as a client would.
    """

    def __init__(
        self, manager: Any, page: Callable[[Mapping[str, str]], Awaitable[Mapping[str, Any]]]
    ) -> None:
        self._manager = manager
        self._page = page

    async def all(self) -> Sequence[Listed]:
        found: list[Listed] = []
        cursor: dict[str, str] = {}
        for _ in range(_PAGES):
            page = await self._page(cursor)
            for tool in page.get("tools", ()):
                annotations, description = tool.get("annotations"), tool.get("description") or ""
                plain = Listed(tool["name"], None, annotations, description)
                found.append(await self.find(plain.name) or plain)
            if not page.get("nextCursor"):
                break
            cursor = {"cursor": page["nextCursor"]}
        return found

    async def find(self, name: str) -> Listed | None:
        tool = None if self._manager is None else self._manager.get_tool(name)
        if tool is None:
            return None
        return Listed(name, tool.fn, getattr(tool, "annotations", None), tool.description)


# -- mcp 1 -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Context:
    """What the middleware reads of a request, for an SDK without middleware."""

    method: str
    params: Mapping[str, Any]
    request: Any


def _replace_handler(server: Any, guarded: RepeatGuard) -> None:
    """Put the guard in the place of the handler of tool calls.

    Raises:
        ValueError: the server has none yet.
    """
    types = load("mcp.types", extra="mcp")
    handlers: dict[Any, Any] = server.request_handlers
    handler = handlers.get(types.CallToolRequest)
    if handler is None:
        msg = "the server has no tools yet; write guard(server) below its @server.call_tool()"
        raise ValueError(msg)

    async def guarded_handler(request: Any) -> Any:
        other: list[Any] = []

        async def call_next(context: _Context) -> Any:
            if context.method != "tools/call":
                asked = types.ListToolsRequest.model_validate(
                    {"method": context.method, "params": context.params}
                )
                listing = handlers.get(types.ListToolsRequest)
                return None if listing is None else (await listing(asked)).root
            result = (await handler(request)).root
            if not isinstance(result, types.CallToolResult):
                other.append(result)
            return result

        try:
            http = getattr(server.request_context, "request", None)
        except LookupError:
            # Called by nobody's request, as in a test of the handler.
            http = None
        given = request.params.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = await guarded(_Context("tools/call", given, http), call_next)
        if other:
            # The ticket of a task, whose result is asked for otherwise.
            return types.ServerResult(other[-1])
        return types.ServerResult(types.CallToolResult.model_validate(result))

    handlers[types.CallToolRequest] = guarded_handler
