/** An agent's own session in stores and checkpoints: its id, and where the files of its conversation were written. */
import type { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Result, Schema } from "effect"

type Place = Pick<Box, "home" | "workspace">

const Saved = Schema.fromJsonString(Schema.Struct({ session: Schema.String, workspace: Schema.String, home: Schema.String }))
const decode = Schema.decodeUnknownResult(Saved)
const encode = Schema.encodeSync(Saved)

export const write = (session: string, { home, workspace }: Place): string => encode({ session, workspace, home })

/** The id to resume in `place`; `null`: the runtime cannot resume the session there. */
export const resumable = (
  saved: string,
  place: Place,
  bears: ReturnType<AgentRuntime["Service"]["bearsOtherPaths"]>
): string | null => {
  const known = decode(saved)
  // Saved by a version that kept only the id.
  if (Result.isFailure(known)) return saved
  const { home, session, workspace } = known.success
  return (bears.workspace || workspace === place.workspace) && (bears.home || home === place.home) ? session : null
}
