/** A taken-over runner's answers about files: only names, sizes and bytes, and no rule is left out. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Stream } from "effect"
import type { RunnerConnection } from "../../src/client/RunnerClient.ts"
import { FileRefused, type FileRefusalReason, RunnerViolation } from "../../src/client/RunnerErrors.ts"
import * as MachineShell from "../../src/trees/MachineShell.ts"
import * as RemoteTree from "../../src/trees/RemoteTree.ts"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")

const treeOf = (says: Partial<RunnerConnection>) => {
  const unasked = Effect.die(new Error("unused"))
  const connection: RunnerConnection = {
    spawn: () => unasked,
    readFile: () => unasked,
    list: () => unasked,
    readHome: () => Stream.die(new Error("unused")),
    writeHome: () => unasked,
    connect: () => unasked,
    ended: Effect.never,
    ...says
  }
  const machine = MachineShell.make({
    connection: () => Effect.succeed(connection),
    making: () => Effect.succeed(connection),
    has: () => Effect.succeed(true)
  })
  return RemoteTree.make(machine, sandboxId, "app", "/repositories/acme+app")
}

const tagOf = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.match(Effect.scoped(self), { onSuccess: () => "nothing", onFailure: ({ _tag }) => _tag })

describe("files of a machine", () => {
  it.effect("are listed once each, in order, and never the agent's repository", () =>
    Effect.gen(function*() {
      const entry = (name: string, kind: "file" | "directory" | "link" | "other" = "file") => ({
        name: Buffer.from(name),
        kind,
        size: 1,
        mtimeMs: 2
      })
      const { listFolder } = treeOf({
        list: () =>
          Effect.succeed({
            entries: [entry("b"), entry(".GIT", "directory"), entry("a"), entry("b", "directory"), entry("z", "directory"),
              entry("l", "link"), entry("o", "other")],
            isCut: true
          })
      })
      const { entries, isCut } = yield* listFolder("", 10)
      assert.deepStrictEqual(entries.map(({ kind, latin1 }) => [latin1, kind]), [["z", "directory"], ["a", "file"], ["b", "file"], ["l",
        "symlink"], ["o", null]])
      assert.isTrue(isCut)
    }))

  it.effect("are as long as they were said to be, or cannot be read", () =>
    Effect.gen(function*() {
      const lengthOf = Effect.fnUntraced(function*(size: number, ...chunks: ReadonlyArray<number>) {
        const { openFile } = treeOf({
          readFile: () => Effect.succeed({ size, bytes: Stream.fromIterable(chunks.map((length) => new Uint8Array(length))) })
        })
        const { bytes } = yield* openFile("a", 100)
        return Buffer.concat(yield* Stream.runCollect(bytes)).length
      }, Effect.scoped)
      assert.strictEqual(yield* lengthOf(7, 3, 4), 7)
      assert.strictEqual(yield* lengthOf(0), 0)
      for (const said of [lengthOf(7), lengthOf(7, 3, 3), lengthOf(7, 3, 5)]) assert.strictEqual(yield* tagOf(said), "FileNotFound")
    }))

  const refusals: ReadonlyArray<readonly [typeof FileRefusalReason.Type, file: string, folder: string]> = [
    ["not_found", "FileNotFound", "FileNotFound"],
    ["protected", "FileProtected", "FileProtected"],
    ["is_directory", "IsDirectory", "FileProtected"],
    ["not_a_directory", "FileNotFound", "NotADirectory"],
    ["too_large", "FileTooLarge", "FileProtected"],
    ["unreadable", "TreesUnavailable", "TreesUnavailable"]
  ]
  it.effect("are refused in the words of trees", () =>
    Effect.gen(function*() {
      for (const [reason, file, folder] of refusals) {
        const refused = new FileRefused({ reason })
        const { listFolder, openFile } = treeOf({ readFile: () => Effect.fail(refused), list: () => Effect.fail(refused) })
        assert.deepStrictEqual([yield* tagOf(openFile("a", 1)), yield* tagOf(listFolder("a", 1))], [file, folder])
      }
      const broken = treeOf({ list: () => Effect.fail(new RunnerViolation({ detail: "" })) })
      assert.strictEqual(yield* tagOf(broken.listFolder("a", 1)), "TreesUnavailable")
      assert.strictEqual(yield* tagOf(broken.openFile("", 1)), "IsDirectory")
    }))
})
