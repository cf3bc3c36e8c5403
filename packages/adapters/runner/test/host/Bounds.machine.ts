/** The bounds of the worked example's machines, as they come and go. That programs keep to them is in the suite of isolation. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { freshId, run } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as Machine from "@slipway/machine/testing/hosts/Machine"
import { lacking as lackingSizes } from "@slipway/machine/testing/hosts/sized.fixture"
import { isWritableGroup } from "@slipway/machine/testing/isolation/Groups"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { settingsOf } from "../../src/machines/Machines.ts"
import * as Identity from "../../src/wire/Identity.ts"
import { absent, INSTALLATION, type Kind, layerIn, program, workspaceIn } from "../../testing/Machines.fixture.ts"

const MiB = 2 ** 20

/** Groups of a sandbox's machine, in whichever hierarchy. */
const groupsOf = (sandboxId: string) =>
  ["", ...readdirSync("/sys/fs/cgroup")]
    .map((hierarchy) => join("/sys/fs/cgroup", hierarchy, "slipway-machines", `${INSTALLATION}-${sandboxId}`))
    .filter((group) => existsSync(group))

const skip = (kind: Kind, more?: string) => {
  const reason = absent(kind) ?? more
  return { isSkipped: reason !== undefined, because: reason === undefined ? "" : ` (${reason})` }
}

for (const kind of ["bubblewrap", "gvisor"] satisfies ReadonlyArray<Kind>) {
  describe(`machines of ${kind}`, () => {
    const disks = skip(kind, lackingSizes)
    it.live.skipIf(disks.isSkipped)(
      `that have ended find what was on their own disk, which goes with them${disks.because}`,
      () =>
        Effect.gen(function*() {
          const folder = yield* Machine.temporaryFolder
          yield* Effect.gen(function*() {
            const host = yield* SandboxHost
            const sandboxId = freshId()
            const box = yield* host.provision({ sandboxId, fence: 1 })
            yield* run(box, "echo tree > file && echo home > \"$HOME/file\"")
            const machine = join(workspaceIn(folder, sandboxId), "..")
            assert.strictEqual(readFileSync(join(machine, "disk", "workspace", "file"), "utf8"), "tree\n")
            for (const pid of yield* Machine.processes(`${machine}/`)) process.kill(pid, "SIGKILL")
            // As after a start of the whole machine.
            execFileSync("umount", ["--lazy", join(machine, "disk")])
            const again = yield* host.provision({ sandboxId, fence: 2 })
            assert.strictEqual((yield* run(again, "cat file \"$HOME/file\"")).output, "tree\nhome")
            yield* host.stop(sandboxId)
            assert.isFalse(existsSync(machine))
            assert.notInclude(readFileSync("/proc/self/mounts", "utf8"), folder)
          }).pipe(Effect.provide(layerIn(folder, kind, { more: { MACHINES_DISK_BYTES: `${32 * MiB}` } })))
        }).pipe(Effect.scoped)
    )

    const groups = skip(kind, isWritableGroup ? undefined : "needs control groups")
    it.live.skipIf(groups.isSkipped)(`leave no control group behind${groups.because}`, () =>
      Effect.gen(function*() {
        const folder = yield* Machine.temporaryFolder
        yield* Effect.gen(function*() {
          const host = yield* SandboxHost
          const sandboxId = freshId()
          yield* host.provision({ sandboxId, fence: 1 })
          assert.isAbove(groupsOf(sandboxId).length, 0)
          yield* host.stop(sandboxId)
          assert.deepStrictEqual(groupsOf(sandboxId), [])
        }).pipe(Effect.provide(layerIn(folder, kind)))
      }).pipe(Effect.scoped))

    const any = skip(kind)
    it.live.skipIf(any.isSkipped)(
      `are made, with a word of what has no bound, where no control groups can be made${any.because}`,
      () =>
        Effect.gen(function*() {
          const folder = yield* Machine.temporaryFolder
          const file = yield* program(folder, kind, { MACHINES_GROUPS: join(folder, "none") })
          const sandboxId = freshId()
          const call = (name: string) => {
            const settings = settingsOf({ sandboxId, fence: 1, identity: Identity.mint().runner, ways: [] })
            const input = JSON.stringify({ installation: INSTALLATION, sandbox: sandboxId, fence: 1, settings })
            return spawnSync(file, [name], { input, encoding: "utf8" })
          }
          yield* Effect.addFinalizer(() => Effect.sync(() => call("remove")))
          const { status, stderr, stdout } = call("ensure")
          assert.strictEqual(status, 0)
          assert.property(JSON.parse(stdout), "path")
          assert.match(stderr, /^(?:no bound: .+ is no control group\n)+$/u)
          assert.isFalse(existsSync(join(folder, "none")))
        }).pipe(Effect.scoped)
    )
  })
}
