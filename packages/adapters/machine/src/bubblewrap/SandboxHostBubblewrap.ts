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
import { type HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer } from "effect"
import { mkdir, rm } from "node:fs/promises"
import type * as BoxKind from "../box/BoxKind.ts"
import * as IsolatedHost from "../box/IsolatedHost.ts"
import { killLeft, launched, left } from "../box/LaunchedBoxes.ts"
import type * as Egress from "../egress/Egress.ts"
import type { SandboxFolder } from "../files/SandboxFolder.ts"
import { attempt } from "../host/HostAttempt.ts"
import * as ImageName from "../host/ImageName.ts"
import type { Limits } from "../host/Limits.ts"
import type { NotIsolated } from "../host/NotIsolated.ts"
import * as Arguments from "./Arguments.ts"
import * as HostRequirements from "./HostRequirements.ts"
import * as Probe from "./Probe.ts"
import { type BubblewrapHost, launchFolderOf, start } from "./StartBox.ts"

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

/** The host without its probe, which looks at it. */
export const make = (options: Options) => Effect.flatMap(HostRequirements.find(options), (requirements) => makeWith(requirements, options))

/** The same with requirements that were found before. */
export const makeWith = Effect.fnUntraced(function*(requirements: HostRequirements.HostRequirements, options: BoxKind.Options) {
  const { groups } = requirements
  if (!("reason" in groups)) yield* Effect.addFinalizer(() => Effect.promise(groups.close))
  const host = launched(requirements)
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
    end: (operation, sandboxId) => killLeft(requirements, operation, sandboxId, sandboxId),
    discard: (operation, sandboxId) => discard(host, operation, sandboxId),
    left: left(requirements)
  }
  return yield* IsolatedHost.makeProbed(requirements, kind, options)
})

/** Probes first, and fails with what is missing. */
export const layer = (options: Options): Layer.Layer<SandboxHost, NotIsolated, Egress.Egress> =>
  Layer.effect(SandboxHost, Effect.map(Effect.tap(make(options), Probe.run), ({ host }) => host))
