/** Translates requests about MCP servers into domain calls. */
import type { SetMcpServer } from "@slipway/api/groups/McpServersApi"
import { InternalApi } from "@slipway/api/InternalApi"
import { Unavailable } from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import type { SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import type { McpServerRefused } from "@slipway/domain/mcp/ports/McpServerStore"
import { McpServers, variablesOf } from "@slipway/domain/mcp/usecases/McpServers"
import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { respond } from "../../server/reply/Respond.ts"

/** Only an administrator can help, which takes a while. */
const RETRY_SECONDS = "60"

/** The problem names files of the service, so only its log has it. */
const notStored = ({ problem }: SecretsUnusable) =>
  Effect.as(
    Effect.logError("the credential of an MCP server cannot be stored", { problem }),
    respond(Unavailable.make(
      "Nothing was saved: the service has no usable key to encrypt with. Its log says what an administrator can do.",
      { "retry-after": RETRY_SECONDS }
    ))
  )

/** The settings, and the secret that is not one of them. */
const given = (payload: typeof SetMcpServer.Type) => {
  if ("command" in payload) {
    const { values, ...settings } = payload
    return { settings, credential: values === undefined ? null : variablesOf(values) }
  }
  const { credential, ...settings } = payload
  return { settings, credential: credential === undefined ? null : Redacted.make(credential) }
}

export const layer = HttpApiBuilder.group(
  InternalApi,
  "mcpServers",
  Effect.fn(function*(handlers) {
    const servers = yield* McpServers
    const grant = Effect.map(CurrentPrincipal, ({ grantId }) => grantId)

    return handlers.handleAll({
      listMcpServers: Effect.fnUntraced(function*() {
        return { data: yield* servers.list(yield* grant, null) }
      }),
      setMcpServer: Effect.fnUntraced(function*({ payload, query }) {
        const grantId = yield* grant
        const { credential, settings } = given(payload)
        return yield* servers.set({ grantId, ...query }, settings, credential).pipe(
          Effect.catchTag(
            "McpServerRefused",
            (error): Effect.Effect<never, GrantNotFound | McpServerRefused> =>
              Effect.fail(error.reason === "grant" ? new GrantNotFound({ grant: grantId }) : error)
          )
        )
      }, Effect.catchTag("SecretsUnusable", notStored)),
      removeMcpServer: Effect.fnUntraced(function*({ query }) {
        yield* servers.remove({ grantId: yield* grant, ...query })
      })
    })
  })
)
