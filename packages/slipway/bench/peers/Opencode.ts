/** `opencode serve`: one process for all sessions, which is the agent itself; its sessions are in SQLite. */
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import type { BoxCommand } from "@slipway/domain/sandbox/ports/SandboxHost"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { type Peer, PROMPT, type Session } from "./Peer.ts"
import * as Program from "./Program.ts"
import * as Wire from "./Wire.ts"

/** `launch`: how ours starts the same agent, whose settings are the same here. */
export const start = async (launch: BoxCommand, home: string, workspace: string): Promise<Peer> => {
  for (const [name, content] of Object.entries(launch.homeFiles ?? {})) {
    mkdirSync(path.dirname(path.join(home, name)), { recursive: true })
    writeFileSync(path.join(home, name), content)
  }
  const run = () =>
    Program.start(launch.command, (port) => ["serve", "--port", String(port), "--hostname", "127.0.0.1"], {
      home,
      cwd: workspace,
      env: launch.env,
      ready: "/session"
    })
  let program = await run()
  const create = async () => (JSON.parse(await Wire.ask("POST", `${program.url}/session`, {}, {})) as { readonly id: string }).id
  const send = (id: string) =>
    Wire.ask("POST", `${program.url}/session/${id}/prompt_async`, {}, { parts: [{ type: "text", text: PROMPT }] })
  const WORD = `"delta":"hello"`
  const END = `"type":"session.idle"`
  const sessionOf = (id: string, stream: Wire.Stream): Session => ({
    id,
    prompt: async () => {
      stream.skip()
      const began = performance.now()
      const sent = send(id)
      const took = (await stream.next(WORD)) - began
      await sent
      await stream.next(END)
      return took
    },
    rest: () => Promise.resolve(),
    read: async () => void await Wire.ask("GET", `${program.url}/session/${id}`),
    replay: async () => {
      const began = performance.now()
      const all = await Wire.ask("GET", `${program.url}/session/${id}/message`)
      return { took: performance.now() - began, bytes: Buffer.byteLength(all) }
    },
    end: () => {
      stream.close()
      return Promise.resolve()
    }
  })
  return {
    name: `opencode serve ${profiles["opencode"]?.program?.version}`,
    create: async () => {
      const stream = await Wire.stream(`${program.url}/event`)
      const began = performance.now()
      const id = await create()
      const answered = performance.now() - began
      await send(id)
      const firstWord = (await stream.next(WORD)) - began
      await stream.next(END)
      return { answered, firstWord, session: sessionOf(id, stream) }
    },
    afterKill: async (id) => {
      const before = JSON.parse(await Wire.ask("GET", `${program.url}/session/${id}/message`)) as ReadonlyArray<unknown>
      await program.stop("SIGKILL")
      program = await run()
      const after = await Wire.ask("GET", `${program.url}/session/${id}/message`).then((text) => JSON.parse(text) as ReadonlyArray<unknown>)
        .catch(() => [])
      return `${after.length} of ${before.length} messages`
    },
    stop: () => program.stop("SIGKILL")
  }
}
