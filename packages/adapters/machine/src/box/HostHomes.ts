/** The homes of sandboxes. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError, type SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Stream } from "effect"
import { join } from "node:path"
import * as SandboxFolder from "../files/SandboxFolder.ts"
import * as Homes from "../home/Homes.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import type { HostState } from "./HostState.ts"
import { sizedFolder, userOf } from "./PrepareBox.ts"

type ReadHome = SandboxHost["Service"]["readHome"]

export const readHome = ({ directory, folders }: HostState, ...[sandboxId, paths, limits]: Parameters<ReadHome>) =>
  Stream.unwrap(Effect.gen(function*() {
    const isSized = folders !== undefined && (yield* Effect.catchDefect(
      folders.reopen(sandboxId),
      (error) =>
        Effect.fail(
          new HostError({ operation: "read", detail: `The sandbox's disk is not there (${reason(error)}).`, retryable: true })
        )
    ))
    return Homes.read(SandboxFolder.of(directory, sandboxId, isSized ? join(folders.directory, sandboxId) : null).home, paths, limits)
  }))

export const writeHome = Effect.fn("SandboxHost.writeHome")(function*<E>(
  host: HostState,
  sandboxId: SandboxId,
  content: Stream.Stream<Uint8Array, E>
) {
  const folder = SandboxFolder.of(host.directory, sandboxId, yield* sizedFolder(host, "write", sandboxId))
  const owner = yield* userOf(host, "write", sandboxId)
  yield* attempt("write", `${folder.writable} cannot be used.`, () => SandboxFolder.prepareHome(folder, owner))
  yield* Homes.write({ home: folder.home, beside: folder.writable, owner }, content)
}, (self, { locked }, sandboxId) => locked(sandboxId)(self))
