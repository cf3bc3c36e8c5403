import { assert, it } from "@effect/vitest"
import { CacheDamaged } from "@slipway/domain/environment/ports/SetupCaches"
import { parse } from "@slipway/domain/environment/rules/CachePath"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostBubblewrap from "@slipway/machine/bubblewrap/SandboxHostBubblewrap"
import * as Egress from "@slipway/machine/egress/Egress"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Effect, Layer, Result, type Scope, Stream } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as CacheFiles from "../../src/setup/CacheFiles.ts"

const NOBODY = 65_534
const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
const isolated = ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
const hasBoxes = process.platform === "linux" && spawnSync("bwrap", isolated, { ...user, cwd: "/" }).status === 0

const temporary = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(path.join(tmpdir(), "slipway-cached-"))
    chmodSync(folder, 0o711)
    return folder
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const hosts: Readonly<Record<string, Layer.Layer<SandboxHost, unknown>>> = {
  "without isolation": Layer.unwrap(
    Effect.map(temporary, (directory) => SandboxHostNone.layer({ directory, workspaceOf: workspacesIn(directory) }))
  ),
  ...(hasBoxes
    ? {
      "in boxes": Layer.unwrap(
        Effect.map(
          temporary,
          (folder) => SandboxHostBubblewrap.layer({ directory: path.join(folder, "boxes"), workspaceOf: workspacesIn(folder) })
        )
      )
        .pipe(Layer.provide(Egress.layer({ allow: new Set() })))
    }
    : {})
}

/** Input of tar, like packed cached folders: `script` makes the archive. */
const forged = (paths: ReadonlyArray<string>, script: string) => {
  const folder = mkdtempSync(path.join(tmpdir(), "slipway-forged-"))
  const archive = execFileSync("sh", ["-ec", script], { cwd: folder, maxBuffer: 2 ** 24 })
  rmSync(folder, { recursive: true })
  return Stream.make(new TextEncoder().encode(`${JSON.stringify({ format: 1, paths })}\n`), archive)
}

let made = 0
/** A box whose workspace has an empty tree. */
const newBox = Effect.gen(function*() {
  const host = yield* SandboxHost
  const sandboxId = SandboxId.make(
    `c_${String(made++).padStart(12, "0").replaceAll(/\d/gu, (digit) => "bcdefghjkm".charAt(Number(digit)))}`
  )
  const box = yield* Effect.acquireRelease(host.provision({ sandboxId, fence: 1 }), () => Effect.orDie(host.stop(sandboxId)))
  const run = Effect.fnUntraced(function*(script: string) {
    const process = yield* box.spawn({ command: "sh", args: ["-c", `cd tree && ${script}`], env: { LC_ALL: "C" } })
    yield* process.endInput
    const output = yield* Stream.mkString(Stream.decodeText(process.stdout))
    const { code } = yield* process.exited
    return code === 0 ? output.trim() : `${code}: ${output}${yield* process.stderrTail}`
  }, Effect.scoped)
  yield* Effect.scoped(Effect.flatMap(box.spawn({ command: "mkdir", args: ["tree"], env: {} }), ({ exited }) => exited))
  return { box, run, host }
})

const folders = (box: Box, ...paths: ReadonlyArray<string>): CacheFiles.Folders => ({
  box,
  tree: path.join(box.workspace, "tree"),
  paths: paths.map((text) => Result.getOrThrow(parse(text)))
})
const packed = (from: CacheFiles.Folders) => Effect.map(Stream.runCollect(CacheFiles.pack(from)), (chunks) => Stream.fromIterable(chunks))

