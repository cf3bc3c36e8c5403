/** Starts processes in a box. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { BoxCommand } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import { existsSync } from "node:fs"
import * as Egress from "../egress/Egress.ts"
import { EGRESS_SOCKET, SCRATCH } from "../files/BoxPaths.ts"
import * as Repositories from "../files/Repositories.ts"
import * as SandboxFolder from "../files/SandboxFolder.ts"
import { attempt } from "../host/HostAttempt.ts"
import * as TrustedAuthorities from "../network/TrustedAuthorities.ts"
import type { Launch } from "./BoxKind.ts"
import { type HostState, noted, type Prepared } from "./HostState.ts"
import * as ProcessEnvironment from "./ProcessEnvironment.ts"

export const spawnIn = Effect.fnUntraced(function*(
  host: HostState,
  sandboxId: SandboxId,
  { etcFiles, folder, processors, user, workspace }: Prepared,
  { isReading, running }: { readonly isReading: boolean; readonly running: Set<Effect.Effect<void>> },
  { args, command, env, homeFiles = {}, isOffline = false, programs, seesRepositories }: BoxCommand
) {
  const { egress, kind, limits, readOnly } = host
  yield* SandboxFolder.handOver(folder, { workspace, user, homeFiles })
  const hasWayOut = !isOffline && !isReading && (yield* egress.isOpen(sandboxId))
  const { borrowed, repositories } = yield* attempt("spawn", "The sandbox's repositories cannot be read.", async () => {
    const repositories = await Repositories.of(workspace)
    return { repositories, borrowed: await Repositories.borrowed(repositories) }
  })
  const authorities = TrustedAuthorities.bundle()
  const launch: Launch = {
    sandboxId,
    folder,
    workspace,
    isReading,
    user,
    hasWayOut,
    limits,
    processors,
    // Agents may be installed at any time.
    readOnly: [...readOnly, ...seesRepositories === true ? repositories : [], ...borrowed].filter((path) => existsSync(path)).concat(
      authorities === null ? [] : [authorities]
    ),
    etcFiles,
    image: programs?.image ?? null,
    environment: ProcessEnvironment.of({ env, programs }, {
      path: kind.path(programs?.image ?? null),
      home: folder.homeInBox,
      scratch: SCRATCH,
      hasWayOut,
      authorities
    }),
    command: hasWayOut ? Egress.bridged(EGRESS_SOCKET, [command, ...args]) : [command, ...args]
  }
  const started = noted(host, sandboxId)(Effect.tap(kind.start(launch), ({ end }) => Effect.sync(() => running.add(end))))
  const { process } = yield* Effect.acquireRelease(started, ({ end }) => Effect.andThen(end, Effect.sync(() => running.delete(end))))
  return process
})
