import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { painted } from "../../../src/commands/admin/Pulls.ts"
import { folder, run, serve, until } from "../SlipwayProcess.ts"

const LONG = 300_000

const gitIn = (at: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], {
    cwd: at,
    encoding: "utf8",
    env: { PATH: process.env["PATH"], GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
    stdio: ["ignore", "pipe", "pipe"]
  }).trim()

/** A bare repository and a clone of it, with one commit. */
const repository = (inside: string) => {
  const [bare, clone] = [path.join(inside, "shop.git"), path.join(inside, "clone")]
  mkdirSync(clone)
  gitIn(clone, "init", "--quiet", "--initial-branch=main")
  writeFileSync(path.join(clone, "README.md"), "shop\n")
  gitIn(clone, "add", "--all")
  gitIn(clone, "commit", "--quiet", "--message", "Start")
  gitIn(inside, "clone", "--quiet", "--bare", clone, bare)
  return { bare, clone }
}

describe("slipway pulls", () => {
  it.live("lists, shows, compares, closes and merges what sandboxes published, while the service runs", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { bare, clone } = repository(data)
      const server = yield* serve(data)
      yield* run(data, ["repos", "add", "acme/shop", bare])
      const call = (method: string, address: string, body?: unknown) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/public/v1${address}`, {
            method,
            headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
          return await response.json()
        })
      const slipway = (...args: ReadonlyArray<string>) => run(data, ["pulls", ...args])
      const json = (...args: ReadonlyArray<string>) =>
        Effect.map(slipway(...args, "--json"), ({ code, stderr, stdout }) => {
          assert.deepStrictEqual([code, stderr], [0, ""])
          return JSON.parse(stdout)
        })
      const published = Effect.fnUntraced(function*(title: string, file: string) {
        const { id } = yield* call("POST", "/sandboxes", {
          repos: [{ fullName: "acme/shop" }],
          title,
          prompt: `[[write path=${file} content=Hello]]`
        })
        yield* until(call("GET", `/sandboxes/${id}/events`), ({ data }) =>
          data.some(({ type }: { type: string }) => type === "turn.completed"))
        const { pullRequest } = yield* until(call("POST", `/sandboxes/${id}/pull-request`, {}), ({ pullRequest }) =>
          pullRequest?.draft === true)
        return { id, number: String(pullRequest.number), branch: `slipway/${id}` }
      })

      const greet = yield* published("Say hello", "HELLO.md")
      const other = yield* published("Say it again", "AGAIN.md")

      const [listed, table, shown] = yield* Effect.all([json(), slipway("list", "--repo", "Acme/Shop"),
        slipway("show", "acme/shop", greet.number)])
      assert.deepStrictEqual(
        listed.map((row: { number: number }) =>
          String(row.number)
        ),
        [other.number, greet.number]
      )
      assert.deepInclude(listed[1], {
        repository: "acme/shop",
        title: "Say hello",
        state: "open",
        draft: true,
        merged: false,
        headRef: greet.branch,
        baseRef: "main",
        additions: 1,
        deletions: 0,
        changedFiles: 1,
        sandboxId: greet.id
      })
      const [head, newest, oldest, ...more] = table.stdout.split("\n")
      assert.match(String(head), /^REPOSITORY +NUMBER +STATE +BRANCH +CHANGES +UPDATED +TITLE$/u)
      assert.match(String(newest), /^acme\/shop +2 +draft +slipway\/c_\w+ +\+1 -0 +\S+ +Say it again$/u)
      assert.match(String(oldest), /^acme\/shop +1 +draft .*Say hello$/u)
      assert.deepStrictEqual(more, [""])
      assert.include(shown.stdout, `acme/shop #${greet.number}: Say hello\n`)
      for (
        const line of [`git fetch ${bare} ${greet.branch}`, `git pull --no-rebase --no-ff ${bare} ${greet.branch}`,
          `slipway pulls merge acme/shop ${greet.number}`]
      ) {
        assert.include(shown.stdout, `\n  ${line}\n`)
      }

      // Hostile text of a branch reaches programs as it is, and a terminal in visible form.
      gitIn(clone, "fetch", "--quiet", bare, greet.branch)
      gitIn(clone, "switch", "--quiet", "--create", "hostile", "FETCH_HEAD")
      writeFileSync(path.join(clone, "title\u001b]0;pwned\u0007"), "\u001b[2Jgone\n")
      gitIn(clone, "add", "--all")
      gitIn(clone, "commit", "--quiet", "--message", "hostile")
      gitIn(clone, "push", "--quiet", bare, `hostile:${greet.branch}`)
      const patch = yield* slipway("diff", "acme/shop", greet.number)
      assert.include(patch.stdout, "\n+\u001b[2Jgone\n")
      assert.strictEqual(patch.stdout, `${gitIn(clone, "-c", "core.quotePath=false", "diff", "--binary", "main...hostile")}\n`)
      const seen = yield* run(data, ["pulls", "diff", "acme/shop", greet.number], { FORCE_COLOR: "1" })
      assert.include(seen.stdout, "\n\u001b[32m+⟨ESC⟩[2Jgone\u001b[39m\n")
      assert.notInclude(seen.stdout, "\u001b[2J")
      assert.notInclude(seen.stdout, "\u0007")
      assert.match((yield* slipway("diff", "acme/shop", greet.number, "--stat")).stdout, / 2 files changed, 2 insertions\(\+\)/u)

      assert.deepInclude(yield* slipway("merge", "acme/shop", greet.number), {
        code: 0,
        stdout: `Merged acme/shop #${greet.number} into main. Its branch ${greet.branch} is kept.\n`
      })
      assert.strictEqual(gitIn(bare, "show", "main:HELLO.md"), "Hello")
      assert.strictEqual(gitIn(bare, "log", "-1", "--format=%an", "main"), "Slipway")
      const events = yield* call("GET", `/sandboxes/${greet.id}/events?limit=100`)
      assert.include(JSON.stringify(events), "\"merged\":true")

      assert.deepInclude(yield* json("close", "acme/shop", other.number, "--delete-branch"), {
        state: "closed",
        merged: false,
        changed: true,
        branchDeleted: true
      })
      assert.strictEqual((yield* call("GET", `/sandboxes/${other.id}/pull-request`)).pullRequest.state, "closed")
      assert.deepStrictEqual(
        (yield* json("list", "--state", "closed")).map((row: { merged: boolean }) =>
          row.merged
        ),
        [false, true]
      )
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    }).pipe(Effect.scoped), LONG)

  it.live("what cannot be done is one line that says what to do, and exit 1", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { bare } = repository(data)
      const refused = (args: ReadonlyArray<string>, settings: Record<string, string> = {}) =>
        Effect.map(run(data, ["pulls", ...args], settings), ({ code, stderr, stdout }) => {
          assert.deepStrictEqual([code, stdout], [1, ""], args.join(" "))
          return stderr
        })
      assert.strictEqual(
        yield* refused(["show", "acme/shop", "1"]),
        "slipway: acme/shop #1: there is no such repository. Those there are: slipway repos list\n"
      )
      assert.strictEqual(
        yield* refused(["--repo", "acme/shop"]),
        "slipway: acme/shop: there is no such repository. Those there are: slipway repos list\n"
      )
      yield* run(data, ["repos", "add", "acme/shop", bare])
      assert.match(yield* refused(["merge", "acme/shop", "1"]), /^slipway: acme\/shop #1: there is no such pull request\. [^\n]+\n$/u)

      const github = { SLIPWAY_GITHUB_APP_ID: "1", SLIPWAY_GITHUB_PRIVATE_KEY_FILE: "key.pem" }
      const enterprise = { ...github, SLIPWAY_GITHUB_API_URL: "https://git.example/api/v3" }
      assert.strictEqual(yield* refused([], github), "slipway: pull requests are on GitHub: https://github.com/pulls\n")
      assert.strictEqual(
        yield* refused(["--repo", "acme/shop"], enterprise),
        "slipway: pull requests are on GitHub: https://git.example/acme/shop/pulls\n"
      )
      assert.strictEqual(
        yield* refused(["close", "acme/shop", "3"], github),
        "slipway: pull requests are on GitHub: https://github.com/acme/shop/pull/3\n"
      )
    }).pipe(Effect.scoped), LONG)

  it("a line of a file is not taken for a heading, whatever it says", () => {
    const diff = [
      "diff --git a/x b/x",
      "--- a/x",
      "+++ b/x",
      "@@ -1,3 +1,3 @@ diff --git",
      " same",
      "--- a/y",
      "+++ b/y",
      "+@@ -1 +1 @@",
      "\\ No newline at end of file",
      "diff --git a/z b/z",
      "deleted file mode 100644",
      ""
    ]
    const marks = painted(diff.join("\n"), (style, text) => `${style}(${text})`).split("\n")
    assert.deepStrictEqual(marks, [
      "bold(diff --git a/x b/x)",
      "bold(--- a/x)",
      "bold(+++ b/x)",
      "cyan(@@ -1,3 +1,3 @@) diff --git",
      " same",
      "red(--- a/y)",
      "green(+++ b/y)",
      "green(+@@ -1 +1 @@)",
      "\\ No newline at end of file",
      "bold(diff --git a/z b/z)",
      "bold(deleted file mode 100644)",
      ""
    ])
  })
})
