/** A worker and a runner in two network namespaces, and a link between them that loses, delays and reorders packets, or is down. */
import { assert, describe, it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect, Stream } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, readFileSync } from "node:fs"
import path from "node:path"
import { ADDRESS, cable, ip, noNamespaces } from "../testing/Cable.ts"
import * as Fixture from "../testing/Fixture.ts"
import { dial, shell } from "../testing/Fixture.ts"
import { noTrouble, troubledCable } from "../testing/TroubledCable.ts"

const { eventually } = SandboxHostContract

const because = (reason: string | undefined) => reason === undefined ? "" : ` (${reason.trim()})`

/** Whether this namespace has a connection to the runner that TCP believes in. */
const isConnected = (port: number): boolean => {
  const address = Buffer.from(ADDRESS.split(".").map(Number)).reverse().toString("hex").toUpperCase()
  const remote = `${address}:${port.toString(16).toUpperCase().padStart(4, "0")}`
  return readFileSync("/proc/net/tcp", "utf8").split("\n").some((line) => line.includes(` ${remote} 01 `))
}

const ECHO = "while read line; do echo \"$line\" >> \"$KEPT\"; echo \"got $line\"; done; echo over"

/** Has a process repeat so many lines, three of them under way at a time, and looks that each came once and in order. */
const talkOver = Effect.fnUntraced(function*(
  { address, name }: { readonly address: string; readonly name: string },
  lines: number,
  between: (heard: number, port: number) => Effect.Effect<void>
) {
  const made = yield* Fixture.folders
  const settings = { ...made.settings, listen: { host: address, port: 0 }, beatMillis: 100 }
  const { told } = yield* Fixture.launch({ ...made, settings }, ["ip", "netns", "exec", name])
  const kept = path.join(made.folder, "kept")
  const connection = yield* dial({ ...made, ...told }, { beat: "100 millis", silence: "1 second", patience: "60 seconds" })
  const { endInput, exited, stdout, write } = yield* connection.spawn(shell(ECHO, { KEPT: kept }))
  let asked = 0
  let heard = 0
  const next = Effect.suspend(() => asked === lines ? endInput : write(Buffer.from(`line ${asked++}\n`)))
  yield* Effect.repeat(next, { times: 2 })
  const said = yield* stdout.pipe(
    Stream.decodeText,
    Stream.splitLines,
    Stream.tap(() => Effect.andThen(between(++heard, told.port), next)),
    Stream.runCollect
  )
  const all = Array.from({ length: lines }, (_, i) => `line ${i}`)
  assert.deepStrictEqual(said, [...all.map((line) => `got ${line}`), "over"])
  assert.deepStrictEqual(yield* exited, { code: 0, signal: null })
  assert.strictEqual(readFileSync(kept, "utf8"), all.map((line) => `${line}\n`).join(""))
}, Effect.scoped)

const talk = (lines: number, between: (heard: number, port: number, here: string) => Effect.Effect<void>) =>
  Effect.scoped(Effect.flatMap(cable, (there) => talkOver(there, lines, (heard, port) => between(heard, port, there.here))))

describe("a worker and a runner in two network namespaces", () => {
  it.live.skipIf(noNamespaces !== undefined)(
    `lose nothing and run nothing twice while the link goes down and up${because(noNamespaces)}`,
    () =>
      talk(12, (heard, port, here) =>
        heard % 4 !== 2 ? Effect.void : Effect.gen(function*() {
          ip("link", "set", here, "down")
          // Until the worker has given that connection up: what comes next comes over another one.
          yield* eventually(Effect.sync(() => isConnected(port)), (connected) => !connected, "60 seconds")
          ip("link", "set", here, "up")
        }))
  )

  it.live.skipIf(noNamespaces !== undefined)(
    `go on over a link that was down too shortly to be noticed${because(noNamespaces)}`,
    () =>
      talk(30, (_, __, here) =>
        Effect.sync(() => {
          ip("link", "set", here, "down")
          ip("link", "set", here, "up")
        }))
  )

  it.live.skipIf(noNamespaces !== undefined)(
    `a process is who the settings say, and reads nothing of the runner's${because(noNamespaces)}`,
    () =>
      Effect.gen(function*() {
        const made = yield* Fixture.folders
        chmodSync(made.folder, 0o711)
        const { told } = yield* Fixture.launch({ ...made, settings: { ...made.settings, user: { uid: 65_534, gid: 65_534 } } })
        const connection = yield* dial({ ...made, ...told })
        const script = "id -u; id -G; cat ../settings.json ../state/fence || echo nothing; kill -0 $PPID || echo neither"
        const { stdout } = yield* connection.spawn(shell(script))
        assert.deepStrictEqual((yield* Fixture.textOf(stdout)).split("\n"), ["65534", "65534", "nothing", "neither", ""])
      })
  )

  it.live.skipIf(noNamespaces !== undefined)(
    `all processes of the sandbox's user end with the session, whichever program started them${because(noNamespaces)}`,
    () =>
      Effect.gen(function*() {
        // A unique user id on this machine.
        const uid = 1_000_000_000 + process.pid
        const made = yield* Fixture.folders
        const settings = { ...made.settings, user: { uid, gid: uid, marks: 1_000_000 } }
        const { told } = yield* Fixture.launch({ ...made, settings })
        const stray = yield* Effect.acquireRelease(
          Effect.sync(() => spawn("sleep", ["600"], { uid, gid: uid, stdio: "ignore", detached: true })),
          (stray) => Effect.sync(() => stray.kill("SIGKILL"))
        )
        const ended = once(stray, "exit")
        yield* Effect.scoped(dial({ ...made, ...told }))
        assert.deepStrictEqual(yield* Effect.timeout(Effect.promise(() => ended), "10 seconds"), [null, "SIGKILL"])
      })
  )

  it.live.skipIf(noTrouble !== undefined)(
    `lose nothing over a link that delays, reorders, loses and repeats packets${because(noTrouble)}`,
    () =>
      Effect.gen(function*() {
        const bad = yield* troubledCable({ lost: 0.05, delayMillis: 30, overtaking: 0.25, doubled: 0.02 })
        yield* talkOver(bad, 200, () => Effect.void)
        const { toHere, toThere } = yield* bad.tell
        for (const { doubled, lost, overtook } of [toHere, toThere]) assert.isAbove(Math.min(doubled, lost, overtook), 0)
      })
  )
})
