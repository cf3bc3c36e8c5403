/**
 * Rules of repositories as they are (docs/decisions/20), with real git on a real disk. Each kind of box runs them; `WorkingTreesContract`
 * has the rules that need no git.
 */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { app, author, freshId, options, treeOf } from "@slipway/testing/contracts/files/TreeFixtures"
import { assert } from "@slipway/testing/suite/Assert"
import { defineLive, type Writer } from "@slipway/testing/suite/Suite"
import { Effect, Layer, Stream } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import * as SigningKeys from "../src/publish/SigningKey.ts"
import type { SigningKey } from "../src/publish/SigningKey.ts"
import type { Options } from "../src/working-trees/WorkingTreesGit.ts"
import { agent, gitIn, source, temporaryFolder } from "./Repositories.ts"

/** Where the trees of a sandbox are, for the agent's hands. */
type Workspace<R> = Parameters<typeof treeOf<R>>[0]["workspace"]

const NO_TEXT = Buffer.from([0x6e, 0xff, 0x6f])
const below = (folder: string, name: Buffer): Buffer => Buffer.concat([Buffer.from(`${folder}/`), name])

/** The names of a commit, a character for each byte. */
const namesIn = (folder: string, commit: string): ReadonlyArray<string> =>
  execFileSync("git", ["-C", folder, "ls-tree", "-r", "-z", "--name-only", commit]).toString("latin1").split("\0").slice(0, -1)

const names = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("a name that is not UTF-8 is left out of lists, which say so, and is published, changed and deleted like any other", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const tree = yield* treeOf({ agent, source, workspace }, origin)
      const { changes, key, publish, trees } = tree
      const at = below(tree.at("."), NO_TEXT)
      const warnings = Effect.gen(function*() {
        return [(yield* trees.list(key, "")).partialWarnings, (yield* changes()).partialWarnings]
      })
      assert.deepStrictEqual(yield* warnings, [[], []])
      writeFileSync(at, "one")
      assert.deepStrictEqual(yield* warnings, [["invalid_names"], ["invalid_names"]])
      assert.deepStrictEqual((yield* trees.list(key, "")).entries.map(({ name }) => name), ["v"])
      const first = yield* publish()
      assert.deepStrictEqual(namesIn(origin.path, first), [NO_TEXT.toString("latin1"), "v"])
      writeFileSync(at, "two")
      const patch = yield* trees.diff(key, { from: "base", to: "working", maximumBytes: 10_000 })
      assert.include(Buffer.from(patch).toString("latin1"), "\"b/n\\377o\"")
      const second = yield* publish("slipway/x", { pushed: first })
      assert.strictEqual(gitIn(origin.path, "diff", "--name-status", first, second), "M\t\"n\\377o\"")
      rmSync(at)
      const third = yield* publish("slipway/x", { pushed: second })
      assert.deepStrictEqual(namesIn(origin.path, third), ["v"])
      assert.deepStrictEqual(yield* warnings, [[], []])
    }))

  it.effect("a deleted name that is not UTF-8 is left out of the list of its folder alone", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const blob = gitIn(origin.path, "rev-parse", "main:v")
      const entries = Buffer.concat([Buffer.from(`100644 blob ${blob}\t`), NO_TEXT, Buffer.from("\0")])
      const mktree = (input: Buffer | string) => execFileSync("git", ["-C", origin.path, "mktree", "-z"], { input }).toString().trim()
      const top = mktree(`040000 tree ${mktree(entries)}\tsub\0` + `100644 blob ${blob}\tv\0`)
      yield* origin.setBranch("main", gitIn(origin.path, "commit-tree", "-p", "main", "-m", "odd", top))
      const { at, changes, key, list, publish, trees } = yield* treeOf({ agent, source, workspace }, origin)
      assert.strictEqual(readFileSync(below(at("sub"), NO_TEXT), "utf8"), "0")
      const warned = (folder: string) => Effect.map(trees.list(key, folder), ({ partialWarnings }) => partialWarnings)
      assert.deepStrictEqual([yield* warned(""), yield* warned("sub")], [[], ["invalid_names"]])
      assert.deepStrictEqual(yield* list("sub"), [])
      rmSync(below(at("sub"), NO_TEXT))
      writeFileSync(at("sub/kept"), "")
      assert.deepStrictEqual([yield* warned(""), yield* warned("sub")], [[], ["invalid_names"]])
      assert.deepStrictEqual((yield* changes()).partialWarnings, ["invalid_names"])
      assert.deepStrictEqual(namesIn(origin.path, yield* publish()), ["sub/kept", "v"])
    }))
}

