/** Repositories of this machine are the operator's: what they refuse is refused, and the error has their words. */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { agent, gitIn, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }
const author = { name: "Slipway", email: "slipway@example.com" }
const HEAD = "slipway/x"

const hook = (bare: string, name: string, script: string) =>
  writeFileSync(join(bare, "hooks", name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })

/** Refuses commits without a sign-off. */
const SIGN_OFF = `while read -r old new ref; do
  git log -1 --format=%B "$new" | grep -q Signed-off-by || { echo "POLICY: $ref has no Signed-off-by" >&2; exit 1; }
done`

/** Pushes a tree with `files` to a repository that `arrange` has changed before. */
const pushing = Effect.fnUntraced(function*(arrange: (bare: string) => void, content = "1\n") {
  const origin = yield* source({ v: "0\n" })
  arrange(origin.path)
  const directory = yield* temporaryFolder
  const pushed = yield* Effect.gen(function*() {
    const trees = yield* WorkingTrees
    yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] })
    yield* agent.write(`${workspacesIn(directory)(key.sandboxId)}/app/v`, content)
    const { sha } = yield* trees.snapshot(key, { message: "No sign-off", author })
    return yield* Effect.result(trees.push(key, { sha, headRef: HEAD, remote: origin.remote }))
  }).pipe(Effect.provide(Trees.layer({ directory })))
  return { origin, tip: yield* origin.tip(HEAD), pushed }
})

describe("a push to a repository of this machine", () => {
  it.live("is refused by its pre-receive hook, in the hook's words", () =>
    Effect.gen(function*() {
      const { pushed, tip } = yield* pushing((bare) => hook(bare, "pre-receive", SIGN_OFF))
      assert(pushed._tag === "Failure")
      assert.deepInclude(pushed.failure, { _tag: "PushFailed", retryable: false })
      assert.include(pushed.failure.message, "POLICY: refs/heads/slipway/x has no Signed-off-by (pre-receive hook declined)")
      assert.isNull(tip)
    }))

  it.live("is refused by its limits", () =>
    Effect.gen(function*() {
      const { pushed, tip } = yield* pushing(
        (bare) => gitIn(bare, "config", "receive.maxInputSize", "1000"),
        Array.from({ length: 5_000 }, (_, i) => `${(i * 2_654_435_761) % 1_000_003}\n`).join("")
      )
      assert(pushed._tag === "Failure")
      assert.include(pushed.failure.message, "exceeds maximum allowed size")
      assert.isNull(tip)
    }))

  it.live("shows of what its hooks say 200 characters, and none that is hidden", () =>
    Effect.gen(function*() {
      const { pushed } = yield* pushing((bare) =>
        hook(bare, "update", String.raw`printf 'red \033[31m, turned \342\200\256, %0300d\n' 0 >&2; exit 1`)
      )
      assert(pushed._tag === "Failure")
      assert.include(pushed.failure.message, "red ⟨ESC⟩[31m, turned ⟨RIGHT-TO-LEFT OVERRIDE⟩, 000")
      assert.isBelow(pushed.failure.message.length, 300)
    }))

  it.live("gives its hooks a short environment without secrets", () =>
    Effect.gen(function*() {
      const before = process.env["HTTPS_PROXY"]
      yield* Effect.acquireRelease(
        Effect.sync(() => Object.assign(process.env, { HTTPS_PROXY: "http://user:s3cret@proxy.invalid", SLIPWAY_SECRETS_KEY: "s3cret" })),
        () =>
          Effect.sync(() => {
            delete process.env["SLIPWAY_SECRETS_KEY"]
            if (before === undefined) delete process.env["HTTPS_PROXY"]
            else process.env["HTTPS_PROXY"] = before
          })
      )
      const { origin, pushed } = yield* pushing((bare) => hook(bare, "post-receive", `env > ${dirname(bare)}/env`))
      assert.strictEqual(pushed._tag, "Success")
      const told = readFileSync(join(dirname(origin.path), "env"), "utf8")
      assert.notInclude(told, "s3cret")
      assert.isBelow(told.split("\n").length, 30)
    }))

  it.live("is done when it arrived, whatever its post-receive hook says", () =>
    Effect.gen(function*() {
      const { origin, pushed, tip } = yield* pushing((bare) => hook(bare, "post-receive", "exit 3"))
      assert.strictEqual(pushed._tag, "Success")
      assert.strictEqual(tip, yield* origin.tip(HEAD))
      assert.isNotNull(tip)
    }))

  it.live("runs no hook when it is only read", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0\n" })
      const marks = yield* temporaryFolder
      for (const name of ["pre-receive", "update", "post-checkout", "reference-transaction", "post-index-change"]) {
        hook(origin.path, name, `touch ${marks}/${name}`)
      }
      const directory = yield* temporaryFolder
      yield* WorkingTrees.use((trees) => trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [app] }))
        .pipe(Effect.provide(Trees.layer({ directory })))
      assert.deepStrictEqual(execFileSync("ls", [marks], { encoding: "utf8" }), "")
    }))

  // Only root can give a repository to somebody else.
  it.live.skipIf(process.getuid?.() !== 0)(
    "runs hooks as the owner of the repository where the service is root",
    () =>
      Effect.gen(function*() {
        const { origin, pushed } = yield* pushing((bare) => {
          const folder = dirname(bare)
          hook(bare, "post-receive", `id -u > ${bare}/ran-as`)
          execFileSync("chown", ["-R", "12345:12345", bare])
          chmodSync(folder, 0o755)
        })
        assert.strictEqual(pushed._tag, "Success")
        assert.isTrue(existsSync(join(origin.path, "ran-as")))
        assert.strictEqual(readFileSync(join(origin.path, "ran-as"), "utf8").trim(), "12345")
      })
  )
})
