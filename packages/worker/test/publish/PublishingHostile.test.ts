/** A hostile repository is published to GitHub: code of the agent's git runs in its box or not at all. */
import { assert, it } from "@effect/vitest"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { Effect } from "effect"
import { cpSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { REPO } from "./Worker.ts"
import * as World from "./World.ts"

const tolerate = (run: () => unknown) => {
  try {
    run()
  } catch {
    // the trap says no
  }
}

/** Makes git run something wherever it can; each trap leaves its name below `marks`, in the folder of the side it ran on. */
const boobyTrap = (tree: string, marks: string, elsewhere: string, host: string) => {
  for (const side of ["host", "box"]) mkdirSync(join(marks, side))
  const touch = (name: string) => `touch ${marks}/$([ -n "$SANDBOX_MARK" ] && echo box || echo host)/${name}`
  const script = (path: string, content: string) => writeFileSync(path, `#!/bin/sh\n${content}\n`, { mode: 0o755 })
  const trap = (name: string, more = "") => {
    const path = join(marks, `trap-${name}`)
    script(path, `${touch(name)}\n${more}`)
    return path
  }
  for (const folder of ["hooks", "info"]) mkdirSync(join(tree, ".git", folder), { recursive: true })
  for (
    const hook of ["pre-commit", "post-commit", "pre-push", "post-index-change", "reference-transaction", "prepare-commit-msg",
      "post-checkout", "pre-receive", "update"]
  ) {
    script(join(tree, ".git", "hooks", hook), touch(`hook-${hook}`))
  }
  const config = (folder: string, name: string, value: string) => World.git(folder, "config", "--add", name, value)
  for (const kind of ["clean", "smudge"]) config(tree, `filter.evil.${kind}`, trap(`filter-${kind}`, "cat"))
  config(tree, "filter.talking.process", trap("filter-process", "exit 1"))
  config(tree, "diff.evil.textconv", trap("textconv", "cat \"$1\""))
  config(tree, "merge.evil.driver", trap("merge"))
  config(tree, "diff.external", trap("external-diff"))
  config(tree, "core.sshCommand", trap("ssh"))
  config(tree, "core.gitProxy", trap("proxy"))
  config(tree, "core.editor", trap("editor"))
  config(tree, "core.pager", trap("pager"))
  config(tree, "credential.helper", trap("credentials"))
  config(tree, "gpg.program", trap("gpg"))
  config(tree, "uploadpack.packObjectsHook", trap("pack-objects"))
  config(tree, "alias.rev-parse", `!${trap("alias")}`)
  config(tree, "protocol.ext.allow", "always")
  config(tree, "remote.origin.url", `ext::${trap("ext")}`)
  config(tree, "remote.origin.pushurl", `ext::${trap("ext-push")}`)
  config(tree, `url.${elsewhere}.insteadOf`, host)
  config(tree, `url.${elsewhere}.pushInsteadOf`, host)
  config(tree, "include.path", join(tree, "included"))
  writeFileSync(join(tree, "included"), `[core]\n\tfsmonitor = ${trap("included")}\n`)
  writeFileSync(join(tree, ".git", "info", "attributes"), "*.md filter=evil\n")
  writeFileSync(join(tree, ".gitattributes"), "* filter=evil diff=evil merge=evil\n*.talk filter=talking\n")
  writeFileSync(join(tree, "some.talk"), "x\n")
  writeFileSync(
    join(tree, ".gitmodules"),
    "[submodule \"nested\"]\n\tpath = nested\n\turl = ext::sh\n\tupdate = !touch x\n\tignore = none\n"
  )
  mkdirSync(join(tree, "nested"))
  World.git(join(tree, "nested"), "init", "--quiet")
  writeFileSync(join(tree, "nested", "file"), "n")
  World.git(join(tree, "nested"), "add", "file")
  World.git(join(tree, "nested"), "commit", "--quiet", "--message", "n")
  config(join(tree, "nested"), "core.fsmonitor", trap("nested"))
  symlinkSync("/etc", join(tree, "link"))
  config(tree, "core.fsmonitor", trap("fsmonitor"))
}

/** Options that set off no trap while the agent commits them. */
const HARMLESS = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "filter.evil.clean=cat", "-c",
  "filter.evil.smudge=cat"]

