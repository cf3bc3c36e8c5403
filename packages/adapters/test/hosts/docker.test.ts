import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import * as Egress from "@slipway/adapters/egress/Egress"
import { connect } from "@slipway/adapters/hosts/docker/Daemon"
import * as Probe from "@slipway/adapters/hosts/docker/Probe"
import * as SandboxHostDocker from "@slipway/adapters/hosts/docker/SandboxHostDocker"
import { freshId, isRoot, openFolder, run } from "./bubblewrap.fixture.ts"
import { absent, hostIn, layer, optionsIn, socket } from "./docker.fixture.ts"
import { running, temporaryFolder } from "./Machine.ts"

const { eventually } = SandboxHostContract

const noEgress = Egress.layer({ allow: new Set() })

const provision = Effect.gen(function*() {
  const host = yield* SandboxHost
  const sandboxId = freshId()
  const workspace = yield* temporaryFolder
  const box = yield* Effect.acquireRelease(host.provision({ sandboxId, workspace }), () => Effect.orDie(host.stop(sandboxId)))
  return { host, box, sandboxId, workspace }
})

describe("SandboxHostDocker without what it needs", () => {
  it.live("says where it looked for a daemon, and what to do", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const error = yield* Effect.flip(SandboxHostDocker.make({ directory: folder, image: "any", socket: join(folder, "docker.sock") }))
      assert.match(error.message, /daemon cannot be reached \(.*docker\.sock\)\. .*apt-get install docker\.io.*SLIPWAY_DOCKER_SOCKET/u)
    }).pipe(Effect.scoped, Effect.provide(noEgress))
  )
})

