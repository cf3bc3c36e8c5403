/** Cache images under what sandboxes write: real mounts, as root. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync } from "node:fs"
import { join } from "node:path"
import * as Overlays from "../../src/overlay/Overlays.ts"
import { run } from "../../testing/hosts/bubblewrap.fixture.ts"
import { imageOf, lacking, machine, mountsOf, pathsOf } from "../../testing/hosts/overlay.fixture.ts"
import { disksLeft } from "../../testing/Mounts.ts"

const MODULES = `
mkdir -p tree/node_modules/.bin tree/node_modules/left home/.npm/_cacache
echo left > tree/node_modules/left/index.js; echo script > tree/node_modules/left/cli; chmod 755 tree/node_modules/left/cli
ln -s ../left/cli tree/node_modules/.bin/left; echo kept > home/.npm/_cacache/entry
`
const PATHS = pathsOf("node_modules", "~/.npm")
const MiB = 2 ** 20

describe.skipIf(lacking !== undefined)(`cache images in sandboxes${lacking === undefined ? "" : ` (${lacking})`}`, () => {
  const rule = (states: string, test: Effect.Effect<void, unknown, Scope.Scope>) => it.live(states, () => Effect.scoped(test))

  rule(
    "a sandbox has what was kept as its own, and may change, rename and delete it like anything else",
    Effect.gen(function*() {
      const { images, sandbox } = yield* machine()
      const image = yield* imageOf({ images, paths: PATHS, script: MODULES })
      const { sh, show, tree } = yield* sandbox
      assert.isNull(yield* show(image, PATHS))
      const look = "stat -c '%U %a' node_modules/left/cli node_modules && readlink node_modules/.bin/left"
      const seen = yield* sh(
        `cat node_modules/left/index.js ~/.npm/_cacache/entry && ${look}`
      )
      assert.strictEqual(seen.output, "left\nkept\nagent 755\nagent 755\n../left/cli")
      const changed = yield* sh(`
        set -e
        echo more >> node_modules/left/index.js; chmod 600 node_modules/left/cli; touch -d 2020-01-01 node_modules/left
        mv node_modules/left node_modules/right; cat node_modules/right/index.js
        echo new > ~/.npm/_cacache/other; rm ~/.npm/_cacache/entry; ls ~/.npm/_cacache
        rm -rf node_modules && ls -A && mkdir node_modules && ls -A node_modules && cat tracked`)
      assert.strictEqual(changed.stderr, "")
      assert.strictEqual(changed.output, "left\nmore\nother\n.git\n.gitignore\ntracked\nours")
      // A reader of the tree on the host reads the same.
      assert.deepStrictEqual(readdirSync(tree).sort(), [".git", ".gitignore", "node_modules", "tracked"])
    })
  )

  rule(
    "neither other sandboxes nor later ones see a sandbox's changes to it",
    Effect.gen(function*() {
      const { images, sandbox } = yield* machine()
      const image = yield* imageOf({ images, paths: PATHS, script: MODULES })
      const before = readFileSync(image)
      const [one, other] = [yield* sandbox, yield* sandbox]
      for (const { show } of [one, other]) assert.isNull(yield* show(image, PATHS))
      yield* one.sh(
        "cd node_modules && echo evil > left/index.js; echo evil > left/cli; rm -rf .bin; echo evil > ~/.npm/_cacache/entry"
      )
      const later = yield* sandbox
      assert.isNull(yield* later.show(image, PATHS))
      for (const { sh } of [other, later]) {
        const { output } = yield* sh("cat node_modules/left/index.js node_modules/left/cli ~/.npm/_cacache/entry && ls node_modules/.bin")
        assert.strictEqual(output, "left\nscript\nkept\nleft")
      }
      assert.isTrue(before.equals(readFileSync(image)))
    })
  )

  rule(
    "git's view of the tree is what it was",
    Effect.gen(function*() {
      const { images, sandbox } = yield* machine()
      const image = yield* imageOf({ images, paths: PATHS, script: MODULES })
      const { sh, show } = yield* sandbox
      // The data that git keeps of a file: another file at its place would have another number or other times.
      const view = "git ls-files --debug | grep -v dev && git status --porcelain --ignored=no && stat -c '%i %Z' tracked"
      const before = yield* sh(view)
      assert.isNull(yield* show(image, PATHS))
      assert.strictEqual((yield* sh(view)).output, before.output)
    })
  )

  rule(
    "it outlives rests and restarts with all that was changed, whatever becomes of the image's own name",
    Effect.gen(function*() {
      const { boxOf, directory, folders, host, images, sandbox, start } = yield* machine()
      const image = yield* imageOf({ images, paths: PATHS, script: MODULES })
      const { id, sh, show } = yield* sandbox
      assert.isNull(yield* show(image, PATHS))
      rmSync(image)
      yield* sh("echo changed > node_modules/left/index.js; rm -rf node_modules/.bin; echo new > ~/.npm/new")
      const look = "cat node_modules/left/index.js node_modules/left/cli ~/.npm/new ~/.npm/_cacache/entry; ls -A node_modules"
      const { output } = yield* sh(look)
      assert.strictEqual(output, "changed\nscript\nnew\nkept\nleft")
      yield* host.rest(id)
      yield* boxOf(id)
      assert.strictEqual((yield* sh(look)).output, output)
      // As at the end of a service, and after the machine starts again.
      yield* host.rest(id)
      const scope = yield* Scope.make()
      yield* Scope.provide(folders.letGo, scope)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(mountsOf(directory), [])
      const next = yield* start
      assert.strictEqual(mountsOf(directory).length, 3)
      assert.strictEqual((yield* run(yield* boxOf(id, next.host), `cd shop && ${look}`)).output, output)
      yield* next.host.stop(id)
      yield* next.folders.remove(id)
      assert.deepStrictEqual(mountsOf(directory), [])
    })
  )

  rule(
    "nothing of it is left when a sandbox is removed, also by a process that did not show it",
    Effect.gen(function*() {
      const { above, directory, host, images, sandbox, start } = yield* machine()
      const image = yield* imageOf({ images, paths: PATHS, script: MODULES })
      const { id, sh, show } = yield* sandbox
      assert.isNull(yield* show(image, PATHS))
      yield* sh("echo changed > node_modules/left/index.js")
      assert.strictEqual(mountsOf(directory).length, 3)
      yield* host.stop(id)
      const { folders } = yield* start
      yield* folders.remove(id)
      assert.deepStrictEqual(mountsOf(above), [])
      assert.deepStrictEqual(readdirSync(join(directory, "disks")), ["making"])
      assert.strictEqual(lstatSync(image).nlink, 1)
      assert.deepStrictEqual(yield* disksLeft(above, 0), [])
    })
  )

  rule(
    "what a sandbox writes over it counts on its own disk, and leaves there what the service has for itself",
    Effect.gen(function*() {
      const { images, sandbox } = yield* machine(32 * MiB)
      const image = yield* imageOf({ images, paths: PATHS, script: `${MODULES} head -c 20000000 /dev/zero > tree/node_modules/large` })
      const [one, plain] = [yield* sandbox, yield* sandbox]
      assert.isNull(yield* one.show(image, PATHS))
      // It takes nothing of the sandbox's room.
      const fill = "head -c 100000000 /dev/zero > large 2>/dev/null; stat -c %s large"
      const [{ output: over }, { output: without }] = [yield* one.sh(fill), yield* plain.sh(fill)]
      assert.isAbove(Number(over), 0.98 * Number(without))
      assert.isAtMost(Number(over), Number(without))
      const [free, freeWithout] = [one, plain].map(({ tree }) => statfsSync(join(tree, "..")).bfree)
      assert.isAtLeast(free!, 0.98 * freeWithout!)
      assert.notStrictEqual((yield* one.sh("echo more >> node_modules/large && sync node_modules/large")).code, 0)
    })
  )

  rule(
    "an image holds what it is for and nothing else, whatever the archive has in it",
    Effect.gen(function*() {
      const { images, sandbox } = yield* machine()
      const paths = pathsOf("node_modules")
      const script = `
        mkdir -p tree/node_modules tree/src tree/.git/hooks; echo dep > tree/node_modules/dep
        echo evil > tree/src/evil; echo evil > tree/.git/hooks/evil; echo evil > tree/tracked
        ln -s /etc tree/node_modules/etc; ln -s ../../../../../../etc/shadow tree/node_modules/shadow; mkfifo tree/node_modules/fifo
        touch tree/node_modules/setuid; chmod 4755 tree/node_modules/setuid`
      const image = yield* imageOf({ images, paths, script, tarArgs: ["-C", "tree", "node_modules", "src", ".git", "tracked"] })
      const { sh, show } = yield* sandbox
      assert.isNull(yield* show(image, paths))
      const { output } = yield* sh(
        "cat node_modules/dep tracked; ls -A; ls .git/hooks | grep evil; cat node_modules/shadow; stat -c %a node_modules/setuid"
      )
      assert.strictEqual(output, "dep\nours\n.git\n.gitignore\nnode_modules\ntracked\n755")
    })
  )

  rule(
    "no image is made of devices, of names that climb, or of what is too large, and nothing is left of one",
    Effect.gen(function*() {
      const { above, images } = yield* machine()
      const paths = pathsOf("node_modules")
      const climbing = ["-P", "--transform=s,^tree,node_modules/../..,", "tree"]
      const hostile: ReadonlyArray<readonly [script: string, tarArgs?: ReadonlyArray<string>]> = [
        ["mkdir tree/node_modules; mknod tree/node_modules/device b 7 0"],
        ["mkdir tree/node_modules; mknod tree/node_modules/null c 1 3"],
        ["echo evil > tree/evil", climbing],
        ["mkdir tree/node_modules; head -c 12000000 /dev/urandom > tree/node_modules/large"],
        ["mkdir tree/node_modules; truncate -s 100M tree/node_modules/holes"],
        ["mkdir tree/node_modules; ln -s / tree/node_modules/out; echo x > tree/x", ["-P", "-C", "tree", "node_modules",
          "--transform=s,^x,node_modules/out/run/evil,", "x"]]
      ]
      for (const [script, tarArgs] of hostile) {
        const given = { images, paths, script, ...tarArgs === undefined ? {} : { tarArgs } }
        const outcome = yield* Effect.result(imageOf(given, { bytes: 8 * MiB }))
        assert.strictEqual(outcome._tag, "Failure", script)
      }
      assert.deepStrictEqual(readdirSync(images), [])
      assert.isFalse(existsSync("/run/evil"))
      assert.deepStrictEqual(mountsOf("cache-image"), [])
      assert.deepStrictEqual(yield* disksLeft(above, 0), [])
    })
  )

  rule(
    "no link that was left in the image, the tree's place or the home leads anywhere else",
    Effect.gen(function*() {
      const { directory, images, sandbox } = yield* machine()
      const links = yield* imageOf({ images, paths: pathsOf("~/.npm"), script: "ln -s /etc home/.npm" })
      const image = yield* imageOf({ images, paths: PATHS, script: MODULES })
      const one = yield* sandbox
      const before = mountsOf(directory).length
      yield* one.sh("mkdir ~/.npm")
      assert.isNotNull(yield* one.show(links, pathsOf("~/.npm")))
      yield* one.sh("rmdir ~/.npm && ln -s /etc ~/.npm")
      assert.isNotNull(yield* one.show(image, PATHS))
      yield* one.sh("rm ~/.npm && cd .. && mv shop else && ln -s /etc shop")
      assert.isNotNull(yield* one.show(image, pathsOf("node_modules")))
      assert.strictEqual(mountsOf(directory).length, before)
      assert.deepStrictEqual(readdirSync(join(directory, "disks")).filter((name) => name.endsWith(".cache")), [])
      assert.deepStrictEqual(mountsOf(" /etc "), [])
    })
  )

  rule(
    "a tree that is made anew has none of it, also when the machine starts again",
    Effect.gen(function*() {
      const { directory, folders, images, sandbox, start } = yield* machine()
      const image = yield* imageOf({ images, paths: PATHS, script: MODULES })
      const { sh, show, tree } = yield* sandbox
      assert.isNull(yield* show(image, PATHS))
      yield* sh("rm -rf node_modules/left; echo more > ~/.npm/more")
      yield* Effect.promise(() => Overlays.uncover(join(tree, "../.."), "workspace/shop"))
      rmSync(tree, { recursive: true })
      assert.strictEqual(mountsOf(directory).length, 1)
      mkdirSync(tree)
      // There is nothing in the way of the next one.
      assert.strictEqual((yield* sh("rm -r ~/.npm")).stderr, "")
      const scope = yield* Scope.make()
      yield* Scope.provide(folders.letGo, scope)
      yield* Scope.close(scope, Exit.void)
      yield* start
      assert.deepStrictEqual(readdirSync(tree), [])
      assert.strictEqual(mountsOf(directory).length, 1)
    })
  )
})
