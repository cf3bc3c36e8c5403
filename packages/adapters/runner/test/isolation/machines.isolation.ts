/**
 * In machines with runners, as the worked example makes them: every attempt fails with all layers in place, and comes off when the
 * layer is taken away that stops it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Egress from "@slipway/machine/egress/Egress"
import { openFolder, run } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { lacks, type Needs } from "@slipway/machine/testing/isolation/EscapeAttempts"
import { CANARY, CANARY_VARIABLE, makeOf } from "@slipway/machine/testing/isolation/World"
import { Context, Effect, Layer } from "effect"
import * as Probe from "../../src/host/Probe.ts"
import * as Cable from "../../testing/Cable.ts"
import { noNamespaces } from "../../testing/Cable.ts"
import { attemptsOf, isWelcome, type Name, senseless, SOCKET, speaks, stranger } from "../../testing/isolation/MachinesAttempts.ts"
import { beforeTheKey, layersOf, pairsOf, without } from "../../testing/isolation/MachinesLayers.ts"
import { kindOf, type MachinesWorld, serviceIn } from "../../testing/isolation/MachinesWorld.ts"
import { absent, type Kind } from "../../testing/Machines.fixture.ts"

// A variable that a child process would inherit.
process.env[CANARY_VARIABLE] = CANARY

/** A pair of machines for all attempts that need no bounds of their own. */
class Shared extends Context.Service<Shared, MachinesWorld>()("test/Machines") {}

const because = (reason: string | undefined) => reason === undefined ? "" : ` (${reason})`

for (const kind of ["bubblewrap", "gvisor", "docker"] satisfies ReadonlyArray<Kind>) {
  const attempts = attemptsOf(kind)
  const everyAttempt = (Object.keys(attempts) as ReadonlyArray<Name>).filter((name) => !Object.hasOwn(senseless[kind], name))
  const layers = layersOf[kind]
  const reasonOf = (needs: ReadonlyArray<Needs | undefined>, kernelHas = true) =>
    absent(kind) ?? (kernelHas ? needs.map(lacks).find((reason) => reason !== undefined) : "this kernel has no such thing")

  /** A test that is skipped, and says why, where the machine lacks what it needs. */
  const when = (needs: ReadonlyArray<Needs | undefined>, kernelHas?: boolean) => {
    const reason = reasonOf(needs, kernelHas)
    return <E>(name: string, body: Effect.Effect<void, E>) => it.live.skipIf(reason !== undefined)(`${name}${because(reason)}`, () => body)
  }

  /** And neither the other sandbox nor, but for its machine of gVisor that took all its memory, the hostile one suffers from it. */
  const fails = Effect.fnUntraced(function*(name: Name, world: MachinesWorld) {
    assert.isFalse(yield* attempts[name].succeeds(world, []))
    if (kind === "gvisor" && name === "take 400 MiB of memory") yield* world.host.provision({ sandboxId: world.box.sandboxId, fence: 2 })
    for (const { box } of [world, world.other]) assert.strictEqual((yield* run(box, "echo fine")).output, "fine")
  })

  const tried = (name: Name, names: ReadonlyArray<string>) =>
    Effect.flatMap(makeOf(kindOf(kind), attempts[name], without(kind, names)), (world) => attempts[name].succeeds(world, names)).pipe(
      Effect.scoped
    )

  const reason = absent(kind)
  describe.skipIf(reason !== undefined)(
    `with every layer in place, a hostile program in a machine of ${kind} cannot${because(reason)}`,
    () => {
      for (const isOpen of [false, true]) {
        it.layer(Layer.effect(Shared, makeOf(kindOf(kind), { isOpen }, {})), { excludeTestServices: true })((it) => {
          for (const name of everyAttempt) {
            const { isOpen: isOpenFor = false, limits, needs } = attempts[name]
            if (limits !== undefined || isOpenFor !== isOpen) continue
            const reason = reasonOf([needs])
            it.effect.skipIf(reason !== undefined)(`${name}${because(reason)}`, () => Effect.flatMap(Shared, (world) => fails(name, world)))
          }
        })
      }
      for (const name of everyAttempt.filter((name) => attempts[name].limits !== undefined)) {
        when([attempts[name].needs])(
          name,
          Effect.flatMap(makeOf(kindOf(kind), attempts[name], {}), (world) => fails(name, world)).pipe(Effect.scoped)
        )
      }
      for (const [name, reason] of Object.entries(senseless[kind])) it.skip(`${name}${because(reason)}`)
    }
  )

  for (const layer of Object.keys(layers).filter((name) => (layers[name]?.lets.length ?? 0) > 0)) {
    const { lets, needs } = layers[layer] ?? { lets: [] }
    describe(`without ${layer}, a hostile program in a machine of ${kind} can`, () => {
      for (const name of lets) {
        when([needs, attempts[name].needs], attempts[name].isThere?.())(
          name,
          Effect.gen(function*() {
            assert.isTrue(yield* tried(name, [layer]))
          })
        )
      }
    })
  }

  for (const { layers: pair, lets } of pairsOf[kind]) {
    describe(`without ${pair.join(" and ")}, but not without one of them alone, a hostile program in a machine of ${kind} can`, () => {
      for (const name of lets) {
        when([...pair.map((layer) => layers[layer]?.needs), attempts[name].needs])(
          name,
          Effect.gen(function*() {
            assert.isTrue(yield* tried(name, pair))
            for (const layer of pair) assert.isFalse(yield* tried(name, [layer]), `without ${layer}`)
          })
        )
      }
    })
  }

  const key = beforeTheKey[kind]
  when([])(
    `without ${key.join(" and ")}, but with the worker's key alone, a hostile program in a machine of ${kind} can speak to its runner`,
    Effect.gen(function*() {
      const name = "speak to its runner as its worker does"
      const world = yield* makeOf(kindOf(kind), {}, without(kind, key))
      assert.isFalse(yield* attempts[name].succeeds(world, key))
      const { certificate, privateKey } = world.service.workerOf(world.box.sandboxId)
      assert.isTrue(isWelcome(yield* speaks(world, { path: SOCKET }, { certificate, privateKey })))
    }).pipe(Effect.scoped)
  )

  // All that comes off above does so in machines that were not probed: the probe, too, is a layer.
  describe(`the probe refuses to start a service with machines of ${kind} without`, () => {
    for (const [layer, { needs, probe, removal }] of Object.entries(layers)) {
      if (probe === undefined) continue
      when([needs])(
        layer,
        Effect.gen(function*() {
          const { host, known } = yield* serviceIn(kind)(yield* openFolder, removal)
          assert.include((yield* Effect.flip(Probe.run({ host, hidden: [known] }))).message, probe)
        }).pipe(Effect.scoped, Effect.provide(Egress.layer({ allow: new Set() })))
      )
    }
  })

  it(`each layer of machines of ${kind} lets something happen when it is taken away, or is one of a pair that does`, () => {
    const paired = new Set([...pairsOf[kind].flatMap(({ layers }) => layers), ...key])
    assert.deepStrictEqual(Object.keys(layers).filter((layer) => layers[layer]?.lets.length === 0 && !paired.has(layer)), [])
  })
}

