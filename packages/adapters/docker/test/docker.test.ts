import { assert, describe, it } from "@effect/vitest"
import * as SizedFolders from "@slipway/machine/files/SizedFolders"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { defaults } from "@slipway/machine/host/Limits"
import { freshId, isRoot, openFolder, run } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as IsolatedHosts from "@slipway/machine/testing/hosts/isolated"
import { noEgress, provision } from "@slipway/machine/testing/hosts/isolated"
import { workspaceOf } from "@slipway/machine/testing/hosts/Machine"
import { lacking } from "@slipway/machine/testing/hosts/sized.fixture"
import * as Mounts from "@slipway/machine/testing/Mounts"
import { Effect } from "effect"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { connect } from "../src/Daemon.ts"
import * as Probe from "../src/Probe.ts"
import * as SandboxHostDocker from "../src/SandboxHostDocker.ts"
import { absent, hostIn, layer, optionsIn, socket } from "../testing/docker.fixture.ts"

IsolatedHosts.suite("Docker", {
  absent,
  hostIn,
  layer: (allow, options = {}) => layer(options, allow),
  kind: "docker",
  // The worker, the container's first process, and the shell.
  around: 3,
  kept: []
})

describe("SandboxHostDocker without what it needs", () => {
  it.live("says where it looked for a daemon, and what to do", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const socket = join(folder, "docker.sock")
      const error = yield* Effect.flip(SandboxHostDocker.make({ directory: folder, workspaceOf, image: "any", socket }))
      assert.match(error.message, /daemon cannot be reached \(.*docker\.sock\)\. .*apt-get install docker\.io.*the option socket/u)
    }).pipe(Effect.scoped, Effect.provide(noEgress)))
})

