/** Limits of one key, one user and one grant. */
import * as Effect from "effect/Effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  rateLimitPerMinute: Setting.withDefault({
    name: "SLIPWAY_RATE_LIMIT_PER_MINUTE",
    type: Type.integer(1, 100_000),
    default: "120",
    about: "Requests of one API key in any 60 seconds, over all processes.",
    role: "http"
  }),
  keysPerUser: Setting.withDefault({
    name: "SLIPWAY_KEYS_PER_USER",
    type: Type.integer(1, 100_000),
    default: "100",
    about: "Valid API keys of one user, in all grants together.",
    role: "http"
  }),
  maxActiveSandboxes: Setting.optional({
    name: "SLIPWAY_MAX_ACTIVE_SANDBOXES",
    type: Type.integer(1, 1_000_000),
    about: "Active sandboxes of one grant. Without it, any number.",
    role: "http"
  }),
  terminal: Setting.withDefault({
    name: "SLIPWAY_TERMINAL",
    type: Type.oneOf(["on", "off"]),
    default: "on",
    about: "Whether owners and members may open a shell in the box of a running sandbox.",
    role: "all"
  })
}

export const load = Setting.values(settings)

/** The limits that each HTTP process enforces itself. */
export const edge = {
  requestsPerUser: Setting.optional({
    name: "SLIPWAY_RATE_LIMIT_PER_USER",
    type: Type.integer(1, 1_000_000),
    about: "Requests of one user in any 60 seconds with all API keys, over all processes; as many more with all sessions. " +
      "Without it, four times SLIPWAY_RATE_LIMIT_PER_MINUTE.",
    role: "http"
  }),
  requestsPerGrant: Setting.optional({
    name: "SLIPWAY_RATE_LIMIT_PER_GRANT",
    type: Type.integer(1, 1_000_000),
    about: "Requests of one grant in any 60 seconds with all API keys, over all processes. " +
      "Without it, eight times SLIPWAY_RATE_LIMIT_PER_MINUTE.",
    role: "http"
  }),
  streamsPerUser: Setting.withDefault({
    name: "SLIPWAY_STREAMS_PER_USER",
    type: Type.integer(1, 100_000),
    default: "200",
    about: "Open event streams of one user in this process, with all keys and sessions; one key may have 100, a grant 2.5 times as " +
      "many, and each at most half of the process's capacity. Simultaneous downloads: a user one for each 12 streams, a grant two; " +
      "one key 8.",
    role: "http"
  })
}

/** The other limits of streams and downloads keep their ratio to the streams of a user. */
export const loadEdge = Effect.map(Setting.values(edge), (loaded) => ({
  ...loaded,
  streamsPerGrant: Math.ceil(2.5 * loaded.streamsPerUser),
  downloadsPerUser: Math.ceil(0.08 * loaded.streamsPerUser),
  downloadsPerGrant: Math.ceil(0.16 * loaded.streamsPerUser)
}))
