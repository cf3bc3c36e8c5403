/**
 * Removes files that a setup left in the home and that no agent may find: credentials of tools, and settings of agents, which could
 * allow commands without the approval of a person.
 */
import { AGENTS, CREDENTIALS } from "@slipway/domain/environment/rules/PrivatePaths"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Stream } from "effect"
import { profileOf } from "../checkpoint/Checkpoint.ts"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"
import { SetupProgress } from "./SetupProgress.ts"

/** The most time for the removal, for any number of files. */
const WITHIN = "1 minute"

/**
 * The paths are constants, so they need no quotes. Prints the credentials that exist. Keeps the files of the conversation in the
 * folders of agents.
 */
const script = (conversation: ReadonlyArray<string>): string => `
cd "$1" || exit
status=0
for path in ${CREDENTIALS.join(" ")}; do
  if [ -e "$path" ] || [ -L "$path" ]; then echo "$path"; fi
done
rm -rf -- ${CREDENTIALS.join(" ")} || status=1
for path in ${AGENTS.join(" ")}; do
  if [ -e "$path" ] || [ -L "$path" ]; then
    find "./$path" -depth ! -type d ${conversation.map((path) => `! -path './${path}' ! -path './${path}/*'`).join(" ")} -delete || status=1
  fi
done
exit $status
`

/** The files of the conversation that the sandbox's agent can resume. */
export const conversationOf = Effect.fnUntraced(function*(leased: LeasedSandbox) {
  const runtime = yield* AgentRuntime
  const { sandbox } = yield* leased.view
  const profile = yield* profileOf(sandbox.model)
  return profile === undefined ? [] : runtime.conversationFiles(profile)
})

/** Removes these files in the box, except `conversation`. `false`: the removal failed. */
export const clearHome = Effect.fn("ClearHome.clearHome")(
  function*(box: Box, conversation: ReadonlyArray<string>) {
    const progress = yield* SetupProgress
    const args = ["-c", script(conversation), "slipway-clear-home", box.home]
    const process = yield* box.spawn({ command: "/bin/sh", args, env: {}, isOffline: true })
    yield* process.endInput
    const found = yield* Stream.mkString(Stream.decodeText(process.stdout))
    progress.removed(found.split("\n").filter((path) => path !== ""))
    return (yield* process.exited).code === 0
  },
  Effect.scoped,
  Effect.timeoutOrElse({ duration: WITHIN, orElse: () => Effect.succeed(false) }),
  Effect.catchTag("HostError", () => Effect.succeed(false))
)
