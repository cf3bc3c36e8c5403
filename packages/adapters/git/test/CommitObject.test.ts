import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import * as CommitObject from "../src/publish/CommitObject.ts"
import { gitIn, source, temporaryFolder } from "../testing/Repositories.ts"

it.live("a commit equals the one made by git, whatever its author is called and its message says", () =>
  Effect.gen(function*() {
    const origin = yield* source({ "README.md": "# app\n" })
    const gitDir = join(yield* temporaryFolder, "git")
    execFileSync("git", ["clone", "--quiet", "--bare", origin.path, gitDir])
    mkdirSync(join(gitDir, "scratch"))
    const [parent, tree] = ["main", "main^{tree}"].map((name) => gitIn(origin.path, "rev-parse", name))
    assert(parent !== undefined && tree !== undefined)
    const at = 1_700_000_000
    for (const name of ["Slipway", " \"Zoë\" O'Neil, Jr. ", "a <b> c", "…", "x;y"]) {
      for (const message of ["", "Title", "Title\n\nBody\n\n", "ünïcode \u{1F680}", "# no comment\n \t"]) {
        const author = { name, email: "slipway@example.com" }
        const env = {
          PATH: process.env["PATH"],
          HOME: "/nonexistent",
          GIT_AUTHOR_NAME: name,
          GIT_AUTHOR_EMAIL: author.email,
          GIT_AUTHOR_DATE: `@${at} +0000`,
          GIT_COMMITTER_NAME: name,
          GIT_COMMITTER_EMAIL: author.email,
          GIT_COMMITTER_DATE: `@${at} +0000`
        }
        const theirs = execFileSync("git", ["--git-dir", origin.path, "commit-tree", tree, "-p", parent, "-F", "-"], {
          input: message,
          env,
          encoding: "utf8",
          stdio: ["pipe", "pipe", "ignore"]
        })
        const ours = yield* Effect.promise(() => CommitObject.write(gitDir, { tree, parent, author, at, message }))
        assert.strictEqual(ours, theirs.trim(), JSON.stringify({ name, message }))
        assert.strictEqual(gitIn(gitDir, "--git-dir", gitDir, "cat-file", "-t", ours), "commit")
      }
    }
  }).pipe(Effect.scoped))
