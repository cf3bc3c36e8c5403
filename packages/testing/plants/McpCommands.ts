import { type Plants, plantsIn } from "./Plant.ts"

/** Faults of MCP servers that are commands, and of repositories' files, which their own tests must notice. */
export const plants: Plants = {
  port: "mcp-commands",
  subject: [
    "packages/domain/test/mcp/McpFile.test.ts",
    "packages/adapters/gateway/test/mcp/StdioServers.test.ts",
    "packages/worker/test/turn/AgentMcp.test.ts"
  ],
  plants: [
    ...plantsIn("packages/domain/src/mcp/rules/McpFile.ts", [
      ["counts servers with an address", "if (type !== \"stdio\" || command === undefined) {", "if (command === undefined) {"],
      ["takes any number of servers", "if (entries.length > MAX_FILE_SERVERS)", "if (false)"],
      ["takes an unset variable for an empty one", "if (typeof found !== \"string\") this.missing ??= name", ""],
      ["lets variables add any number of characters", "if (left < 0) return", "if (false) return"],
      ["takes any name", "!Schema.is(McpServerName)(name)", "false"]
    ]),
    ...plantsIn("packages/adapters/gateway/src/mcp/McpStdio.ts", [
      ["passes ids of clients on", "this.#send({ ...message, id })).pipe(", "this.#send(message)).pipe("],
      ["starts a command for each use", "yield* Effect.cached(server.begin(target))", "server.begin(target)"],
      ["leaves a command that hangs running", "Effect.tapError(({ message }) => this.#end(message))", "Effect.tapError(() => Effect.void)"],
      ["cancels without a word to the command", "this.#pending.delete(id)\n              ? this",
        "this.#pending.delete(id) && id < 0\n              ? this"],
      ["answers no request of a command", "return read._tag === \"Request\" ? this.#answer(read) : Effect.void", "return Effect.void"],
      ["holds any number of answers for a command", "if (this.#queuedAnswers >= MAX_QUEUED_ANSWERS)", "if (false)"]
    ]),
    ...plantsIn("packages/adapters/gateway/src/mcp/LineReader.ts", [
      ["reads a line of any length", "if (length > this.#maximum) return false", ""]
    ]),
    ...plantsIn("packages/adapters/gateway/src/mcp/McpServerInUse.ts", [
      ["forgets which tools were listed", "for (const name of names) server.tools.add(name)", "server.tools = null"]
    ]),
    ...plantsIn("packages/worker/src/turn/McpFiles.ts", [
      ["reads each repository's file", "({ mcpFile }) => mcpFile)", "() => true)"],
      ["reads files for a creation that chose its servers", "|| (mcpServers ?? null) !== null", ""],
      ["prefers a repository's server to an owner's", "if (!taken.has(name) && ", "if ("]
    ]),
    ...plantsIn("packages/worker/src/turn/AgentMcp.ts", [
      ["gives a command no variables", "env: valuesOf(credential)", "env: {}"],
      ["shows values of variables in reasons", "problem === null ? null : redaction.redact(problem)", "problem"],
      ["starts a command elsewhere", "folderOf(repo), settings.command", "\"/\", settings.command"]
    ])
  ]
}
