"""The server itself, on stdin and stdout, with the official SDK."""

from __future__ import annotations

import json
import signal
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

import kerncap
from kerncap import unexpected_error
from kerncap.api.schemas import schema
from kerncap.exit_status import ExitStatus
from kerncap.interrupts import ENDING, Interrupted
from kerncap.mcp import inputs, resources
from kerncap.mcp.answers import answer, output_schema
from kerncap.mcp.bounded import Results
from kerncap.mcp.child import run
from kerncap.mcp.tools import Context, Tool, chosen
from kerncap.printable import printable, printable_json

Request = ServerRequestContext[Any, Any]

READ_RESULT = "read_result"
_INSTRUCTIONS = """\
kerncap captures single GPU kernel launches from a running program, then replays, checks and times them.
The usual way: list (which kernels) -> capture (a reproducer, a folder) -> verify (does it reproduce) ->
edit a copy of the source (resource kerncap://source/REPRO) -> verify with candidate. sanitize proves memory
accesses. Answers are cut to a number of bytes: left_out says where, read_result gives the rest."""


class KerncapServer:
    """Tools and resources for one client."""

    def __init__(self, context: Context, read_only: bool, max_bytes: int) -> None:
        self._context = context
        self._tools = chosen(read_only)
        self._max_bytes = max_bytes
        self._results = Results()
        self.server: Server[Any] = Server(
            "kerncap",
            version=kerncap.__version__,
            title="kerncap",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(self, _request: Request, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*map(_described, self._tools.values()), _read_result()])

    async def _call_tool(self, request: Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        try:
            if params.name == READ_RESULT:
                asked = msgspec.convert(arguments, inputs.ReadResult)
                room = self._max_bytes - 400
                return _result(self._results.read(asked.result, asked.at, asked.offset, room), failed=False)
            if params.name not in self._tools:
                known = ", ".join([*self._tools, READ_RESULT])
                return _error(f"no tool is called {params.name}; there are {known}", ExitStatus.USAGE)
            return await self._run(self._tools[params.name], arguments, request)
        except msgspec.ValidationError as error:
            return _error(f"{params.name}: {error}", ExitStatus.USAGE)
        except Exception as error:
            explained = unexpected_error.explained(error)
            return _error(" ".join(str(explained).split("\n")), explained.exit_status)

    async def _run(self, tool: Tool, arguments: dict[str, Any], request: Request) -> types.CallToolResult:
        given = msgspec.convert(arguments, tool.takes)
        words = tool.words(given, self._context)
        timeout_s = getattr(given, "timeout_s", None) or tool.timeout_s
        said = 0

        async def told(line: str) -> None:
            nonlocal said
            said += 1
            await request.session.report_progress(said, message=line[:400])

        ran = await run(words, self._context.allowed.home, timeout_s, told)
        found = answer(tool, ran, timeout_s, self._results, self._max_bytes)
        if found.failed:
            return _error("\n".join(found.content["lines"]), ran.status)
        return _result(found.content, failed=False)

    async def _list_resources(self, _request: Request, _params: Any) -> types.ListResourcesResult:
        found = [
            types.Resource(uri=uri, name=name, mime_type=resources.mime("manifest"))
            for uri, name in resources.listed(self._context.allowed)
        ]
        return types.ListResourcesResult(resources=found)

    async def _list_templates(self, _request: Request, _params: Any) -> types.ListResourceTemplatesResult:
        found = [
            types.ResourceTemplate(
                uri_template=resources.template(part), name=part, mime_type=resources.mime(part),
                description=f"The {part} of a reproducer",
            )
            for part in resources.PARTS
        ]  # fmt: skip
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read_resource(
        self, _request: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            text, kind = resources.read(str(params.uri), self._context.allowed, self._max_bytes)
        except Exception as error:
            text, kind = (
                f"kerncap: {' '.join(str(unexpected_error.explained(error)).split())}\n",
                "text/plain",
            )
        contents = types.TextResourceContents(uri=params.uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[contents])


def serve(context: Context, read_only: bool, max_bytes: int) -> None:
    """Answer one client until it closes stdin."""
    server = KerncapServer(context, read_only, max_bytes).server
    ended_by: list[int] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_end_when_told, tasks.cancel_scope, ended_by)
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    anyio.run(main)
    if ended_by:
        raise Interrupted(ended_by[0])


async def _end_when_told(scope: anyio.CancelScope, ended_by: list[int]) -> None:
    """A client that goes away ends what it has started: a call that runs is cancelled, its processes too."""
    waited_for = [each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(*waited_for) as received:
        async for number in received:
            ended_by.append(number)
            scope.cancel()


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.text,
        input_schema=_input_schema(tool.takes),
        output_schema=output_schema(schema(tool.document)),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.read_only,
            open_world_hint=tool.open_world,
        ),
    )


def _read_result() -> types.Tool:
    return types.Tool(
        name=READ_RESULT,
        description="More of an answer that was cut: the value at a JSON pointer of its document, in parts.",
        input_schema=_input_schema(inputs.ReadResult),
        annotations=types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _input_schema(takes: type[msgspec.Struct]) -> dict[str, Any]:
    """With the object itself at the root, as clients want it."""
    found = msgspec.json.schema(takes)
    parts = dict(found["$defs"])
    root = parts.pop(takes.__name__)
    root.pop("title", None)
    root.setdefault("properties", {})
    return {**root, **({"$defs": parts} if parts else {})}


def _result(content: dict[str, Any], failed: bool) -> types.CallToolResult:
    """What an agent reads shows nothing to it that a person would not see; no surrogate can be sent."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
    content, text = json.loads(text), printable_json(text)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=content, is_error=failed
    )


def _error(text: str, exit_status: int | None) -> types.CallToolResult:
    """What the command line prints, and its exit status, which tells the kinds of errors apart."""
    shown = printable(text)
    lines = shown.split("\n")
    content = {"exit_status": exit_status, "document": None, "lines": lines, "left_out": [], "result": None}
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=shown)], structured_content=content, is_error=True
    )
