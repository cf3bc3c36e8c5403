/** Clients of the Model Context Protocol: those of its own SDK, and raw requests. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect } from "effect"
import { address, type Ask, ask } from "../../testing/Harness.ts"

/** A client of the SDK that has been initialized, until the scope closes. */
export const connected = Effect.fnUntraced(function*(key: string) {
  const { host, port } = yield* address
  return yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new Client({ name: "test", version: "1" })
      const headers = { authorization: `Bearer ${key}` }
      // Its type has an optional session id that may be undefined, as exact optional properties do not allow.
      const transport = new StreamableHTTPClientTransport(new URL(`http://${host}:${port}/mcp`), { requestInit: { headers } })
      await client.connect(transport as unknown as Parameters<Client["connect"]>[0])
      return client
    }),
    (client) => Effect.promise(() => client.close())
  )
})

export interface Outcome {
  readonly isError: boolean
  readonly text: string
  readonly structured: Readonly<Record<string, any>>
}

/** The result of a tool, which the SDK has checked against the tool's output schema. */
export const called = (client: Client, name: string, input: Record<string, unknown> = {}) =>
  Effect.promise(async (): Promise<Outcome> => {
    // The client checks results by the schemas of the list.
    await client.listTools()
    const { content, isError, structuredContent } = await client.callTool({ name, arguments: input })
    const [first] = content as ReadonlyArray<{ readonly text: string }>
    return { isError: isError === true, text: first?.text ?? "", structured: (structuredContent ?? {}) as Outcome["structured"] }
  })

/** One message without a client. */
export const posted = (key: string | undefined, message: unknown, more: Ask = {}) =>
  ask("/mcp", {
    ...(key === undefined ? {} : { key }),
    body: typeof message === "string" ? message : JSON.stringify(message),
    ...more,
    headers: { accept: "application/json, text/event-stream", ...more.headers }
  })

export const request = (method: string, params: object = {}, id: unknown = 1) => ({ jsonrpc: "2.0", id, method, params })

/** A call of `wait_for_sandbox` that follows the sandbox already. `told`: the texts of its progress. */
export const waiting = Effect.fnUntraced(function*(client: Client, sandboxId: string) {
  const abort = new AbortController()
  const told: Array<string> = []
  const over = yield* Effect.callback<Promise<Outcome["structured"]>>((resume) => {
    const over = client.callTool(
      { name: "wait_for_sandbox", arguments: { sandboxId, timeoutSeconds: 600 } },
      undefined,
      {
        signal: abort.signal,
        onprogress: ({ message = "" }) => {
          told.push(message)
          resume(Effect.succeed(over))
        }
      }
    ).then(({ structuredContent }) => (structuredContent ?? {}) as Outcome["structured"])
    over.catch((error: unknown) => resume(Effect.die(error)))
  })
  return { abort, told, over: Effect.promise(() => over) }
})

/** Waits until `look` gives what `wanted` accepts; the test's own time limit is the bound. */
export const until = <A, E, R>(look: Effect.Effect<A, E, R>, wanted: (value: A) => boolean): Effect.Effect<A, E, R> =>
  Effect.flatMap(look, (value) => wanted(value) ? Effect.succeed(value) : Effect.delay(until(look, wanted), "20 millis"))
