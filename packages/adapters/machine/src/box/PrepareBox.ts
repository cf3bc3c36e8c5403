/** Makes what a box of a sandbox is made of. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import { dirname, join } from "node:path"
import { etcFiles } from "../files/BoxPaths.ts"
import * as SandboxFolder from "../files/SandboxFolder.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import type { HostState, Prepared } from "./HostState.ts"

/** The folder that keeps its size by itself, made where it can be; `null` where the sandbox has none. */
export const sizedFolder = Effect.fnUntraced(function*(
  { folders, workspaceOf }: HostState,
  operation: HostError["operation"],
  sandboxId: SandboxId
) {
  if (folders === undefined || dirname(workspaceOf(sandboxId)) !== join(folders.directory, sandboxId)) return null
  const isSized = yield* Effect.catchDefect(
    folders.open(sandboxId),
    (error) => Effect.fail(new HostError({ operation, detail: `The sandbox's disk cannot be made (${reason(error)}).`, retryable: true }))
  )
  return isSized ? join(folders.directory, sandboxId) : null
})

export const userOf = Effect.fnUntraced(function*({ uids }: HostState, operation: HostError["operation"], sandboxId: SandboxId) {
  return uids === null ? null : yield* attempt(operation, "No user could be found for the sandbox.", async () => {
    const uid = await uids.claim(sandboxId)
    return { uid, gid: uid }
  })
})

export const prepare = Effect.fnUntraced(function*(host: HostState, operation: HostError["operation"], sandboxId: SandboxId) {
  const { directory, kind, limits, processors, workspaceOf } = host
  const workspace = workspaceOf(sandboxId)
  const sized = yield* sizedFolder(host, operation, sandboxId)
  const folder = SandboxFolder.of(directory, sandboxId, sized)
  const user = yield* userOf(host, operation, sandboxId)
  const ownEtc = etcFiles({ ...kind.insideUser(user), home: folder.homeInBox })
  yield* attempt(
    operation,
    `The workspace or ${folder.path} cannot be used.`,
    () => SandboxFolder.prepare(folder, { workspace, user, etcFiles: ownEtc })
  )
  yield* kind.prepare(operation, sandboxId, folder, limits)
  const prepared: Prepared = {
    folder,
    workspace,
    user,
    etcFiles: Object.keys(ownEtc),
    isSized: sized !== null,
    processors: processors.take(sandboxId)
  }
  return prepared
})
