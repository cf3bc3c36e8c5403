/** A machine whose link breaks after each message in turn. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { Effect, Stream } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Address, Machines } from "../../../src/runner/Machines.ts"
import type { Direction } from "../../runner/Fixture.ts"
import * as RunnerFixture from "../../runner/Fixture.ts"
import { freshId } from "../bubblewrap.fixture.ts"
import { temporaryFolder } from "../Machine.ts"
import { absent, layerIn, workspaceIn } from "./Machines.fixture.ts"

const reason = absent("bubblewrap")

const LINES = Array.from({ length: 6 }, (_, i) => `line ${i}`)

/** Repeats each line that it gets, and keeps it: what ran twice or was lost shows. */
const ECHO = "while read line; do echo \"$line\" >> \"$KEPT\"; echo \"got $line\"; done; cat \"$HOME/talk/file\""

/** All that a box is used for, and what came of it. */
const use = Effect.fnUntraced(function*(sandboxId: ReturnType<typeof freshId>, round: number) {
  const host = yield* SandboxHost
  const box = yield* host.provision({ sandboxId, fence: round })
  const process = yield* box.spawn({
    command: "sh",
    args: ["-c", ECHO],
    env: { KEPT: `kept-${round}` },
    homeFiles: { "talk/file": `round ${round}\n` }
  })
  const lines = LINES.values()
  const next = Effect.suspend(() => {
    const { done, value } = lines.next()
    return done === true ? process.endInput : process.write(`${value}\n`)
  })
  yield* next
  const heard = yield* process.stdout.pipe(Stream.decodeText, Stream.splitLines, Stream.tap(() => next), Stream.runCollect)
  assert.deepStrictEqual(heard, [...LINES.map((line) => `got ${line}`), `round ${round}`])
  assert.deepStrictEqual(yield* process.exited, { code: 0, signal: null })
  const home = host.readHome(sandboxId, ["talk"], { maximumBytes: 10_000 })
  const read = yield* Stream.runCollect(home)
  yield* host.writeHome(sandboxId, Stream.fromIterable(read))
  assert.deepStrictEqual(Buffer.concat(yield* Stream.runCollect(home)), Buffer.concat(read))
}, Effect.scoped)

const files = (folder: string, sandboxId: string, round: number) =>
  readFileSync(join(workspaceIn(folder, sandboxId), `kept-${round}`), "utf8")

describe("a sandbox in a machine whose link breaks", () => {
  for (const direction of ["to the runner", "to the worker"] satisfies ReadonlyArray<Direction>) {
    it.live.skipIf(reason !== undefined)(
      `loses nothing and runs nothing twice, wherever it breaks ${direction}${reason === undefined ? "" : ` (not here: ${reason})`}`,
      () =>
        Effect.gen(function*() {
          const folder = yield* temporaryFolder
          const sandboxId = freshId()
          let records = 0
          /** Of the connections of this round. */
          let connections = 0
          let place: Address | undefined
          const cut = (machines: Machines["Service"]): Machines["Service"] => ({
            ...machines,
            ensure: (order) =>
              Effect.map(machines.ensure(order), (address) => {
                place = address
                return { host: "127.0.0.1", port: line.port }
              })
          })
          const line = yield* RunnerFixture.line(
            () => place ?? { path: "/nowhere" },
            () => connections++ === 0 ? { records, direction } : undefined
          )
          yield* Effect.gen(function*() {
            for (let cuts = -1; line.cuts() > cuts;) {
              cuts = line.cuts()
              connections = 0
              records++
              yield* use(sandboxId, records)
              assert.strictEqual(files(folder, sandboxId, records), LINES.map((line) => `${line}\n`).join(""))
            }
            yield* SandboxHost.use((host) => host.stop(sandboxId))
          }).pipe(Effect.provide(layerIn(folder, "bubblewrap", cut)))
          // Greetings are eleven at most; each cut beyond them was in the middle of the work.
          assert.isAbove(records, 30)
        })
    )
  }
})