it.live("a hostile repository runs nothing on the host, and is published to GitHub and nowhere else", () =>
  Effect.gen(function*() {
    const origin = yield* World.gitHubOrigin({ "README.md": "# App\n", ".gitattributes": "*.md filter=evil\n", ".gitignore": "ignored/\n" })
    const { directory, id, lease } = yield* (yield* World.sandboxes(origin)).next
    const tree = World.treeOf(directory, id)
    const [marks, elsewhere] = [yield* World.temporaryFolder, yield* World.temporaryFolder]
    boobyTrap(tree, marks, `${elsewhere}/`, `${origin.server.url}/`)
    // Traps are part of the agent's own commits too.
    World.git(tree, ...HARMLESS, "add", ".gitattributes", "included", "link")
    World.git(tree, ...HARMLESS, "commit", "--quiet", "--message", "Trapped")
    writeFileSync(join(tree, "README.md"), "# changed\n")

    const fired = (side: "host" | "box") => {
      const names = readdirSync(join(marks, side))
      for (const name of names) rmSync(join(marks, side, name))
      return names.sort()
    }
    // They are live: git as anybody runs it falls into them, and goes to the wrong place.
    const copy = join(directory, "copy")
    cpSync(tree, copy, { recursive: true, verbatimSymlinks: true })
    fired("host")
    for (
      const args of [["status"], ["add", "README.md"], ["-c", "commit.gpgSign=false", "commit", "--message", "x"], ["diff", "HEAD~1"], [
        "add",
        "some.talk"
      ], ["fetch", "origin"]]
    ) {
      tolerate(() => World.git(copy, ...args))
    }
    assert.includeMembers(fired("host"), ["filter-clean", "filter-process", "included", "hook-pre-commit", "external-diff", "ext"])
    const url = `${origin.server.url}/${REPO}.git`
    assert.strictEqual(World.git(copy, "ls-remote", "--get-url", url), `${elsewhere}/${REPO}.git`)
    rmSync(copy, { recursive: true })

    const before = origin.server.requests.length
    for (const action of ["published", "updated"]) {
      writeFileSync(join(tree, "open.txt"), `${action}\n`)
      yield* World.ask(id)
      yield* World.carryOut(directory, origin, lease)
      const tip = World.git(origin.path, "rev-parse", headRef(id))
      assert.deepInclude((yield* World.updates(id)).at(-1)?.data, { action_state: "idle", head_sha: tip })
      assert.strictEqual(World.git(origin.path, "show", `${tip}:README.md`, `${tip}:open.txt`), `# changed\n${action}`)
      // The agent's commits came from its box, where its git may do what it likes.
      const ours = action === "published" ? "Say hello" : "Say hello\nSay hello"
      assert.strictEqual(World.git(origin.path, "log", "--format=%s", `trunk..${tip}`), `${ours}\nTrapped\nwork`)
      assert.deepStrictEqual(World.git(origin.path, "ls-tree", "-r", "--name-only", tip).split("\n"), [
        ".gitattributes",
        ".gitignore",
        ".gitmodules",
        "README.md",
        "committed.txt",
        "included",
        "link",
        "open.txt",
        "some.talk"
      ])
    }
    assert.deepStrictEqual(fired("host"), [])
    assert.strictEqual((yield* origin.pulls).length, 1)

    const gitRequests = origin.server.requests.slice(before).map(({ url }) => url).filter((url) => /info\/refs|git-/u.test(url))
    assert.isAbove(gitRequests.length, 0)
    assert.isTrue(gitRequests.every((url) => url.startsWith(`/${REPO}.git/`)))
    assert.deepStrictEqual(readdirSync(elsewhere), [])
  }).pipe(Effect.provide(World.Database.layer)))
