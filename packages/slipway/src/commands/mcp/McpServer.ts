/** `slipway mcp-server`: the MCP server on standard input and output, over the API of a server with the key for it. */
import type { SlipwayClient } from "@slipway/client"
import { code, errorOf, read, RpcError } from "@slipway/http/mcp/Message"
import { CallsUnderWay, handle } from "@slipway/http/mcp/Peer"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { once } from "node:events"
import { setTimeout as sleep } from "node:timers/promises"
import manifest from "../../../package.json" with { type: "json" }
import * as Server from "../client/server/Server.ts"
import { lines } from "./StdioLines.ts"

/** There is one client: the program that started this command. */
const CALLER = { key: "stdio", client: "stdio" }

/** How long calls under way have for their answers once standard input has ended, in milliseconds. */
const GRACE_MILLIS = 1_000

const drained = async (signal: AbortSignal) => {
  if (process.stdout.writableNeedDrain) await once(process.stdout, "drain", { signal })
}

/** Answers messages until standard input ends. Then calls under way are cancelled; sandboxes continue. */
const answerAll = async (client: SlipwayClient, signal: AbortSignal) => {
  const calls = new CallsUnderWay()
  const pending = new Set<Promise<void>>()
  const write = (text: string) => {
    if (!signal.aborted) process.stdout.write(`${text}\n`)
  }
  // Progress that the reader does not take in time is left out.
  const send = (text: string) => {
    if (!process.stdout.writableNeedDrain) write(text)
  }
  // Standard output has messages alone, so a defect goes to standard error.
  const onDefect = (error: unknown) => process.stderr.write(`slipway: ${error instanceof Error ? error.stack : String(error)}\n`)
  const answer = (line: string | null): Promise<string | null> => {
    try {
      if (line === null) throw new RpcError(code.invalidRequest, "The message is longer than 1 MiB.")
      return handle({ calls, client, caller: CALLER, message: read(line), send, signal }, { serverVersion: manifest.version, onDefect })
    } catch (error) {
      if (error instanceof RpcError) return Promise.resolve(errorOf(null, error))
      throw error
    }
  }
  for await (const line of lines(process.stdin, signal)) {
    const answered = answer(line).then((text) => {
      pending.delete(answered)
      if (text !== null) write(text)
    })
    pending.add(answered)
    await drained(signal)
  }
  await Promise.race([Promise.all(pending), sleep(GRACE_MILLIS, undefined, { ref: false })])
}

const serve = ({ client }: Server.Server) =>
  Effect.promise(async (signal) => {
    const over = new AbortController()
    // The client is gone.
    process.stdout.once("error", () => over.abort())
    const either = AbortSignal.any([signal, over.signal])
    try {
      await answerAll(client, either)
    } catch (error) {
      if (!either.aborted) throw error
    } finally {
      over.abort()
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
