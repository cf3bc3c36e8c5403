/** A machine that ends while a sandbox has it: the next caller has it started again, and does not wait for the next lease. */
import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Scope } from "effect"
import * as MachineRegistry from "../../src/host/MachineRegistry.ts"
import * as Connections from "../../src/host/RunnerConnections.ts"
import * as Runner from "../../src/program/Runner.ts"
import * as Fixture from "../../testing/Fixture.ts"

const sandboxId = SandboxId.make("c_abcdefgh2345")

/** Connections to a sandbox whose machine has ended. `isLive`: this worker may start it again. */
const connectionsTo = Effect.fnUntraced(function*(isLive: boolean) {
  const { folder, settings } = yield* Fixture.folders
  const known = MachineRegistry.make(`${folder}/machines`)
  const machine = MachineRegistry.fresh(1)
  const scope = yield* Effect.scope
  const starts: Array<number> = []
  const start = Effect.gen(function*() {
    const { address, close } = yield* Effect.promise(() => Runner.start({ ...settings, identity: machine.runner }))
    yield* Scope.addFinalizer(scope, Effect.promise(close))
    known.set(sandboxId, { ...machine, address })
    return close
  })
  yield* Effect.flatMap(start, (close) => Effect.promise(close))
  const connections = yield* Connections.make({
    known,
    dial: () => () => Effect.fail("there is no way"),
    startAgain: (_, __, fence) =>
      isLive ? Effect.as(Effect.andThen(Effect.sync(() => starts.push(fence)), start), true) : Effect.succeed(false)
  })
  return { connections, starts }
})

it.live("a machine that refuses connections is started again, under the fence that it had", () =>
  Effect.gen(function*() {
    const { connections, starts } = yield* connectionsTo(true)
    const connection = yield* connections.borrow("spawn", sandboxId)
    const { stdout } = yield* connection.spawn(Fixture.shell("echo there"))
    assert.strictEqual(yield* Fixture.textOf(stdout), "there\n")
    assert.deepStrictEqual(starts, [1])
  }))

it.live("a machine of a sandbox that is at rest, or is to end, is not started again", () =>
  Effect.gen(function*() {
    const { connections, starts } = yield* connectionsTo(false)
    const error = yield* Effect.flip(connections.borrow("spawn", sandboxId))
    assert.deepInclude(error, { _tag: "HostError", retryable: true })
    assert.deepStrictEqual(starts, [])
  }))
