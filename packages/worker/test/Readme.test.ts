/** The programs of the README, as an embedder runs them: in a process of their own, in a folder with a repository. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Effect, Layer } from "effect"
import { execFile, execFileSync } from "node:child_process"
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "../../..")
const readme = await readFile(path.resolve(import.meta.dirname, "../README.md"), "utf8")
const [onPostgres = "", inEffect = "", inMemory = ""] = Array.from(
  readme.matchAll(/^```ts[^\n]*\n([\s\S]*?)^```$/gmu),
  ([, program]) => program
)

const hasBubblewrap = (() => {
  try {
    execFileSync("bwrap", ["--ro-bind", "/", "/", "--unshare-all", "true"])
    return true
  } catch {
    return false
  }
})()

const repository = Effect.acquireRelease(
  Effect.promise(async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "slipway-readme-"))
    await symlink(path.join(root, "node_modules"), path.join(folder, "node_modules"))
    await writeFile(path.join(folder, "README.md"), "# Shop\n")
    const author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for (const args of [["init", "--quiet"], ["add", "README.md"], [...author, "commit", "--quiet", "--message", "Begin"]]) {
      execFileSync("git", args, { cwd: folder })
    }
    return folder
  }),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
)

/** The standard output of a program that ends by itself. */
const run = Effect.fnUntraced(function*(program: string, env: Readonly<Record<string, string>> = {}) {
  const cwd = yield* repository
  return yield* Effect.callback<string, Error>((resume) => {
    const child = execFile(
      process.execPath,
      ["--input-type=module-typescript", "--eval", program],
      { cwd, env: { ...process.env, ...env } },
      (error, stdout, stderr) =>
        resume(error === null ? Effect.succeed(stdout) : Effect.fail(new Error(`${error.message}\n${stdout}${stderr}`)))
    )
    return Effect.sync(() => child.kill("SIGKILL"))
  })
})

/** Formatted at 120 columns, imports counted. */
const assertShort = (program: string, lines: number) => {
  const own = program.trimEnd().split("\n")
  assert.isAtMost(own.length, lines)
  assert.deepStrictEqual(own.filter((line) => line.length > 120), [])
}

for (const [form, program] of [["as promises", onPostgres], ["in Effect", inEffect]] as const) {
  it.live.skipIf(!hasBubblewrap)(`a turn on Postgres takes at most 25 lines ${form} (needs bubblewrap)`, () =>
    Effect.gen(function*() {
      assertShort(program, 25)
      const url = yield* TestPostgres.database(Layer.empty)
      const output = yield* run(program, { DATABASE_URL: url })
      // The other lines are the service's log.
      const events = output.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line))
      const texts = events.filter(({ type }) => type === "message.updated").map(({ data }) => data.text)
      assert.deepStrictEqual(texts, ["You asked: Where is the tax computed?"])
      assert.deepInclude(events.at(-1), { type: "turn.completed", data: { state: "succeeded" } })
    }), 240_000)
}

it.live("a turn in memory takes at most 15 lines, and the process ends", () =>
  Effect.gen(function*() {
    assertShort(inMemory, 15)
    assert.strictEqual(yield* run(inMemory), "")
  }), 120_000)
