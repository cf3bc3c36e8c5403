/** A small MCP server that is a command, for tests of the gateway: well-behaved, or not in a chosen way. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type McpCommandTarget, McpNotConnected } from "@slipway/domain/mcp/ports/McpGateway"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Context, Effect, Layer } from "effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** In the server: `send` writes a message, `receive` has the usual answers, `got` appends a line to the file of what it got. */
const SCRIPT = (misbehave: string) =>
  String.raw`import { appendFileSync } from "node:fs"
import { createInterface } from "node:readline"
const got = (value) => appendFileSync(process.argv[2], JSON.stringify(value) + "\n")
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n")
const tools = (...names) => ({ tools: names.map((name) => ({ name, inputSchema: { type: "object" } })) })
const resultOf = ({ method, params }) => {
  const serverInfo = { name: "test", version: "1" }
  if (method === "initialize") return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo }
  if (method === "tools/list") return tools("echo", "delete_page")
  if (method === "tools/call") return { content: [{ type: "text", text: "did " + params.name + " " + JSON.stringify(params.arguments) }] }
  return {}
}
const receive = (message) => {
  if (message.id !== undefined && message.method !== undefined) send({ id: message.id, result: resultOf(message) })
}
const misbehave = ((message) => { ${misbehave} ; return false })
got({ started: process.pid })
createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line)
  got(message)
  if (!misbehave(message)) receive(message)
})
`

export interface TestCommand {
  readonly start: McpCommandTarget["start"]
  /** Lines of its file: `started`, and the messages that it got, oldest first. */
  readonly got: () => ReadonlyArray<Readonly<Record<string, unknown>>>
}

/** `misbehave`: statements about `message`; `return true` if it is not to be answered as usual. */
export const make = Effect.fnUntraced(function*(misbehave = "") {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-mcp-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )
  const script = join(folder, "server.mjs")
  const file = join(folder, "got")
  writeFileSync(script, SCRIPT(misbehave))
  writeFileSync(file, "")
  const services = yield* Layer.build(
    SandboxHostNone.layer({ directory: join(folder, "boxes"), workspaceOf: () => join(folder, "trees") })
  )
  const box = yield* Context.get(services, SandboxHost).provision({ sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), fence: 1 })
  const command: TestCommand = {
    start: Effect.mapError(
      box.spawn({ command: process.execPath, args: [script, file], env: {} }),
      ({ detail }) => new McpNotConnected({ detail })
    ),
    got: () => readFileSync(file, "utf8").split("\n").flatMap((line) => line === "" ? [] : [JSON.parse(line)])
  }
  return command
})
