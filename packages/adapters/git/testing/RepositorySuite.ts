/**
 * Rules of repositories as they are (docs/decisions/20), with real git on a real disk. Each kind of box runs them; `WorkingTreesContract`
 * has the rules that need no git.
 */
import { type FindSubmodule, type SnapshotOptions, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { app, author, freshId, options, treeOf } from "@slipway/testing/contracts/files/TreeFixtures"
import { assert } from "@slipway/testing/suite/Assert"
import { defineLive, type Writer } from "@slipway/testing/suite/Suite"
import { Effect, Layer, Stream } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
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
export const historyOf = (tree: string) => (base: string) => {
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

type Origin = Effect.Success<ReturnType<typeof source>>

type Links = ReadonlyArray<readonly [path: string, address: string | null, sha: string]>

/** A commit on top of another one, with gitlinks at its top, each with an address in `.gitmodules` unless that is `null`. */
const linking = (origin: Origin, links: Links, parent = "main"): string => {
  const modules = links.flatMap(([name, address]) =>
    address === null ? [] : [`[submodule "of ${name}"]\n\tpath = ${name}\n\turl = ${address}\n`]
  ).join("")
  const stored = execFileSync("git", ["-C", origin.path, "hash-object", "-w", "--stdin"], { input: modules, encoding: "utf8" }).trim()
  const before = gitIn(origin.path, "ls-tree", parent).split("\n").filter((line) =>
    line.startsWith("100") && !line.endsWith("\t.gitmodules")
  )
  const added = links.map(([name, , sha]) => `160000 commit ${sha}\t${name}`)
  const input = [...before, `100644 blob ${stored}\t.gitmodules`, ...added].join("\n")
  const tree = execFileSync("git", ["-C", origin.path, "mktree", "--missing"], { encoding: "utf8", input }).trim()
  return gitIn(origin.path, "commit-tree", "-p", parent, "-m", "submodules", tree)
}

/** Moves `main` to such a commit. */
const link = (origin: Origin, links: Links) => origin.setBranch("main", linking(origin, links))

const tipOf = (origin: Origin) => Effect.map(origin.tip("main"), (tip) => tip ?? "")

/** Finds these repositories by their paths, under the names `acme/<key>`. Notes what it was asked. */
const finding = (origins: Readonly<Record<string, Origin>>) => {
  const asked: Array<string> = []
  const find: FindSubmodule = (address) =>
    Effect.sync(() => {
      asked.push(address)
      const found = Object.entries(origins).find(([, { path }]) => path === address)
      return found === undefined ? `No ${address}.` : { repo: RepoName.make(`acme/${found[0]}`), remote: found[1].remote }
    })
  return { asked, find }
}

/** The address of a repository as seen from another one. */
const relative = (from: Origin, to: Origin): string => `./${path.posix.relative(from.path, to.path)}`.replace(/^\.\/\.\./u, "..")

const preparedWith = Effect.fnUntraced(function*<R>(workspace: Workspace<R>, origin: Origin, submodule: FindSubmodule) {
  const trees = yield* WorkingTrees
  const key = { sandboxId: freshId(), repo: app }
  const base = yield* Effect.acquireRelease(
    trees.prepare(key, { ...options(origin), submodule }),
    () => Effect.orDie(trees.remove(key.sandboxId))
  )
  const root = `${yield* workspace(key.sandboxId)}/app`
  const at = (name: string) => `${root}/${name}`
  const since = { head: null, merges: [], remote: origin.remote }
  const snapshot = (as: Partial<SnapshotOptions> = {}) => trees.snapshot(key, { message: "Title", author, since, submodule, ...as })
  return { trees, key, base, at, snapshot }
})

const gitlinks = (folder: string, commit: string): ReadonlyArray<string> =>
  gitIn(folder, "ls-tree", "-r", commit).split("\n").filter((line) => line.startsWith("160000")).map((line) =>
    line.slice("160000 commit ".length)
  )

const checkedOutModules = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("submodules are checked out where their repositories may be used, also in each other, and git works in them", () =>
    Effect.gen(function*() {
      const [origin, lib, inner] = [yield* source({ v: "0" }), yield* source({ l: "lib\n" }), yield* source({ i: "inner\n" })]
      yield* link(lib, [["inner", relative(lib, inner), yield* tipOf(inner)]])
      const [libSha, innerSha] = [yield* tipOf(lib), yield* tipOf(inner)]
      yield* link(origin, [["lib", relative(origin, lib), libSha]])
      const { asked, find } = finding({ lib, inner })
      const { at, base, key, snapshot, trees } = yield* preparedWith(workspace, origin, find)
      assert.deepStrictEqual(base, { baseSha: yield* tipOf(origin), baseRef: "main" })
      assert.deepStrictEqual(asked, [lib.path, inner.path])
      assert.deepStrictEqual([readFileSync(at("lib/l"), "utf8"), readFileSync(at("lib/inner/i"), "utf8")], ["lib\n", "inner\n"])
      for (const [folder, sha] of [["lib", libSha], ["lib/inner", innerSha]] as const) {
        assert.strictEqual(gitIn(at(folder), "rev-parse", "HEAD"), sha)
        assert.strictEqual(gitIn(at(folder), "status", "--porcelain"), "")
        gitIn(at(folder), "fsck")
      }
      assert.strictEqual(gitIn(at("."), "status", "--porcelain"), "")
      const shown = ({ entries }: Effect.Success<ReturnType<typeof trees.list>>) =>
        entries.map(({ kind, name, status }) => [kind, name, status])
      assert.deepStrictEqual(shown(yield* trees.list(key, "")), [
        ["file", ".gitmodules", null],
        ["submodule", "lib", null],
        ["file", "v", null]
      ])
      assert.deepStrictEqual(shown(yield* trees.list(key, "lib")).filter(([kind]) => kind === "file"), [
        ["file", ".gitmodules", null],
        ["file", "l", null]
      ])
      assert.strictEqual((yield* Effect.flip(snapshot()))._tag, "NoChanges")
      // As it was told when the tree was made.
      assert.deepStrictEqual(yield* trees.prepare(key, { ...options(origin), submodule: find }), base)
    }))

  it.effect("other submodules stay empty, each with its reason", () =>
    Effect.gen(function*() {
      const [origin, lib] = [yield* source({ v: "0" }), yield* source({ l: "lib\n" })]
      const sha = yield* tipOf(lib)
      const missing = "0123456789abcdef0123456789abcdef01234567"
      const links = [
        ["a-file", "file:///etc", sha],
        ["b-self", relative(origin, origin).replace(/^\.\//u, "../origin.git"), sha],
        ["c-above", "../../../../../../../../../../etc", sha],
        ["d-between", "../x/../../etc", sha],
        ["e-others", "https://github.com/other/secret.git", sha],
        ["f-gone", lib.path, missing],
        ["g-nameless", null, sha],
        ["lib", lib.path, sha]
      ] as const
      yield* link(origin, links)
      const { asked, find } = finding({ lib, app: origin })
      const { at, base, snapshot } = yield* preparedWith(workspace, origin, find)
      const reasons = Object.fromEntries((base.emptySubmodules ?? []).map((empty) => [empty.path, empty.reason]))
      assert.deepStrictEqual(Object.keys(reasons), links.map(([name]) => name).filter((name) => name !== "lib"))
      assert.deepStrictEqual(base.submodules, Object.keys(reasons))
      assert.strictEqual(reasons["a-file"], "No file:///etc.")
      assert.strictEqual(reasons["b-self"], "It is the repository that it is in.")
      for (const name of ["c-above", "d-between"]) assert.strictEqual(reasons[name], "The source host has no such address.", name)
      assert.strictEqual(reasons["e-others"], "No https://github.com/other/secret.git.")
      assert.match(reasons["f-gone"] ?? "", /commit does not exist/u)
      assert.match(reasons["g-nameless"] ?? "", /no address/u)
      for (const name of Object.keys(reasons)) assert.deepStrictEqual(readdirSync(at(name)), [], name)
      assert.isTrue(asked.every((address) => !address.startsWith(".")))
      assert.strictEqual(readFileSync(at("lib/l"), "utf8"), "lib\n")
      assert.strictEqual((yield* Effect.flip(snapshot()))._tag, "NoChanges")
    }))

  it.effect("submodules go four levels deep, and are checked out anew with a restored tree", () =>
    Effect.gen(function*() {
      const [origin, lib] = [yield* source({ v: "0" }), yield* source({ l: "lib" })]
      // Levels 5 to 1, each in a repository of its own, as far as names tell.
      let sha = yield* tipOf(lib)
      for (let level = 4; level >= 1; level--) sha = linking(lib, [["sub", `/level/${level + 1}`, sha]])
      yield* link(origin, [["sub", "/level/1", sha]])
      const find: FindSubmodule = (address) =>
        Effect.succeed({ repo: RepoName.make(`acme/${path.posix.basename(address)}`), remote: lib.remote })
      const { at, base, key, trees } = yield* preparedWith(workspace, origin, find)
      assert.deepStrictEqual(base.emptySubmodules, [{ path: "sub/sub/sub/sub/sub", reason: "It is more than 4 levels deep." }])
      assert.strictEqual(readFileSync(at("sub/sub/sub/sub/l"), "utf8"), "lib")
      assert.deepStrictEqual(readdirSync(at("sub/sub/sub/sub/sub")), [])

      yield* agent.write(at("own"), "own")
      const saved = yield* trees.save(key.sandboxId, [{ repo: app }])
      const content = Buffer.concat(yield* Stream.runCollect(saved.content))
      yield* agent.remove(at("sub"))
      const from = [{ repo: app, remote: origin.remote, submodule: find }]
      yield* trees.restore(key.sandboxId, Stream.make<ReadonlyArray<Uint8Array>>(content), from)
      assert.deepStrictEqual([readFileSync(at("own"), "utf8"), readFileSync(at("sub/sub/l"), "utf8")], ["own", "lib"])
      assert.strictEqual(gitIn(at("sub"), "status", "--porcelain"), "")
    }).pipe(Effect.scoped))
}

const workInModules = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  /** A tree with `lib`, and `inner` in it. */
  const withLib = Effect.gen(function*() {
    const [origin, lib] = [yield* source({ v: "0" }), yield* source({ l: "lib\n" })]
    const libSha = linking(lib, [["inner", "/inner", yield* tipOf(lib)]])
    yield* link(origin, [["lib", lib.path, libSha]])
    const find: FindSubmodule = (address) =>
      Effect.succeed({ repo: RepoName.make(address === "/inner" ? "acme/inner" : "acme/lib"), remote: lib.remote })
    const tree = yield* preparedWith(workspace, origin, find)
    const host = `${tree.at(".")}/../../git/acme+app`
    yield* agent.write(tree.at("v"), "1")
    return { ...tree, host, lib, libSha, origin }
  })

  it.effect("work in a submodule is not published, and its folder is named", () =>
    Effect.gen(function*() {
      const { at, host, libSha, snapshot } = yield* withLib
      assert.isUndefined((yield* snapshot()).submodules)
      yield* agent.write(at("lib/new"), "new")
      const dirty = yield* snapshot()
      assert.deepStrictEqual([gitlinks(host, dirty.sha), dirty.submodules], [[`${libSha}\tlib`], ["lib"]])
      yield* agent.remove(at("lib/new"))
      yield* agent.write(at("lib/inner/l"), "changed\n")
      assert.deepStrictEqual((yield* snapshot()).submodules, ["lib/inner"])
      gitIn(at("lib/inner"), "checkout", "--quiet", "l")
      assert.isUndefined((yield* snapshot()).submodules)
    }))

  it.effect("a moved gitlink is published once its commit exists where it comes from", () =>
    Effect.gen(function*() {
      const { at, host, key, lib, libSha, origin, snapshot, trees } = yield* withLib
      const asBefore = [`${libSha}\tlib`]
      yield* agent.write(at("lib/l"), "moved\n")
      gitIn(at("lib"), "commit", "--quiet", "--all", "--message", "in lib")
      const moved = gitIn(at("lib"), "rev-parse", "HEAD")
      const kept = yield* snapshot()
      assert.deepStrictEqual([gitlinks(host, kept.sha), kept.submodules], [asBefore, ["lib"]])
      gitIn(at("."), "commit", "--quiet", "--all", "--message", "Move lib")
      const head = gitIn(at("."), "rev-parse", "HEAD")
      const own = yield* snapshot({ history: historyOf(at(".")) })
      assert.deepStrictEqual([gitlinks(host, own.sha), own.submodules], [asBefore, ["lib"]])
      assert.notStrictEqual(own.sha, head)

      gitIn(at("lib"), "push", "--quiet", lib.path, "HEAD:refs/heads/feature")
      // Without a way to look it up it stays as it was.
      const unasked = yield* trees.snapshot(key, { message: "Title", author })
      assert.deepStrictEqual(gitlinks(host, unasked.sha), asBefore)
      const published = yield* snapshot({ history: historyOf(at(".")) })
      assert.deepStrictEqual([gitlinks(host, published.sha), published.sha], [[`${moved}\tlib`], head])
      yield* trees.push(key, { sha: published.sha, headRef: "slipway/x", remote: origin.remote })
      assert.deepStrictEqual(gitlinks(origin.path, "slipway/x"), [`${moved}\tlib`])
    }))

  it.effect("at most 32 submodules are checked out", () =>
    Effect.gen(function*() {
      const [origin, lib] = [yield* source({ v: "0" }), yield* source({ l: "lib\n" })]
      const sha = yield* tipOf(lib)
      const names = Array.from({ length: 34 }, (_, i) => `m${String(i).padStart(2, "0")}`)
      yield* link(origin, names.map((name) => [name, lib.path, sha] as const))
      const { at, base } = yield* preparedWith(workspace, origin, finding({ lib }).find)
      const reason = "More than 32 submodules are not checked out."
      assert.deepStrictEqual(base.emptySubmodules, [{ path: "m32", reason }, { path: "m33", reason }])
      assert.strictEqual(readFileSync(at("m31/l"), "utf8"), "lib\n")
    }))
}

const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 12345\n`

const lfs = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("without a server of Git LFS pointers stay pointers, are counted, and no content is published in place of one", () =>
    Effect.gen(function*() {
      const origin = yield* source({
        ".gitattributes": "[attr]big filter=lfs\n*.bin big diff=lfs merge=lfs -text\n",
        "deep/.gitattributes": "*.dat filter=lfs\nplain.dat !filter\n",
        "a.bin": POINTER,
        "b.bin": POINTER,
        "empty.bin": "",
        "small.bin": "no pointer, and older than the rule",
        "deep/c.dat": POINTER,
        "deep/plain.dat": "x",
        v: "0"
      })
      const find = () => Effect.succeed("No.")
      const { at, base, key, snapshot, trees } = yield* preparedWith(workspace, origin, find)
      const { lfsMissing, ...rest } = base
      assert.deepStrictEqual(rest, { baseSha: yield* tipOf(origin), baseRef: "main", lfsPointers: 3 })
      assert.deepStrictEqual(lfsMissing?.map((file) => file.path), ["a.bin", "b.bin", "deep/c.dat"])
      assert.strictEqual(readFileSync(at("a.bin"), "utf8"), POINTER)
      const changed = Effect.fnUntraced(function*(sha: string) {
        yield* trees.push(key, { sha, headRef: `slipway/${sha}`, remote: origin.remote })
        return gitIn(origin.path, "diff", "--name-status", "--no-renames", base.baseSha, sha).split("\n")
      })

      yield* agent.write(at("v"), "1")
      yield* agent.write(at("a.bin"), "content")
      yield* agent.write(at("deep/c.dat"), "content".repeat(1_000))
      yield* agent.write(at("deep/plain.dat"), "changed")
      yield* agent.write(at("new.bin"), "content")
      yield* agent.write(at("none.bin"), "")
      yield* agent.write(at("b.bin"), POINTER.replace("12345", "54321"))
      const first = yield* snapshot()
      assert.deepStrictEqual(first.lfs, ["a.bin", "deep/c.dat", "new.bin"])
      assert.deepStrictEqual(yield* changed(first.sha), ["M\tb.bin", "M\tdeep/plain.dat", "A\tnone.bin", "M\tv"])

      // Nor by commits of the agent, also if a later one takes it back.
      gitIn(at("."), "add", "--all")
      gitIn(at("."), "commit", "--quiet", "--message", "with content")
      for (const name of ["a.bin", "deep/c.dat", "new.bin"]) gitIn(at("."), "rm", "--quiet", name)
      gitIn(at("."), "commit", "--quiet", "--message", "without")
      const second = yield* snapshot({ history: historyOf(at(".")) })
      assert.notStrictEqual(second.sha, gitIn(at("."), "rev-parse", "HEAD"))
      yield* changed(second.sha)
      assert.strictEqual(gitIn(origin.path, "rev-list", "--count", `${base.baseSha}..${second.sha}`), "1")
      assert.isUndefined(second.lfs)

      // The repository takes files away from LFS: then they are files like others.
      gitIn(at("."), "reset", "--quiet", "--hard", base.baseSha)
      yield* agent.write(at(".gitattributes"), "")
      yield* agent.write(at("a.bin"), "content")
      const third = yield* snapshot()
      assert.isUndefined(third.lfs)
      assert.deepStrictEqual(yield* changed(third.sha), ["M\t.gitattributes", "M\ta.bin"])
    }))
}

/** A key as `ssh-keygen` makes it; `null`: it is not installed. */
const newKey = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const made = spawnSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${folder}/key`])
  return made.status === 0 ? yield* SigningKeys.parse(readFileSync(`${folder}/key`, "latin1")) : null
}).pipe(Effect.scoped, Effect.orDie)