for (const [name, host] of Object.entries(hosts)) {
  it.layer(host, { excludeTestServices: true })(`cached folders ${name}`, (it) => {
    const rule = (states: string, test: Effect.Effect<void, unknown, SandboxHost | Scope.Scope>) =>
      it.effect(states, () => Effect.scoped(test))

    rule(
      "come back as they were: of tree and home, with links, programs, times and hidden files, for the user of the box",
      Effect.gen(function*() {
        const [one, other] = [yield* newBox, yield* newBox]
        const paths = ["x", "deep/er/node_modules", "~/x", "~/.cache/tool", "-dash", "no such", "a 'b' $(touch pwned) ;"]
        yield* one.run(`mkdir -p x deep/er/node_modules ~/x ~/.cache/tool ./-dash "a 'b' \\$(touch pwned) ;"
        echo tree > x/f; echo home > ~/x/f; echo dash > ./-dash/f; echo quoted > "a 'b' \\$(touch pwned) ;/f"
        cd deep/er/node_modules; echo '#!/bin/sh' > tool; chmod 755 tool; ln -s ../tool link; ln -s /nowhere dead; ln tool hard
        echo secret > .hidden; mkdir closed; echo in > closed/f; chmod 555 closed
        touch -d 2001-02-03T04:05:06Z tool; echo "$(printf '\\303\\251\\n')" > "$(printf 'n\\377\\nl')"
        echo tool > ~/.cache/tool/f; echo other > ~/.cache/other`)
        const show =
          `find x deep -- ./-dash 2>/dev/null | sort | cksum; cat x/f ~/x/f ./-dash/f "a 'b' \\$(touch pwned) ;/f" ~/.cache/tool/f
        cd deep/er/node_modules; ls -A1 | cksum; readlink link dead; stat -c '%a %Y %h' tool; stat -c %a closed
        cat closed/f .hidden; [ $(stat -c %u .) = $(id -u) ] && echo ours`
        const before = yield* one.run(show)
        assert.include(before, "tree\nhome\ndash\nquoted\ntool\n")
        assert.include(before, "755 981173106 2")
        const bytes = yield* packed(folders(one.box, ...paths))
        yield* CacheFiles.unpack(folders(other.box, ...paths), bytes)
        assert.strictEqual(yield* other.run(show), before)
        assert.strictEqual(yield* other.run("ls -A ~/.cache; ls -d pwned 'no such' 2>/dev/null; true"), "tool")
        yield* one.run("chmod 755 deep/er/node_modules/closed")
        yield* other.run("chmod 755 deep/er/node_modules/closed")
      })
    )

    rule(
      "a thousand files in a folder come back, and a folder that is empty",
      Effect.gen(function*() {
        const [one, other] = [yield* newBox, yield* newBox]
        yield* one.run("mkdir many none; for i in $(seq 1000); do echo $i > many/file-$i; done")
        yield* CacheFiles.unpack(folders(other.box, "many", "none"), yield* packed(folders(one.box, "many", "none")))
        assert.strictEqual(
          yield* other.run("ls many | wc -l; cat many/* | sort -n | cksum; ls -d none"),
          yield* one.run(
            "ls many | wc -l; seq 1000 | cksum; ls -d none"
          )
        )
      })
    )

    rule(
      "pipes and sockets are not waited for",
      Effect.gen(function*() {
        const [one, other] = [yield* newBox, yield* newBox]
        yield* one.run("mkdir x; mkfifo x/pipe; echo f > x/f")
        yield* CacheFiles.unpack(folders(other.box, "x"), yield* packed(folders(one.box, "x")))
        assert.strictEqual(yield* other.run("cat x/f; test -p x/pipe && echo pipe"), "f\npipe")
      })
    )

    rule(
      "what is no folder, or is reached through a link, is not packed",
      Effect.gen(function*() {
        const [one, other] = [yield* newBox, yield* newBox]
        yield* one.run(
          "mkdir ~/private; echo private > ~/private/f; ln -s ~ home; ln -s ~/private link; echo file > file; mkdir x; echo x > x/f"
        )
        const paths = ["home/private", "link", "file", "x"]
        const bytes = yield* packed(folders(one.box, ...paths))
        assert.notInclude(yield* Stream.mkString(Stream.decodeText(bytes)), "private\n")
        yield* CacheFiles.unpack(folders(other.box, ...paths), bytes)
        assert.strictEqual(yield* other.run("ls -A"), "x")
      })
    )

    rule(
      "what cannot be read fails, at the end if not before",
      Effect.gen(function*() {
        const { box, run } = yield* newBox
        yield* run("mkdir x; echo f > x/f; ln -s x/f y; mkdir -p z/$(printf %0200d 1)")
        const stream = CacheFiles.pack(folders(box, "x"))
        const changing = Stream.tap(stream, () => run("rm -rf x"))
        // Gone between the look and tar, or while tar reads: either way what was packed does not count.
        const gone = yield* Effect.exit(Stream.runDrain(changing))
        assert.isTrue(gone._tag === "Failure" || (yield* run("ls -A")) === "y\nz")
        if (process.getuid?.() === 0 && name === "without isolation") return
        yield* run("mkdir -p x; echo f > x/f; chmod 0 x/f")
        assert.strictEqual((yield* Effect.flip(Stream.runDrain(stream)))._tag, "CacheFilesFailed")
      })
    )

    rule(
      "nothing that is there is replaced: neither a folder, nor a file, nor a link, nor what a link on the way leads to",
      Effect.gen(function*() {
        const one = yield* newBox
        yield* one.run("mkdir -p a/x; echo new > a/x/f")
        const bytes = yield* packed(folders(one.box, "a/x"))
        for (
          const [there, detail] of [["mkdir -p a/x", /there already/u], ["mkdir a; echo old > a/x", /there already/u], [
            "mkdir a; ln -s ~ a/x",
            /there already/u
          ], ["mkdir ~/there; ln -s ~/there a", /link is on the way/u]] as const
        ) {
          const { box, run } = yield* newBox
          yield* run(there)
          const before = yield* run("find . ~ | sort")
          const error = yield* Effect.flip(CacheFiles.unpack(folders(box, "a/x"), bytes))
          assert.match(error.message, detail)
          assert.strictEqual(yield* run("find . ~ | sort"), before)
        }
      })
    )

    rule(
      "nothing outside of the folders is written, whatever the archive says",
      Effect.gen(function*() {
        const hostile = {
          "another folder": "mkdir x y; echo f > x/f; echo f > y/f; tar -c x y",
          "a name that climbs": "mkdir x; echo f > x/f; echo f > y; tar -cP x x/../y",
          "an absolute name": "mkdir x; echo f > x/f; tar -cP --transform 's,x/f,/tmp/slipway-absolute-f,' x",
          "a folder that is a link": `mkdir x; echo f > x/f; ln -s .. x/up; tar -cf a x
            rm x/up; mkdir x/up; echo f > x/up/evil; tar -rf a x/up/evil; cat a`,
          "a hard link to what is outside": "mkdir x; echo f > g; ln g x/h; tar -c g x"
        }
        for (const [what, script] of Object.entries(hostile)) {
          const { box, run } = yield* newBox
          yield* run("echo mine > mine")
          const exit = yield* Effect.exit(CacheFiles.unpack(folders(box, "x"), forged(["x"], script)))
          assert.strictEqual(
            yield* run("ls -A | grep -v '^x$'; cat mine; ls -d /tmp/slipway-absolute-f ../evil evil y 2>/dev/null; true"),
            "mine\nmine",
            what
          )
          if (exit._tag === "Failure") assert.strictEqual(yield* run("ls -d x 2>/dev/null; true"), "", what)
        }
      })
    )

    rule(
      "devices are not made in a box",
      Effect.gen(function*() {
        if (name !== "in boxes" || process.getuid?.() !== 0) return
        const { box, run } = yield* newBox
        const bytes = forged(["x"], "mkdir x; mknod x/null c 1 3; tar -c x")
        assert.strictEqual((yield* Effect.flip(CacheFiles.unpack(folders(box, "x"), bytes)))._tag, "CacheFilesFailed")
        assert.strictEqual(yield* run("ls -A"), "")
      })
    )

    rule(
      "what is others than was asked for, of another version, cut or damaged is refused, and nothing of it is left",
      Effect.gen(function*() {
        const { box, run } = yield* newBox
        const good = "mkdir x; echo f > x/f; head -c 300000 /dev/urandom > x/g; tar -c x"
        const [header, archive] = Array.from(yield* Stream.runCollect(forged(["x"], good)))
        if (header === undefined || archive === undefined) return yield* Effect.die("nothing was made")
        const text = (value: string) => Stream.make(new TextEncoder().encode(value))
        const streams: ReadonlyArray<Stream.Stream<Uint8Array, CacheDamaged>> = [
          forged(["x", "y"], good),
          forged(["~/x"], good),
          text(`{"format":2,"paths":[]}\n`),
          text(`{"format":1,"pa`),
          text("x".repeat(400_000)),
          Stream.empty,
          Stream.make(header, archive.subarray(0, 200_000)),
          // Where a member ends tar itself sees nothing amiss.
          Stream.concat(Stream.make(header, archive.subarray(0, 1536)), Stream.fail(new CacheDamaged()))
        ]
        for (const stream of streams) {
          const error = yield* Effect.flip(CacheFiles.unpack(folders(box, "x"), stream))
          assert.include(["CacheFilesFailed", "CacheDamaged"], error._tag)
          assert.strictEqual(yield* run("ls -A"), "")
        }
        // However it is cut into pieces, what is whole is whole.
        const pieces = [header.subarray(0, 3), header.subarray(3), archive.subarray(0, 1), archive.subarray(1)]
        yield* CacheFiles.unpack(folders(box, "x"), Stream.fromIterable(pieces))
        assert.strictEqual(yield* run("ls x"), "f\ng")
      })
    )

    if (name === "in boxes") {
      rule(
        "belongs on the machine's disk to the user of the sandbox",
        Effect.gen(function*() {
          const [one, other] = [yield* newBox, yield* newBox]
          yield* one.run("mkdir x; echo f > x/f")
          yield* CacheFiles.unpack(folders(other.box, "x"), yield* packed(folders(one.box, "x")))
          assert.strictEqual(yield* other.run("stat -c %u x x/f; rm x/f && echo removed"), `${yield* other.run("id -u; id -u")}\nremoved`)
        })
      )
    }
  })
}
