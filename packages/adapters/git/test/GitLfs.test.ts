/** The program `git-lfs` and Slipway on the same repository. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Effect, Redacted } from "effect"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pointerOf } from "../testing/LfsServer.ts"
import { hosted } from "../testing/LfsSuite.ts"
import { temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const isHere = spawnSync("git-lfs", ["version"]).status === 0
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }

describe.skipIf(!isHere)("the program git-lfs (needs git-lfs: apt-get install git-lfs)", () => {
  it.live("Slipway fetches what git-lfs pushed, and git-lfs fetches what Slipway published", () =>
    Effect.gen(function*() {
      const { origin, server } = yield* hosted({ v: "0" }, [])
      const home = yield* temporaryFolder
      const { authorization, url } = server.remote
      const value = authorization === null ? "" : Redacted.value(authorization)
      const config = ["[user]", "name = Someone", "email = someone@example.com", "[http]", `extraHeader = Authorization: ${value}`]
      writeFileSync(join(home, ".gitconfig"), config.join("\n"))
      const git = (folder: string, ...args: ReadonlyArray<string>) =>
        execFileSync("git", ["-C", folder, ...args], {
          env: { PATH: process.env["PATH"], HOME: home, GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" },
          encoding: "utf8",
          stdio: ["ignore", "pipe", "pipe"]
        }).trim()
      /** Runs beside the server, which is in this process. */
      const beside = (folder: string, ...args: ReadonlyArray<string>) =>
        Effect.promise(() =>
          new Promise<void>((done, failed) => {
            const child = spawn("git", ["-C", folder, ...args], {
              env: { PATH: process.env["PATH"], HOME: home, GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" },
              stdio: ["ignore", "ignore", "pipe"]
            })
            let said = ""
            child.stderr.on("data", (chunk: Buffer) => void (said += chunk.toString()))
            child.once("close", (code) => code === 0 ? done() : failed(new Error(said)))
          })
        )
      git(home, "lfs", "install")
      const work = join(home, "work")
      yield* beside(home, "clone", "--quiet", url, work)
      writeFileSync(join(work, "a.bin"), "from git-lfs")
      git(work, "add", "--all")
      git(work, "commit", "--quiet", "--message", "large")
      yield* beside(work, "push", "--quiet", "origin", "HEAD:main")
      assert.strictEqual((yield* origin.files("main"))["a.bin"], pointerOf("from git-lfs"))

      const directory = yield* temporaryFolder
      const trees = yield* Trees.make({ directory })
      const { remote } = server
      const base = yield* trees.prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
      assert.isUndefined(base.lfsPointers)
      const at = (name: string) => join(workspacesIn(directory)(key.sandboxId), "app", name)
      assert.strictEqual(readFileSync(at("a.bin"), "utf8"), "from git-lfs")
      writeFileSync(at("b.bin"), "from an agent")
      const { sha } = yield* trees.snapshot(key, { message: "Title", author, since: { head: null, merges: [], remote } })
      yield* trees.push(key, { sha, headRef: "slipway/x", remote })

      const other = join(home, "other")
      yield* beside(home, "clone", "--quiet", "--branch", "slipway/x", url, other)
      assert.strictEqual(readFileSync(join(other, "b.bin"), "utf8"), "from an agent")
      assert.strictEqual(readFileSync(join(other, "a.bin"), "utf8"), "from git-lfs")
      git(other, "lfs", "fsck")
    }).pipe(Effect.scoped), 60_000)
})
