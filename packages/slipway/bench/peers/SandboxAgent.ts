/**
 * `sandbox-agent server` of `@sandbox-agent/cli`: agents that speak ACP, through HTTP and a stream; it holds the last 1,024 messages of
 * each in memory. Its agent `mock` is the program that lies where it looks for that: here our offline agent, the same that ours runs.
 */
import { accessSync, chmodSync, constants, existsSync, mkdirSync, writeFileSync } from "node:fs"
import { homedir } from "node:os"
import path from "node:path"
import { type Peer, PROMPT, type Session } from "./Peer.ts"
import * as Program from "./Program.ts"
import * as Wire from "./Wire.ts"

const VERSION = "0.4.2"

/** Outside of the workspace: nothing of ours depends on it. */
const folder = path.join(process.env["XDG_CACHE_HOME"] ?? path.join(homedir(), ".cache"), "slipway-bench")
const program = path.join(folder, `node_modules/@sandbox-agent/cli-${process.platform}-${process.arch}/bin/sandbox-agent`)

/** Why it cannot be measured; `null`: it can. */
export const lacking = (): string | null =>
  existsSync(program)
    ? null
    : `there is no ${program}. Run: npm install --prefix ${folder} --ignore-scripts --no-audit --no-fund @sandbox-agent/cli@${VERSION}`

export const start = async (agent: ReadonlyArray<string>, home: string, workspace: string): Promise<Peer> => {
  try {
    accessSync(program, constants.X_OK)
  } catch {
    // As its launcher does.
    chmodSync(program, 0o755)
  }
  const launcher = path.join(home, ".local/share/sandbox-agent/bin/agent_processes/mock-acp")
  mkdirSync(path.dirname(launcher), { recursive: true })
  writeFileSync(launcher, `#!/bin/sh\nexec ${agent.join(" ")}\n`, { mode: 0o755 })
  const run = () =>
    Program.start(program, (port) => ["server", "--no-token", "--no-telemetry", "--host", "127.0.0.1", "--port", String(port)], {
      home,
      cwd: workspace,
      // It would fetch agents that are not there.
      env: { SANDBOX_AGENT_REQUIRE_PREINSTALL: "1" },
      ready: "/v1/health"
    })
  let server = await run()
  let made = 0
  const address = (id: string) => `${server.url}/v1/acp/${id}`
  const call = async (id: string, method: string, params: object, query = "") => {
    const text = await Wire.ask("POST", `${address(id)}${query}`, {}, { jsonrpc: "2.0", id: ++made, method, params })
    return (JSON.parse(text) as { readonly result: { readonly sessionId: string } }).result
  }
  const WORD = `"text":"hello"`
  const END = `"stopReason"`
  const sessionOf = (id: string, sessionId: string, stream: Wire.Stream): Session => {
    /** The id of the request with the latest answer. */
    let last = 0
    const send = () => {
      last = made + 1
      return call(id, "session/prompt", { sessionId, prompt: [{ type: "text", text: PROMPT }] })
    }
    return {
      id,
      prompt: async () => {
        stream.skip()
        const began = performance.now()
        const sent = send()
        const took = (await stream.next(WORD)) - began
        await sent
        await stream.next(END)
        return took
      },
      rest: () => Promise.resolve(),
      // It has no call for one: the list of its agents is what it knows of them.
      read: async () => void await Wire.ask("GET", `${server.url}/v1/acp`),
      replay: async () => {
        const began = performance.now()
        const all = await Wire.stream(address(id))
        const took = (await all.next(`{"id":${last},"jsonrpc":"2.0","result"`)) - began
        all.close()
        return { took, bytes: all.bytes() }
      },
      // Its DELETE answers when the agent has ended by itself (0.4.2), which an agent does with its server.
      end: () => {
        stream.close()
        return Promise.resolve()
      }
    }
  }
  return {
    name: `sandbox-agent ${VERSION}`,
    create: async () => {
      const id = `session-${++made}`
      const began = performance.now()
      await call(id, "initialize", { protocolVersion: 1, clientCapabilities: {} }, "?agent=mock")
      const { sessionId } = await call(id, "session/new", { cwd: workspace, mcpServers: [] })
      const answered = performance.now() - began
      const stream = await Wire.stream(address(id))
      const session = sessionOf(id, sessionId, stream)
      const beforePrompt = performance.now() - began
      const firstWord = beforePrompt + await session.prompt()
      return { answered, firstWord, session }
    },
    afterKill: async (id) => {
      await server.stop("SIGKILL")
      server = await run()
      const text = await Wire.ask("GET", `${server.url}/v1/acp`)
      return text.includes(`"${id}"`) ? "the session" : "nothing"
    },
    // It waits for streams that are open.
    stop: () => server.stop("SIGKILL")
  }
}