// gVisor's own kernel, which the suite of its boxes takes away, stops more by itself.
it.each(["bubblewrap", "docker"] as const)(
  "each attempt in a machine of %s comes off without some layer, but where the suite can plant nothing, or takes away no runner",
  (kind) => {
    const coming = new Set([...Object.values(layersOf[kind]), ...pairsOf[kind]].flatMap(({ lets }) => lets))
    const never = (Object.keys(attemptsOf(kind)) as ReadonlyArray<Name>).filter((name) => !coming.has(name))
    assert.deepStrictEqual(never, [
      "have the host write its home files elsewhere, through a link",
      "find the service's environment in its own",
      "become root by a program of root's that says so (setuid)",
      "reach a metadata service",
      "reach a private address",
      "reach a public address",
      "resolve a name",
      "open a raw socket",
      "open a packet socket",
      "reach a listed name that leads to a metadata service",
      "reach an address by the way out",
      // The maker of the machine has deleted it.
      "read the key of its runner where it was told it",
      "have its runner write home files elsewhere, through a link",
      // With the worker's key it does: see above.
      "speak to its runner as its worker does"
    ])
  }
)

const noCables = absent("bubblewrap") ?? noNamespaces
it.live.skipIf(noCables !== undefined)(
  `a hostile program reaches the port of its own runner over the network, no other's, and is not its worker there${because(noCables)}`,
  () =>
    Effect.gen(function*() {
      const cables = [yield* Cable.cableOf(21), yield* Cable.cableOf(22)]
      const MACHINES_NETWORKS = cables.map(({ address, name }) => `${name}:${address}`).join(",")
      const world = yield* makeOf(kindOf("bubblewrap"), {}, { variables: { MACHINES_NETWORKS } })
      const { addressOf, workerOf } = world.service
      const [own, other] = [world.box.sandboxId, world.other.box.sandboxId]
      const said = yield* speaks(world, addressOf(own), stranger())
      assert.include(said, "connected")
      assert.isFalse(isWelcome(said))
      assert.notInclude(yield* speaks(world, addressOf(other), workerOf(other)), "connected")
      // So it is the key that keeps it out.
      assert.isTrue(isWelcome(yield* speaks(world, addressOf(own), workerOf(own))))
    }).pipe(Effect.scoped)
)