const emptyModules = <R>(it: Writer<WorkingTrees | R>, workspace: Workspace<R>) => {
  it.effect("submodules stay empty in a machine of its own, with that reason", () =>
    Effect.gen(function*() {
      const [origin, lib] = [yield* source({ v: "0" }), yield* source({ l: "lib\n" })]
      yield* link(origin, [["lib", lib.path, yield* tipOf(lib)]])
      const { at, base } = yield* preparedWith(workspace, origin, finding({ lib }).find)
      assert.deepStrictEqual(base.emptySubmodules, [{ path: "lib", reason: "Machines of their own do not get the files of submodules." }])
      assert.deepStrictEqual(readdirSync(at("lib")), [])
    }))
}

/** All rules. `layerOf`: trees whose files are on this machine, with these options. `hasModules`: submodules are checked out there. */
export const suite = <R>(
  name: string,
  layerOf: (options: Pick<Options, "signingKey">) => Layer.Layer<WorkingTrees | R, unknown>,
  workspace: Workspace<R>,
  { hasModules = true } = {}
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
      if (!hasModules) emptyModules(it, workspace)
      else {
        checkedOutModules(it, workspace)
        workInModules(it, workspace)
      }
      lfs(it, workspace)
    }),
    ...isHere ? [defineLive(`Signed commits (${name})`, signed, (it) => signatures(it, workspace, key))] : []
  ]
}
