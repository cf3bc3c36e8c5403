/** `slipway shell` as people use it, for tests: one at pipes, one at a terminal, and what a person does with them. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { rmSync } from "node:fs"
import path from "node:path"
import * as ServiceCluster from "../../../testing/ServiceCluster.ts"
import { command, environment, folder, repository, runIn, until } from "../SlipwayProcess.ts"

/** Why this machine has no terminals; `undefined`: it has. */
export const noScript = spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") === true
  ? undefined
  : "needs script: util-linux"

export interface Reached {
  readonly url: string
  readonly key: string
}

const api = async ({ key, url }: Reached, method: string, address: string, body?: unknown) => {
  const response = await fetch(`${url}/api/public/v1${address}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  return await response.json()
}

/** A sandbox whose first turn is over. */
export const sandbox = Effect.fnUntraced(function*(reached: Reached) {
  const { id } = yield* Effect.promise(() =>
    api(reached, "POST", "/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "[[say Ready.]]", model: "offline/demo" })
  )
  yield* until(
    Effect.promise(() => api(reached, "GET", `/sandboxes/${id}`)),
    ({ status, turn }) => status === "running" && !turn.active
  )
  return String(id)
})

const settingsOf = ({ key, url }: Reached) => ({ SLIPWAY_URL: url, SLIPWAY_API_KEY: key })

/** The command with its standard input, to its end. */
export const piped = Effect.fnUntraced(function*(reached: Reached, args: ReadonlyArray<string>, input: string) {
  const at = yield* folder
  return yield* runIn(at, ["shell", ...args], settingsOf(reached), { input })
})

/** The command at a terminal of its own, which `script` makes. */
const typed = Effect.fnUntraced(function*(reached: Reached, args: ReadonlyArray<string>) {
  const at = yield* folder
  const line = [process.execPath, command, "shell", ...args].map((word) => `'${word}'`).join(" ")
  let output = ""
  const started = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("script", ["-qefc", `stty cols 90 rows 20; ${line}`, "/dev/null"], {
        cwd: at,
        env: { ...environment(at, {}), ...settingsOf(reached), TERM: "xterm" }
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  started.stdout.on("data", (chunk: Buffer) => output += chunk.toString())
  const ended = new Promise<number | null>((resolve) => started.on("close", resolve))
  return {
    type: (keys: string) => Effect.sync(() => void started.stdin.write(keys)),
    shows: (wanted: RegExp) => until(Effect.sync(() => output), (text) => wanted.test(text)),
    output: () => output,
    ended: Effect.promise(() => ended)
  }
})

/**
 * A person's shells in a sandbox on another process, in boxes of this isolation: pipes, a terminal, leaving and coming back, the death of
 * the worker, and the end of the sandbox.
 */
export const story = Effect.fnUntraced(function*(isolation: string, settings: Readonly<Record<string, string>> = {}) {
  const logs = path.resolve(import.meta.dirname, "../../../test-output", `shell-${isolation}`)
  rmSync(logs, { recursive: true, force: true })
  const service = yield* ServiceCluster.make(logs, { SLIPWAY_WORKER_SLOTS: "2", SLIPWAY_ISOLATION: isolation, ...settings })
  const front = yield* Effect.promise(() => service.http("http"))
  yield* Effect.promise(() => service.command("repos", "add", "acme/shop", repository(service.home)))
  const key = (yield* Effect.promise(() => service.command("keys", "create", "--key-only", "--label", "shell", "--scopes", "sandboxes")))
    .trim()
  const worker = yield* Effect.promise(() => service.worker("worker"))
  const reached = { url: front.url, key }
  const id = yield* sandbox(reached)

  // Pipes: the size of no terminal, the agent's folder, and the exit code of the shell.
  const asked = yield* piped(reached, [id], "stty size; cat shop/README.md; echo \"$TERM é\"; exit 7\n")
  assert.strictEqual(asked.code, 7, asked.stderr)
  assert.match(asked.stdout, /24 80\r\n.*shop\r\n.*xterm-256color é\r\n/su)

  const many = yield* piped(
    reached,
    [id],
    "stty -echo -onlcr; PS1=; echo ready; head -c 10485760 /dev/zero | tr '\\0' x; echo; echo done; exit\n"
  )
  const begin = many.stdout.lastIndexOf("ready\n") + "ready\n".length
  const body = many.stdout.slice(begin, many.stdout.indexOf("\ndone", begin))
  const sha = (text: string) => createHash("sha256").update(text).digest("hex")
  assert.deepStrictEqual([body.length, sha(body)], [10_485_760, sha("x".repeat(10_485_760))])

  // A terminal: its size, Ctrl-C, leaving and coming back.
  const one = yield* typed(reached, [id])
  yield* one.type("stty size; sleep 1000\r")
  yield* one.shows(/20 90\r+\n/u)
  yield* one.type("\x03")
  yield* one.shows(/\^C[^]*[#$] /u)
  yield* one.type("x=kept; echo he''re\r")
  yield* one.shows(/\rhere\r/u)
  yield* one.type("\r~.")
  assert.strictEqual(yield* one.ended, 0)
  assert.include(one.output(), `attach again with: slipway shell ${id}`)
  const again = yield* typed(reached, [id])
  yield* again.shows(/\rhere\r/u)
  yield* again.type("echo it is $x\r")
  yield* again.shows(/it is kept/u)

  const audit = yield* Effect.promise(() => service.command("audit", "--json"))
  assert.include(audit, "terminal.opened")
  assert.include(audit, id)

  // Its worker dies: the client is told, and a new terminal comes when the sandbox goes on.
  yield* Effect.promise(() => worker.kill())
  assert.strictEqual(yield* again.ended, 7)
  assert.include(again.output(), "Attach again with")
  const without = yield* piped(reached, [id], "exit\n")
  assert.include([4, 7], without.code, without.stderr)
  yield* Effect.promise(() => worker.start())
  yield* Effect.promise(() => api(reached, "POST", `/sandboxes/${id}/messages`, { prompt: "[[say Back.]]" }))
  const back = yield* until(piped(reached, [id], "echo \"x is <$x>\"; exit 3\n"), ({ code }) => code === 3)
  assert.include(back.stdout, "x is <>")

  yield* Effect.promise(() => api(reached, "POST", `/sandboxes/${id}/terminate`, {}))
  const over = yield* until(piped(reached, [id], "exit\n"), ({ code }) => code === 4)
  assert.include(over.stderr, "no running box")
})
