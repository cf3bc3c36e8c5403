/**
 * Trees in the machines of their sandboxes. This machine keeps of each the repository without a tree, and in it
 *
 *     <repository>/machine    which tree of which machine it is of, and how the kernel there was called when it was whole
 *
 * What git in the box works with is a repository of its own there, with all commits that the tree came with: packs go in, and what
 * comes out is read as that of any box.
 */
import { CloneFailed, TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type GitFailed, line } from "@slipway/git/Git"
import type { Explanation } from "@slipway/git/Remotes"
import { filesOf } from "@slipway/git/RepositoryLayout"
import { isOfBox } from "@slipway/git/tree/BoxAnswers"
import * as HostRepository from "@slipway/git/tree/HostRepository"
import type { Checkout, TreePlace } from "@slipway/git/tree/TreePlace"
import { repositoriesIn } from "@slipway/machine/files/TreesLayout"
import { deleteTree } from "@slipway/machine/node/DeleteTree"
import * as DiskErrors from "@slipway/machine/node/DiskErrors"
import * as DurableFile from "@slipway/machine/node/DurableFile"
import { namesIn } from "@slipway/machine/node/IsThere"
import { Effect, Option } from "effect"
import { mkdir, rename } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import type { Runners } from "../client/Runners.ts"
import * as MachineRecord from "./MachineRecord.ts"
import * as MachineShell from "./MachineShell.ts"
import * as RemoteTree from "./RemoteTree.ts"

/** Folders in a machine, as `PLACES` has them. */
export type Places = Readonly<Record<"repositories" | "workspace", string>>

interface Options {
  readonly places: (sandboxId: SandboxId) => Places
  readonly runners: Runners["Service"]
  readonly sandboxDirectory: (sandboxId: SandboxId) => string
  /** The error if the files do not fit into the machine. */
  readonly tooLarge: Explanation
}

/** The parts that lead to trees in machines. */
interface Reach extends Options {
  readonly machine: MachineShell.MachineShell
}

/** The format in which the script reads files before a pack. */
const sections = (files: Iterable<readonly [path: string, content: string]>): Buffer =>
  Buffer.from(`${Array.from(files, ([path, content]) => `${path}\n${content}\n`).join("")}\n`)

const foldersOf = ({ places }: Reach, sandboxId: SandboxId): readonly [repositories: string, workspace: string] => {
  const { repositories, workspace } = places(sandboxId)
  return [repositories, workspace]
}
const thereOf = ({ places }: Reach, sandboxId: SandboxId, gitDir: string): string => join(places(sandboxId).repositories, basename(gitDir))
const siteOf = (reach: Reach, { folder, gitDir, sandboxId, site }: HostRepository.Making): ReadonlyArray<string> => [
  ...foldersOf(reach, sandboxId),
  basename(gitDir),
  folder,
  basename(site)
]

/** A failure in the machine outside of making a tree. It is not reported as an error of git. */
const unavailable = <A, R>(self: Effect.Effect<A, GitFailed | TreesUnavailable, R>): Effect.Effect<A, TreesUnavailable, R> =>
  Effect.catchTag(self, "GitFailed", (failure) =>
    Effect.andThen(
      Effect.logWarning("the machine of a sandbox did not do what was to be done with its trees", { failure: failure.message }),
      Effect.fail(
        new TreesUnavailable({
          detail: "The sandbox's machine could not put its trees in order.",
          retryable: failure.reason === "timeout" || failure.reason === "lost"
        })
      )
    ))

/** The name of its kernel, and the trees that it has. */
const ask = (reach: Reach, sandboxId: SandboxId, gitDirs: ReadonlyArray<string>) =>
  reach.machine.run(sandboxId, "ask", [...foldersOf(reach, sandboxId), ...gitDirs.map((gitDir) => basename(gitDir))]).pipe(
    Effect.map((said) => {
      const [kernel = "", ...made] = said.split("\n")
      return { kernel: kernel.slice(0, 100), made }
    }),
    unavailable
  )

const repositoriesOf = ({ sandboxDirectory }: Reach, sandboxId: SandboxId): Effect.Effect<ReadonlyArray<string>> =>
  Effect.promise(async () => {
    const folder = repositoriesIn(sandboxDirectory(sandboxId))
    return (await namesIn(folder)).map((name) => join(folder, name))
  })

/** The objects of these commits, as far as the history is here. */
const pack = Effect.fnUntraced(function*(
  gitDir: string,
  commits: Iterable<string>,
  send: (bytes: Uint8Array) => Effect.Effect<void>
) {
  const run = Effect.runPromiseWith(yield* Effect.context<never>())
  yield* HostRepository.run({ gitDir }, ["pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset", "--window=0",
    "--threads=1"], {
    input: `${Array.from(new Set(commits)).join("\n")}\n`,
    take: (bytes) => run(send(bytes)),
    // As long as the machine takes it.
    timeout: "1 hour"
  })
})

