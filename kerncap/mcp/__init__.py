"""The commands as tools for an agent, over the Model Context Protocol (``kerncap mcp``).

Each call of a tool is one run of the command line with ``--json`` in a separate process, so that what a
kernel breaks is that process, and a call that is cancelled or takes too long ends with all that it started.
Only `server` needs the SDK.
"""
