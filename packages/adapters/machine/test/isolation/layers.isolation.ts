/** Every attempt fails with all layers in place, and comes off when the layer is taken away that stops it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Probe from "../../src/bubblewrap/Probe.ts"
import * as Egress from "../../src/egress/Egress.ts"
import { openFolder, run } from "../../testing/hosts/bubblewrap.fixture.ts"
import { attempts, lacks, type Name, type Needs } from "../../testing/isolation/EscapeAttempts.ts"
import { type LayerName, layers, pairs, without } from "../../testing/isolation/Layers.ts"
import { CANARY, CANARY_VARIABLE, hostIn, make } from "../../testing/isolation/World.ts"

// A variable that a child process would inherit.
process.env[CANARY_VARIABLE] = CANARY

const everyAttempt = Object.keys(attempts) as ReadonlyArray<Name>
const everyLayer = Object.keys(layers) as ReadonlyArray<LayerName>

/** A test that is skipped, and says why, where the machine lacks what it needs. */
const when = (needs: ReadonlyArray<Needs | undefined>, kernelHas = true) => {
  const reason = kernelHas ? needs.map(lacks).find((reason) => reason !== undefined) : "this kernel has no such thing"
  return <E>(name: string, body: Effect.Effect<void, E>) =>
    it.live.skipIf(reason !== undefined)(reason === undefined ? name : `${name} (${reason})`, () => body)
}

const tried = (name: Name, names: ReadonlyArray<LayerName>) =>
  Effect.flatMap(make(attempts[name], without(names)), (world) => attempts[name].succeeds(world, names)).pipe(Effect.scoped)

describe("with every layer in place, a hostile program cannot", () => {
  for (const name of everyAttempt) {
    const attempt = attempts[name]
    when([attempt.needs])(
      name,
      Effect.gen(function*() {
        const world = yield* make(attempt, {})
        assert.isFalse(yield* attempt.succeeds(world, []))
        // And neither the host nor anybody else suffers from it.
        for (const { box } of [world, world.other]) assert.strictEqual((yield* run(box, "echo fine")).output, "fine")
      }).pipe(Effect.scoped)
    )
  }
})

for (const layer of everyLayer.filter((name) => layers[name].lets.length > 0)) {
  const { lets, needs } = layers[layer]
  describe(`without ${layer}, a hostile program can`, () => {
    for (const name of lets) {
      const attempt = attempts[name]
      when([needs, attempt.needs], attempt.isThere?.())(
        name,
        Effect.gen(function*() {
          assert.isTrue(yield* tried(name, [layer]))
        })
      )
    }
  })
}

for (const { layers: pair, lets, needs } of pairs) {
  const there = pair.filter((layer) => lacks(layers[layer].needs) === undefined)
  describe(`without ${pair.join(" and ")}, but not without one of them alone, a hostile program can`, () => {
    for (const name of lets) {
      const attempt = attempts[name]
      when([needs, attempt.needs], attempt.isThere?.())(
        name,
        Effect.gen(function*() {
          assert.isTrue(yield* tried(name, pair))
          if (there.length === pair.length) { for (const layer of pair) assert.isFalse(yield* tried(name, [layer]), `without ${layer}`) }
        })
      )
    }
  })
}

// All that comes off above does so on a host that was not probed: the probe, too, is a layer.
describe("the probe refuses to start a service without", () => {
  for (const layer of everyLayer) {
    const { needs, probe, removal } = layers[layer]
    if (probe === undefined) continue
    when([needs])(
      layer,
      Effect.gen(function*() {
        const made = yield* hostIn(yield* openFolder, removal)
        assert.include((yield* Effect.flip(Probe.run(made))).message, probe)
      }).pipe(Effect.scoped, Effect.provide(Egress.layer({ allow: new Set() })))
    )
  }
})

describe("no layer is here for nothing:", () => {
  it("each lets something happen when it is taken away, or is one of a pair that does", () => {
    const paired = new Set(pairs.flatMap(({ layers }) => layers))
    assert.deepStrictEqual(everyLayer.filter((layer) => layers[layer].lets.length === 0 && !paired.has(layer)), [])
  })

  it("each attempt comes off without some, but where the suite can plant nothing, and what bubblewrap has no option against", () => {
    const coming = new Set([...everyLayer.flatMap((layer) => layers[layer].lets), ...pairs.flatMap(({ lets }) => lets)])
    assert.deepStrictEqual(everyAttempt.filter((name) => !coming.has(name)), [
      "become root by a program of root's that says so (setuid)",
      "reach a metadata service",
      "reach a private address",
      "reach a public address",
      "resolve a name",
      "reach a listed name that leads to a metadata service",
      "reach an address by the way out"
    ])
  })
})