const checkOut = Effect.fn("TreesInMachine.checkOut")(
  function*(reach: Reach, making: HostRepository.Making, checkout: Checkout) {
    const { baseSha, gitDir, sandboxId, shallow } = making
    const { committed, sha } = checkout
    const objects = join(thereOf(reach, sandboxId, gitDir), "objects")
    const agents = filesOf(HostRepository.agentsLayout(making, checkout, objects))
    const boxs = filesOf({ head: baseSha, objects: null, shallow })
    const files = sections([
      ...Array.from(boxs, ([path, content]) => [`git/${path}`, content] as const),
      ...Array.from(agents, ([path, content]) => [`agents/${path}`, content] as const)
    ])
    yield* reach.machine.run(
      sandboxId,
      "make",
      [...siteOf(reach, making), baseSha, sha, committed],
      (send) => Effect.andThen(send(files), pack(HostRepository.madeIn(making), [sha, committed, baseSha], send))
    )
    yield* HostRepository.mark(making)
  },
  (self, { tooLarge }, { repo }) =>
    Effect.catchTag(
      self,
      "GitFailed",
      Effect.fnUntraced(function*(failure): Effect.fn.Return<never, GitFailed | CloneFailed | TreesUnavailable> {
        if (!MachineShell.isOfMachine(failure)) return yield* failure
        const trouble = DiskErrors.of(failure)
        // The commit itself is sound.
        if (trouble === undefined) return yield* unavailable(Effect.fail(failure))
        yield* Effect.logWarning("the disk of a sandbox's machine refused something", failure)
        if (trouble.isFull) return yield* new CloneFailed({ repo, ...tooLarge })
        return yield* new TreesUnavailable({ detail: trouble.detail, retryable: trouble.retryable })
      })
    )
)

const put = Effect.fn("TreesInMachine.put")(function*(reach: Reach, making: HostRepository.Making) {
  const { gitDir, sandboxId, site } = making
  const made = HostRepository.madeIn(making)
  const kernel = line(Buffer.from(yield* unavailable(reach.machine.run(sandboxId, "put", siteOf(reach, making))))).slice(0, 100)
  yield* MachineRecord.write(made, { made: basename(site), kernel })
  yield* Effect.promise(() => MachineRecord.flush(made))
  yield* deleteTree(gitDir)
  yield* Effect.uninterruptible(Effect.promise(async () => {
    await mkdir(dirname(gitDir), { recursive: true, mode: 0o700 })
    await rename(made, gitDir)
    await DurableFile.sync(dirname(gitDir))
  }))
})

const isThere = Effect.fn("TreesInMachine.isThere")(function*(reach: Reach, sandboxId: SandboxId, gitDirs: ReadonlyArray<string>) {
  const records = (yield* MachineRecord.readAll(gitDirs)).flatMap(Option.toArray)
  if (records.length === 0 || records.length < gitDirs.length) return false
  const hasMachine = yield* reach.machine.connection(sandboxId).pipe(
    Effect.as(true),
    Effect.catchIf(({ retryable }) => !retryable, () => Effect.succeed(false))
  )
  // The trees are gone with their machine. A machine that is there and cannot tell has lost nothing.
  if (!hasMachine) return false
  const said = yield* ask(reach, sandboxId, gitDirs)
  return records.every(({ made }, i) => made === said.made[i])
}, Effect.scoped)

/** Records of the trees that were written under another kernel than the present one. */
const torn = Effect.fnUntraced(function*(reach: Reach, sandboxId: SandboxId) {
  const records = (yield* MachineRecord.readAll(yield* repositoriesOf(reach, sandboxId))).flatMap(Option.toArray)
  if (records.length === 0) return { records, kernel: "" }
  const { kernel } = yield* ask(reach, sandboxId, [])
  return { records: records.filter((record) => record.kernel !== kernel), kernel }
})

const isWhole = (reach: Reach, sandboxId: SandboxId): Effect.Effect<boolean> =>
  torn(reach, sandboxId).pipe(
    Effect.map(({ records }) => records.length === 0),
    // A machine that cannot be reached has not reported a loss.
    Effect.catchTag("TreesUnavailable", () => Effect.succeed(true))
  )

const settle = (reach: Reach, sandboxId: SandboxId): Effect.Effect<void> =>
  torn(reach, sandboxId).pipe(
    Effect.flatMap(({ kernel, records }) =>
      Effect.forEach(records, ({ gitDir, made }) => MachineRecord.write(gitDir, { made, kernel }), { discard: true })
    ),
    Effect.catchCause((cause) => Effect.logWarning("which trees a loss of power tore could not be noted", cause))
  )

const remove = Effect.fnUntraced(function*(reach: Reach, sandboxId: SandboxId) {
  const { machine } = reach
  // The trees are gone with their machine.
  if (!(yield* machine.has(sandboxId))) return
  yield* unavailable(machine.run(sandboxId, "remove", foldersOf(reach, sandboxId))).pipe(
    Effect.catchIf(({ retryable }) => !retryable, (error) => Effect.logWarning("trees are left in a machine", error))
  )
})

export const make = (options: Options): TreePlace => {
  const reach: Reach = { ...options, machine: MachineShell.make(options.runners) }
  return {
    treeOf: (sandboxId, folder, gitDir) => RemoteTree.make(reach.machine, sandboxId, folder, thereOf(reach, sandboxId, gitDir)),
    checkOut: (making, checkout) => checkOut(reach, making, checkout),
    put: (making) => put(reach, making),
    leave: (making) => Effect.ignore(reach.machine.run(making.sandboxId, "leave", siteOf(reach, making))),
    isThere: (sandboxId, gitDirs) => isThere(reach, sandboxId, gitDirs),
    isWhole: (sandboxId) => isWhole(reach, sandboxId),
    settle: (sandboxId) => settle(reach, sandboxId),
    remove: (sandboxId) => remove(reach, sandboxId),
    isOwnDisk: (_sandboxId, defect) => Effect.succeed(isOfBox(defect))
  }
}
