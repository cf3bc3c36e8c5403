import { assert, describe, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Probe from "../../src/bubblewrap/Probe.ts"
import * as SandboxHostBubblewrap from "../../src/bubblewrap/SandboxHostBubblewrap.ts"
import { absent, freshId, hostIn, layer, openFolder, run } from "../../testing/hosts/bubblewrap.fixture.ts"
import * as IsolatedHosts from "../../testing/hosts/isolated.ts"
import { noEgress, provision } from "../../testing/hosts/isolated.ts"
import { workspaceFor, workspaceOf } from "../../testing/hosts/Machine.ts"
import * as SpawnedProgram from "../../testing/SpawnedProgram.ts"

const { eventually } = SandboxHostContract

/** Folders of control groups below any hierarchy whose name has `text` in it. */
const groupsOf = (text: string) =>
  execFileSync("find", ["/sys/fs/cgroup", "-type", "d", "-name", `*${text}*`], { encoding: "utf8" }).split("\n").filter((line) =>
    line !== ""
  )

IsolatedHosts.suite("bubblewrap", {
  absent,
  hostIn,
  layer: (allow, options = {}) => layer(options, allow),
  kind: "bubblewrap",
  // The worker, bubblewrap twice, and the shell.
  around: 4,
  kept: ["filter.bpf"]
})

describe.skipIf(absent !== undefined)(`SandboxHostBubblewrap${absent === undefined ? "" : ` (${absent})`}`, () => {
  it.live.skipIf(!existsSync("/bin/bash"))("passes on no open file of the service's parent", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const sandboxId = freshId()
      const workspace = yield* workspaceFor(sandboxId)
      const script = "(ls /proc/$$/fd) > /workspace/making; mv /workspace/making /workspace/made; cat"
      // Node itself shuts the lower ones.
      const worker = yield* SpawnedProgram.scoped(
        "/bin/bash",
        ["-c", "exec 7</dev/null 40</dev/null; exec \"$0\" \"$@\"", process.execPath,
          fileURLToPath(new URL("../../testing/hosts/worker.ts", import.meta.url)), "bubblewrap", folder, sandboxId, script]
      )
      yield* eventually(Effect.sync(() => existsSync(join(workspace, "made"))), (made) => made, "60 seconds")
      assert.strictEqual(readFileSync(join(workspace, "made"), "utf8"), "0\n1\n2\n")
      yield* Effect.promise(() => worker.stop("SIGKILL"))
      yield* Effect.provide(SandboxHost.use((host) => host.stop(sandboxId)), Layer.provide(hostIn(folder), noEgress))
    }))

  it.live("lists a sandbox of which anything is left: its folder, its user, its control group or a process", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      yield* Effect.gen(function*() {
        const { box, host, sandboxId } = yield* provision
        yield* box.spawn({ command: "cat", args: [], env: {} })
        execFileSync("rm", ["-rf", join(folder, "boxes", sandboxId)])
        assert.deepStrictEqual(yield* host.list, [sandboxId])
        yield* host.stop(sandboxId)
        assert.deepStrictEqual(yield* host.list, [])
        mkdirSync(join(folder, "boxes", sandboxId))
        assert.deepStrictEqual(yield* host.list, [sandboxId])
        yield* host.stop(sandboxId)
        assert.deepStrictEqual(yield* host.list, [])
        assert.deepStrictEqual(groupsOf(sandboxId), [])
      }).pipe(Effect.scoped, Effect.provide(Layer.provide(hostIn(folder), noEgress)))
    }))

  it.live("keeps nothing of what a command was given once it runs", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      yield* Effect.gen(function*() {
        const { box, sandboxId } = yield* provision
        yield* box.spawn({ command: "cat", args: [], env: { TOKEN: "t0ken" } })
        assert.deepStrictEqual(readdirSync(join(folder, "boxes", sandboxId, "launch")), [])
      }).pipe(Effect.scoped, Effect.provide(Layer.provide(hostIn(folder), noEgress)))
    }))

  it.live("makes boxes of folders that lie behind others which their users cannot pass through", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const closed = join(folder, "closed")
      const [workspace, programs] = [join(closed, "trees", "workspace"), join(closed, "programs")]
      for (const path of [workspace, programs]) mkdirSync(path, { recursive: true })
      writeFileSync(join(programs, "program"), "echo started", { mode: 0o755 })
      chmodSync(closed, 0o700)
      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        const sandboxId = freshId()
        const box = yield* host.provision({ sandboxId, fence: 1 })
        const { output } = yield* run(
          box,
          `sh ${programs}/program; echo kept > file; echo kept > "$HOME/file"; cat file "$HOME/file"; ls ${closed} | tr '\\n' ' '; ls /run`
        )
        assert.strictEqual(output, "started\nkept\nkept\nprograms slipway")
        yield* host.stop(sandboxId)
      }).pipe(
        Effect.provide(
          Layer.provide(
            hostIn(closed, { workspaceOf: () => workspace, readOnly: [programs, join(closed, "not", "there"), join(closed, "neither")] }),
            noEgress
          )
        )
      )
      assert.strictEqual(readFileSync(join(workspace, "file"), "utf8"), "kept\n")
      assert.notInclude(readFileSync("/proc/self/mountinfo", "utf8"), "/run/slipway/relay")
    }))

  it.live("fails when a box would see what is the machine's", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostBubblewrap.make({ directory: join(folder, "boxes"), workspaceOf, readOnly: [folder] })
      const error = yield* Effect.flip(Probe.run(made))
      assert.include(error.message, "A box sees files of the machine.")
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.live("fails when the filter allows everything, is empty or is not there", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostBubblewrap.make({ directory: join(folder, "boxes"), workspaceOf })
      // One instruction: whatever it is, it is allowed.
      writeFileSync(made.requirements.filterFile, Buffer.from([0x06, 0, 0, 0, 0, 0, 0xff, 0x7f]))
      assert.include((yield* Effect.flip(Probe.run(made))).message, "The system call filter is not in force.")
      // Nor is it the only thing that keeps namespaces away.
      const sandboxId = freshId()
      yield* workspaceFor(sandboxId)
      const box = yield* made.host.provision({ sandboxId, fence: 1 })
      assert.strictEqual((yield* run(box, "unshare --user true 2>/dev/null || echo refused")).output, "refused")
      yield* made.host.stop(sandboxId)
      writeFileSync(made.requirements.filterFile, "")
      assert.include((yield* Effect.flip(Probe.run(made))).message, "could not be made")
      execFileSync("rm", [made.requirements.filterFile])
      assert.include((yield* Effect.flip(Probe.run(made))).message, "could not be made")
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.live("cleans up after its probe", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const services = yield* Layer.build(Layer.provide(hostIn(folder), noEgress))
      assert.deepStrictEqual(yield* Context.get(services, SandboxHost).list, [])
      assert.deepStrictEqual(readdirSync(join(folder, "boxes")), ["filter.bpf"])
      assert.isTrue(existsSync(folder))
    }).pipe(Effect.scoped))
})
