/**
 * Setup commands of a hostile repository, run as a worker runs them, in real boxes on disks of their own. This service meets their
 * leftovers.
 */
import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { running } from "@slipway/machine/testing/hosts/Machine"
import { Effect, Fiber, Stream } from "effect"
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { readInstructions } from "../../src/turn/Instructions.ts"
import { layer, look, Place, sandbox, SECRET, type Sandbox } from "./Service.ts"

const MiB = 2 ** 20

/** Sees to it that the service goes on with the sandbox as it does after a setup, and gets rid of it. */
const goOn = Effect.fnUntraced(function*({ id, key }: Sandbox) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const { files } = yield* trees.changes(key)
  yield* Effect.ignore(trees.list(key, ""))
  const told = yield* readInstructions(id, [{ name: key.repo, folder: "site" }])
  const saved = yield* Effect.result(Effect.scoped(Effect.flatMap(
    trees.save(id, [{ repo: key.repo }], { maximumBytes: 64 * MiB }),
    ({ content }) => Stream.mkString(Stream.decodeText(content, { encoding: "latin1" }))
  )))
  const home = yield* Stream.mkString(
    Stream.decodeText(host.readHome(id, [".claude/projects", ".codex/sessions"], { maximumBytes: MiB }), { encoding: "latin1" })
  ).pipe(Effect.catchTags({ HostError: ({ message }) => Effect.succeed(message), HomeTooLarge: () => Effect.succeed("") }))
  yield* host.stop(id)
  yield* trees.remove(id)
  return { files: files.map(({ path }) => path), told, saved: JSON.stringify(saved), home }
})

/** A file of the machine that setups name, and what it holds. */
const planted = Effect.gen(function*() {
  const { outside } = yield* Place
  const file = join(outside, "config.json")
  writeFileSync(file, "canary of the machine")
  return { outside, isKept: () => readFileSync(file, "utf8") === "canary of the machine" && readdirSync(outside).length === 1 }
})

