/** Real repositories and files for the contract suites of trees and source hosts. */
import type { DiskFixture, SourceRepository } from "@slipway/testing/contracts/files/TreeFixtures"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { appendFile, chmod, link, mkdir, mkdtemp, rename, rm, symlink, truncate, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

export const temporaryFolder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "slipway-git-test-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
)

const ENVIRONMENT = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  // Agents in boxes have other user ids than the tests.
  GIT_CONFIG_COUNT: "1",
  GIT_CONFIG_KEY_0: "safe.directory",
  GIT_CONFIG_VALUE_0: "*",
  GIT_AUTHOR_NAME: "Someone",
  GIT_AUTHOR_EMAIL: "someone@example.com",
  GIT_COMMITTER_NAME: "Someone",
  GIT_COMMITTER_EMAIL: "someone@example.com"
}

/** Git as anybody runs it, in a folder. */
export const gitIn = (folder: string, ...args: ReadonlyArray<string>): string =>
  execFileSync("git", ["-C", folder, ...args], { env: ENVIRONMENT, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()

/** The result of `f`, or nothing when it fails. */
export const tolerate = <A>(f: () => A): A | undefined => {
  try {
    return f()
  } catch {
    return undefined
  }
}

export const agent: DiskFixture<never>["agent"] = {
  write: (path, content) =>
    Effect.promise(async () => {
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, content)
    }),
  append: (path, content) => Effect.promise(() => appendFile(path, content)),
  truncate: (path) => Effect.promise(() => truncate(path, 0)),
  makeExecutable: (path) => Effect.promise(() => chmod(path, 0o755)),
  remove: (path) => Effect.promise(() => rm(path, { recursive: true })),
  rename: (from, to) => Effect.promise(() => rename(from, to)),
  symlink: (path, target) => Effect.promise(() => symlink(target, path)),
  hardLink: (path, of) => Effect.promise(() => link(of, path)),
  fifo: (path) => Effect.sync(() => void execFileSync("mkfifo", [path])),
  initRepository: (path) =>
    Effect.promise(async () => {
      await mkdir(path, { recursive: true })
      gitIn(path, "init", "--quiet")
      gitIn(path, "add", "--all")
      if (gitIn(path, "status", "--porcelain") !== "") gitIn(path, "commit", "--quiet", "--message", "nested")
    })
}

/** An ordinary repository with a checkout of its own; all is done in another clone, so that nothing is pushed to a checked-out branch. */
export const source = Effect.fnUntraced(function*(files?: Parameters<DiskFixture<never>["source"]>[0]) {
  const folder = yield* temporaryFolder
  const origin = join(folder, "origin.git")
  const work = join(folder, "work")
  gitIn(folder, "init", "--quiet", "--bare", "--initial-branch=main", origin)
  gitIn(folder, "clone", "--quiet", origin, work)

  const commit: SourceRepository["commit"] = (branch, changes) =>
    Effect.gen(function*() {
      gitIn(work, "fetch", "--quiet", "--prune", "origin")
      const exists = gitIn(work, "branch", "--remotes", "--list", `origin/${branch}`) !== ""
      if (exists) gitIn(work, "switch", "--quiet", "--force-create", branch, `origin/${branch}`)
      else if (gitIn(work, "rev-list", "--all", "--max-count=1") === "") gitIn(work, "symbolic-ref", "HEAD", `refs/heads/${branch}`)
      else gitIn(work, "switch", "--quiet", "--force-create", branch, "origin/main")
      for (const [path, content] of Object.entries(changes)) {
        yield* content === null ? agent.remove(join(work, path)) : agent.write(join(work, path), content)
      }
      gitIn(work, "add", "--all", "--force")
      gitIn(work, "commit", "--quiet", "--message", "change", "--allow-empty")
      gitIn(work, "push", "--quiet", "origin", `HEAD:refs/heads/${branch}`)
      return gitIn(work, "rev-parse", "HEAD")
    })
  if (files !== undefined) yield* commit("main", files)

  const repository: SourceRepository & { readonly path: string } = {
    path: origin,
    remote: { url: origin, authorization: null },
    commit,
    tag: (name, sha) => Effect.sync(() => void gitIn(origin, "tag", "--force", "--annotate", "--message", name, name, sha)),
    deleteBranch: (branch) => Effect.sync(() => void gitIn(origin, "update-ref", "-d", `refs/heads/${branch}`)),
    setBranch: (branch, sha) => Effect.sync(() => void gitIn(origin, "update-ref", `refs/heads/${branch}`, sha)),
    history: (ref) => Effect.sync(() => gitIn(origin, "rev-list", "--first-parent", ref).split("\n")),
    tip: (branch) => Effect.sync(() => gitIn(origin, "for-each-ref", "--format=%(objectname)", `refs/heads/${branch}`) || null),
    files: (ref) =>
      Effect.sync(() =>
        Object.fromEntries(
          gitIn(origin, "ls-tree", "-r", "-z", ref).split("\0").filter((entry) => entry !== "").map((entry) => {
            const tab = entry.indexOf("\t")
            const [mode, , id = ""] = entry.slice(0, tab).split(" ")
            const content = execFileSync("git", ["-C", origin, "cat-file", "blob", id], { env: ENVIRONMENT, encoding: "utf8" })
            return [entry.slice(tab + 1), mode === "120000" ? `-> ${content}` : mode === "100755" ? `*${content}` : content]
          })
        )
      )
  }
  return repository
})
