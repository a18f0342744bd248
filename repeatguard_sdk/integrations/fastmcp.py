"""FastMCP servers: the guard as middleware, ``FastMCP("shop", middleware=[RepeatGuardMiddleware()])``.

Each client's task is a run of its own. Which one a call belongs to is told by the `_meta` of its request,
``{"repeatguard/run_id": "..."}``, which a client sends with ``call_tool(name, arguments, meta=...)``; it
should be as hard to guess as a session id. With ``"repeatguard/turn"`` and ``"repeatguard/call_id"`` a
client marks the calls of one response of its model, and one call that it sends again. Without a run id
the run is that of the authenticated principal, else, where there is no HTTP, of the process. Anonymous
clients over HTTP are not guarded. Runs are kept in the memory of one process: of several workers each
counts for itself.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from repeatguard_sdk._types import is_mapping
from repeatguard_sdk.integrations._framework import load
from repeatguard_sdk.integrations._server import GuardedServer
from repeatguard_sdk.integrations._server_forms import Listed, Request

_middleware = load("fastmcp.server.middleware.middleware", extra="fastmcp")
_exceptions = load("fastmcp.exceptions", extra="fastmcp")
_types: Any = load("mcp.types", extra="fastmcp")
_shared = load("mcp.shared.exceptions", extra="fastmcp")
_pydantic = load("pydantic", extra="fastmcp")

_Base: Any = _middleware.Middleware
# From there, for its own module has moved.
_ToolResult: Any = _middleware.ToolResult
_ToolError: Any = _exceptions.ToolError
_Block: Any = _types.ContentBlock
_Blocks: Any = _pydantic.TypeAdapter(list[_Block])
# By which a tool sends its user to a web page first, in the versions that have it.
_ELICITS: Any = getattr(_shared, "UrlElicitationRequiredError", None)
# Whose text goes to the client as it is.
_TOLD: tuple[Any, ...] = (
    _exceptions.FastMCPError,
    _exceptions.NotFoundError,
    _pydantic.ValidationError,
)


class RepeatGuardMiddleware(_Base):  # type: ignore[misc]
    """Middleware that guards the tools of a server, mounted and proxied ones too.

    Put it behind (inside of) what counts or logs errors, and in front of what answers from a cache.

    Args:
        options: `idle`: seconds without a call after which a run is closed, and the next call opens
            a new one (300). `longest`: seconds after which a run is closed that no client has named,
            for it may have become another task (600). `principal`: a callable that tells from the
            HTTP request who it is from, `None` for nobody (default: whom the server has
            authenticated). And policy, events, memory, registry, effects, control_flow.

    Example:
        >>> server = FastMCP("shop", middleware=[RepeatGuardMiddleware()])      # doctest: +SKIP
        >>> @server.tool                                                        # doctest: +SKIP
        ... @guarded_tool(case_fold=["order_id"])
        ... def track_order(order_id: str) -> str: ...
    """

    def __init__(self, **options: Any) -> None:
        elicits = () if _ELICITS is None else (_ELICITS,)
        self._guarded = GuardedServer(_ToolResults(), elicits, **options)

    def close(self) -> None:
        """End all runs, so that their records go to the sink; it happens at exit, too."""
        self._guarded.runs.close()

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Guard one call."""
        here = context.fastmcp_context
        asked = None if here is None else here.request_context
        message = context.message
        request = Request(
            message.name,
            message.arguments or {},
            _meta_of(asked),
            getattr(asked, "request", None),
        )
        tools = _ServerTools(None if here is None else here.fastmcp)
        return await self._guarded.serve(request, tools, lambda: call_next(context))


def _meta_of(asked: Any) -> Mapping[str, Any]:
    """Return the `_meta` of a request: a mapping, or a model that takes any field."""
    meta = getattr(asked, "meta", None)
    if is_mapping(meta):
        return meta
    extra: Any = getattr(meta, "model_extra", None)
    return extra if is_mapping(extra) else {}


# -- results ---------------------------------------------------------------------------------------


class _ToolResults:
    """Results as middleware sees them; failures are raised, for the middleware around this one."""

    def failure(self, result: Any) -> str | None:
        return _text(result) if getattr(result, "is_error", False) else None

    def pause(self, result: Any) -> bool:
        # To be continued with the client's input; or a task, whose result is asked for otherwise.
        return not isinstance(result, _ToolResult) or hasattr(result, "input_required")

    def kept(self, result: Any) -> Any:
        # A result of some versions equals itself alone.
        blocks = [block.model_dump(mode="json", by_alias=True) for block in result.content]
        return {
            "content": blocks,
            "structured_content": result.structured_content,
            "meta": result.meta,
        }

    def rebuilt(self, kept: Any) -> Any:
        if not is_mapping(kept):
            # The guard's own sentence.
            return kept
        content = _Blocks.validate_python(kept["content"])
        return _ToolResult(**{**kept, "content": content})

    def tells(self, error: Exception) -> bool:
        return isinstance(error, _TOLD)

    def raised(self, error: Exception, text: str) -> Exception:
        told: Exception = _ToolError(f"{error}\n\n{text}")
        return told

    def add(self, result: Any, text: str, *, failed: bool) -> Any:
        if failed:
            raise _ToolError("\n\n".join(filter(None, (_text(result), text))))
        added = copy.copy(result)
        added.content = [*result.content, _types.TextContent(type="text", text=text)]
        return added

    def refusal(self, text: str) -> Any:
        raise _ToolError(text)


def _text(result: Any) -> str:
    return "\n".join(str(getattr(block, "text", "")) for block in result.content)


# -- tools -----------------------------------------------------------------------------------------


class _ServerTools:
    """The tools of a server, those it has mounted among them.

    Args:
        server: the server that was asked.
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    async def all(self) -> Sequence[Listed]:
        if self._server is None:
            return ()
        if hasattr(self._server, "list_tools"):
            tools = await self._server.list_tools()
        else:  # fastmcp 2
            named = await self._server.get_tools()
            tools = [_named(tool, name) for name, tool in named.items()]
        return [await _listed(tool, tool.name) for tool in tools]

    async def find(self, name: str) -> Listed | None:
        tool = await _find(self._server, name)
        return None if tool is None else await _listed(tool, name)


async def _find(server: Any, name: str) -> Any:
    if server is None:
        return None
    try:
        return await server.get_tool(name)
    except _exceptions.NotFoundError:
        return None


def _named(tool: Any, name: str) -> Any:
    return tool if tool.name == name else tool.model_copy(update={"name": name})


async def _listed(tool: Any, name: str) -> Listed:
    return Listed(name, await _function_of(tool), tool.annotations, tool.description or "")


async def _function_of(tool: Any) -> Any:
    """Return what is called for a tool in the end, also one that is renamed or of a mounted server."""
    function = None
    for _ in range(_DEEP):
        function = getattr(tool, "fn", None)
        behind = getattr(tool, "parent_tool", None)
        mounted = getattr(tool, "_server", None)
        if behind is None and mounted is not None and hasattr(mounted, "get_tool"):
            behind = await _find(mounted, getattr(tool, "_original_name", tool.name))
        if behind is None:
            break
        tool = behind
    return function


# So many servers in servers, and no circle of them.
_DEEP = 16
