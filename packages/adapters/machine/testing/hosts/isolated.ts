/** The rules of every host of boxes beyond the port's contract: its adapters call this with their kind of boxes. */
import { assert, describe, it } from "@effect/vitest"
import { type Box, type BoxCommand, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect, Layer, Stream } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type * as BoxKind from "../../src/box/BoxKind.ts"
import * as Egress from "../../src/egress/Egress.ts"
import * as SmallDisk from "../SmallDisk.ts"
import * as SpawnedProgram from "../SpawnedProgram.ts"
import { freshId, isRoot, openFolder, run } from "./bubblewrap.fixture.ts"
import { running as runningOnMachine, workspaceFor } from "./Machine.ts"

const { eventually } = SandboxHostContract

export const noEgress = Egress.layer({ allow: new Set() })

export const provision = Effect.gen(function*() {
  const host = yield* SandboxHost
  const sandboxId = freshId()
  const workspace = yield* workspaceFor(sandboxId)
  const box = yield* Effect.acquireRelease(host.provision({ sandboxId, fence: 1 }), () => Effect.orDie(host.stop(sandboxId)))
  return { host, box, sandboxId, workspace }
})

/** Not every box has an `ls` that works: gVisor of 2022-12 does not know how it asks. */
const namesIn = (folder: string) => `find ${folder} -mindepth 1 -maxdepth 1 -printf "%f\\n"`

export interface Fixture {
  /** Why there are no boxes on this machine. */
  readonly absent: string | undefined
  /** The host of a service whose folder this is. */
  hostIn(folder: string): Layer.Layer<SandboxHost, unknown, Egress.Egress>
  /** A host with a new folder. */
  layer(
    allow?: Egress.Options,
    options?: Pick<BoxKind.Options, "limits" | "toolchains">
  ): Layer.Layer<SandboxHost | Egress.Egress, unknown>
  /** The name of its fixture, for `worker.ts`. */
  readonly kind: "bubblewrap" | "docker" | "gvisor"
  /** Processes of the machine that have the script in their command line, beside those that the script starts. */
  readonly around: number
  /** The entries that a service keeps in its folder without sandboxes. */
  readonly kept: ReadonlyArray<string>
  /** How many processes have the text in their command line, where the machine does not see those in boxes. */
  readonly running?: (text: string) => Effect.Effect<number>
  /** Whether a box is told which of the machine's processors it has, and not only how many. */
  readonly namesProcessors?: boolean
}

/** One program of each toolchain, as Debian packages it. */
const PROGRAMS: ReadonlyArray<readonly [name: string, script: string]> = [
  ["javac", `echo 'class A { public static void main(String[] a) { System.out.println("It runs"); } }' > A.java; java A.java`],
  ["mvn", `mvn --version 2>&1 | grep -q 'Apache Maven' && echo It runs`],
  ["ruby", `ruby -e 'require "json"; puts JSON.parse("[\\"It runs\\"]")'`],
  ["php", `php -r 'echo "It runs\\n";'`],
  ["python3", `python3 -c 'import ssl; print("It runs")'`],
  ["go", `printf 'package main\\nimport "fmt"\\nfunc main() { fmt.Println("It runs") }\\n' > a.go; go run a.go`]
]

