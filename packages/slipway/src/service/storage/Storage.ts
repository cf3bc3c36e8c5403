/** The database of a command or the service, and the stores on it. */
import { KeysPerUser } from "@slipway/domain/access/rules/Minting"
import { PrivateMcpDestinations } from "@slipway/domain/mcp/usecases/McpServers"
import { Budgets } from "@slipway/domain/models/rules/Budget"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import * as UseCases from "@slipway/domain/UseCases"
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import * as McpAuthorizerHttp from "@slipway/gateway/mcp/oauth/McpAuthorizerHttp"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as WebhookSenderHttp from "@slipway/machine/webhooks/WebhookSenderHttp"
import * as WebhookSignaturesNode from "@slipway/machine/webhooks/WebhookSignaturesNode"
import * as CiTokensOidc from "@slipway/oidc/CiTokensOidc"
import * as Database from "@slipway/postgres/Database"
import * as Migrations from "@slipway/postgres/Migrations"
import { DatabaseSchema } from "@slipway/postgres/options/DatabaseSchema"
import * as Rekey from "@slipway/postgres/Rekey"
import { SecretsKey } from "@slipway/postgres/secret-store/SecretsKey"
import * as Stores from "@slipway/postgres/Stores"
import * as WebhookStorePostgres from "@slipway/postgres/webhook-store/WebhookStorePostgres"
import { Duration, Effect, Layer } from "effect"
import * as IsolationSettings from "../../settings/Isolation.ts"
import * as OidcSettings from "../../settings/Oidc.ts"
import type { Settings } from "../../settings/Settings.ts"
import { settings as storage } from "../../settings/Storage.ts"
import * as BlobPlace from "./BlobPlace.ts"
import * as OwnPostgres from "./OwnPostgres.ts"
import * as SecretsKeySource from "./SecretsKeySource.ts"

/** Connections to a database after its migration. */
const migrated = (location: Database.DatabaseLocation) =>
  Database.layer(location).pipe(Layer.provideMerge(Migrations.layer.pipe(Layer.provide(Database.layerMigrating(location)))))

/** `owner`: the service, which runs the embedded server. A command uses the running server, or runs one until it ends. */
const database = (settings: Settings, owner: boolean, postgres: ReturnType<typeof OwnPostgres.layer>) => {
  const { databaseSchema, databaseUrl, startup } = settings
  const embedded = Layer.unwrap(Effect.map(EmbeddedPostgres, ({ connection }) => migrated(connection))).pipe(Layer.provide(postgres))
  return Layer.unwrap(Effect.gen(function*() {
    if (databaseUrl === null) return embedded
    // A person can repeat a command, so it does not wait for the database.
    const { superuser } = yield* Database.reach(databaseUrl, owner ? startup : Duration.zero, owner)
    if (owner && superuser) {
      yield* Effect.logWarning(
        `${storage.databaseUrl.name} logs in as a superuser: ` +
          "give Slipway a role that owns its own database and nothing else (docs/operating/database.md)"
      )
    }
    return migrated({ url: databaseUrl })
  })).pipe(Layer.provideMerge(Layer.succeed(DatabaseSchema, databaseSchema)))
}

/**
 * The service does not start if it cannot decrypt the stored secrets. With an embedded database the key is made at the first start, so
 * that the first backup has it.
 */
const secrets = ({ databaseUrl }: Settings) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { check, get, settle } = yield* SecretsKey
    const key = yield* databaseUrl === null ? get : check
    yield* WebhookStorePostgres.sealEarlier()
    if (key === null || key.isAlone) return
    const closed = (yield* Rekey.all(key)).reduce((sum, { closedCount }) => sum + closedCount, 0)
    if (closed > 0) yield* Effect.logWarning(`${closed} stored secrets cannot be decrypted by any key: slipway secrets rekey names them`)
    yield* settle
  }))

/** A migrated database and every store on it. `postgres`: the embedded server, if it was started before. */
export const layer = (
  settings: Settings,
  owner: boolean,
  postgres = owner ? OwnPostgres.layer(settings) : OwnPostgres.layerConnectOrStart(settings)
) => {
  const blobs = BlobPlace.layer(settings)
  return Layer.mergeAll(
    owner ? secrets(settings) : Layer.empty,
    Layer.provide(UseCases.layerAdministration, [
      Layer.succeed(KeysPerUser, settings.keysPerUser),
      CiTokensOidc.layer({ privates: settings.ciPrivate, option: OidcSettings.ci.ciPrivate.name }),
      Layer.succeed(PrivateMcpDestinations, settings.mcpPrivate),
      McpAuthorizerHttp.layer({ privates: settings.mcpPrivate, option: IsolationSettings.settings.mcpPrivate.name })
    ])
  ).pipe(
    Layer.provideMerge(Layer.merge(WebhookSenderHttp.layer({ allowPrivate: settings.webhookPrivate }), WebhookSignaturesNode.layer)),
    Layer.provideMerge(LocalRepositories.layer),
    Layer.provideMerge(
      Stores.layerConnected({
        ...(blobs === undefined ? {} : { blobs }),
        checkpoints: settings.checkpoints,
        ids: IdsNode.layer,
        secretsKey: {
          ...SecretsKeySource.sourceOf(settings),
          shared: settings.databaseUrl !== null
        }
      }).pipe(Layer.provide([
        Layer.succeed(MaxActiveSandboxes, settings.maxActiveSandboxes),
        Layer.succeed(Budgets, { sandbox: settings.sandboxBudget, grant: settings.grantBudget }),
        Layer.succeed(CreditPrice, settings.creditPrice)
      ]))
    ),
    Layer.provideMerge(database(settings, owner, postgres))
  )
}
