/**
 * `SandboxHost` on bubblewrap: each process of a sandbox, with all it starts, lives in namespaces of its own, as a user of
 * the sandbox's own, under a system call filter and the kernel's limits, and sees the system read-only, its working trees,
 * its home and nothing else. See `SECURITY.md` for what that stops and what not.
 *
 *     <directory>/filter.bpf
 *     <directory>/<sandbox id>/…         see `box/SandboxFolder`
 *     <directory>/<sandbox id>/launch    what a starting box is told, removed when it has read it
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer } from "effect"
import { mkdir, rm } from "node:fs/promises"
import type * as BoxKind from "../box/BoxKind.ts"
import * as IsolatedHost from "../box/IsolatedHost.ts"
import * as Launcher from "../box/Launcher.ts"
import type { Property } from "../box/Probe.ts"
import type * as Egress from "../egress/Egress.ts"
import type { SandboxFolder } from "../files/SandboxFolder.ts"
import { attempt } from "../host/HostAttempt.ts"
import * as ImageName from "../host/ImageName.ts"
import type { Limits } from "../host/Limits.ts"
import type { NotIsolated } from "../host/NotIsolated.ts"
import * as Processes from "../kernel/Processes.ts"
import { ofUser } from "../kernel/ProcessesOfUser.ts"
import * as ProcessTable from "../node/ProcessTable.ts"
import * as Arguments from "./Arguments.ts"
import * as HostRequirements from "./HostRequirements.ts"
import * as Probe from "./Probe.ts"
import { type BubblewrapHost, KILL_WITHIN, launchFolderOf, MARK, start } from "./StartBox.ts"

export interface Options extends HostRequirements.Options, BoxKind.Options {}

const prepare = Effect.fnUntraced(function*(
  { entrances, requirements: { groups } }: BubblewrapHost,
  operation: HostError["operation"],
  sandboxId: SandboxId,
  folder: SandboxFolder,
  limits: Limits
) {
  yield* attempt(operation, `${launchFolderOf(folder)} cannot be made.`, async () => {
    // Files left here belong to a worker that was killed while it started a box.
    await rm(launchFolderOf(folder), { recursive: true, force: true })
    await mkdir(launchFolderOf(folder), { mode: 0o700 })
  })
  if ("reason" in groups) return
  entrances.set(
    sandboxId,
    yield* attempt(operation, "The sandbox's control group cannot be made.", () => groups.create(sandboxId, limits))
  )
})

const end = Effect.fnUntraced(function*(
  { service, uids }: HostRequirements.HostRequirements,
  operation: HostError["operation"],
  sandboxId: SandboxId
) {
  // Two ways, neither of which trusts the other: the mark of what a worker started, and the user.
  const marked = yield* ProcessTable.killAll({
    variable: MARK,
    matches: (mark) => mark.startsWith(`${service}:${sandboxId}:`),
    within: KILL_WITHIN
  })
  const claims = uids === null ? [] : yield* attempt(operation, "The sandbox's user is not known.", () => uids.list())
  const users = claims.filter(({ name }) => name === sandboxId).map(({ uid }) => uid)
  const left = users.length === 0 ? [] : yield* Processes.killAll(() => users.flatMap(ofUser), KILL_WITHIN)
  if (marked.length + left.length === 0) return
  return yield* new HostError({ operation, detail: `Processes ${[...marked, ...left].join(", ")} survive SIGKILL.`, retryable: true })
})

const discard = (
  { entrances, requirements: { groups } }: BubblewrapHost,
  operation: HostError["operation"],
  sandboxId: SandboxId
) =>
  "reason" in groups ? Effect.void : attempt(operation, "The sandbox's control group cannot be removed.", async () => {
    await groups.kill(sandboxId)
    await groups.remove(sandboxId)
    entrances.delete(sandboxId)
  })

const left = ({ groups, service }: HostRequirements.HostRequirements) =>
  Effect.gen(function*() {
    const grouped = "reason" in groups ? [] : yield* attempt("list", "The control groups cannot be read.", groups.list)
    const marked = [...yield* ProcessTable.marks(MARK)].flatMap((mark) => {
      const [ofService, sandboxId = ""] = mark.split(":")
      return ofService === service ? [sandboxId] : []
    })
    return [...grouped, ...marked]
  })

/** The host without its probe: what {@link layer} is made of, and what the probe looks at. */
export const make = (options: Options) => Effect.flatMap(HostRequirements.find(options), (requirements) => makeWith(requirements, options))

/** The same with requirements that were found before. */
export const makeWith = Effect.fnUntraced(function*(requirements: HostRequirements.HostRequirements, options: BoxKind.Options) {
  const { groups } = requirements
  if (!("reason" in groups)) yield* Effect.addFinalizer(() => Effect.promise(groups.close))
  const host: BubblewrapHost = { requirements, strays: Launcher.strays(), entrances: new Map() }
  const kind: BoxKind.Kind = {
    isolation: "bubblewrap",
    // The programs depend on the machine alone.
    choose: (image) => Effect.map(ImageName.ofMachine("bubblewrap"), (id) => ({ id, image: null, isRefused: image !== null })),
    path: () => "/usr/local/bin:/usr/bin:/bin",
    showsMounts: true,
    insideUser: () => ({ uid: Arguments.USER, gid: Arguments.USER }),
    prepare: (operation, sandboxId, folder, limits) => prepare(host, operation, sandboxId, folder, limits),
    start: (launch) => start(host, launch),
    ..."reason" in groups ? {} : { limitsMet: (sandboxId) => Effect.promise(() => groups.met(sandboxId)) },
    end: (operation, sandboxId) => end(requirements, operation, sandboxId),
    discard: (operation, sandboxId) => discard(host, operation, sandboxId),
    left: left(requirements)
  }
  return yield* IsolatedHost.makeProbed(requirements, kind, options)
})

/** Probes first, and fails with what is missing. Says what is in force. */
export const layer = (options: Options): Layer.Layer<SandboxHost, NotIsolated, Egress.Egress> =>
  Layer.effect(
    SandboxHost,
    Effect.gen(function*() {
      const made = yield* make(options)
      const report = yield* Probe.run(made)
      const details = (state: Property["state"]) =>
        Object.fromEntries(report.filter((property) => property.state === state).map(({ detail, name }) => [name, detail]))
      yield* Effect.logInfo("sandboxes are isolated by bubblewrap", details("in force"))
      for (const [name, detail] of Object.entries(details("off"))) yield* Effect.logWarning(`isolation lacks: ${name}`, { detail })
      return made.host
    })
  )
