import { assert, describe, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer } from "effect"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Probe from "../../src/gvisor/Probe.ts"
import * as SandboxHostGvisor from "../../src/gvisor/SandboxHostGvisor.ts"
import { freshId, openFolder, run } from "../../testing/hosts/bubblewrap.fixture.ts"
import { absent, hostIn, layer, running } from "../../testing/hosts/gvisor.fixture.ts"
import * as IsolatedHosts from "../../testing/hosts/isolated.ts"
import { noEgress, provision } from "../../testing/hosts/isolated.ts"
import { processes, workspaceFor, workspaceOf } from "../../testing/hosts/Machine.ts"

IsolatedHosts.suite("gVisor", {
  absent,
  hostIn,
  layer: (allow, options = {}) => layer(options, allow),
  kind: "gvisor",
  // The worker and the shell: `runsc` is told no command line.
  around: 2,
  kept: [],
  running,
  namesProcessors: false
})

const BUNDLES = "/run/slipway/gvisor"

/** Folders of containers, of whatever service. */
const bundlesOf = (sandboxId: string) =>
  readdirSync(BUNDLES).flatMap((service) => {
    const folder = join(BUNDLES, service, sandboxId)
    return existsSync(folder) ? readdirSync(folder).map((id) => join(folder, id)) : []
  })

describe.skipIf(absent !== undefined)(`SandboxHostGvisor${absent === undefined ? "" : ` (${absent})`}`, () => {
  it.live("ends gVisor's own processes with a sandbox, and gives back folders, users and groups", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostGvisor.make({ directory: join(folder, "boxes"), workspaceOf })
      const sandboxId = freshId()
      yield* workspaceFor(sandboxId)
      const box = yield* made.host.provision({ sandboxId, fence: 1 })
      const boxed = yield* box.spawn({ command: "cat", args: [], env: {} })
      // Each of them is told the bundle, which is named after the sandbox.
      assert.isAbove((yield* processes(sandboxId)).length, 1)
      assert.isTrue(existsSync(`/proc/${boxed.pid}`))
      assert.lengthOf(bundlesOf(sandboxId), 1)
      yield* made.host.stop(sandboxId)
      assert.deepStrictEqual(yield* processes(sandboxId), [])
      assert.deepStrictEqual(bundlesOf(sandboxId), [])
      assert.deepStrictEqual(yield* Effect.promise(() => made.requirements.uids.list()), [])
      assert.deepStrictEqual(yield* made.host.list, [])
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.live("keeps what a command is given where only root reads it, in memory, and no longer than it runs", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      yield* Effect.scoped(Effect.gen(function*() {
        yield* box.spawn({ command: "cat", args: [], env: { TOKEN: "t0ken" } })
        for (const bundle of bundlesOf(sandboxId)) {
          for (const [name, mode] of [["config.json", 0o600], ["state", 0o700]] as const) {
            assert.strictEqual(statSync(join(bundle, name)).mode & 0o777, mode)
          }
        }
        assert.deepStrictEqual(yield* processes("t0ken"), [])
      }))
      assert.deepStrictEqual(bundlesOf(sandboxId), [])
    }).pipe(Effect.scoped, Effect.provide(layer())))

  it.live("counts the sandbox's processes, not the several threads that gVisor takes for each", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      // With a group for that many alone gVisor ends the container from the 190th on.
      const many =
        "perl -e '$| = 1; for (1 .. 300) { last if !defined(my $p = fork); if (!$p) { sleep 1000; exit } print \"$_\\n\" } kill 9, -1'"
      assert.strictEqual((yield* run(box, many)).output.split("\n").at(-1), "300")
    }).pipe(Effect.scoped, Effect.provide(layer({ limits: { processes: 320 } }))))

  it.live("makes boxes of folders that lie behind others which gVisor's users cannot pass through", () =>
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
        const { output } = yield* run(box, `sh ${programs}/program; echo kept > file; echo kept > "$HOME/file"; cat file "$HOME/file"`)
        assert.strictEqual(output, "started\nkept\nkept")
        yield* host.stop(sandboxId)
      }).pipe(Effect.provide(Layer.provide(
        hostIn(closed, { workspaceOf: () => workspace, readOnly: [programs, join(closed, "not", "there")] }),
        noEgress
      )))
      assert.strictEqual(readFileSync(join(workspace, "file"), "utf8"), "kept\n")
      assert.notInclude(readFileSync("/proc/self/mountinfo", "utf8"), "/run/slipway/relay")
    }))

  it.live("fails when a box would see what is the machine's", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostGvisor.make({ directory: join(folder, "boxes"), workspaceOf, readOnly: [folder] })
      assert.include((yield* Effect.flip(Probe.run(made))).message, "A box sees files of the machine.")
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.live("says what runsc says where it makes no box", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostGvisor.make({ directory: join(folder, "boxes"), workspaceOf })
      const runsc = join(folder, "runsc")
      writeFileSync(runsc, "#!/bin/sh\necho no such thing >&2\nexit 1\n", { mode: 0o755 })
      const other = yield* SandboxHostGvisor.makeWith({ ...made.requirements, tools: { ...made.requirements.tools, runsc } }, {
        workspaceOf
      })
      const error = yield* Effect.flip(Probe.run({ ...made, host: other.host }))
      assert.include(error.message, "The box could not be made: no such thing.")
      rmSync(runsc)
    }).pipe(Effect.scoped, Effect.provide(noEgress)))

  it.live("cleans up after its probe", () =>
    Effect.gen(function*() {
      const folder = yield* openFolder
      const made = yield* SandboxHostGvisor.make({ directory: join(folder, "boxes"), workspaceOf })
      const report = yield* Probe.run(made)
      assert.include(report.map(({ name, state }) => `${name}: ${state}`), "own kernel: in force")
      assert.deepStrictEqual(yield* made.host.list, [])
      assert.deepStrictEqual(readdirSync(join(folder, "boxes")), [])
      assert.deepStrictEqual(readdirSync(made.requirements.bundles), [])
    }).pipe(Effect.scoped, Effect.provide(noEgress)))
})