describe("commands of a setup", () => {
  it.live("get the secrets they name and what every box has, and nothing of the service", () =>
    Effect.gen(function*() {
      process.env["SLIPWAY_TEST_CANARY"] = "canary of the service"
      const hostile = yield* sandbox({
        setup: ["env | cut -d= -f1 | sort | tr '\\n' ' '; cat /proc/*/environ | tr '\\0' '\\n' | grep -c canary.of"],
        secrets: ["NPM_TOKEN"]
      })
      yield* hostile.setUp
      const output = (yield* hostile.record)?.output ?? ""
      const [, names = "", ...rest] = output.replace("\n0\n", " 0\n").split("\n")
      assert.deepStrictEqual(
        names.split(" ").filter((name) => !["OLDPWD", "PWD", "SHLVL", "_"].includes(name)),
        ["HOME", "LANG", "NPM_TOKEN", "PATH", "TERM", "TMPDIR", "0"],
        rest.join()
      )
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("leave no process: not in a session of its own, deaf to signals and without its environment", () =>
    Effect.gen(function*() {
      const mark = `setup-left-${process.pid}`
      const stay = `trap '' TERM HUP INT; while :; do echo alive >> /workspace/site/ticks; sleep 0.05; done`
      const hostile = yield* sandbox({
        setup: [
          `(env -i setsid setsid sh -c "${stay}" ${mark} &); (env -i setsid sh -c "${stay}" ${mark} & exec >&- 2>&-); sleep 0.5`,
          `perl -e 'if (!fork) { if (!fork) { exec "sleep", "4711" } exit } wait'; test -s ticks`
        ]
      })
      yield* hostile.setUp
      assert.deepInclude(yield* hostile.record, { state: "succeeded" })
      assert.strictEqual(yield* running(mark), 0)
      const ticks = readFileSync(join(hostile.tree, "ticks"), "utf8")
      assert.strictEqual(yield* look(hostile, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c -e 471[1] -e setup-lef[t]"), "0")
      assert.strictEqual(readFileSync(join(hostile.tree, "ticks"), "utf8"), ticks)
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("are ended with all they started when they hang, a bomb of forks too, and another sandbox is as before", () =>
    Effect.gen(function*() {
      const mark = `setup-bomb-${process.pid}`
      const bomb = `perl -e '$0 = "${mark}"; $SIG{TERM} = "IGNORE"; print "off\\n"; while (1) { fork; select undef, undef, undef, 0.01 }'`
      const hostile = yield* sandbox({ setup: [`${bomb} & wait`] })
      const setUp = yield* Effect.forkChild(hostile.setUp)
      yield* running(mark).pipe(Effect.delay("50 millis"), Effect.repeat({ until: (count) => count > 20 }))
      // As when its time is over, or the sandbox is terminated.
      yield* Fiber.interrupt(setUp)
      assert.strictEqual(yield* running(mark), 0)
      assert.strictEqual(yield* look(hostile, "echo fine"), "fine")
    }).pipe(Effect.scoped, Effect.provide(layer({ processes: 64 }))))

  it.live("gain nothing by setuid bits, attributes of files or devices", () =>
    Effect.gen(function*() {
      const hostile = yield* sandbox({
        setup: [
          "cp /usr/bin/id ~/id; chmod 6755 ~/id; ~/id -u; ~/id -g",
          "touch ~/.npmrc; chattr +i ~/.npmrc 2>/dev/null; lsattr ~/.npmrc | cut -c1-10 | grep -c i",
          "mknod ~/disk b 8 0 2>/dev/null || mknod ~/memory c 1 1 2>/dev/null || echo refused"
        ]
      })
      yield* hostile.setUp
      const { output = "" } = (yield* hostile.record) ?? {}
      assert.include(output, "1000\n1000\n")
      assert.include(yield* look(hostile, "test -e ~/.npmrc || echo gone"), "gone")
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("what a setup leaves in the home", () => {
  it.live("leads the service nowhere: credentials that are links, folders, or reached through links", () =>
    Effect.gen(function*() {
      const { isKept, outside } = yield* planted
      const hostile = yield* sandbox({
        setup: [
          `ln -s ${outside}/config.json ~/.npmrc; ln -s ${outside} ~/.docker; mkdir -p ~/.netrc/a/b; echo x > ~/.netrc/a/b/c`,
          `mkdir ~/elsewhere; echo kept > ~/elsewhere/settings.xml; ln -s ~/elsewhere/settings.xml ~/.pypirc; mkfifo ~/.yarnrc.yml`,
          `mkdir ~/.config; for name in .claude .codex .slipway .config/pip; do ln -s ${outside} ~/$name; done`
        ],
        secrets: ["NPM_TOKEN"]
      })
      yield* hostile.setUp
      assert.strictEqual(
        yield* look(hostile, "ls -A ~; cat ~/elsewhere/settings.xml"),
        ".config\nelsewhere\nkept"
      )
      assert.isTrue(isKept())
      const { home } = yield* goOn(hostile)
      assert.notInclude(home, "canary of the machine")
      assert.isTrue(isKept())
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("keeps the agent from starting where credentials or settings of agents cannot be removed", () =>
    Effect.gen(function*() {
      for (
        const setup of ["mkdir -p ~/.npmrc/a; touch ~/.npmrc/a/b; chmod 500 ~/.npmrc/a",
          "mkdir ~/.codex; touch ~/.codex/x; chmod 500 ~/.codex"]
      ) {
        const hostile = yield* sandbox({ setup: [setup] })
        const { message } = yield* Effect.flip(hostile.setUp)
        assert.match(message, /could not be removed/u)
        assert.deepInclude(yield* hostile.record, { state: "failed" })
      }
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("has no settings for agents, which could allow what a person is asked about", () =>
    Effect.gen(function*() {
      const places = [".claude/settings.json", ".claude.json", ".codex/rules/all.rules", ".codex/sessions/2026/made-up.jsonl",
        ".config/opencode/opencode.json", ".local/share/opencode/auth.json", ".grok/config.toml", ".agents/skills/x/SKILL.md",
        ".slipway/AGENTS.md"]
      const hostile = yield* sandbox({
        setup: places.map((path) => `mkdir -p "$(dirname ~/${path})"; echo allow > ~/${path}`).concat("echo kept > ~/.tool-versions")
      })
      yield* hostile.setUp
      assert.strictEqual(yield* look(hostile, "cd; find . ! -type d"), "./.tool-versions")
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("where it makes the agent's own files impossible, is the sandbox's trouble and not the machine's", () =>
    Effect.gen(function*() {
      const hostile = yield* sandbox({ setup: ["mkdir -p ~/.config; ln -s /workspace ~/.config/other"] })
      yield* hostile.setUp
      const start = { command: "true", args: [], env: {}, homeFiles: { ".config/other/planted": "x" } }
      const refused = yield* Effect.flip(Effect.scoped(hostile.box.spawn(start)))
      assert.deepInclude(refused, { ofSandbox: true, retryable: false })
      assert.isFalse(existsSync(join(hostile.tree, "../planted")))
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("what a setup leaves in the tree", () => {
  it.live("is not run by the service's git: hooks, filters, monitors and settings of the tree and of the home", () =>
    Effect.gen(function*() {
      const { isKept } = yield* planted
      const program = "#!/bin/sh\\necho ran >> /workspace/ran\\ncat\\n"
      const hostile = yield* sandbox({
        setup: [
          `printf '${program}' > ~/evil; chmod 755 ~/evil; mkdir -p .git/hooks .git/info`,
          "for hook in pre-commit post-checkout post-index-change reference-transaction; do " +
          "cp ~/evil .git/hooks/$hook; done",
          "for name in core.fsmonitor core.sshCommand core.editor diff.external filter.x.clean filter.x.smudge filter.x.process " +
          "diff.x.textconv core.hooksPath gpg.program credential.helper; do " +
          "git config $name ~/evil; git config --global $name ~/evil; done",
          "echo '* filter=x diff=x' > .gitattributes; echo '* filter=x' > .git/info/attributes; echo two > README.md; echo new > new.txt",
          "rm -f /workspace/ran"
        ]
      })
      yield* hostile.setUp
      assert.deepInclude(yield* hostile.record, { state: "succeeded" })
      const trees = yield* WorkingTrees
      const { files } = yield* trees.changes(hostile.key)
      assert.includeMembers(files.map(({ path }) => path), ["README.md", "new.txt"])
      yield* trees.snapshot(hostile.key, { message: "x", author: { name: "S", email: "s@example.com" } })
      assert.strictEqual(yield* look(hostile, "cat /workspace/ran"), "")
      yield* goOn(hostile)
      assert.isTrue(isKept())
    }).pipe(Effect.scoped, Effect.provide(layer())))

  const trees: ReadonlyArray<readonly [what: string, setup: (outside: string) => ReadonlyArray<string>]> = [
    ["has no .git", () => ["rm -rf .git"]],
    ["is a link out of it", (outside) => [`cd ..; rm -rf site; ln -s ${outside} site`]],
    ["is gone", () => ["cd ..; rm -rf site"]],
    ["is a file", () => ["cd ..; rm -rf site; echo x > site"]],
    ["has links in place of what the service reads", (outside) => [
      `rm -rf .slipway .git/objects README.md AGENTS.md .gitignore; ln -s ${outside} .slipway; ln -s ${outside}/config.json AGENTS.md; ` +
      `ln -s ${outside} .git/objects; ln -s ${outside}/config.json README.md; ln -s ${outside}/config.json .gitignore`
    ]],
    ["has pipes and sockets in place of what it reads", () => [
      "rm -f README.md AGENTS.md; mkfifo AGENTS.md CLAUDE.md README.md; perl -MIO::Socket::UNIX -e " +
      "'IO::Socket::UNIX->new(Local => \".gitattributes\", Listen => 1)'"
    ]],
    ["is 2,000 folders deep and has names of 255 bytes, of control characters and of no encoding", () => [
      "perl -e 'for (1 .. 2000) { mkdir \"d\" x 50; chdir \"d\" x 50 } open F, \">\", \"deep\"'",
      "perl -e 'for (\"n\" x 255, \"a\\nb\", \"\\e[2J\", \"\\xff\\xfe\", \"--force\", \"-rf\", \"\\$(x)\") { open F, \">\", $_ or die }'"
    ]]
  ]
  it.live(`leads the service nowhere and does not stop it where it ${trees.map(([what]) => what).join("; ")}`, () =>
    Effect.gen(function*() {
      const { isKept, outside } = yield* planted
      const { folder } = yield* Place
      for (const [what, setup] of trees) {
        const hostile = yield* sandbox({ setup: setup(outside) }, { "AGENTS.md": "Be kind.\n", ".gitignore": "node_modules\n" })
        const prepared = yield* hostile.setUp
        assert.strictEqual((yield* hostile.record)?.state, "succeeded", what)
        // oxlint-disable-next-line no-control-regex
        assert.notMatch(prepared.told ?? "", /[\x00-\x08\x0b-\x1f\x7f]/u, what)
        const { files, home, saved, told } = yield* goOn(hostile)
        for (const text of [JSON.stringify(files), saved, told ?? "", home]) assert.notInclude(text, "canary of the machine", what)
        assert.isTrue(isKept(), what)
        for (const kept of ["trees/sandboxes", "trees/disks", "boxes"]) assert.notInclude(readdirSync(join(folder, kept)), hostile.id)
      }
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("what a setup takes", () => {
  it.live("of its disk is its own: setup fails, the agent does not start for the sandbox's own reason, and it is removed", () =>
    Effect.gen(function*() {
      for (const setup of ["head -c 200000000 /dev/zero > big", "i=0; while echo x > $i; do i=$((i+1)); done; exit 1"]) {
        const hostile = yield* sandbox({ setup: [setup] })
        const prepared = yield* hostile.setUp
        assert.deepInclude(yield* hostile.record, { state: "failed" })
        assert.match(prepared.told ?? "", /No space left on device/u)
        const files = { ".slipway/AGENTS.md": "x".repeat(MiB) }
        const started = yield* Effect.result(Effect.scoped(hostile.box.spawn({ command: "true", args: [], env: {}, homeFiles: files })))
        if (started._tag === "Failure") assert.isTrue(started.failure.ofSandbox, started.failure.message)
        yield* goOn(hostile)
      }
    }).pipe(Effect.scoped, Effect.provide(layer({ diskBytes: 16 * MiB }))))

  it.live("of the worker's memory is no more where its workspace has 50,000 files", () =>
    Effect.gen(function*() {
      // The space that any box takes the first time.
      const usual = yield* sandbox({ setup: ["true"] })
      yield* usual.setUp
      yield* look(usual, "true")
      const hostile = yield* sandbox({ setup: ["perl -e 'chdir \"..\"; for (1 .. 50_000) { open F, \">\", $_ . \"x\" x 200 or die }'"] })
      yield* hostile.setUp
      assert.deepInclude(yield* hostile.record, { state: "succeeded" })
      const before = process.memoryUsage().rss
      let most = 0
      const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 20)
      assert.strictEqual(yield* look(hostile, "ls -f /workspace | wc -l"), "50003")
      clearInterval(watch)
      assert.isBelow(most - before, 48 * MiB)
    }).pipe(Effect.scoped, Effect.provide(layer({ diskBytes: 2 ** 31 }))))
})

describe("a cache that a setup fills", () => {
  it.live("leads nowhere: folders that are links, or hold some, devices and files of others", () =>
    Effect.gen(function*() {
      const { isKept, outside } = yield* planted
      const { folder } = yield* Place
      const environment = {
        setup: [
          `mkdir -p ~/.npm node_modules; ln -s ${outside} vendor; ln -s ${outside}/config.json node_modules/link; ` +
          "ln -s /etc ~/.npm/etc; cp /usr/bin/id node_modules/id; chmod 6755 node_modules/id; mkfifo node_modules/pipe"
        ],
        cache: ["node_modules", "vendor", "~/.npm"]
      }
      const files = { ".gitignore": "node_modules\nvendor\n" }
      const hostile = yield* sandbox(environment, files)
      yield* hostile.setUp
      assert.deepInclude(yield* hostile.record, { cache: "miss", state: "succeeded" })
      for (const name of readdirSync(join(folder, "caches"))) {
        assert.notInclude(readFileSync(join(folder, "caches", name), "latin1"), "canary of the machine")
        assert.strictEqual(statSync(join(folder, "caches", name)).mode & 0o077, 0)
      }
      const next = yield* sandbox(environment, files)
      yield* next.setUp
      assert.deepInclude(yield* next.record, { cache: "hit", state: "succeeded" })
      assert.strictEqual(
        yield* look(next, "cd site; cat node_modules/link 2>/dev/null; test -e vendor || test -L vendor || echo none; node_modules/id -u"),
        "none\n1000"
      )
      assert.isTrue(isKept())
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

describe("a secret", () => {
  it.live("is hidden in output in every usual form, but not in a form that the repository makes up", () =>
    Effect.gen(function*() {
      const hostile = yield* sandbox({
        setup: [
          "echo $NPM_TOKEN; printf %s $NPM_TOKEN | base64; printf %s $NPM_TOKEN | od -An -tx1 | tr -d ' \\n'; echo",
          "for part in $(printf %s $NPM_TOKEN | fold -w1); do printf %s $part; sleep 0.01; done; echo",
          "printf %s $NPM_TOKEN | tr a-z b-za"
        ],
        secrets: ["NPM_TOKEN"]
      })
      yield* hostile.setUp
      const { output = "" } = (yield* hostile.record) ?? {}
      const forms = [SECRET, Buffer.from(SECRET).toString("base64").slice(0, 30), Buffer.from(SECRET).toString("hex")]
      for (const form of forms) assert.notInclude(output, form)
      // SECURITY.md says so.
      assert.include(output, SECRET.replaceAll(/[a-z]/gu, (letter) => letter === "z" ? "a" : String.fromCharCode(letter.charCodeAt(0) + 1)))
    }).pipe(Effect.scoped, Effect.provide(layer())))
})
