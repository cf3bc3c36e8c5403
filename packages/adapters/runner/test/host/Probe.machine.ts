/** The service's checks of machines before it runs an agent in one. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import * as Probe from "../../src/host/Probe.ts"
import * as MachinesByCommand from "../../src/machines/MachinesByCommand.ts"
import * as Cable from "../../testing/Cable.ts"
import { noNamespaces } from "../../testing/Cable.ts"
import { absent, changed, hostIn, INSTALLATION, type Kind, program } from "../../testing/Machines.fixture.ts"

/** Looks at a machine of which `change`, a program in JavaScript, has changed the order. */
const look = Effect.fnUntraced(function*(kind: Kind, change = "", more: Readonly<Record<string, string>> = {}) {
  const folder = yield* temporaryFolder
  const file = yield* changed(folder, yield* program(folder, kind, more), change)
  const machines = MachinesByCommand.layer({ program: file, installation: INSTALLATION })
  return yield* SandboxHost.use((host) => Probe.run({ host, hidden: [join(folder, "known")] })).pipe(
    Effect.provide(Layer.provide(hostIn(folder), Layer.merge(machines, Egress.layer({ allow: new Set() }))))
  )
}, Effect.scoped)

const missing = (kind: Kind) => {
  const reason = absent(kind)
  return { skip: reason !== undefined, because: reason === undefined ? "" : ` (${reason})` }
}

describe("a machine that is looked at", () => {
  for (const kind of ["bubblewrap", "gvisor", "docker"] satisfies ReadonlyArray<Kind>) {
    const { because, skip } = missing(kind)
    it.live.skipIf(skip)(
      `of ${kind} keeps its sandbox from its runner, from the worker and from all networks${because}`,
      () =>
        Effect.gen(function*() {
          const states = Object.fromEntries((yield* look(kind)).map(({ name, state }) => [name, state]))
          assert.deepStrictEqual(states, {
            "own user": "in force",
            files: "in force",
            kernel: kind === "gvisor" ? "in force" : "off",
            "system calls": "in force",
            network: "in force",
            ends: "in force",
            limits: "off"
          })
        })
    )
  }

  const { because, skip } = missing("bubblewrap")
  it.live.skipIf(skip)(`is refused whose processes are who its runner is${because}`, () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(look("bubblewrap", "delete order.settings.user"))
      assert.include(error.message, "root in its machine")
      assert.include(error.message, "the runner's own")
    }))

  it.live.skipIf(skip)(`is refused whose runner keeps its state where its sandbox reads${because}`, () =>
    Effect.gen(function*() {
      const change = "order.settings.folders.push(order.settings.state)"
      assert.include((yield* Effect.flip(look("bubblewrap", change))).message, "the runner's own")
    }))

  it.live.skipIf(skip || noNamespaces !== undefined)(
    `is refused that reaches the worker's network${because}`,
    () =>
      Effect.gen(function*() {
        const { address, name, near } = yield* Cable.cableOf(11)
        const error = yield* Effect.flip(look("bubblewrap", "", { MACHINES_NETWORKS: `${name}:${address}` }))
        assert.include(error.message, `reaches the worker's own network: ${near}`)
      })
  )
})