const starts = <R>(it: Writer<WorkingTrees | R>) => {
  it.effect("a repository without commits, and one whose HEAD names a missing branch, say what to push", () =>
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const refused = (origin: Parameters<typeof options>[0], defaultBranch: string) =>
        Effect.map(
          Effect.flip(trees.prepare({ sandboxId: freshId(), repo: app }, { ...options(origin), defaultBranch })),
          (error) => [error._tag, error._tag === "CloneFailed" ? error.detail : "", error._tag === "CloneFailed" && error.retryable]
        )
      const empty = yield* source()
      assert.deepStrictEqual(yield* refused(empty, "main"), [
        "CloneFailed",
        "The repository has no commits. Push a first commit and try again.",
        false
      ])
      const other = yield* source({ v: "0" })
      gitIn(other.path, "symbolic-ref", "HEAD", "refs/heads/gone")
      const [, detail] = yield* refused(other, "gone")
      assert.strictEqual(
        detail,
        "The repository has no default branch \"gone\", which its HEAD names. Push a first commit to it and try again."
      )
    }))
}

const filters = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("a required filter without its program stops no checkout, and filters of tree, agent's git and home run nowhere", () =>
    Effect.gen(function*() {
      const origin = yield* source({ ".gitattributes": "*.x filter=missing diff=missing merge=missing\n", "a.x": "a\n", v: "0" })
      const { at, key, list, publish, trees } = yield* treeOf({ agent, source, workspace }, origin)
      const marker = at("ran")
      const program = `sh -c 'touch ${marker}; cat'`
      for (const name of ["clean", "smudge"]) gitIn(at("."), "config", `filter.missing.${name}`, program)
      gitIn(at("."), "config", "filter.missing.required", "true")
      gitIn(at("."), "config", "diff.missing.textconv", `touch ${marker}; cat`)
      gitIn(at("."), "config", "diff.external", `touch ${marker}`)
      gitIn(at("."), "config", "core.fsmonitor", `touch ${marker}`)
      gitIn(at("."), "config", "credential.helper", `!touch ${marker}`)
      writeFileSync(at(".git/hooks-of-agent"), "")
      assert.strictEqual(readFileSync(at("a.x"), "utf8"), "a\n")
      assert.deepStrictEqual((yield* list()).map(({ name, status }) => [name, status]).filter(([, status]) => status !== null), [])
      yield* agent.write(at("a.x"), "b\n")
      yield* trees.diff(key, { from: "base", to: "working", maximumBytes: 10_000 })
      const sha = yield* publish()
      assert.strictEqual(gitIn(origin.path, "show", `${sha}:a.x`), "b")
      assert.deepStrictEqual(namesIn(origin.path, sha), [".gitattributes", "a.x", "v"])
    }))
}

const refusals = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("what the source host refuses is refused in its words, the branch stays, and the next publication goes through", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const { at, publish } = yield* treeOf({ agent, source, workspace }, origin)
      yield* agent.write(at("v"), "1")
      const first = yield* publish()
      const hook = `${origin.path}/hooks/pre-receive`
      writeFileSync(hook, `#!/bin/sh\nprintf 'POLICY: no \\033[31m %0300d\\n' 0 >&2\nexit 1\n`, { mode: 0o755 })
      yield* agent.write(at("v"), "2")
      const error = yield* Effect.flip(publish("slipway/x", { pushed: first }))
      if (error._tag !== "PushFailed") return assert.fail(error._tag)
      assert.isFalse(error.retryable)
      const words = error.detail.slice(error.detail.indexOf("POLICY"))
      assert.isTrue(words.startsWith("POLICY: no ⟨ESC⟩[31m 000"), words)
      assert.strictEqual(Array.from(words).length, 200)
      assert.strictEqual(yield* origin.tip("slipway/x"), first)
      rmSync(hook)
      assert.strictEqual(yield* publish("slipway/x", { pushed: first }), yield* origin.tip("slipway/x"))
    }))
}

/** The commits of the agent's own git, as a worker reads them. */
const historyOf = (tree: string) => (base: string) => {
  const head = gitIn(tree, "rev-parse", "HEAD")
  if (head === base) return Stream.empty
  const pack = execFileSync("git", ["-C", tree, "-c", "safe.directory=*", "pack-objects", "--revs", "--stdout", "--quiet"], {
    input: `${head}\n^${base}\n`
  })
  return Stream.make<ReadonlyArray<Uint8Array>>(Buffer.from(`${head}\n`), pack)
}

