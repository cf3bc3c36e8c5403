/**
 * Agents that are after the secrets of a setup (docs/decisions/17), in real boxes with real git: what they write is there when the
 * setup runs again, on their own branch, or in a cache that others use.
 */
import { assert, describe, it } from "@effect/vitest"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import { SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { DateTime, Effect, Layer, Result } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as RunSetup from "../../src/setup/RunSetup.ts"
import { principal, REPO } from "../Doubles.ts"
import { layer, look, Place, sandbox, type Sandbox, SECRET } from "./Service.ts"

const PREP = "mkdir -p node_modules; echo installed > node_modules/lib; test -n \"$NPM_TOKEN\" && echo with the token\n"
const ENVIRONMENT = { setup: ["sh prep.sh"], secrets: ["NPM_TOKEN"], cache: ["node_modules"] }
const FILES = { "prep.sh": PREP, ".gitignore": "node_modules\nloot\n", "package-lock.json": "{}" }
/** Programs that agents leave in place of those that setup runs, in the tree and in the home. */
const ROBBERY = [
  "printf 'printenv NPM_TOKEN > loot; mkdir -p node_modules; printenv NPM_TOKEN > node_modules/lib\\n' > site/prep.sh",
  "mkdir -p ~/bin; printf '#!/bin/sh\\nprintenv NPM_TOKEN > ~/loot\\n' > ~/bin/mkdir; chmod +x ~/bin/mkdir",
  "for file in .profile .bashrc .shrc; do echo 'printenv NPM_TOKEN > ~/loot' > ~/$file; done",
  "git -C site config core.fsmonitor 'printenv NPM_TOKEN > ~/loot; false'",
  "printf '#!/bin/sh\\nprintenv NPM_TOKEN > ~/loot\\n' > site/.git/hooks/post-checkout; chmod +x site/.git/hooks/post-checkout"
].join("; ")

/** Every file that the machine keeps of sandboxes and caches, as the service's disk has it. */
const everywhere = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? everywhere(path) : entry.isFile() ? [path] : []
  })
const holding = (folder: string) =>
  everywhere(folder).filter((path) => statSync(path).size < 2 ** 22 && readFileSync(path, "latin1").includes(SECRET))

/** A source host whose repository is the origin of that sandbox. */
const hostOf = ({ origin }: Sandbox) =>
  Layer.mock(SourceHost, {
    names: ["fake"],
    nameOf: () => Effect.succeed("fake"),
    repository: (fullName) => Effect.succeed({ fullName, defaultBranch: "main" }),
    remote: () => Effect.succeed({ url: origin, authorization: null })
  })

/** Where no cache is kept any more: setup has to run. */
const setUpAgain = Effect.fnUntraced(function*(held: Sandbox["held"], box: Sandbox["box"]) {
  yield* Effect.flatMap(SetupCaches, ({ makeRoom }) => makeRoom)
  return yield* RunSetup.run(held, box, { isFresh: false })
})

/** Fails if a secret of the setup is found outside it. */
const assertNoLoot = Effect.fnUntraced(function*(robbed: Pick<Sandbox, "box">) {
  const { folder } = yield* Place
  const found = yield* look(robbed, `cat ~/loot site/loot site/node_modules/lib 2>/dev/null; grep -rs ${SECRET} ~ /workspace /tmp | head`)
  assert.notInclude(found, SECRET)
  assert.deepStrictEqual(holding(folder), [])
})

/** Ways in which what an agent wrote is there when the setup runs again. */
const ways: Readonly<
  Record<string, (robber: Sandbox) => Effect.Effect<Pick<Sandbox, "box" | "id" | "held">, unknown, never | WorkingTrees | SandboxHost>>
> = {
  // The home stays where it is.
  restore: Effect.fnUntraced(function*(robber) {
    const host = yield* SandboxHost
    const trees = yield* WorkingTrees
    yield* Effect.scoped(Effect.gen(function*() {
      const { content } = yield* trees.save(robber.id, [{ repo: REPO }])
      yield* host.rest(robber.id)
      yield* trees.restore(robber.id, content, [{ repo: REPO, remote: { url: robber.origin, authorization: null } }])
    }))
    return { ...robber, box: yield* host.provision(robber.held.lease) }
  }),
  move: Effect.fnUntraced(function*(robber) {
    const host = yield* SandboxHost
    const trees = yield* WorkingTrees
    yield* Effect.scoped(Effect.gen(function*() {
      const { content } = yield* trees.save(robber.id, [{ repo: REPO }])
      // The machine is gone; this is another one.
      yield* host.stop(robber.id)
      yield* trees.restore(robber.id, content, [{ repo: REPO, remote: { url: robber.origin, authorization: null } }])
    }))
    return { ...robber, box: yield* host.provision(robber.held.lease) }
  })
}

