/** `slipway mcp-server`: the MCP server on standard input and output, over the API of a server with the key for it. */
import { CallsUnderWay, handle } from "@slipway/http/mcp/Peer"
import { errorOf, read, RpcError } from "@slipway/http/mcp/Message"
import { Effect } from "effect"
import { Command } from "effect/cli"
import manifest from "../../../package.json" with { type: "json" }
import * as Server from "./Server.ts"
import { lines } from "./StdioLines.ts"

/** There is one client: the program that started this command. */
const CLIENT = "stdio"

/** Answers messages until standard input ends. Then calls under way are cancelled; sandboxes continue. */
const serve = ({ client }: Server.Server) =>
  Effect.promise(async (signal) => {
    const calls = new CallsUnderWay()
    const over = new AbortController()
    const either = AbortSignal.any([signal, over.signal])
    const send = (text: string) => {
      if (!either.aborted) process.stdout.write(`${text}\n`)
    }
    // Standard output has messages alone, so a defect goes to standard error.
    const onDefect = (error: unknown) => process.stderr.write(`slipway: ${error instanceof Error ? error.stack : String(error)}\n`)
    const options = { serverVersion: manifest.version, onDefect }
    try {
      for await (const line of lines(process.stdin, either)) {
        try {
          if (line === null) throw new RpcError(-32_600, "The message is longer than 1 MiB.")
          const message = read(line)
          void handle({ calls, client, from: CLIENT, message, send, signal: either }, options).then((text) => {
            if (text !== null) send(text)
          })
        } catch (error) {
          if (!(error instanceof RpcError)) throw error
          send(errorOf(null, error))
        }
      }
    } finally {
      over.abort(new Error("standard input has ended"))
    }
  })

export const mcpServer = Command.make("mcp-server", { url: Server.url }, ({ url }) =>
  Server.interruptible(Effect.gen(function*() {
    yield* serve(yield* Server.connect(url))
  }))).pipe(
    Command.withDescription(
      "Offer Slipway to coding agents and editors as an MCP server on standard input and output. They start this command: see " +
        `docs/mcp-server.md. The tools have the rights of the key for the server.\n\n${Server.exitCodesText}`
    ),
    Command.withShortDescription("Offer sandboxes to agents and editors as tools (MCP on stdio)"),
    Command.withExamples([
      { command: "claude mcp add slipway -- slipway mcp-server", description: "Add it to Claude Code" },
      { command: "slipway mcp-server --url https://slipway.example", description: "For another server than that of this machine" }
    ])
  )