/** Whether git itself takes the commit's signature for one of the key. */
const verify = (folder: string, commit: string, key: SigningKey) => {
  const signers = `${folder}/allowed-signers`
  writeFileSync(signers, `slipway@example.com namespaces="git" ${key.publicKey}\n`)
  const { status, stderr } = spawnSync("git", ["-C", folder, "-c", "safe.directory=*", "-c", "gpg.format=ssh", "-c",
    `gpg.ssh.allowedSignersFile=${signers}`, "verify-commit", commit], { encoding: "utf8" })
  assert.strictEqual(status, 0, stderr)
  assert.include(
    stderr,
    `Good "git" signature for slipway@example.com with ${key.kind === "ssh-rsa" ? "RSA" : "ED25519"} key ${key.fingerprint}`
  )
}

const signatures = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>, made: Effect.Effect<SigningKey | null>) => {
  const keyHere = Effect.map(made, (key) => key ?? assert.fail("ssh-keygen made no key"))
  it.effect("signed, each publication is one commit of ours that git verifies, and names the subjects of the agent's commits", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const { at, base, key: tree, trees } = yield* treeOf({ agent, source, workspace }, origin)
      const key = yield* keyHere
      const commit = (content: string, subject: string) =>
        Effect.andThen(
          agent.write(at("v"), content),
          Effect.sync(() => void gitIn(at("."), "commit", "--quiet", "--all", "--message", subject))
        )
      const publish = Effect.fnUntraced(function*(head: string | null) {
        const since = { head, merges: [], remote: origin.remote }
        const { sha, subjects } = yield* trees.snapshot(tree, { message: "Title", author, since, history: historyOf(at(".")) })
        yield* trees.push(tree, { sha, headRef: "slipway/x", remote: origin.remote, expected: head })
        return { sha, subjects }
      })
      yield* commit("1", "Agent one")
      yield* commit("2", "Agent two")
      const first = yield* publish(null)
      assert.deepStrictEqual(first.subjects, ["Agent one", "Agent two"])
      verify(origin.path, first.sha, key)
      assert.strictEqual(gitIn(origin.path, "log", "--format=%B", `${base.baseSha}..${first.sha}`), "Title\n\n- Agent one\n- Agent two")
      gitIn(origin.path, "fsck", "--strict")
      assert.strictEqual((yield* publish(first.sha)).sha, first.sha)

      yield* commit("3", "Agent three")
      const second = yield* publish(first.sha)
      verify(origin.path, second.sha, key)
      assert.deepStrictEqual(gitIn(origin.path, "log", "--format=%s", `${base.baseSha}..${second.sha}`).split("\n"), ["Title", "Title"])
      assert.strictEqual(gitIn(origin.path, "log", "-1", "--format=%b", second.sha), "- Agent three")
      // A worker that did not record its push knows the commit as its own.
      const found = yield* trees.branches(tree, { remote: origin.remote, headRef: "slipway/x", pushed: null, branches: [], author })
      assert.deepInclude(found, { head: second.sha, root: base.baseSha })
    }))

  it.effect("signed, the same tree gives the same commit, also on a merged base", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0", w: "0" })
      const { at, key: tree, trees } = yield* treeOf({ agent, source, workspace }, origin)
      yield* agent.write(at("v"), "1")
      const onto = yield* origin.commit("main", { w: "1" })
      const since = { head: null, merges: [{ onto, ancestor: null }], remote: origin.remote }
      const snapshot = Effect.map(trees.snapshot(tree, { message: "Title", author, since }), ({ sha }) => sha)
      const sha = yield* snapshot
      assert.strictEqual(yield* snapshot, sha)
      yield* trees.push(tree, { sha, headRef: "slipway/x-2", remote: origin.remote, isMerged: true })
      verify(origin.path, sha, yield* keyHere)
      assert.deepStrictEqual(yield* origin.files(sha), { v: "1", w: "1" })
    }))
}

/** A key as `ssh-keygen` makes it; `null`: it is not installed. */
const newKey = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const made = spawnSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${folder}/key`])
  return made.status === 0 ? yield* SigningKeys.parse(readFileSync(`${folder}/key`, "latin1")) : null
}).pipe(Effect.scoped, Effect.orDie)

/** All rules. `layerOf`: trees whose files are on this machine, with these options. */
export const suite = <R>(
  name: string,
  layerOf: (options: Pick<Options, "signingKey">) => Layer.Layer<WorkingTrees | R, unknown>,
  workspace: Workspace<R>
) => {
  const key = Effect.runSync(Effect.cached(newKey))
  const signed = Layer.unwrap(Effect.map(key, (signingKey) => layerOf({ signingKey })))
  const isHere = spawnSync("ssh-keygen", ["-?"]).error === undefined
  return [
    defineLive(`Repositories as they are (${name})`, layerOf({}), (it) => {
      starts(it)
      names(it, workspace)
      filters(it, workspace)
      refusals(it, workspace)
    }),
    ...isHere ? [defineLive(`Signed commits (${name})`, signed, (it) => signatures(it, workspace, key))] : []
  ]
}
