/** A program of the operator's, as the worker calls it. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import { Effect } from "effect"
import { chmod, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as Installation from "../src/machines/Installation.ts"
import * as MachinesByCommand from "../src/machines/MachinesByCommand.ts"
import * as Identity from "../src/wire/Identity.ts"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")

/** A program that is this script. */
const programOf = Effect.fnUntraced(function*(script: string, options: Partial<MachinesByCommand.Options> = {}) {
  const folder = yield* temporaryFolder
  const program = join(folder, "program")
  yield* Effect.promise(() => writeFile(program, `#!/bin/sh\ncd '${folder}'\n${script}\n`))
  yield* Effect.promise(() => chmod(program, 0o755))
  return { folder, machines: MachinesByCommand.make({ program, installation: "0123456789abcdef", ...options }) }
})

const order = () => ({ sandboxId, fence: 7, identity: Identity.mint().runner, ways: [{ name: "egress", port: 3128 }] })

describe("a program that makes machines", () => {
  it.live("gets the order on standard input alone, and nothing of the service's environment", () =>
    Effect.gen(function*() {
      const { folder, machines } = yield* programOf(
        "cat > order; echo \"$*\" > arguments; env > environment; echo '{\"host\":\"10.0.0.2\",\"port\":4000,\"more\":1}'"
      )
      process.env["SECRET_OF_THE_SERVICE"] = "hunter2"
      const given = order()
      assert.deepStrictEqual(yield* machines.ensure(given), { host: "10.0.0.2", port: 4000 })
      const read = (name: string) => Effect.promise(() => readFile(join(folder, name), "utf8"))
      assert.strictEqual(yield* read("arguments"), "ensure\n")
      assert.notInclude(yield* read("environment"), "hunter2")
      const { installation, settings, ...rest } = JSON.parse(yield* read("order"))
      assert.deepStrictEqual([installation, rest], ["0123456789abcdef", { sandbox: sandboxId, fence: 7 }])
      assert.deepStrictEqual([settings.identity, settings.ways], [given.identity, given.ways])
    }))

  it.live.each([
    ["says nothing", "true"],
    ["says no JSON", "echo machine"],
    ["names no port", "echo '{\"host\":\"a\"}'"],
    ["names a port that none is", "echo '{\"host\":\"a\",\"port\":70000}'"],
    ["names a path that starts nowhere", "echo '{\"path\":\"socket\"}'"]
  ])("has made no machine where it %s", ([, script = ""]) =>
    Effect.gen(function*() {
      const { machines } = yield* programOf(script)
      const error = yield* Effect.flip(machines.ensure(order()))
      assert.deepStrictEqual([error.operation, error.retryable], ["provision", false])
    }))

  it.live("is asked again where it failed, was too slow, or said too much", () =>
    Effect.gen(function*() {
      for (const script of ["echo no >&2; exit 3", "sleep 600", "sleep 600 & exit 0", "cat /dev/zero", "kill -KILL $$"]) {
        const { machines } = yield* programOf(script, { within: { ensure: "500 millis" } })
        const error = yield* Effect.flip(machines.ensure(order()))
        assert.isTrue(error.retryable, script)
      }
    }))

  it.live("is not asked again where there is none", () =>
    Effect.gen(function*() {
      const machines = MachinesByCommand.make({ program: "/there/is/none", installation: "0123456789abcdef" })
      assert.isFalse((yield* Effect.flip(machines.remove(sandboxId))).retryable)
    }))

  it.live("tells no key in an error, though it says what it was told", () =>
    Effect.gen(function*() {
      const { machines } = yield* programOf("cat >&2; exit 1")
      const given = order()
      const error = yield* Effect.flip(machines.ensure(given))
      const [key = ""] = given.identity.privateKey.split("\n").filter((line) => line.length > 60)
      assert.notInclude(error.message, key)
    }))

  it.live("lists sandboxes, and nothing that is the name of none", () =>
    Effect.gen(function*() {
      const { machines } = yield* programOf(`echo '["${sandboxId}"]'`)
      assert.deepStrictEqual(yield* machines.list, [sandboxId])
      const { machines: odd } = yield* programOf("echo '[\"../outside\"]'")
      assert.strictEqual((yield* Effect.flip(odd.list)).operation, "list")
    }))

  it.live("knows a worker by the name that its data folder holds", () =>
    Effect.gen(function*() {
      const [one, other] = [yield* temporaryFolder, yield* temporaryFolder]
      assert.strictEqual(Installation.of(one), Installation.of(one))
      assert.notStrictEqual(Installation.of(one), Installation.of(other))
    }))
})
