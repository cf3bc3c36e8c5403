/** Use cases of connections to MCP servers by OAuth: owners make them, workers use and renew them (docs/decisions/23). */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { SecretsUnusable } from "../../environment/ports/SecretStore.ts"
import { Ids } from "../../ids/Ids.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { McpAuthorizer } from "../ports/McpAuthorizer.ts"
import { McpNotConnected } from "../ports/McpGateway.ts"
import {
  type McpServerKey,
  McpServerNotFound,
  type McpServerRecord,
  McpServerStore,
  type RevealedMcpConnection
} from "../ports/McpServerStore.ts"
import { runsCommand } from "../rules/McpServers.ts"
import { McpTokens } from "../schema/McpTokens.ts"

/** The time from a beginning until the browser comes back. */
export const CONNECTING = Duration.minutes(10)

/** A token is renewed when it is about to expire: it has to live until the server reads it. */
const MARGIN_MILLIS = 30_000

/** A renewal takes less, unless its process died. */
const RENEWING = Duration.seconds(60)

/** Between two looks at a renewal of another process. */
const POLL = Duration.millis(250)

/** A server cannot be connected. `detail`: a sentence for people, without secrets. */
export class McpConnectRefused extends Schema.TaggedError<McpConnectRefused>()("McpConnectRefused", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

const AGAIN = "An owner can connect it again at /mcp-servers."

const notConnected = (detail: string) => new McpNotConnected({ detail })

const Sealed = Schema.fromJsonString(McpTokens)
const encode = Schema.encodeSync(Sealed)
const decode = Schema.decodeSync(Sealed)
const sealed = (tokens: McpTokens) => Redacted.make(encode(tokens))

/** Connections of servers whose authentication is `oauth`. The caller has authorized the request and set `Acting`. */
export class McpConnections extends Context.Service<McpConnections, {
  /** Returns the address where the person agrees. `by`: only the same person can finish it. */
  begin(
    key: McpServerKey,
    redirectUri: string,
    by: string
  ): Effect.Effect<string, McpConnectRefused | McpServerNotFound | SecretsUnusable | StoreUnavailable>
  /** `answer`: the query with which the browser came back. */
  finish(
    grantId: string,
    answer: URLSearchParams,
    by: string
  ): Effect.Effect<McpServerRecord, McpConnectRefused | SecretsUnusable | StoreUnavailable>
  /**
   * An access token for now, renewed if it is about to expire or was `refused`. Of all processes one renews it, and the others wait for
   * its result.
   */
  token(key: McpServerKey, refused: Redacted.Redacted | null): Effect.Effect<Redacted.Redacted, McpNotConnected>
}>()("@slipway/domain/McpConnections") {
  static readonly layer = Layer.effect(
    McpConnections,
    Effect.gen(function*() {
      const store = yield* McpServerStore
      const ids = yield* Ids
      const authorizer = Option.getOrNull(yield* Effect.serviceOption(McpAuthorizer))
      const refused = (detail: string) => new McpConnectRefused({ detail })
      const stateOf = (by: string, state: string) => ids.digest(`${by}/${state}`)

      const find = Effect.fnUntraced(function*({ grantId, name, repo }: McpServerKey) {
        const found = (yield* store.reveal(grantId, [repo])).find((server) => server.name === name && sameRepo(server.repo, repo))
        return found ?? (yield* new McpServerNotFound())
      })

      /** Not interruptible: an answer that is not stored costs the connection, because a refresh token is good once. */
      const renew = (key: McpServerKey, { version }: RevealedMcpConnection, tokens: McpTokens) =>
        Effect.uninterruptible(Effect.gen(function*() {
          const end = (renewed: Parameters<typeof store.endRenewal>[2]) =>
            Effect.retry(store.endRenewal(key, version, renewed), { times: 5, schedule: Schedule.exponential("200 millis") })
          if (authorizer === null) return yield* notConnected("This worker cannot renew its connection.")
          const renewed = yield* Effect.catch(authorizer.refresh(tokens), ({ detail, isFinal }) =>
            Effect.andThen(
              end(isFinal ? { problem: detail } : null),
              notConnected(
                isFinal ? `Its connection cannot be renewed: ${detail} ${AGAIN}` : `Its connection cannot be renewed now: ${detail}`
              )
            ))
          yield* end({ tokens: sealed(renewed) })
          return Redacted.make(renewed.accessToken)
        }))

      const token = Effect.fn("McpConnections.token")(function*(key: McpServerKey, refused: Redacted.Redacted | null) {
        const began = yield* Clock.currentTimeMillis
        while (true) {
          const found = yield* store.connection(key)
          if (found === null) return yield* notConnected("It is not connected. An owner can connect it at /mcp-servers.")
          if (found.problem !== null) return yield* notConnected(`Its connection has ended: ${found.problem} ${AGAIN}`)
          const tokens = decode(Redacted.value(found.tokens))
          const now = yield* Clock.currentTimeMillis
          const { accessToken, expiresAt, refreshToken } = tokens
          const isUsable = (refused === null || Redacted.value(refused) !== accessToken) && (expiresAt === null || expiresAt > now)
          if (isUsable && (expiresAt === null || expiresAt - MARGIN_MILLIS > now)) return Redacted.make(accessToken)
          if (refreshToken === null) {
            if (isUsable) return Redacted.make(accessToken)
            const problem = "Its authorization server gave nothing to renew it with."
            yield* store.endRenewal(key, found.version, { problem })
            return yield* notConnected(`Its connection has ended: ${problem} ${AGAIN}`)
          }
          const at = DateTime.makeUnsafe(now)
          if (yield* store.claimRenewal(key, found.version, at, DateTime.addDuration(at, RENEWING))) {
            return yield* renew(key, found, tokens)
          }
          if (isUsable) return Redacted.make(accessToken)
          if (now - began > Duration.toMillis(RENEWING)) return yield* notConnected("Its connection was not renewed in time.")
          yield* Effect.sleep(POLL)
        }
      })

      return McpConnections.of({
        begin: Effect.fn("McpConnections.begin")(function*(key, redirectUri, by) {
          const { credential, settings } = yield* find(key)
          const { authentication, url } = runsCommand(settings) ? { authentication: { type: "none" as const }, url: "" } : settings
          if (authentication.type !== "oauth") return yield* refused("The server's settings do not say OAuth, so it cannot be connected.")
          if (authorizer === null) return yield* refused("This service cannot connect MCP servers.")
          const { clientId, scope = null } = authentication
          const { address, pending, state } = yield* authorizer.begin({
            url,
            client: clientId === undefined ? null : { id: clientId, secret: credential },
            scope,
            redirectUri
          }).pipe(Effect.mapError(({ detail }) => refused(detail)))
          const until = DateTime.addDuration(yield* DateTime.now, CONNECTING)
          yield* store.beginConnection(key, { state: stateOf(by, Redacted.value(state)), pending, until })
          return address
        }),
        finish: Effect.fn("McpConnections.finish")(function*(grantId, answer, by) {
          const begun = yield* store.takeConnecting(grantId, stateOf(by, answer.get("state") ?? ""), yield* DateTime.now)
          if (begun === null || authorizer === null) {
            return yield* refused(
              "This connection was begun by another person, for another grant, or more than 10 minutes ago. Connect the server again."
            )
          }
          const { pending, server, settings } = begun
          const tokens = yield* Effect.mapError(authorizer.finish(pending, answer), ({ detail }) => refused(detail))
          return yield* store.connect(server, settings, sealed(tokens), yield* DateTime.now).pipe(
            Effect.catchTag("McpServerNotFound", () => refused("The server was changed or removed meanwhile. Connect it again."))
          )
        }),
        token: (key, refused) =>
          Effect.catchTags(token(key, refused), {
            SecretsUnusable: ({ problem }) =>
              Effect.andThen(
                Effect.logError("connections of MCP servers cannot be read", { problem }),
                notConnected("The service cannot read its connection. Its log says what an administrator can do.")
              ),
            StoreUnavailable: () => notConnected("The service cannot read its connection now.")
          })
      })
    })
  )
}
