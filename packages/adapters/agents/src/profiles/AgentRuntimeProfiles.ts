/** `AgentRuntime` over a registry of profiles. The profile names the dialect, whose driver does the rest. */
import { AgentError, AgentRuntime, type AgentSession, type AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, type Scope } from "effect"
import * as AcpSession from "../acp/AcpSession.ts"
import * as ClaudeSession from "../claude/ClaudeSession.ts"
import * as CodexSession from "../codex/CodexSession.ts"
import * as Installed from "../Installed.ts"
import type { Profile } from "../Profile.ts"
import { claude } from "./claude.ts"
import { codex } from "./codex.ts"
import { grok } from "./grok.ts"
import { offline } from "./offline.ts"
import { opencode } from "./opencode.ts"

export type Registry = Readonly<Record<string, Profile>>

/** Every runtime that Slipway can drive, by its name in the model catalogue. */
export const profiles: Registry = { offline, opencode, codex, claude, grok }

const drive = (
  profile: Profile,
  process: BoxProcess,
  options: AgentSessionOptions
): Effect.Effect<AgentSession, AgentError, Scope.Scope> => {
  switch (profile.dialect) {
    case "acp":
      return AcpSession.open(process, options, profile.acp)
    case "codex-app-server":
      return CodexSession.open(process, options)
    case "claude-stream-json":
      return ClaudeSession.open(process, options)
  }
}

export const layer = (
  options: {
    /** The folder of the programs, from `Installed.folderIn`; `null`: only the offline agent runs. */
    readonly agentsFolder?: string | null
    readonly registry?: Registry
  } = {}
): Layer.Layer<AgentRuntime> => {
  const { agentsFolder = null, registry = profiles } = options
  const known = (name: string) => Object.hasOwn(registry, name) ? registry[name] : undefined
  return Layer.succeed(AgentRuntime, {
    conversationFiles: (profile) => known(profile)?.conversationFiles ?? [],
    bearsOtherPaths: (profile) => known(profile)?.capabilities.bearsOtherPaths ?? { workspace: false, home: false },
    open: Effect.fn("AgentRuntime.open")(function*(options: AgentSessionOptions) {
      const fail = (detail: string, retryable: boolean) =>
        new AgentError({ runtime: options.profile, operation: "open", detail, retryable })

      const profile = known(options.profile)
      if (profile === undefined) return yield* fail("there is no such agent runtime", false)
      if (profile.capabilities.modelProtocol !== null && options.access === null) {
        return yield* fail("it was given no way to reach a model", false)
      }
      const { reasoningEffort } = options
      if (reasoningEffort !== null && !profile.capabilities.reasoningEfforts.includes(reasoningEffort)) {
        return yield* fail(`it has no reasoning effort ${reasoningEffort}`, false)
      }
      const installed = yield* Installed.inspect(options.profile, profile, agentsFolder)
      if (installed.state === "unusable") return yield* fail(installed.reason, false)
      const process = yield* options.box
        .spawn(profile.launch(options, installed.command))
        .pipe(
          Effect.mapError(({ detail, ofSandbox = false, retryable }) =>
            new AgentError({
              runtime: options.profile,
              operation: "open",
              detail,
              retryable,
              ...(ofSandbox ? {} : { refusedByHost: true })
            })
          )
        )
      return yield* drive(profile, process, options)
    })
  })
}
