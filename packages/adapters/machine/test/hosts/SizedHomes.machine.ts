/** Homes in folders of a size that the kernel keeps, on their way from one machine to another. */
import { assert, describe, it } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, Effect, Layer, Stream } from "effect"
import { chmodSync } from "node:fs"
import { join } from "node:path"
import * as SizedFolders from "../../src/files/SizedFolders.ts"
import { workspacesIn } from "../../src/files/TreesLayout.ts"
import { defaults, type Limits } from "../../src/host/Limits.ts"
import { absent, freshId, hostIn, openFolder, run } from "../../testing/hosts/bubblewrap.fixture.ts"
import { noEgress } from "../../testing/hosts/isolated.ts"
import { lacking as unsized } from "../../testing/hosts/sized.fixture.ts"
import * as Mounts from "../../testing/Mounts.ts"

const MiB = 2 ** 20
const lacking = unsized ?? absent
const WHOLE = { maximumBytes: 64 * MiB }

/** A machine with folders of that size for one sandbox. */
const machine = Effect.fnUntraced(function*(sandboxId: SandboxId, diskBytes: number) {
  const above = yield* openFolder
  const directory = join(above, "trees")
  yield* Effect.addFinalizer(() => Effect.sync(() => Mounts.unmount(directory)))
  const limits: Limits = { ...defaults, diskBytes, diskFiles: 1000 }
  const folders = yield* SizedFolders.make({ directory, limits })
  yield* folders.adopt
  chmodSync(above, 0o711)
  const host = Context.get(
    yield* Layer.build(Layer.provide(hostIn(above, { folders, limits, workspaceOf: workspacesIn(directory) }), noEgress)),
    SandboxHost
  )
  yield* Effect.addFinalizer(() => Effect.andThen(Effect.orDie(host.stop(sandboxId)), folders.remove(sandboxId)))
  const inBox = (script: string) => Effect.flatMap(host.provision({ sandboxId, fence: 1 }), (box) => run(box, script))
  return { host, inBox }
})

const read = (host: SandboxHost["Service"], id: SandboxId) =>
  Effect.map(Stream.runCollect(host.readHome(id, ["kept"], WHOLE)), (chunks) => Stream.fromIterable(chunks))

describe.skipIf(lacking !== undefined)(`homes on disks of a size${lacking === undefined ? "" : ` (${lacking})`}`, () => {
  it.live("a home goes from one such disk to another, also at rest, and is the sandbox's there", () =>
    Effect.gen(function*() {
      const id = freshId()
      const [here, there] = [yield* machine(id, 32 * MiB), yield* machine(id, 32 * MiB)]
      yield* here.inBox("mkdir -p ~/kept/deep && head -c 5000000 /dev/urandom > ~/kept/deep/large && echo small > ~/kept/small")
      const sums = "cd ~/kept && sha256sum deep/large small"
      const { output: before } = yield* here.inBox(sums)
      yield* here.host.rest(id)
      yield* there.host.writeHome(id, yield* read(here.host, id))
      assert.strictEqual((yield* there.inBox(`${sums} && echo more >> small`)).output, before)
    }).pipe(Effect.scoped))

  it.live("a home larger than the disk is refused as the host's trouble, which says why, and leaves room and what was there", () =>
    Effect.gen(function*() {
      const id = freshId()
      const [here, small] = [yield* machine(id, 64 * MiB), yield* machine(id, 8 * MiB)]
      yield* small.inBox("mkdir ~/kept && echo before > ~/kept/file")
      yield* small.host.rest(id)
      const { code } = yield* here.inBox("mkdir ~/kept && head -c 20000000 /dev/urandom > ~/kept/large")
      assert.strictEqual(code, 0)
      const error = yield* Effect.flip(small.host.writeHome(id, yield* read(here.host, id)))
      assert.deepInclude(error, { _tag: "HostError", operation: "write", retryable: true })
      assert.match(error.message, /disk is full|no space|ENOSPC/iu)
      const after = yield* small.inBox("cat ~/kept/file && ls ~/kept && head -c 3000000 /dev/zero > ~/room && echo room")
      assert.strictEqual(after.output, "before\nfile\nroom")
      // A file that fits is taken.
      yield* here.inBox("rm ~/kept/large && echo after > ~/kept/file")
      yield* small.host.rest(id)
      yield* small.host.writeHome(id, yield* read(here.host, id))
      assert.strictEqual((yield* small.inBox("cat ~/kept/file")).output, "after")
    }).pipe(Effect.scoped))

  it.live("more files than the disk may hold are refused in the same way", () =>
    Effect.gen(function*() {
      const id = freshId()
      const [here, small] = [yield* machine(id, 64 * MiB), yield* machine(id, 8 * MiB)]
      yield* here.inBox("mkdir ~/kept && cd ~/kept && for i in $(seq 900); do echo $i > $i; done")
      const fill = "mkdir ~/other && cd ~/other && for i in $(seq 2000); do echo $i > $i || break; done 2>/dev/null; ls | wc -l"
      yield* small.inBox(fill)
      yield* small.host.rest(id)
      const error = yield* Effect.flip(small.host.writeHome(id, yield* read(here.host, id)))
      assert.deepInclude(error, { _tag: "HostError", operation: "write", retryable: true })
      assert.strictEqual((yield* small.inBox("ls ~/kept 2>/dev/null | wc -l; cat ~/other/1")).output, "0\n1")
    }).pipe(Effect.scoped))
})
