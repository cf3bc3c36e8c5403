/** The ports of a running sandbox that people may open in a browser. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Principal } from "../../access/schema/Principal.ts"
import { type PreviewPort, readEnvironment } from "../../environment/rules/Environment.ts"
import { FILES } from "../../environment/rules/FindEnvironment.ts"
import type { Sandbox } from "../../sandbox/rules/Sandbox.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { AgentDisconnected } from "../ports/RemoteTrees.ts"
import type { Files } from "./Files.ts"

const [FILE] = FILES

/**
 * The ports in the environment files of the commits that the sandbox started from, so that no agent can add one. Of one port in several
 * repositories the first label counts. Without a usable file, or once the sandbox has ended, the list is empty.
 */
export const previewPortsOf = Effect.fn("PreviewPorts.of")(function*(
  files: Files["Service"],
  by: Principal,
  { id, repos }: Pick<Sandbox, "id" | "repos">
): Effect.fn.Return<ReadonlyArray<PreviewPort>, AgentDisconnected | StoreUnavailable> {
  const found = new Map<number, PreviewPort>()
  for (const { fullName } of repos) {
    const base = yield* files.compare(by, id, { repo: fullName, path: FILE }).pipe(
      Effect.map((compared) => compared.base?.content ?? null),
      Effect.catchTag(
        [
          "FileNotFound",
          "FileProtected",
          "FileTooLarge",
          "InvalidPath",
          "IsDirectory",
          "RepoNotFound",
          "RepoRequired",
          "SandboxNotFound",
          "SandboxNotRunning"
        ],
        () => Effect.succeed(null)
      )
    )
    const environment = base === null ? null : Result.getOrElse(readEnvironment(FILE, base), () => null)
    for (const port of environment?.ports ?? []) if (!found.has(port.port)) found.set(port.port, port)
  }
  return [...found.values()]
})