describe.skipIf(absent !== undefined)(`SandboxHostDocker${absent === undefined ? "" : ` (${absent})`}`, () => {
  it.live("says how to get an image that is not there", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const error = yield* Effect.flip(SandboxHostDocker.make({ ...optionsIn(folder), image: "localhost:1/slipway/missing:1" }))
      assert.match(error.message, /The image localhost:1\/slipway\/missing:1 is not on this machine.*docker pull.*SLIPWAY_DOCKER_IMAGE/u)
    }).pipe(Effect.scoped, Effect.provide(noEgress))
  )

  it.live("sees in a box what keeps it in", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostDocker.make(optionsIn(folder))
      const report = yield* Probe.run(made)
      const off = report.filter(({ state }) => state === "off").map(({ name }) => name)
      assert.deepStrictEqual(off.filter((name) => !["own user", "memory", "processes", "cpu"].includes(name)), [])
      assert.strictEqual(report.find(({ name }) => name === "own user")?.state, isRoot ? "in force" : "off")
      assert.deepStrictEqual(readdirSync(join(folder, "boxes")), [])
    }).pipe(Effect.scoped, Effect.provide(noEgress))
  )

  it.live("fails when a box would see what is the machine's", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const error = yield* Effect.flip(Effect.flatMap(SandboxHostDocker.make(optionsIn(folder, { readOnly: [folder] })), Probe.run))
      assert.include(error.message, "A box sees files of the machine.")
    }).pipe(Effect.scoped, Effect.provide(noEgress))
  )

  it.live("fails when the filter allows everything", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const { means } = yield* SandboxHostDocker.make(optionsIn(folder))
      const open = { ...means, seccompProfile: JSON.stringify({ defaultAction: "SCMP_ACT_ALLOW" }) }
      const made = yield* SandboxHostDocker.makeWith(open, optionsIn(folder))
      assert.include((yield* Effect.flip(Probe.run(made))).message, "The system call filter is not in force.")
    }).pipe(Effect.scoped, Effect.provide(noEgress))
  )

  it.live("leaves nothing running when its worker is killed, and gives the rest back when asked", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const workspace = yield* temporaryFolder
      const id = freshId()
      const line = `31415.${Math.floor(Math.random() * 1e9)}1`
      const worker = spawn(
        process.execPath,
        [
          fileURLToPath(new URL("./docker.worker.ts", import.meta.url)), folder, workspace, id,
          `(setsid sleep ${line} >/dev/null 2>&1 </dev/null &); (trap '' TERM INT HUP; env -i nohup sleep ${line} >/dev/null 2>&1 </dev/null &); trap '' TERM INT HUP; exec sleep ${line}`
        ],
        { stdio: "ignore" }
      )
      yield* Effect.addFinalizer(() => Effect.sync(() => worker.kill("SIGKILL")))
      // The worker, the container's first process, and three of them.
      yield* eventually(running(line), (count) => count >= 5, "60 seconds")
      worker.kill("SIGKILL")
      yield* Effect.promise(() => (worker.signalCode === null ? once(worker, "exit") : Promise.resolve([])))
      yield* eventually(running(line), (count) => count === 0)

      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        assert.deepStrictEqual(yield* host.list, [id])
        yield* host.stop(id)
        assert.deepStrictEqual(yield* host.list, [])
      }).pipe(Effect.provide(Layer.provide(hostIn(folder), noEgress)))
      assert.deepStrictEqual(readdirSync(join(folder, "boxes")), [])
    })
  )

  it.live("leaves the sandboxes of another service on the machine alone", () =>
    Effect.gen(function*() {
      const [one, other] = [yield* openFolder, yield* openFolder]
      const workspace = yield* temporaryFolder
      const sandboxId = freshId()
      const theirs = yield* Layer.build(Layer.provide(hostIn(other), noEgress))
      const box = yield* SandboxHost.use((host) => host.provision({ sandboxId, workspace })).pipe(Effect.provide(theirs))
      const boxed = yield* box.spawn({ command: "cat", args: [], env: {} })
      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        assert.deepStrictEqual(yield* host.list, [])
        yield* host.stop(sandboxId)
      }).pipe(Effect.provide(Layer.provide(hostIn(one), noEgress)))
      yield* boxed.endInput
      assert.deepStrictEqual(yield* boxed.exited, { code: 0, signal: null })
      yield* SandboxHost.use((host) => host.stop(sandboxId)).pipe(Effect.provide(theirs))
    }).pipe(Effect.scoped)
  )

  it.layer(layer({ limits: { processes: 40, memoryBytes: 128 * 2 ** 20, fileBytes: 2 ** 20 } }), { excludeTestServices: true })("with boxes", (it) => {
    it.effect.skipIf(!isRoot)("runs each sandbox as another user (needs root)", () =>
      Effect.gen(function*() {
        const boxes = [yield* provision, yield* provision]
        yield* Effect.forEach(boxes, ({ box }) => run(box, "touch mine"), { concurrency: "unbounded" })
        const owners = boxes.map(({ workspace }) => statSync(join(workspace, "mine")).uid)
        assert.strictEqual(new Set(owners).size, 2)
        for (const owner of owners) assert.isAbove(owner, 10_000)
      })
    )

    it.effect("names what a container is for", () =>
      Effect.gen(function*() {
        const { box, sandboxId } = yield* provision
        yield* box.spawn({ command: "cat", args: [], env: {} })
        const docker = yield* connect(socket)
        const [container, ...others] = yield* Effect.promise(() => docker.listContainers({ filters: JSON.stringify({ label: [`dev.slipway.sandbox=${sandboxId}`] }) }))
        assert.deepStrictEqual(others, [])
        assert.match(container?.Labels["dev.slipway.instance"] ?? "", /^slipway-[0-9a-f]{12}$/u)
      })
    )

    it.effect("keeps to its limits of processes, memory and files", () =>
      Effect.gen(function*() {
        const { box } = yield* provision
        // At most 200, each for a moment.
        const forks = yield* run(box, "i=0; while [ $i -lt 200 ]; do sleep 3 & i=$((i+1)); done 2>/dev/null; ls -d /proc/[0-9]* | wc -l")
        assert.isTrue(forks.output === "" || Number(forks.output) <= 42, forks.output)
        const { code } = yield* run(box, `node -e 'Buffer.alloc(300 * 2 ** 20, 1); console.log("taken")'`)
        assert.notStrictEqual(code, 0)
        assert.strictEqual((yield* run(box, 'dd if=/dev/zero of="$HOME/big" bs=1M count=3 2>/dev/null; stat -c %s "$HOME/big"')).output, `${2 ** 20}`)
      })
    )

    it.effect("sees no file, no environment and no socket of the machine, and no docker socket", () =>
      Effect.gen(function*() {
        const { box } = yield* provision
        const { output } = yield* run(
          box,
          `ls -d /var/run/docker.sock /run/docker.sock ${socket} /root/* /home/*/.ssh 2>/dev/null; (echo x > /etc/x) 2>/dev/null; (echo x > /x) 2>/dev/null; ` +
            "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -ci -e vitest -e npm_"
        )
        assert.strictEqual(output, "0")
      })
    )

    it.effect("may make none of the calls that a filter refuses", () =>
      Effect.gen(function*() {
        const { box } = yield* provision
        const calls = process.arch === "arm64"
          ? { keyctl: [219, "0, -3, 0, 0, 0"], ptrace: [117, "0, 0, 0, 0"], vsock: [198, "40, 1, 0"], raw: [198, "2, 3, 0"], mount: [40, "0, 0, 0, 0, 0"], uring: [425, "1, 0"], unshare: [97, "0x10000000"], clone: [220, "0x10000011, 0, 0, 0, 0"], tiocsti: [29, "0, 0x100005412, 0"] }
          : { keyctl: [250, "0, -3, 0, 0, 0"], ptrace: [101, "0, 0, 0, 0"], vsock: [41, "40, 1, 0"], raw: [41, "2, 3, 0"], mount: [165, "0, 0, 0, 0, 0"], uring: [425, "1, 0"], unshare: [272, "0x10000000"], clone: [56, "0x10000011, 0, 0, 0, 0"], tiocsti: [16, "0, 0x100005412, 0"] }
        const EPERM = 1
        for (const [name, [number, args]] of Object.entries(calls)) {
          const { output } = yield* run(box, `perl -e '$r = syscall(${number}, ${args}); print $r < 0 ? $!+0 : "done"'`)
          assert.strictEqual(output, `${name === "vsock" ? 97 : EPERM}`, name)
        }
        const { output } = yield* run(box, "perl -e 'print syscall(" + (process.arch === "arm64" ? 198 : 41) + ", 2, 0x80001, 6) >= 0 ? 1 : 0'; grep -E '^(NoNewPrivs|CapBnd)' /proc/self/status | tr -d '\\n\\t'")
        assert.strictEqual(output, "1CapBnd:0000000000000000NoNewPrivs:1")
      })
    )

    it.effect("shows the objects that the host's repositories borrow, read-only", () =>
      Effect.gen(function*() {
        const { host } = yield* provision
        const folder = yield* openFolder
        const objects = join(folder, "mirrors", "ours.git", "objects")
        mkdirSync(objects, { recursive: true })
        writeFileSync(join(objects, "pack"), "objects", { mode: 0o644 })
        const site = join(folder, "sandboxes", "one")
        mkdirSync(join(site, "git", "acme+shop", "objects", "info"), { recursive: true })
        writeFileSync(join(site, "git", "acme+shop", "objects", "info", "alternates"), `${objects}\n`)
        const sandboxId = freshId()
        const box = yield* Effect.acquireRelease(host.provision({ sandboxId, workspace: join(site, "workspace") }), () => Effect.orDie(host.stop(sandboxId)))
        assert.strictEqual((yield* run(box, `cat ${objects}/pack; (echo x > ${objects}/x) 2>/dev/null && echo written`)).output, "objects")
      })
    )
  })

  it.live("lets a box reach what is allowed through its port, and nothing else", () =>
    Effect.gen(function*() {
      const site = yield* Effect.acquireRelease(
        Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
          const server = createServer((request, response) => response.end(`hello from ${request.headers.host?.split(":")[0]}`))
          server.listen(0, "127.0.0.1", () => {
            const address = server.address()
            resume(Effect.succeed({ port: address !== null && typeof address === "object" ? address.port : 0, close: () => server.close() }))
          })
        }),
        ({ close }) => Effect.sync(close)
      )
      yield* Effect.gen(function*() {
        const egress = yield* Egress.Egress
        const { box, sandboxId } = yield* provision
        const ask = (target: string) =>
          `node -e 'require("http").request({ host: "127.0.0.1", port: 3128, method: "CONNECT", path: "${target}" }).on("connect", (r, s) => { console.log(r.statusCode); if (r.statusCode !== 200) process.exit(); s.write("GET / HTTP/1.0\\r\\nHost: ${target}\\r\\n\\r\\n"); s.pipe(process.stdout) }).end()' | tail -1`
        assert.strictEqual((yield* run(box, ask(`allowed.test:${site.port}`))).output, "hello from allowed.test")
        assert.strictEqual((yield* run(box, ask(`127.0.0.1:${site.port}`))).output, "403")
        assert.strictEqual((yield* run(box, `node -e 'require("net").connect(${site.port}, "127.0.0.1").on("connect", () => console.log("reached")).on("error", () => console.log("unreachable"))'`)).output, "unreachable")
        assert.strictEqual(yield* egress.refusals(sandboxId), 1)
      }).pipe(Effect.scoped, Effect.provide(layer({}, {
        allow: new Set([`allowed.test:${site.port}`]),
        lookup: async () => ["127.0.0.1"],
        mayConnect: (address) => address === "127.0.0.1"
      })))
    })
  )
})
