/** A machine whose link breaks after each message in turn: the connection ends, or nothing comes through any more. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { freshId } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { running, temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect, Option, Stream } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Machines } from "../../src/machines/Machines.ts"
import type { Address } from "../../src/wire/RunnerSettings.ts"
import type { Direction } from "../../testing/Fixture.ts"
import * as RunnerFixture from "../../testing/Fixture.ts"
import { absent, layerIn, networks, workspaceIn } from "../../testing/Machines.fixture.ts"
import { BAD, NONE, noTrouble, troubledCable } from "../../testing/TroubledCable.ts"

const { eventually } = SandboxHostContract

const reason = absent("bubblewrap")

/** Some hundred rounds, each of which has to notice that its connection is gone. */
const WITHIN = { timeout: 600_000 }

const LINES = Array.from({ length: 6 }, (_, i) => `line ${i}`)

/** Repeats each line that it gets, and keeps it: what ran twice or was lost shows. */
const ECHO = "while read line; do echo \"$line\" >> \"$KEPT\"; echo \"got $line\"; done; cat \"$HOME/talk/file\""

/** All that a box is used for, and what came of it. `round` is where the link breaks. */
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
}, (self, _, round) =>
  Effect.timeoutOrElse(Effect.scoped(self), {
    duration: "1 minute",
    orElse: () => Effect.die(new Error(`broken at ${round}, it does not go on`))
  }))

/** The round's process got each line, in order and once. */
const assertKept = (folder: string, sandboxId: string, round: number) =>
  assert.strictEqual(
    readFileSync(join(workspaceIn(folder, sandboxId), `kept-${round}`), "utf8"),
    LINES.map((line) => `${line}\n`).join("")
  )

const because = (reason: string | undefined) => reason === undefined ? "" : ` (${reason})`

/** Where machines are, and what tells the example of it. */
const places = [
  { name: "a machine of this network namespace", reason, network: Effect.succeed({}) },
  {
    name: "a machine in another network namespace, over a link that loses, delays, doubles and reorders packets,",
    reason: reason ?? noTrouble,
    network: Effect.map(troubledCable(BAD), (cable) => networks([cable]))
  }
]

for (const { name, network, reason } of places) {
  describe(`a sandbox in ${name} whose connection breaks`, () => {
    for (const direction of ["to the runner", "to the worker"] satisfies ReadonlyArray<Direction>) {
      it.live.skipIf(reason !== undefined)(
        `loses nothing and runs nothing twice, wherever it breaks ${direction}${because(reason)}`,
        () =>
          Effect.gen(function*() {
            const folder = yield* temporaryFolder
            const sandboxId = freshId()
            let records = 0
            /** The number of connections of this round. */
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
                assertKept(folder, sandboxId, records)
              }
              yield* SandboxHost.use((host) => host.stop(sandboxId))
            }).pipe(Effect.provide(layerIn(folder, "bubblewrap", { change: cut, more: yield* network })))
            // Greetings are eleven at most; each cut beyond them was in the middle of the work.
            assert.isAbove(records, 30)
          }),
        WITHIN
      )
    }
  })
}

describe("a sandbox in a machine in another network namespace whose link goes silent", () => {
  const missing = reason ?? noTrouble
  it.live.skipIf(missing !== undefined)(
    `loses nothing and runs nothing twice, from whichever packet on nothing comes through until the worker dials again${because(missing)}`,
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const sandboxId = freshId()
        const cable = yield* troubledCable(NONE)
        const changes = {
          more: networks([cable]),
          // Both ends say often that they are there, so that silence is soon noticed.
          order: `order.settings.beatMillis = 100`,
          timing: { beat: "100 millis", silence: "500 millis" }
        } as const
        yield* Effect.gen(function*() {
          for (let packet = 1, breaks = -1;; packet++) {
            // Every other time the first dial is lost as well.
            const told = yield* cable.breakAt(packet, 1 + packet % 2)
            // The round before had no such packet.
            if (told.breaks <= breaks) break
            breaks = told.breaks
            yield* use(sandboxId, packet)
            assertKept(folder, sandboxId, packet)
          }
          yield* SandboxHost.use((host) => host.stop(sandboxId))
        }).pipe(Effect.provide(layerIn(folder, "bubblewrap", changes)))
        assert.isAbove((yield* cable.tell).breaks, 30)
      }),
    WITHIN
  )

  it.live.skipIf(missing !== undefined)(
    `ends what runs there on both sides when it stays silent, keeps its tree, and goes on once the link is there again${because(missing)}`,
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const sandboxId = freshId()
        const cable = yield* troubledCable(BAD)
        const changes = {
          more: networks([cable]),
          order: `order.settings.beatMillis = 100; order.settings.silenceMillis = 3000`,
          timing: { beat: "100 millis", silence: "500 millis", patience: "4 seconds" }
        } as const
        yield* Effect.gen(function*() {
          const host = yield* SandboxHost
          const box = yield* host.provision({ sandboxId, fence: 1 })
          const line = `31415.${Math.floor(Math.random() * 1e9)}1`
          const process = yield* box.spawn({ command: "sh", args: ["-c", `echo one > kept; echo begun; sleep ${line}`], env: {} })
          const heard = yield* Stream.runHead(Stream.splitLines(Stream.decodeText(process.stdout)))
          assert.deepStrictEqual(heard, Option.some("begun"))
          assert.isAbove(yield* running(line), 0)
          yield* cable.cut
          assert.deepStrictEqual(yield* process.exited, { code: null, signal: "SIGKILL" })
          yield* eventually(running(line), (count) => count === 0)
          const error = yield* Effect.flip(host.provision({ sandboxId, fence: 2 }))
          assert.isTrue(error.retryable, error.message)
          yield* cable.mend
          yield* use(sandboxId, 3)
          assertKept(folder, sandboxId, 3)
          assert.strictEqual(readFileSync(join(workspaceIn(folder, sandboxId), "kept"), "utf8"), "one\n")
          yield* host.stop(sandboxId)
        }).pipe(Effect.scoped, Effect.provide(layerIn(folder, "bubblewrap", changes)))
      })
  )
})
