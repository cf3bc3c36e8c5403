/** The cost of a box, beside a plain process. Printed, not asserted. */
import { it } from "@effect/vitest"
import type { Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, type Scope } from "effect"
import { spawn } from "node:child_process"
import * as Egress from "../../src/egress/Egress.ts"
import type { SizedFolders } from "../../src/files/SizedFolders.ts"
import { freshId, isRoot, openFolder } from "../../testing/hosts/bubblewrap.fixture.ts"
import { absent as gvisorAbsent } from "../../testing/hosts/gvisor.fixture.ts"
import { isWritableGroup } from "../../testing/isolation/Groups.ts"
import * as GvisorWorld from "../../testing/isolation/GvisorWorld.ts"
import { type LayerName, without } from "../../testing/isolation/Layers.ts"
import { hostIn } from "../../testing/isolation/World.ts"

const TIMES = 20

const nothing = (command: string, ...args: ReadonlyArray<string>) =>
  Effect.promise(() => new Promise((resolve) => spawn(command, args, { stdio: "ignore", env: {} }).once("close", resolve)))

const nothingIn = (box: Box) => Effect.scoped(Effect.flatMap(box.spawn({ command: "true", args: [], env: {} }), ({ exited }) => exited))

const boxWithout = (names: ReadonlyArray<LayerName>, allow: ReadonlyArray<string> = []) =>
  boxOf((folder) => hostIn(folder, without(names)), allow)

const boxOf = Effect.fnUntraced(function*<E>(
  hostIn: (folder: string) => Effect.Effect<
    { readonly host: SandboxHost["Service"]; readonly folders: SizedFolders | undefined },
    E,
    Egress.Egress | Scope.Scope
  >,
  allow: ReadonlyArray<string>
) {
  const services = yield* Layer.build(Egress.layer({ allow: new Set(allow) }))
  const { folders, host } = yield* Effect.provide(hostIn(yield* openFolder), services)
  const sandboxId = freshId()
  return yield* Effect.acquireRelease(host.provision({ sandboxId, fence: 1 }), () =>
    // Before the folder that it is mounted in.
    Effect.andThen(Effect.orDie(host.stop(sandboxId)), folders === undefined ? Effect.void : folders.remove(sandboxId)))
})

const millisOf = <E, R>(effect: Effect.Effect<unknown, E, R>) =>
  Effect.gen(function*() {
    const before = performance.now()
    yield* effect
    return performance.now() - before
  })

it.live("what it costs to start a program in a box", () =>
  Effect.gen(function*() {
    const kinds = [
      ["plain spawn", nothing("/bin/true")],
      ["bubblewrap alone", nothing("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")],
      ["box", nothingIn(yield* boxWithout([]))],
      ...(isWritableGroup ? [["box without control groups", nothingIn(yield* boxWithout(["control groups"]))] as const] : []),
      ...(isRoot ? [["box without an own user", nothingIn(yield* boxWithout(["own user"]))] as const] : []),
      ["box with a way out", nothingIn(yield* boxWithout([], ["listed.test:443"]))],
      ...(gvisorAbsent === undefined
        ? [
          ["box of gVisor", nothingIn(yield* boxOf((folder) => GvisorWorld.hostIn(folder, {}), []))],
          ["box of gVisor, a way out", nothingIn(yield* boxOf((folder) => GvisorWorld.hostIn(folder, {}), ["listed.test:443"]))]
        ] as const
        : [])
    ] as const
    const taken = new Map<string, Array<number>>(kinds.map(([name]) => [name, []]))
    // In turns: what else the machine does falls on all alike. The first finds cold caches.
    for (let i = -1; i < TIMES; i++) {
      for (const [name, start] of kinds) {
        const millis = yield* millisOf(start)
        if (i >= 0) taken.get(name)?.push(millis)
      }
    }
    const rows = [...taken].map(([name, times]) => {
      const sorted = times.toSorted((a, b) => a - b)
      const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN).toFixed(1).padStart(8)
      return `  ${name.padEnd(28)}${at(0.5)}${at(0.9)}\n`
    })
    const head = `  ${"".padEnd(28)}${"median".padStart(8)}${"p90".padStart(8)}\n`
    process.stdout.write(`\nFrom start to end of \`true\`, ms, ${TIMES} times\n${head}${rows.join("")}\n`)
  }))
