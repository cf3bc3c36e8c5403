/** The service as a process, which is stopped and started again on its file. */
import { deepEqual, equal } from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { createInterface } from "node:readline"
import { after, test } from "node:test"

const folder = mkdtempSync(path.join(tmpdir(), "slipway-express-"))
after(() => rmSync(folder, { recursive: true }))

const start = async () => {
  const env = { ...process.env, DATABASE: path.join(folder, "slipway.db"), PORT: "0" }
  const child = spawn(process.execPath, [path.resolve(import.meta.dirname, "../src/main.ts")], {
    env,
    stdio: ["ignore", "pipe", "inherit"]
  })
  after(() => child.kill("SIGKILL"))
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith("{")) continue
    const { port } = JSON.parse(line) as AddressInfo
    const ask = (path: string, body?: object) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        method: body === undefined ? "GET" : "POST",
        headers: { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
    const stop = () => {
      child.kill("SIGTERM")
      return once(child, "exit")
    }
    return { ask, stop }
  }
  throw new Error("The service ended.")
}

/** The texts of the agent's messages, and where trees were restored, until so many turns are over. */
const answers = async (response: Response, turns: number) => {
  const texts: Array<string> = []
  let rest = ""
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      const { data, type } = JSON.parse(line)
      if (type === "message.updated") texts.push(data.text)
      if (type === "sandbox.restored") texts.push(`restored after ${data.cause}`)
      if (type === "turn.completed" && --turns === 0) return texts
    }
  }
  throw new Error("The stream ended.")
}

test("a sandbox goes on after a restart of the service, with the trees of its checkpoint", async () => {
  const before = await start()
  const created = await before.ask("/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "Where is the tax?" })
  equal(created.status, 201)
  const { id } = await created.json() as { readonly id: string }
  deepEqual(await answers(await before.ask(`/sandboxes/${id}/events`), 1), ["You asked: Where is the tax?"])
  await before.stop()

  const after = await start()
  equal((await after.ask(`/sandboxes/${id}/messages`, { prompt: "And the fees?" })).status, 200)
  const said = ["You asked: Where is the tax?", "restored after machine_lost", "You asked: And the fees?"]
  deepEqual(await answers(await after.ask(`/sandboxes/${id}/events`), 2), said)
  equal((await after.ask("/sandboxes/c_222222222222/events")).status, 404)
  equal((await after.ask("/sandboxes", { prompt: "No repository." })).status, 400)
  await after.stop()
})