describe.skipIf(absent !== undefined)(`SandboxHostDocker${absent === undefined ? "" : ` (${absent})`}`, () => {
  it.live("says how to get an image that is not there", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const error = yield* Effect.flip(SandboxHostDocker.make({ ...optionsIn(folder), image: "localhost:1/slipway/missing:1" }))
      assert.match(error.message, /The image localhost:1\/slipway\/missing:1 is not on this machine.*docker pull.*the option image/u)
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.live("sees in a box what keeps it in", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostDocker.make(optionsIn(folder))
      const report = yield* Probe.run(made)
      const off = report.filter(({ state }) => state === "off").map(({ name }) => name)
      assert.deepStrictEqual(off.filter((name) => !["own user", "memory", "processes", "cpu"].includes(name)), [])
      assert.strictEqual(report.find(({ name }) => name === "own user")?.state, isRoot ? "in force" : "off")
      assert.deepStrictEqual(readdirSync(join(folder, "boxes")), [])
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  const unsized = lacking === undefined ? "" : ` (${lacking})`
  it.live.skipIf(lacking !== undefined)(
    `keeps a sandbox to the size of its folder, and no file of a removed sandbox while another runs${unsized}`,
    () =>
      Effect.gen(function*() {
        const folder = yield* openFolder
        const limits = { ...defaults, diskBytes: 8 * 2 ** 20 }
        const directory = join(folder, "trees")
        yield* Effect.addFinalizer(() => Effect.sync(() => Mounts.unmount(directory)))
        const folders = yield* SizedFolders.make({ directory, limits })
        yield* folders.adopt
        const made = yield* SandboxHostDocker.make(optionsIn(folder, { folders, limits, workspaceOf: workspacesIn(directory) }))
        const report = yield* Probe.run(made)
        assert.match(String(report.find(({ name }) => name === "disk")?.detail), /^8 MiB and 2048 files, kept by the kernel/u)
        const provisioned = Effect.gen(function*() {
          const sandboxId = freshId()
          const give = Effect.andThen(Effect.orDie(made.host.stop(sandboxId)), folders.remove(sandboxId))
          const box = yield* Effect.acquireRelease(made.host.provision({ sandboxId, fence: 1 }), () => give)
          return { box, give }
        })
        const [one, other] = [yield* provisioned, yield* provisioned]
        const running = yield* other.box.spawn({ command: "cat", args: [], env: {} })
        const { output } = yield* run(
          one.box,
          "for place in . $HOME $TMPDIR; do dd if=/dev/zero of=$place/file bs=1048576 count=3 2>/dev/null || echo full; done; echo alive"
        )
        assert.strictEqual(output, "full\nalive")
        yield* one.give
        assert.lengthOf(yield* Mounts.disksLeft(directory, 1), 1)
        yield* running.endInput
        assert.deepStrictEqual(yield* running.exited, { code: 0, signal: null })
      }).pipe(Effect.scoped, Effect.provide(noEgress))
  )

  it.live("fails when a box would see what is the machine's", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const error = yield* Effect.flip(Effect.flatMap(SandboxHostDocker.make(optionsIn(folder, { readOnly: [folder] })), Probe.run))
      assert.include(error.message, "A box sees files of the machine.")
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.live("fails when the filter allows everything", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const { requirements } = yield* SandboxHostDocker.make(optionsIn(folder))
      const open = { ...requirements, seccompProfile: JSON.stringify({ defaultAction: "SCMP_ACT_ALLOW" }) }
      const made = yield* SandboxHostDocker.makeWith(open, optionsIn(folder))
      assert.include((yield* Effect.flip(Probe.run(made))).message, "The system call filter is not in force.")
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.layer(layer({ limits: { processes: 40, memoryBytes: 128 * 2 ** 20, fileBytes: 2 ** 20 } }), { excludeTestServices: true })(
    "with boxes",
    (it) => {
      it.effect("is through with a sandbox only when its containers are gone, however they are removed", () =>
        Effect.gen(function*() {
          const { box, host, sandboxId } = yield* provision
          const docker = yield* connect(socket)
          for (let i = 0; i < 5; i++) {
            yield* box.spawn({ command: "cat", args: [], env: {} })
            const filters = JSON.stringify({ label: [`dev.slipway.sandbox=${sandboxId}`] })
            const found = yield* Effect.promise(() => docker.listContainers({ all: true, filters }))
            const others = found.map(({ Id }) => docker.getContainer(Id).remove({ force: true }).catch(() => {}))
            yield* host.provision({ sandboxId, fence: 1 })
            assert.deepStrictEqual(yield* Effect.promise(() => docker.listContainers({ all: true, filters })), [])
            yield* Effect.promise(() => Promise.all(others))
          }
        }))

      it.effect("names what a container is for", () =>
        Effect.gen(function*() {
          const { box, sandboxId } = yield* provision
          yield* box.spawn({ command: "cat", args: [], env: {} })
          const docker = yield* connect(socket)
          const [container, ...others] = yield* Effect.promise(() =>
            docker.listContainers({ filters: JSON.stringify({ label: [`dev.slipway.sandbox=${sandboxId}`] }) })
          )
          assert.deepStrictEqual(others, [])
          assert.match(container?.Labels["dev.slipway.instance"] ?? "", /^slipway-[0-9a-f]{12}$/u)
        }))

      it.effect("keeps to its limits of processes, memory and files", () =>
        Effect.gen(function*() {
          const { box } = yield* provision
          // At most 200, each for a moment.
          const forks = yield* run(box, "i=0; while [ $i -lt 200 ]; do sleep 3 & i=$((i+1)); done 2>/dev/null; ls -d /proc/[0-9]* | wc -l")
          assert.isTrue(forks.output === "" || Number(forks.output) <= 42, forks.output)
          const { code } = yield* run(box, `node -e 'Buffer.alloc(300 * 2 ** 20, 1); console.log("taken")'`)
          assert.notStrictEqual(code, 0)
          assert.strictEqual(
            (yield* run(box, "dd if=/dev/zero of=\"$HOME/big\" bs=1M count=3 2>/dev/null; stat -c %s \"$HOME/big\"")).output,
            `${2 ** 20}`
          )
        }))

      it.effect("sees no file, no environment and no socket of the machine, and no docker socket", () =>
        Effect.gen(function*() {
          const { box } = yield* provision
          const { output } = yield* run(
            box,
            `ls -d /var/run/docker.sock /run/docker.sock ${socket} /root/* /home/*/.ssh 2>/dev/null; ` +
              "(echo x > /etc/x) 2>/dev/null; (echo x > /x) 2>/dev/null; " +
              "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -ci -e vitest -e npm_"
          )
          assert.strictEqual(output, "0")
        }))

      it.effect("may make none of the calls that a filter refuses", () =>
        Effect.gen(function*() {
          const { box } = yield* provision
          const calls = process.arch === "arm64"
            ? {
              keyctl: [219, "0, -3, 0, 0, 0"],
              ptrace: [117, "0, 0, 0, 0"],
              vsock: [198, "40, 1, 0"],
              raw: [198, "2, 3, 0"],
              mount: [40, "0, 0, 0, 0, 0"],
              uring: [425, "1, 0"],
              unshare: [97, "0x10000000"],
              clone: [220, "0x10000011, 0, 0, 0, 0"],
              tiocsti: [29, "0, 0x100005412, 0"]
            }
            : {
              keyctl: [250, "0, -3, 0, 0, 0"],
              ptrace: [101, "0, 0, 0, 0"],
              vsock: [41, "40, 1, 0"],
              raw: [41, "2, 3, 0"],
              mount: [165, "0, 0, 0, 0, 0"],
              uring: [425, "1, 0"],
              unshare: [272, "0x10000000"],
              clone: [56, "0x10000011, 0, 0, 0, 0"],
              tiocsti: [16, "0, 0x100005412, 0"]
            }
          const EPERM = 1
          for (const [name, [number, args]] of Object.entries(calls)) {
            const { output } = yield* run(box, `perl -e '$r = syscall(${number}, ${args}); print $r < 0 ? $!+0 : "done"'`)
            assert.strictEqual(output, `${name === "vsock" ? 97 : EPERM}`, name)
          }
          const { output } = yield* run(
            box,
            "perl -e 'print syscall(" + (process.arch === "arm64" ? 198 : 41) +
              ", 2, 0x80001, 6) >= 0 ? 1 : 0'; grep -E '^(NoNewPrivs|CapBnd)' /proc/self/status | tr -d '\\n\\t'"
          )
          assert.strictEqual(output, "1CapBnd:0000000000000000NoNewPrivs:1")
        }))
    }
  )
})
