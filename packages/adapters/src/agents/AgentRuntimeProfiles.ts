/** `AgentRuntime` over a registry of profiles: the profile names the dialect, the dialect's driver does the rest. */
import { Effect, Layer } from "effect"
import { AgentError, AgentRuntime, type AgentSessionOptions } from "@slipway/domain/sandbox/AgentRuntime"
import * as AcpSession from "./acp/AcpSession.ts"
import type { Profile } from "./Profile.ts"
import { offline } from "./profiles/offline.ts"

/** Every runtime Slipway can drive, by the name the model catalogue uses. */
export const profiles: Readonly<Record<string, Profile>> = { offline }

const drivers = { acp: AcpSession.open } satisfies Record<Profile["dialect"], unknown>

export const layer = (registry: Readonly<Record<string, Profile>> = profiles): Layer.Layer<AgentRuntime> =>
  Layer.succeed(AgentRuntime, {
    open: Effect.fn("AgentRuntime.open")(function*(options: AgentSessionOptions) {
      const fail = (detail: string, retryable: boolean) =>
        new AgentError({ runtime: options.profile, operation: "open", detail, retryable })

      const profile = Object.hasOwn(registry, options.profile) ? registry[options.profile] : undefined
      if (profile === undefined) return yield* fail("there is no such agent runtime", false)
      const process = yield* options.box
        .spawn(profile.launch(options))
        .pipe(Effect.mapError(({ detail, retryable }) => fail(detail, retryable)))
      return yield* drivers[profile.dialect](process, options)
    })
  })
