/**
 * `SandboxHost` on gVisor, for machines where programs shall not reach the kernel at all: each process of a sandbox, with all it starts,
 * runs on a kernel of its own, a program without rights that answers its system calls, under the same rules as a box of bubblewrap.
 * See `SECURITY.md` for what that stops and what not.
 *
 *     <directory>/<sandbox id>/…                   see `box/SandboxFolder`
 *     /run/slipway/gvisor/<service>/<sandbox id>/<container>/…   what one is made of (`Bundle`), and what `runsc` notes of it
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import { chmod, mkdir, rm, rmdir } from "node:fs/promises"
import type * as BoxKind from "../box/BoxKind.ts"
import * as IsolatedHost from "../box/IsolatedHost.ts"
import { killLeft, launched, left } from "../box/LaunchedBoxes.ts"
import { attempt } from "../host/HostAttempt.ts"
import * as ImageName from "../host/ImageName.ts"
import type { Limits } from "../host/Limits.ts"
import { namesIn } from "../node/IsThere.ts"
import * as Bundle from "./Bundle.ts"
import * as HostRequirements from "./HostRequirements.ts"
import { bundlesOf, type GvisorHost, kernelClaim, kernelUserOf, start } from "./StartContainer.ts"

export interface Options extends HostRequirements.Options, BoxKind.Options {}

/**
 * Threads of the machine that gVisor takes for one process of the sandbox: seven, with `ptrace` (2026-11). It ends the whole container
 * where it cannot have one, so the group has room for all that RLIMIT_NPROC lets in.
 */
const THREADS_EACH = 8

/** And for itself: some 50 for a container, for ten of them. */
const OWN_THREADS = 512

const prepare = Effect.fnUntraced(function*(
  { entrances, requirements }: GvisorHost,
  operation: HostError["operation"],
  sandboxId: SandboxId,
  limits: Limits
) {
  const { groups } = requirements
  yield* attempt(operation, `${bundlesOf(requirements, sandboxId)} cannot be made.`, async () => {
    // Files left here belong to a worker that was killed.
    await rm(bundlesOf(requirements, sandboxId), { recursive: true, force: true })
    await mkdir(bundlesOf(requirements, sandboxId), { recursive: true, mode: 0o711 })
    await chmod(bundlesOf(requirements, sandboxId), 0o711)
  })
  if ("reason" in groups) return
  entrances.set(
    sandboxId,
    yield* attempt(
      operation,
      "The sandbox's control group cannot be made.",
      () => groups.create(sandboxId, { ...limits, processes: OWN_THREADS + THREADS_EACH * limits.processes })
    )
  )
})

const discard = ({ entrances, requirements }: GvisorHost, operation: HostError["operation"], sandboxId: SandboxId) =>
  attempt(operation, "What a box of the sandbox was made of cannot be removed.", async () => {
    if (!("reason" in requirements.groups)) {
      await requirements.groups.kill(sandboxId)
      await requirements.groups.remove(sandboxId)
      entrances.delete(sandboxId)
    }
    await rm(bundlesOf(requirements, sandboxId), { recursive: true, force: true })
    await requirements.uids.release(kernelClaim(sandboxId))
  })

const leftWithBundles = Effect.fnUntraced(function*(requirements: HostRequirements.HostRequirements) {
  const { bundles } = requirements
  return [...yield* left(requirements), ...yield* attempt("list", `${bundles} cannot be read.`, () => namesIn(bundles))]
})

/** The host without its probe, which looks at it. */
export const make = (options: Options) => Effect.flatMap(HostRequirements.find(options), (requirements) => makeWith(requirements, options))

/** The same with requirements that were found before. */
export const makeWith = Effect.fnUntraced(function*(requirements: HostRequirements.HostRequirements, options: BoxKind.Options) {
  const { bundles, groups } = requirements
  yield* Effect.addFinalizer(() =>
    Effect.promise(async () => {
      // Fails while some of its sandboxes are left.
      await rmdir(bundles).catch(() => {})
      if (!("reason" in groups)) await groups.close()
    })
  )
  const host = launched(requirements)
  const kind: BoxKind.Kind = {
    isolation: "gvisor",
    // The programs depend on the machine alone, and on another kernel: a build there may find other programs.
    choose: (image) => Effect.map(ImageName.ofMachine("gvisor"), (id) => ({ id, image: null, isRefused: image !== null })),
    path: () => "/usr/local/bin:/usr/bin:/bin",
    showsMounts: false,
    // gVisor opens them for the sandbox's programs.
    holder: (sandboxId) => kernelUserOf(requirements, "provision", sandboxId),
    insideUser: () => ({ uid: Bundle.USER, gid: Bundle.USER }),
    prepare: (operation, sandboxId, _folder, limits) => prepare(host, operation, sandboxId, limits),
    start: (launch) => start(host, launch),
    ..."reason" in groups ? {} : { limitsMet: (sandboxId) => Effect.promise(() => groups.met(sandboxId)) },
    end: (operation, sandboxId) => killLeft(requirements, operation, sandboxId, kernelClaim(sandboxId)),
    discard: (operation, sandboxId) => discard(host, operation, sandboxId),
    left: leftWithBundles(requirements)
  }
  return yield* IsolatedHost.makeProbed(requirements, kind, options)
})
