/** Attempts of a hostile program (`Attempts`), made by commands of a setup, which the worker runs as it runs all of them. */
import { assert, describe, it } from "@effect/vitest"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { run } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { type Attempt, attempts, lacks, type Name } from "@slipway/machine/testing/isolation/EscapeAttempts"
import { type LayerName, without } from "@slipway/machine/testing/isolation/Layers"
import { CANARY, CANARY_VARIABLE, make, type World } from "@slipway/machine/testing/isolation/World"
import { Effect, Stream } from "effect"
import * as SetupCommand from "../../src/setup/SetupCommand.ts"
import { SetupOutput } from "../../src/setup/SetupOutput.ts"

// A variable that a child process would inherit.
process.env[CANARY_VARIABLE] = CANARY

const plain = {
  stream: () => {
    const decoder = new TextDecoder()
    return { push: (bytes: Uint8Array) => decoder.decode(bytes, { stream: true }), end: () => decoder.decode() }
  }
}

/** Those of the host. */
const programs = { id: "", image: null, isRefused: false, path: [], env: {} }

/** A box in which each program is a command of a setup: its output is what is kept of that. */
const asSetup = (box: Box): Box => ({
  ...box,
  spawn: (command) => {
    // Setup is not given the files of an agent.
    if (command.homeFiles !== undefined) return box.spawn(command)
    const argv: readonly [string, ...ReadonlyArray<string>] = [command.command, ...command.args]
    const output = new SetupOutput(plain)
    const given = { env: command.env, programs }
    return Effect.map(SetupCommand.run(box, box.workspace, { key: "setup[0]", argv }, given, output), (failure) => ({
      pid: 0,
      write: () => Effect.void,
      endInput: Effect.void,
      stdout: Stream.make(Buffer.from(output.text.slice(`$ ${SetupCommand.shown({ argv })}\n`.length))),
      stderrTail: Effect.succeed(""),
      exited: Effect.succeed({ code: failure === null ? 0 : failure.exitCode, signal: null })
    }))
  }
})

const world = (attempt: Attempt, names: ReadonlyArray<LayerName> = []) =>
  Effect.map(make(attempt, without(names)), (world): World => ({ ...world, box: asSetup(world.box) }))

/** The worker that this starts has no setup in it. */
const OTHERS: ReadonlySet<Name> = new Set(["outlive its worker"])
const names = (Object.keys(attempts) as ReadonlyArray<Name>).filter((name) =>
  !OTHERS.has(name) && lacks(attempts[name].needs) === undefined
)
const isAlone = (name: Name) => attempts[name].limits !== undefined
const isOpen = (name: Name) => attempts[name].isOpen === true

describe("commands of a setup get nothing", () => {
  for (
    const [what, group] of [
      ["of the machine and of others", names.filter((name) => !isAlone(name) && !isOpen(name))],
      ["through the way out", names.filter(isOpen)]
    ] as const
  ) {
    it.live(`${what}, by ${group.length} attempts`, () =>
      Effect.gen(function*() {
        const [first = "trace a process"] = group
        const here = yield* world(attempts[first])
        const came: Array<Name> = []
        for (const name of group) if (yield* Effect.scoped(attempts[name].succeeds(here, []))) came.push(name)
        assert.deepStrictEqual(came, [])
        for (const { box } of [here, here.other]) assert.strictEqual((yield* run(box, "echo fine")).output, "fine")
      }).pipe(Effect.scoped))
  }

  for (const name of names.filter(isAlone)) {
    it.live(`of the machine's capacity: cannot ${name}`, () =>
      Effect.gen(function*() {
        const here = yield* world(attempts[name])
        assert.isFalse(yield* attempts[name].succeeds(here, []))
        assert.strictEqual((yield* run(here.other.box, "echo fine")).output, "fine")
      }).pipe(Effect.scoped))
  }
})

// Else nothing would come off because nothing was tried.
describe("without a layer, commands of a setup can", () => {
  const removals: ReadonlyArray<readonly [LayerName, Name]> = [
    ["files by allow list", "read a file of the machine"],
    ["process namespace", "read command lines of others"],
    ["network namespace", "reach a port of the machine's loopback interface"],
    ["clean environment", "find the service's environment in its own"],
    ["system call filter", "trace a process"]
  ]
  for (const [layer, name] of removals) {
    it.live(`${name} (without ${layer})`, () =>
      Effect.gen(function*() {
        assert.isTrue(yield* attempts[name].succeeds(yield* world(attempts[name], [layer]), [layer]))
      }).pipe(Effect.scoped))
  }
})
