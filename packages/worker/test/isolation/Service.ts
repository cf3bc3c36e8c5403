/** A service with real boxes, disks and git, whose repositories are hostile: their setup runs as a worker runs it. */
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import * as SecretStoreMemory from "@slipway/domain/memory/environment/SecretStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import * as SandboxHostBubblewrap from "@slipway/machine/bubblewrap/SandboxHostBubblewrap"
import * as Egress from "@slipway/machine/egress/Egress"
import * as SizedFolders from "@slipway/machine/files/SizedFolders"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { defaults, type Limits } from "@slipway/machine/host/Limits"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as SetupCachesFolder from "@slipway/machine/setup-caches/SetupCachesFolder"
import * as Mounts from "@slipway/machine/testing/Mounts"
import { Context, DateTime, Effect, Layer, Redacted, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as RunSetup from "../../src/setup/RunSetup.ts"
import * as LeasedSandbox from "../../src/shared/LeasedSandbox.ts"
import { create, principal, REPO } from "../Doubles.ts"

/** A secret that only setup gets. */
export const SECRET = "canary-7Qm2-registry-token"

const folderFor = (what: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = realpathSync(mkdtempSync(join(tmpdir(), `slipway-setup-${what}-`)))
      chmodSync(folder, 0o711)
      return folder
    }),
    (folder) =>
      Effect.sync(() => {
        Mounts.unmount(folder)
        rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
      })
  )

/** Where a service keeps its things; of the machine, and no box knows it. */
export class Place extends Context.Service<Place, { readonly folder: string; readonly outside: string }>()("test/Place") {}

export const layer = (given: Partial<Limits> = {}) =>
  Layer.unwrap(Effect.gen(function*() {
    const [folder, outside] = [yield* folderFor("service"), yield* folderFor("outside")]
    const limits = { ...defaults, diskBytes: 64 * 2 ** 20, ...given }
    const directory = join(folder, "trees")
    const folders = yield* SizedFolders.make({ directory, limits })
    return WorkingTreesGit.layer({ directory, folders, keepUnused: null }).pipe(
      Layer.provideMerge(SandboxHostBubblewrap.layer({
        directory: join(folder, "boxes"),
        workspaceOf: workspacesIn(directory),
        folders,
        limits
      })),
      Layer.provideMerge(Layer.merge(
        Layer.succeed(Place, { folder, outside }),
        SetupCachesFolder.layer({ directory: join(folder, "caches"), maximumBytes: 2 ** 30 })
      ))
    )
  })).pipe(
    Layer.provide(Egress.layer({ allow: new Set() })),
    Layer.provideMerge(Layer.mergeAll(SandboxStoreMemory.layer, SecretStoreMemory.layer, OutputRedactor.layer)),
    Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsNode.layer))
  )

const makeOrigin = (path: string, files: Readonly<Record<string, string>>) => {
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", path, ...args], { stdio: "pipe" })
  mkdirSync(path)
  git("init", "--quiet", "--initial-branch=main")
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), content)
  }
  git("add", "--force", ".")
  git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")
}

/** A sandbox of a repository that wants this, with its tree and its box. The scope ends it. */
export const sandbox = Effect.fnUntraced(function*(
  environment: object,
  files: Readonly<Record<string, string>> = {},
  /** A repository that is there, in place of a new one, and where in it to start. */
  given: { readonly origin?: string; readonly ref?: string } = {}
) {
  const trees = yield* WorkingTrees
  const { folder } = yield* Place
  const host = yield* SandboxHost
  const secrets = yield* SecretStore
  const at = yield* DateTime.now
  yield* secrets.set({ grantId: principal.grantId, repo: REPO, name: "NPM_TOKEN" }, Redacted.make(SECRET), at)
  const origin = given.origin ?? join(yield* folderFor("origin"), "origin")
  if (given.origin === undefined) {
    makeOrigin(origin, { "README.md": "# site\n", ".slipway/environment.json": JSON.stringify(environment), ...files })
  }
  const { ref } = given
  const id = yield* create(ref === undefined ? {} : { repos: [{ fullName: REPO, ref }] })
  // Earlier leases are not renewed, and may be over by now.
  const leases = yield* (yield* Leases).take({ worker: "worker", machine: "machine" }, { slots: 100, boots: 100, errands: 100 })
  const leased = leases.find(({ sandbox }) => sandbox.id === id)
  if (leased === undefined) return yield* Effect.die("the sandbox was not leased")
  const held = yield* LeasedSandbox.make(leased)
  const key = { sandboxId: id, repo: REPO }
  yield* Effect.acquireRelease(
    trees.prepare(key, { remote: { url: origin, authorization: null }, ref, defaultBranch: "main", repos: [REPO] }),
    () => Effect.orDie(trees.remove(id))
  )
  const box = yield* Effect.acquireRelease(
    host.provision(held.lease),
    () => Effect.orDie(host.stop(id))
  )
  return {
    id,
    key,
    origin,
    held,
    box,
    /** On the machine. */
    tree: join(workspacesIn(join(folder, "trees"))(id), "site"),
    setUp: RunSetup.run(held, box, { isFresh: true }),
    record: Effect.map(Effect.flatMap(Setups, (setups) => setups.find(id)), (record) => record ?? undefined)
  }
})

export type Sandbox = Effect.Success<ReturnType<typeof sandbox>>

/** The output of a shell script in its box: the view of the agent. */
export const look = Effect.fnUntraced(function*({ box }: Pick<Sandbox, "box">, script: string) {
  const process = yield* box.spawn({ command: "sh", args: ["-c", script], env: {} })
  yield* process.endInput
  return (yield* Stream.mkString(Stream.decodeText(process.stdout))).trimEnd()
}, Effect.scoped)