describe("an agent that is after the secrets of its setup", () => {
  for (const [name, again] of Object.entries(ways)) {
    it.live(`finds none after a ${name}, whatever it left in place of what setup runs`, () =>
      Effect.gen(function*() {
        const robber = yield* sandbox(ENVIRONMENT, FILES)
        yield* robber.setUp
        assert.include((yield* robber.record)?.output, "with the token")
        yield* look(robber, `${ROBBERY}; echo 2 > site/package-lock.json`)
        const { box, held } = yield* again(robber)
        yield* setUpAgain(held, box).pipe(Effect.provide(hostOf(robber)))
        const record = yield* robber.record
        assert.deepInclude(record, { state: "succeeded" })
        assert.include(record?.output, "with the token", "setup had its secret")
        assert.strictEqual(yield* look({ box }, "cat site/node_modules/lib"), "installed")
        yield* assertNoLoot({ box })
      }).pipe(Effect.scoped, Effect.provide(layer())))
  }

  it.live("finds none in a fork of its sandbox", () =>
    Effect.gen(function*() {
      const host = yield* SandboxHost
      const trees = yield* WorkingTrees
      const robber = yield* sandbox(ENVIRONMENT, FILES)
      yield* robber.setUp
      yield* look(robber, `${ROBBERY}; echo 2 > site/package-lock.json`)
      const fork = yield* sandbox(ENVIRONMENT, FILES)
      yield* Effect.scoped(Effect.gen(function*() {
        const { content } = yield* trees.save(robber.id, [{ repo: REPO }])
        yield* host.stop(fork.id)
        const sources = [{ repo: REPO, remote: { url: robber.origin, authorization: null } }]
        yield* trees.restore(fork.id, content, sources, { forget: "publication" })
      }))
      const box = yield* host.provision(fork.held.lease)
      yield* setUpAgain(fork.held, box).pipe(Effect.provide(hostOf(robber)))
      assert.include((yield* fork.record)?.output, "with the token")
      yield* assertNoLoot({ box })
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("finds none where its trees are made again and its setup names no cache: setup runs without secrets there", () =>
    Effect.gen(function*() {
      const robber = yield* sandbox({ ...ENVIRONMENT, cache: [] }, FILES)
      yield* robber.setUp
      yield* look(robber, ROBBERY)
      yield* setUpAgain(robber.held, robber.box).pipe(Effect.provide(hostOf(robber)))
      assert.notInclude((yield* robber.record)?.output, "with the token")
      yield* assertNoLoot(robber)
    }).pipe(Effect.scoped, Effect.provide(layer())))

  /** Publishes the work of an agent as a user does. */
  const publish = (origin: string, branch: string) => {
    const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", origin, ...args], { stdio: "pipe" }).toString().trim()
    git("checkout", "--quiet", "-b", branch)
    mkdirSync(dirname(join(origin, "prep.sh")), { recursive: true })
    writeFileSync(join(origin, "prep.sh"), "mkdir -p node_modules; printenv NPM_TOKEN > loot; echo poison > node_modules/lib\n")
    git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-am", "Improve")
    const sha = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "main")
    return sha
  }

  it.live("gets none by its published branch, by its commit, nor by a listed branch made of it; nor does it poison a cache", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const secrets = yield* SecretStore
      const at = yield* DateTime.now
      const owner = yield* sandbox({ ...ENVIRONMENT, cache: [] }, FILES)
      const origin = owner.origin
      writeFileSync(join(origin, ".slipway/environment.json"), JSON.stringify(ENVIRONMENT))
      execFileSync("git", ["-C", origin, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-am", "Cache"])
      const sha = publish(origin, `slipway/${owner.id}`)
      yield* store.change(owner.id, "policy", () =>
        Result.succeed([{
          type: "pull_request.updated" as const,
          data: { repo: RepoName.make(REPO), action_state: "idle" as const, number: 1, head_sha: sha, merged: false }
        }]), at)
      execFileSync("git", ["-C", origin, "branch", "release/1", sha])
      yield* secrets.trustRef({ grantId: principal.grantId, repo: REPO }, "release/*", at)
      for (const ref of [`slipway/${owner.id}`, sha, "release/1"]) {
        const attacker = yield* sandbox(ENVIRONMENT, FILES, { origin, ref })
        yield* attacker.setUp.pipe(Effect.provide(hostOf(attacker)))
        assert.deepInclude(yield* attacker.record, { state: "succeeded", cache: "miss" }, ref)
        assert.strictEqual(yield* look(attacker, "cat site/loot"), "", ref)
        assert.strictEqual(yield* look(attacker, "cat site/node_modules/lib"), "poison", ref)
        yield* assertNoLoot(attacker)
      }
      const main = yield* sandbox(ENVIRONMENT, FILES, { origin })
      yield* main.setUp.pipe(Effect.provide(hostOf(main)))
      assert.deepInclude(yield* main.record, { state: "succeeded", cache: "miss" })
      assert.strictEqual(yield* look(main, "cat site/node_modules/lib"), "installed")
      // A person's own commit on a listed branch is as good as one of main.
      execFileSync("git", ["-C", origin, "branch", "release/2", "main"])
      const listed = yield* sandbox({ ...ENVIRONMENT, cache: [] }, FILES, { origin, ref: "release/2" })
      yield* listed.setUp.pipe(Effect.provide(hostOf(listed)))
      assert.deepInclude(yield* listed.record, { state: "succeeded", cache: "hit" })
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("leaves no box and no clone behind", () =>
    Effect.gen(function*() {
      const { folder } = yield* Place
      const robber = yield* sandbox(ENVIRONMENT, FILES)
      yield* robber.setUp
      yield* look(robber, "echo 2 > site/package-lock.json; rm -r site/node_modules")
      yield* setUpAgain(robber.held, robber.box).pipe(Effect.provide(hostOf(robber)))
      const host = yield* SandboxHost
      const trees = yield* WorkingTrees
      assert.deepStrictEqual([yield* host.list, yield* trees.sandboxes], [[robber.id], [robber.id]])
      assert.deepStrictEqual(readdirSync(join(folder, "trees/sandboxes")), [robber.id])
      assert.isTrue(existsSync(join(workspacesIn(join(folder, "trees"))(robber.id), "site/node_modules/lib")))
    }).pipe(Effect.scoped, Effect.provide(layer())))
})
