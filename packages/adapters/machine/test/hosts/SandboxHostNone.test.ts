import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as SandboxHostNone from "../../src/none/SandboxHostNone.ts"
import { running, temporaryFolder, workspaceFor, workspaceOf } from "../../testing/hosts/Machine.ts"
import * as SpawnedProgram from "../../testing/SpawnedProgram.ts"

const hostIn = (directory: string) => SandboxHostNone.layer({ directory, workspaceOf })
const layer = Layer.unwrap(Effect.map(temporaryFolder, hostIn))

register(SandboxHostContract.suite("none", layer, { workspace: workspaceFor, running }))

const id = SandboxId.make("c_aaaaaaaaaaaa")
const { eventually } = SandboxHostContract

describe("SandboxHostNone", () => {
  it.live("ends what a worker left behind that was killed", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      yield* workspaceFor(id)
      const line = `31415.${Math.floor(Math.random() * 1e9)}1`
      const worker = yield* SpawnedProgram.scoped(
        process.execPath,
        [
          fileURLToPath(new URL("./killed-worker.ts", import.meta.url)),
          directory,
          id,
          `(setsid sleep ${line} >/dev/null 2>&1 </dev/null &); cat`
        ]
      )
      // The worker's own command line holds the number too, and so does the shell it starts.
      yield* eventually(running(`sleep ${line}`), (count) => count >= 3)
      yield* Effect.promise(() => worker.stop("SIGKILL"))
      yield* eventually(running(`sleep ${line}`), (count) => count === 1)

      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        assert.deepStrictEqual(yield* host.list, [id])
        yield* host.stop(id)
        assert.deepStrictEqual(yield* host.list, [])
      }).pipe(Effect.provide(hostIn(directory)))
      assert.strictEqual(yield* running(`sleep ${line}`), 0)
    }))

  it.live("leaves the sandboxes of another directory alone, and its own folder clean", () =>
    Effect.gen(function*() {
      const one = yield* temporaryFolder
      const other = yield* temporaryFolder
      yield* workspaceFor(id)
      const line = `27182.${Math.floor(Math.random() * 1e9)}1`
      const theirs = yield* Layer.build(hostIn(other))
      const box = yield* SandboxHost.use((host) => host.provision({ sandboxId: id, fence: 1 })).pipe(
        Effect.provide(theirs)
      )
      yield* box.spawn({ command: "sleep", args: [line], env: {} })
      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        yield* host.provision({ sandboxId: id, fence: 1 })
        yield* host.stop(id)
        assert.deepStrictEqual(yield* host.list, [])
      }).pipe(Effect.provide(hostIn(one)))
      assert.deepStrictEqual(readdirSync(one), [])
      assert.strictEqual(yield* running(line), 1)
    }))

  it.live("lists a sandbox of which only a process is left", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      yield* workspaceFor(id)
      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        const box = yield* host.provision({ sandboxId: id, fence: 1 })
        const process = yield* box.spawn({
          command: "sh",
          args: ["-c", `rm -rf "$(dirname "$HOME")" && exec cat`],
          env: {}
        })
        yield* eventually(
          Effect.sync(() => existsSync(box.home)),
          (there) => !there
        )
        assert.deepStrictEqual(yield* host.list, [id])
        yield* host.stop(id)
        yield* process.exited
        assert.deepStrictEqual(yield* host.list, [])
      }).pipe(Effect.provide(hostIn(directory)))
    }))

  it.live("finds node on the path", () =>
    Effect.gen(function*() {
      yield* workspaceFor(id)
      const host = yield* SandboxHost
      const box = yield* host.provision({ sandboxId: id, fence: 1 })
      const scope = yield* Scope.make()
      const process = yield* Scope.provide(box.spawn({ command: "node", args: ["-e", "0"], env: {} }), scope)
      assert.deepStrictEqual(yield* process.exited, { code: 0, signal: null })
      yield* Scope.close(scope, Exit.void)
      yield* host.stop(id)
    }).pipe(Effect.provide(layer)))

  it.live("makes a missing workspace, and refuses a workspace that is no folder", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const provision = (workspace: string) =>
        SandboxHost.use((host) => host.provision({ sandboxId: id, fence: 1 })).pipe(
          Effect.provide(SandboxHostNone.layer({ directory: `${folder}/boxes`, workspaceOf: () => workspace }))
        )
      yield* provision(`${folder}/later`)
      assert.isTrue(statSync(`${folder}/later`).isDirectory())
      writeFileSync(`${folder}/file`, "")
      const error = yield* Effect.flip(provision(`${folder}/file`))
      assert.strictEqual(error.operation, "provision")
    }))
})
