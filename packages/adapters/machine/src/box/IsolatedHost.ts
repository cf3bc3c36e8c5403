/** A `SandboxHost` of boxes: the part that all kinds of boxes share. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Option, Schema } from "effect"
import { readdir } from "node:fs/promises"
import * as Egress from "../egress/Egress.ts"
import { WORKSPACE } from "../files/BoxPaths.ts"
import type { ServiceFolder } from "../files/ServiceFolder.ts"
import * as Toolchains from "../files/Toolchains.ts"
import * as Homes from "../home/Homes.ts"
import { attempt } from "../host/HostAttempt.ts"
import { defaults, type Limits } from "../host/Limits.ts"
import * as Processors from "../kernel/Processors.ts"
import * as KeyedLock from "../node/KeyedLock.ts"
import * as LoopbackConnection from "../ports/LoopbackConnection.ts"
import type { Kind, Options } from "./BoxKind.ts"
import { end, giveBack, stop } from "./EndBox.ts"
import { readHome, writeHome } from "./HostHomes.ts"
import type { HostState } from "./HostState.ts"
import { open } from "./OpenBox.ts"
import { inside, type ProbedHost } from "./Probe.ts"
import { visit } from "./VisitBox.ts"

const isSandboxId = Schema.is(SandboxId)

const provision = Effect.fn("SandboxHost.provision")(function*(host: HostState, { sandboxId }: { readonly sandboxId: SandboxId }) {
  yield* end(host, "provision", sandboxId)
  const live = host.lives.get(sandboxId)
  return live === undefined ? yield* open(host, sandboxId) : live.box
}, (self, { locked }, { sandboxId }) => locked(sandboxId)(self))

const list = ({ directory, kind, uids }: HostState) =>
  Effect.gen(function*() {
    const folders = yield* attempt("list", `${directory} cannot be read.`, () => readdir(directory))
    const claims = uids === null ? [] : yield* attempt("list", "The users of sandboxes cannot be read.", () => uids.list())
    return [...new Set([...folders, ...claims.map(({ name }) => name), ...yield* kind.left])].filter(isSandboxId)
  }).pipe(Effect.withSpan("SandboxHost.list"))

const make = Effect.fnUntraced(function*({ directory, uids }: ServiceFolder, kind: Kind, options: Options) {
  const limits: Limits = { ...defaults, ...options.limits }
  const toolchains = options.toolchains ?? []
  const host: HostState = {
    ...options,
    directory,
    uids,
    kind,
    limits,
    readOnly: [...new Set([process.execPath, Egress.bridge, inside, ...options.readOnly ?? [], ...toolchains])],
    egress: yield* Egress.Egress,
    scope: yield* Effect.scope,
    lives: new Map(),
    visits: new Map(),
    processors: Processors.make(limits.cpus),
    still: new Set(),
    starting: new Map(),
    counted: LoopbackConnection.counter(),
    locked: yield* KeyedLock.make
  }
  return SandboxHost.of({
    isolation: kind.isolation,
    programs: Effect.fn("SandboxHost.programs")(function*(image) {
      const chosen = yield* kind.choose(image)
      const kept = yield* Effect.promise(() => Toolchains.programs(toolchains, WORKSPACE))
      return { ...chosen, ...kept, id: `${chosen.id} ${kept.id}` }
    }),
    provision: (asked) => provision(host, asked),
    find: (sandboxId) => Effect.sync(() => Option.map(Option.fromNullishOr(host.lives.get(sandboxId)), ({ box }) => box)),
    visit: (asked) => visit(host, asked),
    readHome: (sandboxId, paths, limits) => readHome(host, sandboxId, paths, limits),
    readFiles: (sandboxId, path, limits) => Homes.filesIn(readHome(host, sandboxId, [path], limits)),
    writeHome: (sandboxId, content) => writeHome(host, sandboxId, content),
    rest: Effect.fn("SandboxHost.rest")(
      (sandboxId) => giveBack(host, "rest", sandboxId),
      (self, sandboxId) => host.locked(sandboxId)(self)
    ),
    stop: (sandboxId) => stop(host, sandboxId),
    list: list(host)
  })
})

/** The host with the parts that its probe needs. */
export const makeProbed = <Requirements extends ServiceFolder>(requirements: Requirements, kind: Kind, options: Options) =>
  Effect.map(make(requirements, kind, options), (host): ProbedHost<Requirements> => ({
    requirements,
    limits: { ...defaults, ...options.limits },
    folders: options.folders,
    workspaceOf: options.workspaceOf,
    host
  }))