export const suite = (
  name: string,
  { absent, around, hostIn, kept, kind, layer, namesProcessors = true, running = runningOnMachine }: Fixture
) =>
  describe.skipIf(absent !== undefined)(`boxes (${name})${absent === undefined ? "" : ` (${absent})`}`, () => {
    for (const trouble of SmallDisk.isPossible ? SmallDisk.TROUBLES : []) {
      it.live(`says so in words when its disk is ${trouble}, and makes boxes again when that is mended`, () =>
        Effect.gen(function*() {
          const disk = yield* SmallDisk.make(24)
          yield* Effect.gen(function*() {
            const host = yield* SandboxHost
            const [first, second] = [freshId(), freshId()]
            for (const sandboxId of [first, second]) yield* workspaceFor(sandboxId)
            const box = yield* host.provision({ sandboxId: first, fence: 1 })
            disk.spoil(trouble)
            const words = trouble === "read-only" ? /The machine's disk is read-only\./u : /There is no space left on the machine's disk\./u
            const refused = yield* Effect.flip(host.provision({ sandboxId: second, fence: 1 }))
            assert.match(refused.detail, words)
            const homeless = yield* Effect.flip(Effect.scoped(box.spawn({ command: "true", args: [], env: {}, homeFiles: { "a/b": "c" } })))
            assert.match(homeless.detail, words)
            disk.mend()
            yield* host.provision({ sandboxId: second, fence: 1 })
            yield* host.stop(second)
            yield* host.stop(first)
          }).pipe(Effect.provide(Layer.provide(hostIn(join(disk.path, "boxes")), noEgress)))
        }))
    }

    it.live("leaves nothing running when its worker is killed, and gives the rest back when asked", () =>
      Effect.gen(function*() {
        const folder = yield* openFolder
        const id = freshId()
        yield* workspaceFor(id)
        const line = `31415.${Math.floor(Math.random() * 1e9)}1`
        const worker = yield* SpawnedProgram.scoped(
          process.execPath,
          [
            fileURLToPath(new URL("./worker.ts", import.meta.url)),
            kind,
            folder,
            id,
            `(setsid sleep ${line} >/dev/null 2>&1 </dev/null &)
            (trap '' TERM INT HUP; env -i nohup sleep ${line} >/dev/null 2>&1 </dev/null &)
            perl -e 'fork and exit; setpgrp; fork and exit; exec "sleep", "${line}"'
            cat`
          ]
        )
        // Three of them.
        yield* eventually(running(line), (count) => count >= around + 3, "60 seconds")
        yield* Effect.promise(() => worker.stop("SIGKILL"))
        yield* eventually(running(line), (count) => count === 0)

        yield* Effect.gen(function*() {
          const host = yield* SandboxHost
          assert.deepStrictEqual(yield* host.list, [id])
          yield* host.stop(id)
          assert.deepStrictEqual(yield* host.list, [])
        }).pipe(Effect.provide(Layer.provide(hostIn(folder), noEgress)))
        assert.deepStrictEqual(readdirSync(join(folder, "boxes")), kept)
      }))

    it.live("shows the service's own processes the repositories of a sandbox's trees, read-only, and no other process nor sandbox", () =>
      Effect.gen(function*() {
        const { box, workspace } = yield* provision
        const { box: other } = yield* provision
        const repositories = ["acme+shop", "acme+docs"].map((name) => join(workspace, "../git", name))
        for (const repository of repositories) {
          mkdirSync(repository, { recursive: true, mode: 0o755 })
          writeFileSync(join(repository, "file"), "shown ", { mode: 0o644 })
          chmodSync(repository, 0o755)
        }
        const look = (of: Box, sight: Pick<BoxCommand, "seesRepositories">) =>
          Effect.scoped(Effect.gen(function*() {
            const process = yield* of.spawn({
              command: "sh",
              args: ["-c", "for one; do cat \"$one/file\"; touch \"$one/file\" \"$one/more\" && echo written; done", "sh", ...repositories],
              env: {},
              ...sight
            })
            return yield* Stream.mkString(Stream.decodeText(process.stdout))
          }))
        assert.strictEqual(yield* look(box, { seesRepositories: true }), "shown shown ")
        assert.strictEqual(yield* look(box, {}), "")
        assert.strictEqual(yield* look(other, { seesRepositories: true }), "")
        for (const repository of repositories) assert.deepStrictEqual(readdirSync(repository), ["file"])
      }).pipe(Effect.scoped, Effect.provide(layer())))

    it.live("has no way out for a process that is to have none", () =>
      Effect.gen(function*() {
        const { box } = yield* provision
        const look = (isOffline: boolean) =>
          Effect.scoped(Effect.gen(function*() {
            const process = yield* box.spawn({
              command: "sh",
              args: ["-c", `${namesIn("/run/slipway")}; env | grep -i proxy`],
              env: {},
              isOffline
            })
            return (yield* Stream.mkString(Stream.decodeText(process.stdout))).trim()
          }))
        assert.include(yield* look(false), "egress.sock")
        assert.strictEqual(yield* look(true), "")
      }).pipe(Effect.scoped, Effect.provide(layer({ allow: new Set(["example.com:443"]) }))))

    it.live("leaves the sandboxes of another service on the machine alone", () =>
      Effect.gen(function*() {
        const [one, other] = [yield* openFolder, yield* openFolder]
        const sandboxId = freshId()
        yield* workspaceFor(sandboxId)
        const theirs = yield* Layer.build(Layer.provide(hostIn(other), noEgress))
        const box = yield* SandboxHost.use((host) => host.provision({ sandboxId, fence: 1 })).pipe(Effect.provide(theirs))
        const boxed = yield* box.spawn({ command: "cat", args: [], env: {} })
        yield* Effect.gen(function*() {
          const host = yield* SandboxHost
          assert.deepStrictEqual(yield* host.list, [])
          yield* host.stop(sandboxId)
        }).pipe(Effect.provide(Layer.provide(hostIn(one), noEgress)))
        yield* boxed.endInput
        assert.deepStrictEqual(yield* boxed.exited, { code: 0, signal: null })
        yield* SandboxHost.use((host) => host.stop(sandboxId)).pipe(Effect.provide(theirs))
      }).pipe(Effect.scoped))

    it.live("finds a sandbox's home, and its user, again after a restart", () =>
      Effect.gen(function*() {
        const folder = yield* openFolder
        const sandboxId = freshId()
        const workspace = yield* workspaceFor(sandboxId)
        const look = (script: string) =>
          Effect.gen(function*() {
            const host = yield* SandboxHost
            const box = yield* host.provision({ sandboxId, fence: 1 })
            return { ...(yield* run(box, script)), uid: statSync(workspace).uid }
          }).pipe(Effect.provide(Layer.provide(hostIn(folder), noEgress)))
        const before = yield* look("echo kept > \"$HOME/file\"")
        const after = yield* look("cat \"$HOME/file\"; echo more >> \"$HOME/file\"; cat \"$HOME/file\"")
        assert.strictEqual(after.output, "kept\nkept\nmore")
        assert.strictEqual(after.uid, before.uid)
        yield* Effect.provide(SandboxHost.use((host) => host.stop(sandboxId)), Layer.provide(hostIn(folder), noEgress))
      }))

    it.live.skipIf(availableParallelism() < 2)(
      "shows as many processors as a sandbox may use, not the same to each, and all to who may use more (two processors)",
      () =>
        Effect.gen(function*() {
          const script = "nproc; node -p 'os.availableParallelism()'; grep Cpus_allowed_list /proc/self/status || echo unknown; " +
            "(python3 -c 'import os; print(len(os.sched_getaffinity(0)))' || nproc) 2>/dev/null"
          const seen = Effect.fnUntraced(function*(box: Box) {
            const [nproc, node, list, python] = (yield* run(box, script)).output.split("\n")
            return { counts: [nproc, node, python].map(Number), processors: list }
          })
          const one = yield* Layer.build(layer({ allow: new Set() }, { limits: { cpus: 1 } }))
          yield* Effect.gen(function*() {
            const lists = new Set<string | undefined>()
            // Each two of them fill the two that there are at least.
            for (const { box } of yield* Effect.all(Array.from({ length: 2 }, () => provision))) {
              const { counts, processors } = yield* seen(box)
              assert.deepStrictEqual(counts, [1, 1, 1])
              assert.strictEqual((yield* seen(box)).processors, processors)
              lists.add(processors)
            }
            assert.lengthOf(Array.from(lists), namesProcessors ? 2 : 1)
          }).pipe(Effect.scoped, Effect.provide(one))

          const all = availableParallelism()
          const more = yield* Layer.build(layer({ allow: new Set() }, { limits: { cpus: all + 1 } }))
          yield* Effect.gen(function*() {
            assert.deepStrictEqual((yield* seen((yield* provision).box)).counts, [all, all, all])
          }).pipe(Effect.scoped, Effect.provide(more))
        }).pipe(Effect.scoped)
    )

    it.live("shows the toolchains read-only, and finds their programs first where these are asked for", () =>
      Effect.gen(function*() {
        const folder = yield* openFolder
        const program = (path: string, script: string) => {
          mkdirSync(join(folder, path, ".."), { recursive: true })
          writeFileSync(join(folder, path), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
        }
        // As nvm, SDKMAN, a manager with stand-ins that are links to another folder, and a folder of programs have it.
        program("nvm/versions/node/v24.1.0/bin/node", "echo their node")
        symlinkSync("versions/node/v24.1.0", join(folder, "nvm/current"))
        program("sdkman/candidates/java/21/bin/java", "echo java 21")
        symlinkSync(join(folder, "sdkman/candidates/java/21"), join(folder, "sdkman/candidates/java/current"))
        program("manager/manager", "echo \"${0##*/} for $MISE_DATA_DIR\"")
        mkdirSync(join(folder, "shims/installs"), { recursive: true })
        mkdirSync(join(folder, "shims/shims"))
        symlinkSync(join(folder, "manager/manager"), join(folder, "shims/shims/go"))
        program("plain/git", "echo their git")
        const toolchains = ["nvm", "sdkman", "shims", "manager", "plain"].map((name) => join(folder, name))
        const services = yield* Layer.build(layer({ allow: new Set() }, { toolchains }))
        yield* Effect.gen(function*() {
          const { box, host } = yield* provision
          const programs = yield* host.programs(null)
          const given = { ...box, spawn: (command: BoxCommand) => box.spawn({ ...command, programs }) }
          assert.strictEqual(
            (yield* run(given, "node; java; go; git; manager")).output,
            `their node\njava 21\ngo for ${folder}/shims\ntheir git\nmanager for ${folder}/shims`
          )
          // Processes that the service starts itself find their programs: an agent by its path, the rest by name.
          assert.strictEqual((yield* run(given, `${process.execPath} -p 6*7`)).output, "42")
          const own = "git --version | cut -d' ' -f1; java 2>&1 | grep -c 'java 21'; echo \"$MISE_DATA_DIR\""
          assert.strictEqual((yield* run(box, own)).output, "git\n0")
          const written = yield* run(
            given,
            `for d in ${toolchains.join(" ")}; do (echo x > $d/x) 2>/dev/null && echo written; done; rm -f ${folder}/plain/git; git`
          )
          assert.strictEqual(written.output, "their git")
          assert.isFalse(existsSync(join(folder, "plain/x")))

          // As long as nothing changes they are the same.
          assert.deepStrictEqual(yield* host.programs(null), programs)
          program("nvm/versions/node/v25.0.0/bin/node", "echo their newer node")
          const added = yield* host.programs(null)
          assert.notStrictEqual(added.id, programs.id)
          unlinkSync(join(folder, "nvm/current"))
          symlinkSync("versions/node/v25.0.0", join(folder, "nvm/current"))
          assert.notStrictEqual((yield* host.programs(null)).id, added.id)
          assert.strictEqual((yield* run(given, "node")).output, "their newer node")
        }).pipe(Effect.scoped, Effect.provide(services))
      }).pipe(Effect.scoped))

    it.layer(layer(), { excludeTestServices: true })("of the usual kind", (it) => {
      for (const [program, script] of kind === "docker" ? [] : PROGRAMS) {
        // The start script of Maven asks `ls`, which does not work in a gVisor of 2022-12.
        if (kind === "gvisor" && program === "mvn") continue
        const isMissing = spawnSync("sh", ["-c", `command -v ${program}`]).status !== 0
        it.effect.skipIf(isMissing)(
          `run ${program}, with the configuration that the system keeps for it${isMissing ? ` (needs ${program})` : ""}`,
          () =>
            Effect.gen(function*() {
              const { box } = yield* provision
              const { code, output } = yield* run(box, script)
              assert.deepStrictEqual([code, output.trim().split("\n").at(0)], [0, "It runs"], output)
            })
        )
      }

      it.effect.skipIf(!isRoot)(
        "runs each sandbox as another user, without an account on the machine (needs root)",
        () =>
          Effect.gen(function*() {
            const boxes = [yield* provision, yield* provision, yield* provision]
            yield* Effect.forEach(boxes, ({ box }) => run(box, "touch mine"), { concurrency: "unbounded" })
            const owners = boxes.map(({ workspace }) => statSync(join(workspace, "mine")).uid)
            assert.strictEqual(new Set(owners).size, 3)
            for (const owner of owners) {
              assert.isAbove(owner, 10_000)
              assert.throws(() => execFileSync("getent", ["passwd", `${owner}`]))
            }
          })
      )

      it.effect("lets an agent write to trees that the host has made, then and later, and reads them on the host", () =>
        Effect.gen(function*() {
          const { box, workspace } = yield* provision
          for (const tree of ["shop", "later"]) {
            mkdirSync(join(workspace, tree, "src"), { recursive: true })
            writeFileSync(join(workspace, tree, "src", "file"), "old\n", { mode: 0o644 })
            const { code, output } = yield* run(
              box,
              `cd ${tree}/src && echo new >> file && echo x > other && chmod 600 other && mv file moved && cat moved`
            )
            assert.deepStrictEqual([code, output], [0, "old\nnew"])
            assert.strictEqual(readFileSync(join(workspace, tree, "src", "other"), "utf8"), "x\n")
          }
        }))

      it.effect("shows the objects that the host's repositories borrow, read-only, and no other mirror's", () =>
        Effect.gen(function*() {
          const { box, workspace } = yield* provision
          const folder = yield* openFolder
          const [mirror, other] = [join(folder, "mirrors", "ours.git", "objects"), join(folder, "mirrors", "theirs.git", "objects")]
          for (const objects of [mirror, other]) {
            mkdirSync(objects, { recursive: true })
            writeFileSync(join(objects, "pack"), "objects", { mode: 0o644 })
          }
          const repository = join(workspace, "../git/acme+shop")
          mkdirSync(join(repository, "objects", "info"), { recursive: true })
          writeFileSync(join(repository, "objects", "info", "alternates"), `${mirror}\n`)
          // A tree's claims about itself count for nothing.
          yield* run(box, `mkdir -p shop/.git/objects/info && echo ${other} > shop/.git/objects/info/alternates`)
          const look = `cat ${mirror}/pack; (echo x > ${mirror}/x) 2>/dev/null && echo written; cat ${other}/pack 2>/dev/null`
          const { output } = yield* run(box, `${look}; ${namesIn(join(folder, "mirrors"))}`)
          assert.strictEqual(output, "objectsours.git")
        }))

      it.effect("finds node, git and a shell on the path, with a home and a name", () =>
        Effect.gen(function*() {
          const { box } = yield* provision
          const { output } = yield* run(
            box,
            `node -p 'require("os").userInfo().username + (new (require("worker_threads").Worker)("0", { eval: true })).threadId'
            git init -q shop && cd shop
            git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=%s`
          )
          assert.strictEqual(output, "agent1\nx")
        }))

      it.effect("starts nothing once the workspace is gone", () =>
        Effect.gen(function*() {
          const { box, workspace } = yield* provision
          execFileSync("rm", ["-rf", workspace])
          // Where the workspace need not change hands, bubblewrap is the one who notices.
          const outcome = yield* Effect.result(run(box, "echo started"))
          assert.notStrictEqual(outcome._tag === "Success" ? outcome.success.output : "", "started")
          mkdirSync(workspace)
        }))
    })

    it.live("opens no way out where nothing may be reached", () =>
      Effect.gen(function*() {
        const { box } = yield* provision
        const { output } = yield* run(box, `${namesIn("/run/slipway")}; env | grep -ci _proxy=`)
        assert.strictEqual(output, "0")
      }).pipe(Effect.scoped, Effect.provide(layer())))

    it.live("lets a box reach what is allowed through its port, and nothing else", () =>
      Effect.gen(function*() {
        const site = yield* Effect.acquireRelease(
          Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
            const server = createServer((request, response) => response.end(`hello from ${request.headers.host?.split(":")[0]}`))
            server.listen(0, "127.0.0.1", () => {
              const address = server.address()
              resume(
                Effect.succeed({ port: address !== null && typeof address === "object" ? address.port : 0, close: () => server.close() })
              )
            })
          }),
          ({ close }) => Effect.sync(close)
        )
        yield* Effect.gen(function*() {
          const egress = yield* Egress.Egress
          const { box, sandboxId } = yield* provision
          const ask = (target: string) =>
            `node -e '
              const request = require("http").request({ host: "127.0.0.1", port: 3128, method: "CONNECT", path: "${target}" })
              request.on("connect", (response, socket) => {
                console.log(response.statusCode)
                if (response.statusCode !== 200) process.exit()
                socket.write("GET / HTTP/1.0\\r\\nHost: ${target}\\r\\n\\r\\n")
                socket.pipe(process.stdout)
              }).end()' | tail -1`
          const allowed = yield* run(box, ask(`allowed.test:${site.port}`))
          assert.strictEqual(allowed.output, "hello from allowed.test")
          // Programs that know no proxy but what the environment says.
          const plain = `${process.execPath} -e 'fetch("http://allowed.test:${site.port}/").then((r) => r.text()).then(console.log)'`
          assert.strictEqual((yield* run(box, plain)).output, "hello from allowed.test")
          for (const target of [`127.0.0.1:${site.port}`, "other.test:443", `inner.test:${site.port}`]) {
            assert.strictEqual((yield* run(box, ask(target))).output, "403", target)
          }
          assert.strictEqual(yield* egress.refusals(sandboxId), 3)
          assert.strictEqual((yield* run(box, "echo \"$https_proxy $HTTPS_PROXY $no_proxy\"; exit 7")).code, 7)

          // The model gateway: its own address is a port of the box.
          yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${site.port}`))
          assert.strictEqual(
            (yield* run(box, `node -e 'fetch("${Egress.BASE_URL}/v1/models").then((r) => r.text()).then(console.log)'`)).output,
            "hello from 127.0.0.1"
          )
          // Another sandbox has no part in it, and cannot speak through this one's socket.
          const other = yield* provision
          assert.strictEqual(
            (yield* run(other.box, `node -e 'fetch("${Egress.BASE_URL}/v1/models").then((r) => console.log(r.status))'`)).output,
            "403"
          )
          assert.strictEqual(
            (yield* run(
              other.box,
              `${namesIn("/run/slipway")}; find / -path /proc -prune -o -name egress.sock -print 2>/dev/null | sort -u`
            )).output,
            "egress.sock\n/run/slipway/egress.sock"
          )
        }).pipe(
          Effect.scoped,
          Effect.provide(layer({
            allow: new Set([`allowed.test:${site.port}`, `inner.test:${site.port}`]),
            lookup: async (name) => [name === "allowed.test." ? "127.0.0.1" : "10.0.0.1"],
            mayConnect: (address) => address === "127.0.0.1"
          }))
        )
      }))
  })
